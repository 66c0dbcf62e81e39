"""Recordings of calls: appended line by line, looked up by key, shared by runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ldm import records
from ldm.errors import LdmError
from ldm.files import check_own, open_own, reading
from ldm.llm.calls import LOST, Call

FILE = "llm.jsonl"


class Recording:
    """Calls by key. A recorded call is never sent to a server again. Thread-safe."""

    def __init__(
        self, path: Path | None = None, *, cache: Path | None = None, replay: Path | None = None
    ) -> None:
        """Open `path`, the file of this run's calls; cut off a torn last line.

        cache: a folder shared by runs, also simultaneous ones; calls found there are copied into
        `path`, and new ones are also written there, into a file of this process.
        replay: a recording, or the directory of a run, that is only read.
        Raises LdmError if a file cannot be read or written, or is invalid.
        """
        self._own: dict[str, Call] = {}
        self._others: dict[str, Call] = {}
        self._path = path
        self._cache = _Cache(cache) if cache else None
        self._lock = threading.Lock()
        if replay is not None:
            self._take(self._others, read_calls(replay))
        if self._cache is not None:
            self._take(self._others, self._cache.new_calls())
        if path is not None:
            _cut_torn_line(path)
            if path.exists():
                self._take(self._own, records.read(path, Call))

    def __iter__(self) -> Iterator[Call]:
        """Iterate over this run's calls in the order of recording."""
        with self._lock:
            return iter(list(self._own.values()))

    def roles(self) -> dict[str, str]:
        """Return role → model of the last recorded call of each role."""
        calls = [*self._others.values(), *self._own.values()]
        return {call.role: call.request.model for call in calls}

    def find(self, key: str) -> Call | None:
        """Return the recorded call, or None; copy one of another run into this recording."""
        with self._lock:
            call = self._own.get(key)
            if call is None and key not in self._others and self._cache is not None:
                self._take(self._others, self._cache.new_calls())
            if call is None and key in self._others:
                call = replace(self._others[key], paid=False)
                self._own[key] = call
                _append(self._path, call)
            return call

    def add(self, call: Call) -> None:
        """Record a new call, which is never sent again once this returns, unless it is lost."""
        with self._lock:
            if call.error == LOST:
                call = replace(call, key=f"{call.key}-{len(self._own)}")
            self._own[call.key] = call
            _append(self._path, call)
            if self._cache is not None and call.error != LOST:
                _append(self._cache.own, call)

    @staticmethod
    def _take(into: dict[str, Call], calls: Iterable[Call]) -> None:
        for call in calls:
            into.setdefault(call.key, call)


class _Cache:
    """A folder of recordings, one per process; other processes may be writing to theirs.

    own: the file of this process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.own = folder / f"{time.time_ns()}-{os.getpid()}.jsonl"
        self._read: dict[str, tuple[int, int]] = {}  # name → bytes and lines read so far

    def new_calls(self) -> Iterator[Call]:
        """Yield the calls that other processes have written since the last time."""
        if not self._folder.is_dir():
            return
        with reading(self._folder), os.scandir(self._folder) as entries:
            recordings = [entry for entry in entries if entry.name.endswith(".jsonl")]
        for name, size in sorted((entry.name, entry.stat().st_size) for entry in recordings):
            start, lines = self._read.get(name, (0, 0))
            if size <= start or name == self.own.name:
                continue
            path = self._folder / name
            with reading(path), open_own(path) as file:
                file.seek(start)
                whole, newline, _ = file.read().rpartition(b"\n")  # the rest is being written
            for number, line in enumerate(whole.split(b"\n"), lines + 1):
                if line.strip():
                    yield records.loads(line, Call, file=str(path), line=number)
            lines_read = (whole + newline).count(b"\n")
            self._read[name] = start + len(whole + newline), lines + lines_read


def _append(path: Path | None, call: Call) -> None:
    if path is None:
        return
    with records.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_own(path, "a", encoding="utf-8") as file:
            records.append(file, call)


def read_calls(path: Path) -> list[Call]:
    """Return the calls of a recording, or of a run's directory; drop a torn last line.

    Raises RecordError at the first bad line.
    """
    if path.is_dir():
        check_own(path)
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise LdmError(
            f"There is no recording at {path}.",
            f"Name a {FILE}, or the directory of a run that called a model.",
        )
    return records.read(file, Call, torn_tail=True)


def _cut_torn_line(path: Path) -> None:
    """Remove the torn line of a killed process, so that lines can be appended."""
    if path.exists():
        with open_own(path, "r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
