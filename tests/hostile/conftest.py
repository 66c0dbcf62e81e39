"""Running commands on hostile input, for no longer than a while."""

import signal
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

#: Seconds that any command may take.
PATIENCE = 120


@pytest.fixture
def patience() -> Iterator[Callable[[], object]]:
    """Begins anew to wait for PATIENCE seconds; what takes longer is an error."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"still waiting after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, stop)
    yield lambda: signal.alarm(PATIENCE)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
