"""A plug-in: the parallel map on the nodes of a Ray cluster, with an actor per worker.

Only this module knows Ray. Usage reports are off, and a Ray that is started here listens on
loopback only and ends with the process.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from ldm.errors import LdmError, WorkerDied
from ldm.parallel import Record, Worker, WorkerFactory, collect_seldom, interruptible
from ldm.text import last_line
from ldm.version import __version__

#: The address that starts Ray on this machine.
LOCAL = "local"
#: How often an item is tried that kills its worker, as by running out of memory.
ATTEMPTS = 3
#: Variables for the threads of numerical libraries: one in an actor, as in a worker process.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
#: Seconds after which a cluster that gives no worker a processor is given up.
START_SECONDS = 120.0
#: Seconds between looks at the clock while nothing happens.
POLL_SECONDS = 1.0

T = TypeVar("T")
R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class RayCluster:
    """The place of the parallel map's workers.

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

        workers: 0 for one per processor of the cluster. An actor gets `build` once and builds its
        worker at its first item. The item of an actor that dies is repeated. on_result is called in
        this process, once for each item.
        Raise the error of a worker, WorkerDied if no node is left or an item kills every worker,
        and LdmError if the cluster cannot be used.
        """
        if not items:
            return
        ray = self._connected(workers)
        slots = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        with interruptible():
            _Map(ray, build, items, on_result).run(min(slots, len(items)))

    def _connected(self, workers: int) -> Any:
        """Return the module ray, connected until the process ends."""
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        local = self.address == LOCAL
        if local:
            # Despite its name, this makes Ray listen on loopback only, on any system.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
            if not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & {*os.environ}:
                os.environ["RAY_AUTH_MODE"] = "token"
                os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        starting: dict[str, Any] = {"configure_logging": False, "log_to_driver": False}
        if local:  # as many processors as actors, or all of the machine if no number is given
            starting |= {"include_dashboard": False, "num_cpus": workers or None}
        try:
            import ray
        except ImportError as error:
            raise LdmError(
                "Ray is not installed.", 'Install it: pip install "ldm-memory[ray]".'
            ) from error
        _keep_off_standard_output()
        if not ray.is_initialized():
            try:
                ray.init(address=self.address, namespace="ldm", **starting)
            except (ConnectionError, OSError, RuntimeError, TimeoutError, ValueError) as error:
                raise LdmError(
                    f"The Ray cluster at {self.address} cannot be used: {_last_line(error)}",
                    "Start one with `ray start --head`, with the same versions of Python and Ray, "
                    "or set RAY_ADDRESS=local.",
                ) from error
        return ray


class _Slot:
    """A worker on some node; as an actor, it starts once Ray has a processor for it."""

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
        """Return the item's result, or the error raised."""
        from threadpoolctl import threadpool_limits

        try:
            if self._worker is None:
                self._worker = self._build()
                threadpool_limits(1)  # what was loaded before the variables were set
            return self._worker(item)
        except Exception as error:
            return error


class _Map:
    """One parallel map: its actors, and the item of each."""

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
        #: Request → its actor, and the index of the item; None for the version.
        self._requests: dict[Any, tuple[Any, int | None]] = {}
        self._actor = ray.remote(num_cpus=1, max_restarts=0)(_Slot)

    def run(self, workers: int) -> None:
        """Process the items; end the actors, also after an error or Ctrl-C."""
        missing = len(self._items)
        self._most_failed = ATTEMPTS * workers
        idle_since = time.monotonic()
        try:
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
        finally:
            for actor, _ in self._requests.values():
                self._ray.kill(actor)

    def _start(self) -> None:
        actor = self._actor.remote(self._build, os.getcwd())
        self._requests[actor.version.remote()] = actor, None

    def _took(self, reference: Any) -> bool:
        """Take an actor's answer and give it the next item; return whether it was a result."""
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
        if isinstance(answer, Exception):
            raise answer
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
        """Repeat the item of an actor that died, with a new actor on any node."""
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
        """Raise WorkerDied if no worker has got a processor for long."""
        if seconds > START_SECONDS:
            raise WorkerDied(
                f"The Ray cluster has had no processor for a worker in {START_SECONDS:.0f} s.",
                "See `ray status`: its nodes may be gone, or at work for others.",
            )


def _keep_off_standard_output() -> None:
    """Silence Ray, which has no option for its messages about dead workers.

    They would mix with a command's results, and our errors say what matters.
    """
    worker: Any = import_module("ray._private.worker")
    worker.print_to_stdstream = lambda *_, **__: None


def _last_line(error: Exception) -> str:
    """Return the last line of Ray's error, which says what happened."""
    return last_line(str(error)).strip()[:300] or type(error).__name__
