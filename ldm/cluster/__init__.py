"""The parallel map on the nodes of a Ray cluster: an actor for each worker, recorded by the caller.

The only module that knows Ray. Ray reports nothing home, and one that is started here listens on
loopback alone and gives way with the process.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from ldm import __version__
from ldm.errors import LdmError, WorkerDied
from ldm.parallel import (
    Record,
    Worker,
    WorkerFactory,
    built,
    collect_seldom,
    sigterm_as_interrupt,
)

#: The address that starts Ray on this machine.
LOCAL = "local"
#: How often an item is given out that takes its worker with it, as one does that outgrows memory.
ATTEMPTS = 3
#: What says how many threads numerical libraries use: in an actor one, as in a worker process.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
#: Seconds after which a cluster that gives no worker a processor is said to have none.
START_SECONDS = 120.0
#: Seconds between looks at the clock while nothing happens.
POLL_SECONDS = 1.0

T = TypeVar("T")
R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class RayCluster:
    """Where the parallel map finds its workers.

    address: of a running cluster's head, as `ray start` prints it, or "local" for one that is
    started here and ends with this process.
    """

    address: str = LOCAL

    def map(
        self,
        build: WorkerFactory[T, R],
        items: Sequence[T],
        *,
        workers: int,
        on_result: Callable[[R], None],
    ) -> None:
        """Let `workers` actors process `items`, each one at a time, in no particular order.

        workers: 0 for one a processor of the cluster. An actor gets `build` once and builds its
        worker at its first item. The item of an actor that dies, with its node or without, is given
        out again. on_result is called here, with each item's result once.
        Raises what a worker raised, WorkerDied where no node is left or an item takes every worker
        with it, and LdmError where the cluster cannot be used.
        """
        if not items:
            return
        ray = self._connected(workers)
        slots = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        with sigterm_as_interrupt():
            _Map(ray, build, items, on_result).run(min(slots, len(items)))

    def _connected(self, workers: int) -> Any:
        """Return the module ray, connected. A connection lasts as long as the process."""
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        local = self.address == LOCAL
        if local:
            # Despite its name this is what makes Ray listen on loopback alone, on any system.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
            if not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & {*os.environ}:
                os.environ["RAY_AUTH_MODE"] = "token"
                os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        # As many processors as actors, whatever the machine has, and its own where none are named.
        starting: dict[str, Any] = (
            {"include_dashboard": False, "num_cpus": workers or None} if local else {}
        )
        try:
            import ray
        except ImportError as error:
            raise LdmError(
                "Ray is not installed.", 'Install it: pip install "ldm-memory[ray]".'
            ) from error
        _keep_off_standard_output()
        if not ray.is_initialized():
            try:
                ray.init(
                    address=self.address,
                    namespace="ldm",
                    configure_logging=False,
                    log_to_driver=False,
                    **starting,
                )
            except (ConnectionError, OSError, RuntimeError, TimeoutError, ValueError) as error:
                raise LdmError(
                    f"The Ray cluster at {self.address} cannot be used: {_last_line(error)}",
                    "Start one with `ray start --head`, with the same versions of Python and Ray, "
                    "or use --ray-address local.",
                ) from error
        return ray


@dataclass(frozen=True)
class _Raised:
    """What an item's processing raised, brought back as a value."""

    error: BaseException


class _Slot:
    """A worker on some node: as an actor, it exists once Ray has a processor for it."""

    def __init__(self, build: WorkerFactory[Any, Any], directory: str) -> None:
        collect_seldom()
        for variable in THREADS:
            os.environ[variable] = "1"
        if os.path.isdir(directory):
            os.chdir(directory)
        self._build = build
        self._worker: Worker[Any, Any] | None = None

    def version(self) -> str:
        return __version__

    def work(self, item: Any) -> Any:
        """Return the item's result, or what was raised instead."""
        from threadpoolctl import threadpool_limits

        try:
            if self._worker is None:
                self._worker = built(self._build)
                threadpool_limits(1)  # what was loaded before the variables were set
            return self._worker(item)
        except Exception as error:
            return _Raised(error)


class _Map:
    """One parallel map: which actors there are, and what each is at."""

    def __init__(
        self,
        ray: Any,
        build: WorkerFactory[T, R],
        items: Sequence[T],
        on_result: Callable[[R], None],
    ) -> None:
        self._ray = ray
        self._build = ray.put(build)
        self._items = items
        self._on_result = on_result
        self._waiting = deque(range(len(items)))
        self._deaths = [0] * len(items)
        self._failed_starts = 0
        self._most_failed = 0
        #: What an actor was asked → the actor, and the index of the item; None: its version.
        self._requests: dict[Any, tuple[Any, int | None]] = {}
        self._actor = ray.remote(num_cpus=1, max_restarts=0)(_Slot)

    def run(self, workers: int) -> None:
        missing = len(self._items)
        self._most_failed = ATTEMPTS * workers
        idle_since = time.monotonic()
        with self._ending():
            for _ in range(workers):
                self._start()
            while missing:
                finished, _ = self._ray.wait(list(self._requests), timeout=POLL_SECONDS)
                if finished:
                    idle_since = time.monotonic()
                elif all(index is None for _, index in self._requests.values()):
                    self._check_wait(time.monotonic() - idle_since)
                for reference in finished:
                    missing -= self._took(reference)

    def _start(self) -> None:
        actor = self._actor.remote(self._build, os.getcwd())
        self._requests[actor.version.remote()] = actor, None

    def _took(self, reference: Any) -> bool:
        """Take what an actor answered, and give it more to do; return whether it was a result."""
        actor, index = self._requests.pop(reference)
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(reference)
        except (errors.RayActorError, errors.ObjectLostError) as error:
            self._ray.kill(actor)
            self._died(index, error)
            return False
        except errors.RayTaskError as error:
            raise LdmError(
                f"A worker of the Ray cluster failed: {_last_line(error)}",
                "Are ldm and the packages that it needs installed on all nodes?",
            ) from error
        if isinstance(answer, _Raised):
            raise answer.error
        if index is None and answer != __version__:
            raise LdmError(
                f"A node of the Ray cluster has ldm {answer}, this machine {__version__}.",
                "Install the same version on all nodes.",
            )
        if self._waiting:
            following = self._waiting.popleft()
            self._requests[actor.work.remote(self._items[following])] = actor, following
        else:
            self._ray.kill(actor)  # its processor is free for others
        if index is None:
            self._failed_starts = 0
            return False
        self._on_result(answer)
        return True

    def _died(self, index: int | None, error: Exception) -> None:
        """Give the item of an actor that died out again, to a new one wherever there is room."""
        reason = _last_line(error)
        if index is None:
            self._failed_starts += 1
            if self._failed_starts > self._most_failed:
                raise WorkerDied(
                    f"No worker can be started on the Ray cluster: {reason}",
                    "Is ldm installed on all nodes?",
                )
        else:
            self._deaths[index] += 1
            if self._deaths[index] >= ATTEMPTS:
                raise WorkerDied(
                    f"{ATTEMPTS} workers of the Ray cluster died at the same item: {reason}",
                    "Give each more memory.",
                )
            self._waiting.appendleft(index)
        self._start()

    def _check_wait(self, seconds: float) -> None:
        """Raise WorkerDied where no worker has been given a processor for long."""
        if seconds > START_SECONDS:
            raise WorkerDied(
                f"The Ray cluster has had no processor for a worker in {START_SECONDS:.0f} s.",
                "See `ray status`: its nodes may be gone, or at work for others.",
            )

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """End the actors, also those at work where an error or Ctrl-C ends the map."""
        try:
            yield
        finally:
            for actor, _ in self._requests.values():
                self._ray.kill(actor)


def _keep_off_standard_output() -> None:
    """Let Ray print nothing: it has no option for what it says of workers that died.

    That would stand in the results of a command, and what matters of it is in our errors.
    """
    worker: Any = import_module("ray._private.worker")
    worker.print_to_stdstream = lambda *_, **__: None


def _last_line(error: Exception) -> str:
    """Return the line in which Ray says what happened, after traces of its own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
