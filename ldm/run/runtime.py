"""Runtime settings that do not affect results: paths, workers, model server, callbacks.

They are not recorded. The command line fills a `Runtime` from options and environment variables;
from Python the defaults are quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from ldm import registry
from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.llm.service import Connection
    from ldm.parallel import Backend
    from ldm.types import EpisodeResult

DEFAULT_RUNS = Path("runs")
BackendName = Literal["processes", "threads", "ray"]
#: Entry points of backends other than this machine's processes and threads.
BACKENDS = "ldm.backends"


#: Advances a progress display by one item, perhaps with a short note.
Advance = Callable[..., None]
#: Shows stages: yields what takes a stage's name, how much of how much is done, perhaps a note.
Stages = Callable[[], AbstractContextManager[Callable[..., None]]]


@contextmanager
def counting(stages: Stages, label: str, total: int) -> Iterator[Advance]:
    """Show a stage of `total` items; yield what advances it by one."""
    done = count(1)
    with stages() as report:
        report(label, 0, total)
        yield lambda note="": report(label, next(done), total, note)


@dataclass(frozen=True)
class Playing:
    """The episodes that are about to be played.

    total: their number. recorded: how many were played before; their results come first. usd:
    returns the cost of models so far, or None if none is called or its price is unknown.
    """

    label: str
    total: int
    recorded: int = 0
    usd: Callable[[], float | None] = lambda: None


OnEpisode = Callable[["EpisodeResult"], None]


@dataclass(frozen=True)
class Runtime:
    """The environment in which an experiment runs.

    runs: the folder below which runs are recorded. workers: tasks at a time; None for one per core,
    and with a model for as many as requests may be in flight.
    backend: where tasks are processed: "processes" or "threads" of this machine, or "ray"; None for
    processes, or for threads if a model is called. ray_address: of the cluster's head, or
    "local" for a Ray that is started on this machine.
    server: the model server, or a function that returns it when the first model is needed.
    data: environment name → its data folder, or None if unknown.
    cache: the folder for environments' compiled data; None for no cache.
    embeddings: the folder for cached vectors of texts; None for no cache.
    trust: whether to import the modules that a recorded run names, see `ldm.registry.load`.
    message: receives a line for the user, e.g. `print`. stages(): a context manager that shows
    the progress of each stage. episodes(playing): one that takes the result of each episode.
    notices: lines that `once` has passed on.
    """

    runs: Path = DEFAULT_RUNS
    workers: int | None = None
    backend: BackendName | None = None
    ray_address: str = "local"
    server: Connection | Callable[[], Connection] | None = None
    data: Callable[[str], str | None] = lambda env: None
    cache: Path | None = None
    embeddings: Path | None = None
    trust: bool = False
    message: Callable[[str], None] = lambda line: None
    stages: Stages = lambda: nullcontext(lambda *_: None)
    episodes: Callable[[Playing], AbstractContextManager[OnEpisode]] = lambda playing: nullcontext(
        lambda result: None
    )
    notices: set[str] = field(default_factory=set, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", Path(self.runs))
        if self.workers is not None and self.workers < 1:
            raise LdmError(
                f"--workers must be at least 1, not {self.workers}.", "Leave it out for one a core."
            )

    def once(self, line: str) -> None:
        """Pass a line to the user only once, as it applies to the whole command."""
        if line not in self.notices:
            self.notices.add(line)
            self.message(line)

    def connection(self) -> Connection:
        """Return the model server.

        Raises LdmError if no server is known, or if its settings cannot be used.
        """
        server = self.server() if callable(self.server) else self.server
        if server is None:
            raise LdmError(
                "No model service is configured.",
                "Name one: Runtime(server=Connection(url, key)), on the command line with "
                "OPENAI_BASE_URL and OPENAI_API_KEY.",
            )
        return server

    def backend_for_workers(self) -> Backend:
        """Return the backend for workers that call no model."""
        if self.backend != "ray":
            return self.backend or "processes"
        cluster = registry.load(self.backend, {}, BACKENDS, "backend")(self.ray_address)
        return cast("Backend", cluster.map)

    def workers_for(self, in_flight: int | None) -> int:
        """Return the number of items to process at a time; 0 for as many as fit on a cluster.

        in_flight: maximum concurrent model requests, None if no model is called.
        """
        if self.workers is not None:
            return self.workers
        if self.backend == "ray":
            return 0
        if in_flight is not None:
            return in_flight
        import joblib

        return int(joblib.cpu_count())
