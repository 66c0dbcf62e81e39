"""Runs: their directories, how they resume, and the parallel processing of their items.

A run lives in `runs/<id>/`: `run.json` holds all that determines it, workers append one line per
item to files of their own in `parts/`, and the owner of the run merges them in order once all are
there. A killed process loses at most the line being written; resuming skips what is recorded.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from ldm import __version__, records
from ldm.errors import Interrupted, LdmError, RunStopped, WorkerDied
from ldm.parallel import Backend, Record, Worker, WorkerFactory, parallel_map
from ldm.text import read_bytes, read_json
from ldm.types import stable_hash

SCHEMA_VERSION = 1
MANIFEST = "run.json"
PARTS = "parts"

T = TypeVar("T")
R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of run.json. `create` fills in id, fingerprint, code and started.

    command: the command that made the run and can resume it, e.g. "eval".
    arguments: what that command needs to repeat the run.
    protocol: what makes scores comparable; its hash is the fingerprint.
    models, seeds: names of the models used, and every seed by its name.
    prompts: prompt → hash of its file, where a model is used.
    code: the version of this package; commit and dirty flag where it runs from a git checkout.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    command: str
    arguments: dict[str, Any]
    protocol: dict[str, Any]
    models: dict[str, str] = field(default_factory=dict)
    seeds: dict[str, int] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
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
    def begun(self) -> bool:
        """Whether any worker has recorded an item that is not merged yet."""
        return self.parts.is_dir() and any(self.parts.iterdir())

    @property
    def resume_command(self) -> str:
        plan = self.manifest.arguments.get("plan")
        named = [plan.get("env"), plan.get("agent")] if isinstance(plan, dict) else []
        trust = " --trust" if any(":" in str(name) for name in named) else ""
        return f"ldm {self.manifest.command} --resume {self.directory}{trust}"

    def recorded(self, record_type: type[R]) -> dict[int, R]:
        """Return the records in the part files, by index. Torn last lines are dropped.

        Of several records of an item the one with the highest `attempt` counts, where they have
        this field.
        """
        by_index: dict[int, R] = {}
        for path in sorted(self.parts.glob("*.jsonl")):
            for record in records.read(path, record_type, torn_tail=True):
                known = by_index.get(record.index)
                if known is None or getattr(record, "attempt", 1) > getattr(known, "attempt", 1):
                    by_index[record.index] = record
        return by_index

    def discard_parts(self) -> None:
        """Remove the part files, once their content is merged."""
        for path in self.parts.glob("*.jsonl"):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self.parts.rmdir()

    def remove(self) -> None:
        """Remove a run without results: its part files, manifest and directory."""
        self.discard_parts()
        for name in (MANIFEST, "lock"):
            (self.directory / name).unlink(missing_ok=True)
        with suppress(OSError):  # not empty: it holds a file that is not ours
            self.directory.rmdir()

    @property
    def is_locked(self) -> bool:
        """Whether a process works on the run at this moment."""
        import fcntl

        try:
            with (self.directory / "lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

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
                holder = file.read().strip() or "another process"
                raise LdmError(
                    f"{self.directory} is locked by {holder}.",
                    "Wait until it has finished, or stop it.",
                ) from error
            file.truncate(0)
            file.write(f"process {os.getpid()}")
            file.flush()
            for stale in self.directory.glob(".*.tmp"):  # of a process that was killed
                stale.unlink(missing_ok=True)
            yield


def create(runs: Path, subject: Sequence[str], manifest: Manifest) -> Run:
    """Create a run below the folder `runs`; its readable, sortable id starts with `subject`.

    The directory appears together with its run.json. Raises LdmError where it cannot be written.
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
    """Return the run in directory `name`, or with the id `name` below `runs`.

    Raises LdmError where there is none, or where a later version of the package made it.
    """
    directory = Path(name)
    if not (directory / MANIFEST).is_file() and (runs / name / MANIFEST).is_file():
        directory = runs / name
    path = directory / MANIFEST
    if not path.is_file():
        manifests = sorted(runs.glob(f"*/{MANIFEST}"), key=lambda file: file.stat().st_mtime)
        names = [file.parent.name for file in manifests]
        close = get_close_matches(name, names, n=1)
        remedy = f"There are no runs in {runs}."
        if names:
            remedy = (
                f"Did you mean {runs / close[0]}?" if close else f"The newest: {runs / names[-1]}."
            )
        raise LdmError(f"{name} is not a run: it has no {MANIFEST}.", remedy)
    content = read_json(path)
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise LdmError(f"{path} was written by a later version of ldm.", "Upgrade ldm.")
    text = read_bytes(path)
    return Run(directory, records.loads(text, Manifest, file=str(path)))


def list_runs(runs: Path, unreadable: Callable[[LdmError], None] = lambda error: None) -> list[Run]:
    """Return the readable runs below the folder `runs`, oldest first.

    unreadable: called with why a run cannot be read.
    """
    readable = []
    for path in sorted(runs.glob(f"*/{MANIFEST}")):
        try:
            readable.append(open_run(str(path.parent), runs))
        except LdmError as error:
            unreadable(error)
    return sorted(readable, key=lambda run: (run.manifest.started, run.manifest.id))


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
    """Return a hash of what makes scores comparable; runs with equal ones share a table."""
    return stable_hash(protocol)


def differences(first: Any, second: Any, where: str = "") -> list[str]:
    """Return where two protocols differ, a line each, by dotted path; [] where they are equal."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        lines = []
        for key in sorted({*first, *second}):
            inner = f"{where}.{key}" if where else str(key)
            lines += differences(first.get(key), second.get(key), inner)
        return lines
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
    """Return the package's version; with commit and dirty flag in a git checkout of its own."""
    root = Path(__file__).resolve().parent.parent
    version: dict[str, Any] = {"version": __version__, "commit": "", "dirty": None}
    if not (root / ".git").exists():
        return version

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(  # noqa: S603 - fixed arguments
            command, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()

    with suppress(OSError, subprocess.SubprocessError):
        version["commit"] = git("rev-parse", "HEAD")
        version["dirty"] = bool(git("status", "--porcelain", "--untracked-files=no"))
    return version


def run_items(  # noqa: PLR0913 - passed by name in every call
    run: Run,
    build: WorkerFactory[T, R],
    items: Sequence[T],
    record_type: type[R],
    *,
    workers: int,
    backend: Backend = "processes",
    is_due: Callable[[int, R | None], bool] = lambda _, record: record is None,
    on_result: Callable[[R], None] = lambda _: None,
) -> list[R]:
    """Process the `items` that are not recorded yet; return all records, in the items' order.

    A record's index must be its item's place in `items`. Hold `run.lock()` while calling this.
    workers: see `parallel_map`. backend: threads for workers that share the client of a model; what
    a cluster returns is recorded by this process. is_due: whether to process an item, by its index
    and its record, if there is one; by default all without a record. What is not due is returned as
    recorded.
    on_result: called in this process with every record, old ones first.
    Raises Interrupted (Ctrl-C, SIGTERM), WorkerDied and RunStopped with how to resume.
    """
    with writing(run.parts):
        run.parts.mkdir(exist_ok=True)
    finished = {i: r for i, r in run.recorded(record_type).items() if i < len(items)}
    pending = [i for i in range(len(items)) if is_due(i, finished.get(i))]
    for index in sorted({*finished} - {*pending}):
        on_result(finished[index])

    def take(record: R) -> None:
        finished[record.index] = record
        on_result(record)

    todo = [items[i] for i in pending]
    with _naming_how_to_resume(run, record_type, len(items)):
        if isinstance(backend, str):
            parallel_map(
                _RecordingFactory(build, run.parts),
                todo,
                workers=workers,
                threads=backend == "threads",
                on_result=take,
            )
        else:
            part = _Part(run.parts)

            def record_and_take(record: R) -> None:
                part.append(record)
                take(record)

            backend.map(build, todo, workers=workers, on_result=record_and_take)
    return [finished[index] for index in sorted(finished)]


@contextmanager
def _naming_how_to_resume(run: Run, record_type: type[Record], total: int) -> Iterator[None]:
    """Say in errors that stop the work how many of `total` items are recorded, and how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise Interrupted(
            f"Stopped: {len(run.recorded(record_type))} of {total} are recorded in "
            f"{run.directory}.",
            f"Resume with `{run.resume_command}`.",
        ) from stop
    except WorkerDied as error:
        raise WorkerDied(
            f"{error.message} {len(run.recorded(record_type))} of {total} are recorded in "
            f"{run.directory}.",
            f"Resume with `{run.resume_command}`, with fewer --workers if memory was short.",
        ) from error
    except RunStopped as error:
        raise type(error)(
            f"{error.message} {len(run.recorded(record_type))} of {total} are recorded in "
            f"{run.directory}, and so are the calls of those under way.",
            f"{error.remedy} Resume with `{run.resume_command}`.",
        ) from error
    except LdmError as error:  # a full disk, for example
        recorded = len(run.recorded(record_type))
        if not recorded:
            raise
        raise LdmError(
            error.message,
            f"{error.remedy} Then resume with `{run.resume_command}`: {recorded} of {total} "
            "are recorded.",
        ) from error


@dataclass(frozen=True, slots=True)
class _RecordingFactory(Generic[T, R]):
    """Builds a worker that writes each record into its own part file before it returns it."""

    build: WorkerFactory[T, R]
    parts: Path

    def __call__(self) -> _RecordingWorker[T, R]:
        return _RecordingWorker(self.build(), self.parts)


class _RecordingWorker(Generic[T, R]):
    def __init__(self, worker: Worker[T, R], parts: Path) -> None:
        self._worker = worker
        self._part = _Part(parts)

    def __call__(self, item: T) -> R:
        record = self._worker(item)
        self._part.append(record)
        return record

    def close(self) -> None:
        self._worker.close()


class _Part:
    """The part file of one process, or after a failed write the next one."""

    def __init__(self, parts: Path) -> None:
        self._parts = parts
        self._path = self._new_path()

    def append(self, record: Record) -> None:
        path, self._path = self._path, self._new_path()
        with writing(path), path.open("a", encoding="utf-8", newline="\n") as file:
            records.append(file, record)
        self._path = path  # append only to a file whose last line is whole

    def _new_path(self) -> Path:
        return self._parts / f"{time.time_ns()}-{os.getpid()}-{secrets.token_hex(2)}.jsonl"
