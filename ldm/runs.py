"""Runs: their directory, their resuming, and the parallel map over tasks (design §7).

A run lives in `runs/<id>/`: `run.json` says what it is determined by, workers append one line a
task to files of their own in `parts/`, and whoever owns the run merges them in task order once all
are there. A killed process loses the line at hand and no more; resuming skips what is recorded.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ldm import __version__, records
from ldm.errors import Interrupted, LdmError, WorkerDied
from ldm.types import stable_hash

SCHEMA_VERSION = 1
MANIFEST = "run.json"
PARTS = "parts"
#: How often a worker looks whether the process that it works for still lives, in seconds.
WATCH = 1.0

T = TypeVar("T")


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


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of run.json. `create` fills in id, fingerprint, code and started.

    command: the command that made the run and can resume it, e.g. "eval".
    arguments: what that command needs to do the same again.
    protocol: what makes scores comparable; its hash is the fingerprint.
    models, seeds: names of the models used, and every seed by its name.
    code: the version of this package; commit and dirty flag where it runs from a git checkout.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    command: str
    arguments: dict[str, Any]
    protocol: dict[str, Any]
    models: dict[str, str] = field(default_factory=dict)
    seeds: dict[str, int] = field(default_factory=dict)
    id: str = ""
    fingerprint: str = ""
    code: dict[str, Any] = field(default_factory=dict)
    started: str = ""
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Run:
    """One run on disk."""

    directory: Path
    manifest: Manifest

    @property
    def parts(self) -> Path:
        return self.directory / PARTS

    @property
    def resume_command(self) -> str:
        return f"ldm {self.manifest.command} --resume {self.directory}"

    def recorded(self, record_type: type[R]) -> dict[int, R]:
        """What the part files hold, by index. Torn last lines are dropped."""
        found: dict[int, R] = {}
        for path in sorted(self.parts.glob("*.jsonl")):
            for record in records.read(path, record_type, torn_tail=True):
                found.setdefault(record.index, record)
        return found

    def discard_parts(self) -> None:
        """Remove the part files, once their content is merged."""
        for path in self.parts.glob("*.jsonl"):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self.parts.rmdir()

    def remove(self) -> None:
        """Remove a run in which nothing happened: its part files, manifest and directory."""
        self.discard_parts()
        for name in (MANIFEST, "lock"):
            (self.directory / name).unlink(missing_ok=True)
        with suppress(OSError):  # somebody put a file of their own there
            self.directory.rmdir()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from working on the run; the lock dies with its process.

        Raises LdmError where another process holds it.
        """
        import fcntl  # not on every platform, and only needed here

        path = self.directory / "lock"
        with writing(path):
            file = path.open("a+")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.seek(0)
                holder = file.read().strip() or "unknown"
                raise LdmError(
                    f"Another process ({holder}) works on {self.directory}.",
                    "Wait until it has finished, or stop it.",
                ) from error
            file.truncate(0)
            file.write(f"process {os.getpid()}")
            file.flush()
            for stale in self.directory.glob(".*.tmp"):  # of a process that was killed
                stale.unlink(missing_ok=True)
            yield


def create(runs: Path, subject: Sequence[str], manifest: Manifest) -> Run:
    """A new run below the folder `runs`; its readable, sortable id starts with `subject`.

    The directory appears with run.json in it. Raises LdmError where it cannot be written.
    """
    now = datetime.now().astimezone()
    slug = "-".join(re.sub(r"[^A-Za-z0-9_.=]+", "_", part) for part in subject if part)
    name = f"{slug}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    full = replace(
        manifest,
        id=name,
        fingerprint=fingerprint(manifest.protocol),
        code=code_version(),
        started=now.isoformat(timespec="seconds"),
    )
    directory, temporary = runs / name, runs / f".{name}.tmp"
    pretty = json.dumps(json.loads(records.dumps(full)), indent=2, ensure_ascii=False)
    try:
        with writing(directory):
            temporary.mkdir(parents=True)
            (temporary / MANIFEST).write_text(pretty + "\n", encoding="utf-8")
            (temporary / PARTS).mkdir()
            temporary.rename(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Run(directory, full)


def open_run(name: str, runs: Path) -> Run:
    """The run in directory `name`, or with the id `name` below `runs`.

    Raises LdmError where there is none, or where a later version of the package made it.
    """
    directory = Path(name)
    if not (directory / MANIFEST).is_file() and (runs / name / MANIFEST).is_file():
        directory = runs / name
    path = directory / MANIFEST
    if not path.is_file():
        found = sorted(runs.glob(f"*/{MANIFEST}"), key=lambda file: file.stat().st_mtime)
        known = [file.parent.name for file in found]
        close = get_close_matches(name, known, n=1)
        hint = f"There are no runs in {runs}."
        if known:
            hint = (
                f"Did you mean {runs / close[0]}?" if close else f"The newest: {runs / known[-1]}."
            )
        raise LdmError(f"{name} is not a run: it has no {MANIFEST}.", hint)
    version = records.read_json(path)
    if isinstance(version, dict) and version.get("schema_version", 0) > SCHEMA_VERSION:
        raise LdmError(f"{path} was written by a later version of ldm.", "Upgrade ldm.")
    return Run(directory, records.loads(path.read_text("utf-8"), Manifest, file=str(path)))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write `path` into an LdmError: read-only, full disk, a file in the way."""
    try:
        yield
    except OSError as error:
        raise LdmError(
            f"{path} cannot be written: {error.strerror or error}.",
            "Check permissions and free space, or name another place.",
        ) from error


def fingerprint(protocol: Mapping[str, Any]) -> str:
    """A hash of what makes scores comparable; equal fingerprints may stand in one table."""
    return stable_hash(protocol)


def differences(first: Any, second: Any, where: str = "") -> list[str]:
    """Where two protocols differ, one line each, by dotted path; [] where they are equal."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        found = []
        for key in sorted({*first, *second}):
            inner = f"{where}.{key}" if where else str(key)
            found += differences(first.get(key), second.get(key), inner)
        return found
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if list(first) == list(second):
            return []
        only = [[x for x in a if x not in b] for a, b in ((first, second), (second, first))]
        return [f"{where}: {_listed(only[0], 'first')}, {_listed(only[1], 'second')}"]
    return [] if first == second else [f"{where}: {first!r} and {second!r}"]


def _listed(only: Sequence[Any], which: str) -> str:
    example = f" (e.g. {only[0]})" if only else ""
    return f"{len(only)} only in the {which}{example}"


def code_version() -> dict[str, Any]:
    """Version of the package; commit and dirty flag where it runs from its own git checkout."""
    root = Path(__file__).resolve().parent.parent
    found: dict[str, Any] = {"version": __version__, "commit": "", "dirty": None}
    if not (root / ".git").exists():
        return found

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(  # noqa: S603 - fixed arguments
            command, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()

    with suppress(OSError, subprocess.SubprocessError):
        found["commit"] = git("rev-parse", "HEAD")
        found["dirty"] = bool(git("status", "--porcelain", "--untracked-files=no"))
    return found


def carry_out(
    run: Run,
    build: Build[T, R],
    items: Sequence[T],
    record_type: type[R],
    *,
    workers: int,
    on_result: Callable[[R], None] = lambda _: None,
) -> list[R]:
    """The records of all `items`, in their order: those of earlier attempts and those still to do.

    A record's index must be its item's place in `items`. Hold `run.lock()` while calling this.
    on_result: called in this process with every record, old ones first.
    Raises Interrupted (Ctrl-C, SIGTERM) and WorkerDied with how to resume.
    """
    with writing(run.parts):
        run.parts.mkdir(exist_ok=True)
    found = {i: r for i, r in run.recorded(record_type).items() if i < len(items)}
    for index in sorted(found):
        on_result(found[index])

    def keep(record: R) -> None:
        found[record.index] = record
        on_result(record)

    pending = [item for index, item in enumerate(items) if index not in found]
    try:
        parallel_map(_Recording(build, run.parts), pending, workers=workers, on_result=keep)
    except KeyboardInterrupt as stop:
        raise Interrupted(
            f"Stopped: {len(run.recorded(record_type))} of {len(items)} are recorded in "
            f"{run.directory}.",
            f"Go on with `{run.resume_command}`.",
        ) from stop
    except WorkerDied as error:
        raise WorkerDied(
            f"{error.message} {len(run.recorded(record_type))} of {len(items)} are recorded in "
            f"{run.directory}.",
            f"Go on with `{run.resume_command}`, with fewer --workers if memory was short.",
        ) from error
    except LdmError as error:  # a full disk, for example
        recorded = len(run.recorded(record_type))
        if not recorded:
            raise
        raise LdmError(
            error.message,
            f"{error.remedy} Then go on with `{run.resume_command}`: {recorded} of {len(items)} "
            "are recorded.",
        ) from error
    return [found[index] for index in range(len(items))]


@dataclass(frozen=True, slots=True)
class _Recording(Generic[T, R]):
    """Builds a worker that writes each record into a part file of its own before it returns it."""

    build: Build[T, R]
    parts: Path

    def __call__(self) -> _RecordingWorker[T, R]:
        return _RecordingWorker(self.build(), self.parts)


class _RecordingWorker(Generic[T, R]):
    def __init__(self, worker: Worker[T, R], parts: Path) -> None:
        self._worker = worker
        self._parts = parts
        self._part = self._new_part()

    def __call__(self, item: T) -> R:
        record = self._worker(item)
        part, self._part = self._part, self._new_part()
        with writing(part), part.open("a", encoding="utf-8", newline="\n") as file:
            records.append(file, record)
        self._part = part  # only a file whose last line is whole is appended to
        return record

    def close(self) -> None:
        self._worker.close()

    def _new_part(self) -> Path:
        return self._parts / f"{time.time_ns()}-{os.getpid()}-{secrets.token_hex(2)}.jsonl"


def parallel_map(
    build: Build[T, R],
    items: Sequence[T],
    *,
    workers: int,
    on_result: Callable[[R], None],
) -> None:
    """Let `workers` processes handle `items`, one at a time each, in no particular order.

    Every process builds its worker once and keeps to one thread. One worker, or one item, is
    handled in this process. on_result is called here with each result as it comes; SIGTERM is
    raised as KeyboardInterrupt while the map runs.
    Raises what a worker raised, and WorkerDied where a process was killed or ran out of memory.
    """
    workers = min(workers, len(items))
    with _sigterm_as_interrupt():
        if workers <= 1:
            _map_here(build, items, on_result)
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
        results = pool(task(build, item) for item in items)
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


def _work(build: Build[T, R], item: T) -> R:
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
