"""The parallel map: many items, a few workers in processes or threads, results as they come."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from ldm.errors import WorkerDied

#: How often a worker looks whether the process that it works for still lives, in seconds.
WATCH = 1.0
#: How long threads get to come to an end once one of them has failed, in seconds.
FAREWELL = 2.0

T = TypeVar("T")
V = TypeVar("V")


class Record(Protocol):
    """What a worker makes of an item; a frozen dataclass that `ldm.records` can write."""

    @property
    def index(self) -> int:
        """The item's place in the list, which is also its place in the merged files."""
        ...


T_contra = TypeVar("T_contra", contravariant=True)
R = TypeVar("R", bound=Record)
R_co = TypeVar("R_co", covariant=True)


class Worker(Protocol[T_contra, R_co]):
    """Handles items one at a time, each independently of those before it."""

    def __call__(self, item: T_contra, /) -> R_co: ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class Build(Hashable, Protocol[T_contra, R_co]):
    """Builds a worker with its heavy context, once per process: a frozen, picklable value."""

    def __call__(self) -> Worker[T_contra, R_co]: ...


def at_once(ask: Callable[[T], V], items: Sequence[T], concurrency: int) -> list[V]:
    """`ask` of every item, in their order, up to `concurrency` of them at a time in threads.

    For questions that wait for somebody else. Raises what the first of them raises; those that
    have not begun by then are not asked.
    """
    return list(as_they_come(ask, items, concurrency))


def as_they_come(
    ask: Callable[[T], V], items: Sequence[T], concurrency: int
) -> Generator[V, None, None]:
    """As `at_once`, each answer as soon as it and those before it are there.

    One at a time, the next item is asked when the next answer is wanted. Close it where you stop
    before the end.
    """
    if concurrency <= 1 or len(items) <= 1:
        yield from map(ask, items)
        return
    pool = ThreadPoolExecutor(min(concurrency, len(items)))
    try:
        for one in [pool.submit(ask, item) for item in items]:
            yield one.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def parallel_map(
    build: Build[T, R],
    items: Sequence[T],
    *,
    workers: int,
    threads: bool = False,
    on_result: Callable[[R], None],
) -> None:
    """Let `workers` processes handle `items`, one at a time each, in no particular order.

    Every process builds its worker once and keeps to one thread. One worker, or one item, is
    handled in this process. on_result is called here with each result as it comes; SIGTERM is
    raised as KeyboardInterrupt while the map runs.
    threads: threads of this process instead, for workers that mostly wait and share something that
    lives in this process, such as the client of a model service (architecture.md#runs-and-records).
    Raises what a worker raised, and WorkerDied where a process was killed or ran out of memory.
    """
    workers = min(workers, len(items))
    with _sigterm_as_interrupt():
        if workers <= 1:
            _map_here(build, items, on_result)
        elif threads:
            _map_in_threads(build, items, workers, on_result)
        else:
            _map_in_processes(build, items, workers, on_result)


def _map_here(build: Build[T, R], items: Sequence[T], on_result: Callable[[R], None]) -> None:
    if not items:
        return
    worker = build()
    try:
        with _one_thread():
            for item in items:
                on_result(worker(item))
    finally:
        worker.close()


def _map_in_processes(
    build: Build[T, R], items: Sequence[T], workers: int, on_result: Callable[[R], None]
) -> None:
    import joblib
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    task = joblib.delayed(_work)
    with (
        warnings.catch_warnings(),
        joblib.parallel_config(
            backend="loky",
            inner_max_num_threads=1,
            initializer=_start_worker,
            initargs=(os.getpid(),),
        ),
    ):
        # A worker that outgrew its memory is replaced by a fresh one, which builds anew.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
        # Stopping early is what Ctrl-C asks for; what was done is recorded all the same.
        warnings.filterwarnings("ignore", message=r"\d+ tasks ")
        pool = joblib.Parallel(n_jobs=workers, batch_size=1, return_as="generator_unordered")
        here = os.getcwd()
        results = pool(task(build, item, here) for item in items)
        try:
            for result in results:
                on_result(result)
        except TerminatedWorkerError as error:
            raise WorkerDied(
                "A worker process died: it was killed, or the machine ran out of memory.",
                "Try again with fewer workers.",
            ) from error
        finally:
            results.close()


def _map_in_threads(
    build: Build[T, R], items: Sequence[T], workers: int, on_result: Callable[[R], None]
) -> None:
    """Threads that die with the process: whoever interrupts it does not wait for a model."""
    todo: SimpleQueue[T] = SimpleQueue()
    for item in items:
        todo.put(item)
    done: SimpleQueue[R | BaseException] = SimpleQueue()
    stopping = threading.Event()

    def work() -> None:
        try:
            worker = build()
            try:
                while not stopping.is_set():
                    done.put(worker(todo.get_nowait()))
            except Empty:
                pass
            finally:
                worker.close()
        except BaseException as error:
            done.put(error)

    pool = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    try:
        with _one_thread():
            for thread in pool:
                thread.start()
            for _ in items:
                result = done.get()
                if isinstance(result, BaseException):
                    raise result
                on_result(result)
    finally:
        stopping.set()
        limit = time.monotonic() + FAREWELL
        for thread in pool:
            thread.join(max(0.0, limit - time.monotonic()))


def _start_worker(parent: int) -> None:
    """Runs first in each worker process: signals are the parent's business, and so is its life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH)
        os._exit(1)  # an orphan must neither record nor linger

    threading.Thread(target=watch, daemon=True).start()


@lru_cache(maxsize=1)
def _built(build: Build[T, R]) -> Worker[T, R]:
    """The worker of this process, built when its first item comes."""
    worker = build()
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    return worker


def _work(build: Build[T, R], item: T, place: str) -> R:
    """`item` done in the directory `place`: a process outlives its pool, and its caller's chdir."""
    if os.getcwd() != place:
        os.chdir(place)
    worker: Worker[T, R] = _built(build)
    return worker(item)


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for torch and the numerical libraries, as in a worker process (same results)."""
    from threadpoolctl import threadpool_limits

    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 0
    with threadpool_limits(1):
        if torch:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(threads)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM unwind the program as Ctrl-C does; only the main thread may set that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
