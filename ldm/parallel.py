"""Many items for a few workers, in processes or threads; results as they arrive."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal, Protocol, TypeVar

from ldm.errors import LdmError, WorkerDied

#: Seconds between a worker's checks that its parent process is still alive.
PARENT_POLL_SECONDS = 1.0
#: Seconds that threads get to finish once one of them has failed.
SHUTDOWN_SECONDS = 2.0
#: Allocations between two searches for garbage cycles.
COLLECTED = 50_000

T = TypeVar("T")
V = TypeVar("V")
K = TypeVar("K")


class Record(Protocol):
    """A worker's result for an item: a frozen dataclass that `ldm.records` can write."""

    @property
    def index(self) -> int:
        """Return the item's place in the list, which is also its place in the merged files."""


T_contra = TypeVar("T_contra", contravariant=True)
R = TypeVar("R", bound=Record)
R_co = TypeVar("R_co", covariant=True)


class Worker(Protocol[T_contra, R_co]):
    """Process items one at a time, each independently of those before it."""

    def __call__(self, item: T_contra, /) -> R_co: ...

    def close(self) -> None:
        """Release all resources."""


#: Builds a worker with its expensive context, once in a process or thread.
WorkerFactory = Callable[[], Worker[T, R]]


#: Carries out a stage of an experiment, bound to a run: see `ldm.run.engine.Session.stage`.
Stage = Callable[..., list[Any]]


#: Where items are processed: by processes or threads of this machine, or by a function with the
#: parameters of `map_in_processes` on other machines, where workers write no persistent files;
#: `workers` may then be 0, for as many as fit: `ldm.cluster.RayCluster.map`.
Backend = Literal["processes", "threads"] | Callable[..., None]


def map_concurrently(function: Callable[[T], V], items: Sequence[T], concurrency: int) -> list[V]:
    """Return `function` of every item, in order, computed in up to `concurrency` threads.

    For functions that mostly wait, such as for a server. Raises the error of the first failing
    call; calls that have not begun by then are not made.
    """
    if concurrency <= 1 or len(items) <= 1:
        return [*map(function, items)]
    pool = ThreadPoolExecutor(min(concurrency, len(items)))
    try:
        return [*pool.map(function, items)]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def process_of(module: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start a module in a process of its own; -P keeps the working directory out of its path.

    options: of `Popen`.
    """
    package = str(Path(__file__).parent.parent)
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-P", "-m", module, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        text=True,
        **options,
    )


def give_back() -> None:
    """Give freed memory back to the system, where its C library can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def cached(cache: dict[K, V], key: K, make: Callable[[], V], most: int) -> V:
    """Return a value from a cache that is emptied when it holds so many, made if it is new.

    If another thread was first, its value stays: a cached value is always the same object.
    """
    value = cache.get(key)
    if value is None:
        value = make()
        if len(cache) >= most:
            cache.clear()
        value = cache.setdefault(key, value)
    return value


def both(one: Callable[[], T], other: Callable[[], V], concurrency: int) -> tuple[T, V]:
    """Return the results of two independent calls, as `map_concurrently` does."""
    results: list[Any] = map_concurrently(lambda call: call(), (one, other), concurrency)
    return results[0], results[1]


def map_in_processes(
    build: WorkerFactory[T, R], items: Sequence[T], *, workers: int, on_result: Callable[[R], None]
) -> None:
    """Let `workers` processes process `items`, each one at a time, in no particular order.

    Every process builds its worker once and uses one thread. on_result is called in this process
    with each result as it arrives. `build` is pickled.
    Raises the error of a worker, and WorkerDied if a process was killed or ran out of memory.
    """
    import joblib
    from joblib.externals.loky.backend.reduction import dumps
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    task, packed = joblib.delayed(_work), bytes(dumps(build))
    with (
        warnings.catch_warnings(),
        joblib.parallel_config(
            backend="loky",
            inner_max_num_threads=1,
            initializer=_start_worker,
            initargs=(os.getpid(),),
        ),
    ):
        # A worker that exceeds its memory is replaced by a new process, which builds its own.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
        # Ctrl-C stops early; results so far are recorded all the same.
        warnings.filterwarnings("ignore", message=r"\d+ tasks ")
        pool = joblib.Parallel(n_jobs=workers, batch_size=1, return_as="generator_unordered")
        directory = os.getcwd()
        results = pool(task(packed, item, directory) for item in items)
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


def map_in_threads(
    build: WorkerFactory[T, R], items: Sequence[T], *, workers: int, on_result: Callable[[R], None]
) -> None:
    """Let `workers` threads process `items`, as `map_in_processes` does.

    For workers that mostly wait and share something of this process, such as the client of a model
    service. The threads die with the process, so that an interruption waits for no model.
    """
    pending: SimpleQueue[T] = SimpleQueue()
    for item in items:
        pending.put(item)
    outcomes: SimpleQueue[R | BaseException] = SimpleQueue()
    stopping = threading.Event()

    def work() -> None:
        try:
            worker = build()
            try:
                while not stopping.is_set():
                    outcomes.put(worker(pending.get_nowait()))
            except Empty:
                pass
            finally:
                worker.close()
        except BaseException as error:
            outcomes.put(error)

    pool = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    try:
        with one_thread():
            for thread in pool:
                thread.start()
            for _ in items:
                outcome = outcomes.get()
                if isinstance(outcome, BaseException):
                    raise outcome
                on_result(outcome)
    finally:
        stopping.set()
        deadline = time.monotonic() + SHUTDOWN_SECONDS
        for thread in pool:
            thread.join(max(0.0, deadline - time.monotonic()))


def collect_seldom() -> None:
    """Collect garbage rarely in this process.

    Frozen values form no cycles, and scanning growing caches takes a fifth of a decision's time.
    """
    gc.set_threshold(COLLECTED, *gc.get_threshold()[1:])


def _start_worker(parent: int) -> None:
    """Prepare a worker process: leave signals to the parent, and exit once the parent has."""
    collect_seldom()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_SECONDS)
        os._exit(1)  # an orphan must neither record nor keep running

    threading.Thread(target=watch, daemon=True).start()


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> Worker[Any, Any]:
    """Return the worker of this process, built when its first item arrives."""
    worker: Worker[Any, Any] = pickle.loads(packed)()  # noqa: S301 - this program wrote it
    return worker


def _work(packed: bytes, item: Any, directory: str) -> Any:
    """Process `item` in `directory`: a process outlives its pool, and its caller's chdir."""
    os.chdir(directory)
    return _unpacked(packed)(item)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit numerical libraries to one thread, as in a worker process (same results)."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield


class _Interrupt:
    """A signal handler that interrupts the program, and remembers that it did."""

    arrived = False

    def __call__(self, *_: object) -> None:
        self.arrived = True
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM unwind the program as Ctrl-C does, and let no library hide either.

    Libraries may turn an interrupt into an error of their own; pydantic's even lacks a cause.
    Handlers that a host program has set for Ctrl-C stay. Call this in the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signal.SIGTERM: signal.getsignal(signal.SIGTERM)}
    of_ctrl_c, around = signal.getsignal(signal.SIGINT), before[signal.SIGTERM]
    if of_ctrl_c is signal.default_int_handler or isinstance(of_ctrl_c, _Interrupt):
        before[signal.SIGINT] = of_ctrl_c
    handler = around if isinstance(around, _Interrupt) else _Interrupt()
    unraisable = sys.unraisablehook
    sys.unraisablehook = lambda lost: lost.exc_type is KeyboardInterrupt or unraisable(lost)
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    except LdmError:
        raise
    except Exception as error:
        if handler.arrived:
            raise KeyboardInterrupt from error
        raise
    finally:
        for number, former in before.items():
            signal.signal(number, former)
        sys.unraisablehook = unraisable


def raise_if_interrupted() -> None:
    """Raise KeyboardInterrupt if one of `interruptible` was lost in code that ignores exceptions.

    Callbacks of compiled libraries and destructors do. Call this between items of long work.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, _Interrupt) and handler.arrived:
        raise KeyboardInterrupt


class ForkLock:
    """A lock that is free after `os.fork`: the child has no other thread that could hold it."""

    def __init__(self) -> None:
        self.renew()
        _LOCKS.add(self)

    def renew(self) -> None:
        """Replace the lock by a free one."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_LOCKS: weakref.WeakSet[ForkLock] = weakref.WeakSet()
os.register_at_fork(after_in_child=lambda: [*map(ForkLock.renew, tuple(_LOCKS))])
