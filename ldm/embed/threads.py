"""One thread per text, because sums divided among threads have other bits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

#: The number of numpy's threads belongs to the whole process, so that setting it locks others out.
_LIMITED = threading.Lock()


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Let torch compute with one thread per calling thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def one_blas_thread_each() -> Iterator[int]:
    """Let numpy compute products with one thread per calling thread; yield its former number."""
    with _LIMITED:
        controller = _controller()
        threads = max((library.num_threads for library in controller.lib_controllers), default=1)
        with controller.limit(limits=1):
            yield int(threads)


@cache
def _controller() -> Any:
    import numpy as np  # noqa: F401 - its library has to be there to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
