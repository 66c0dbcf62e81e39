"""The files of a run.

A run lives in `runs/<id>/`: `run.json` holds all that determines it, workers append one line per
item to files of their own in `parts/`, and the owner of the run merges them in order once all are
there. A killed process loses at most the line being written; resuming skips what is recorded.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from ldm import config, records
from ldm.errors import LdmError, did_you_mean
from ldm.files import check_own, open_own, refuse_foreign
from ldm.parallel import Record
from ldm.records import writing
from ldm.text import distrust, read_bytes, read_json
from ldm.types import stable_hash
from ldm.version import __version__

SCHEMA_VERSION = 2
MANIFEST = "run.json"
PARTS = "parts"
#: Command → the file that a finished run has; it appears last, and whole.
RESULTS = {"eval": "episodes.jsonl", "refine": "trees.jsonl", "autoplan": "iterations.jsonl"}

#: The argument with the sources of tasks, if they are others than the tasks themselves.
SOURCES = "sources"

T = TypeVar("T")
R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of run.json. `create` fills in id, fingerprint, code and started.

    command: the command that made the run and can resume it, e.g. "eval".
    spec: determines the experiment, see `Run.spec`.
    protocol: equal for comparable scores; its hash is the fingerprint.
    arguments: further facts for resuming and reports: companion, preset, options of models.
    models, seeds: names of the models used, and every seed by its name.
    prompts: prompt → hash of its file, if a model is used.
    code: the version of this package; commit and dirty flag if it runs from a git checkout.
    """

    command: str
    spec: dict[str, Any]
    protocol: dict[str, Any]
    arguments: dict[str, Any] = field(default_factory=dict)
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
    """A run on disk."""

    directory: Path
    manifest: Manifest

    @property
    def parts(self) -> Path:
        """Return the folder of part files."""
        return self.directory / PARTS

    @property
    def result(self) -> Path:
        """Return the file that a finished run has."""
        return self.directory / RESULTS.get(self.manifest.command, "")

    @property
    def is_finished(self) -> bool:
        """Return whether all items are recorded and merged."""
        return self.result.is_file()

    @property
    def resume_command(self) -> str:
        """Return the command that resumes the run."""
        trust = " --trust" if any(":" in self.named(n) for n in ("env", "agent", "memory")) else ""
        return f"ldm {self.manifest.command} --resume {self.directory}{trust}"

    def spec(self, spec_type: type[T]) -> T:
        """Return the experiment's spec. Raises LdmError if run.json holds something else."""
        return config.load(
            spec_type, self.manifest.spec, where=f"{self.directory / MANIFEST}: spec"
        )

    def named(self, field: str) -> str:
        """Return a text of the spec, or the name of a section; "" if there is none."""
        value = self.manifest.spec.get(field, "")
        return str(value.get("name", "") if isinstance(value, dict) else value)

    @property
    def leak_keys(self) -> set[str]:
        """The `leak_key`s of its tasks, from which nothing that is evaluated may learn."""
        sources = self.argument(SOURCES, dict[str, str]) or {}
        return {sources.get(one, one) for one in map(str, self.manifest.protocol.get("tasks", ()))}

    def argument(self, name: str, record_type: type[T]) -> T | None:
        """Return a typed argument of run.json, or None if it has none of this name.

        Raises RecordError if it is something else.
        """
        if (value := self.manifest.arguments.get(name)) is None:
            return None
        return records.loads(json.dumps(value), record_type, file=str(self.directory / MANIFEST))

    @property
    def companion(self) -> Path | None:
        """Return the directory of the next run that was started with this one, or None.

        Raises LdmError if it is not beside this one.
        """
        name = str(self.manifest.arguments.get("companion") or "")
        if name and (name != Path(name).name or name == ".."):
            raise LdmError(
                f"{self.directory / MANIFEST}: arguments.companion {name!r} is no run beside it.",
                "Name the run itself.",
            )
        return self.directory.parent / name if name else None

    def recorded(self, record_type: type[R]) -> dict[int, R]:
        """Return the records in the part files by index, without torn last lines.

        Of several records of an item the one with the highest `attempt` counts, if they have
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
        """Return whether a process holds the lock."""
        try:
            with open_own(self.directory / "lock") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except (OSError, LdmError):
            return True
        return False

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from working on the run; the lock dies with its process.

        Raises LdmError if another process holds it.
        """
        path = self.directory / "lock"
        with writing(path):
            file = open_own(path, "a+")
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

    The directory appears together with its run.json. Raises LdmError if it cannot be written.
    """
    now = datetime.now().astimezone()
    slug = "-".join(re.sub(r"[^A-Za-z0-9_.=]+", "_", part) for part in subject if part)
    name = f"{slug}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    full = replace(
        manifest,
        id=name,
        fingerprint=stable_hash(manifest.protocol),
        code=code_version(),
        started=now.isoformat(timespec="milliseconds"),
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

    Raises LdmError if there is no such run, or if it has another format.
    """
    directory = Path(name)
    if not (directory / MANIFEST).is_file() and (runs / name / MANIFEST).is_file():
        directory = runs / name
    path = directory / MANIFEST
    if not path.is_file():
        manifests = sorted(runs.glob(f"*/{MANIFEST}"), key=lambda file: file.stat().st_mtime)
        names = [file.parent.name for file in manifests]
        newest = f"The newest: {runs / names[-1]}." if names else f"There are no runs in {runs}."
        raise LdmError(
            f"{name} is not a run: it has no {MANIFEST}.", did_you_mean(name, names) + newest
        )
    check_own(directory)
    content = read_json(path)
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version != SCHEMA_VERSION:
        raise LdmError(
            f"{path} has the format {version}; this version of ldm reads {SCHEMA_VERSION}.",
            "Use the version of ldm that recorded it, or start a new run.",
        )
    run = Run(directory, records.loads(read_bytes(path), Manifest, file=str(path)))
    distrust(run.named("memory"))
    return run


def list_runs(runs: Path, unreadable: Callable[[LdmError], None] = lambda error: None) -> list[Run]:
    """Return the readable runs below the folder `runs`, oldest first.

    unreadable: called with why a run cannot be read.
    """
    readable = []
    for path in sorted(runs.glob(f"*/{MANIFEST}")):
        try:
            refuse_foreign(path.parent)
            readable.append(open_run(str(path.parent), runs))
        except LdmError as error:
            unreadable(error)
    return sorted(readable, key=lambda run: (run.manifest.started, run.manifest.id))


def evaluated_leak_keys(runs: Path, env: str) -> frozenset[str]:
    """Return the `leak_key`s of all tasks of an environment that a run in `runs` evaluates."""
    evaluated = (run for run in list_runs(runs) if run.manifest.command == "eval")
    return frozenset(key for run in evaluated if run.named("env") == env for key in run.leak_keys)


def differences(first: Any, second: Any, where: str = "") -> list[str]:
    """Return the differences of two protocols, a line each, by dotted path."""
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
    """Return the package's version, and in a git checkout of its own commit and dirty flag."""
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
