"""A request to a model, and the recording of calls: lines of llm.jsonl."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from ldm import records
from ldm.errors import LdmError
from ldm.files import check_own, open_own, reading
from ldm.llm import Message, Sampling
from ldm.types import Count, Seconds, Usage, stable_hash

#: Ways to get replies in JSON: by a schema, as any object, or by the prompt alone.
Mode = Literal["json_schema", "json_object", "prompt"]
#: Finish reasons of a reply that was cut off, by its bound or a filter, in each server's words.
CUT = re.compile("length|max_(?:output_)?tokens|context_window|filter|safety", re.IGNORECASE)
#: The error of a call without a usable response that may be billed all the same.
LOST = "lost"
SAMPLING = tuple(field.name for field in fields(Sampling))


@dataclass(frozen=True, slots=True)
class Request:
    """A caller's request, independent of the server's dialect.

    schema: the JSON Schema of the reply, None for free text.
    """

    model: str
    messages: tuple[Message, ...]
    schema: dict[str, Any] | None = None
    sampling: Sampling = Sampling()  # noqa: RUF009 - frozen
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """A hash of everything that may change the reply, and of nothing about the server."""
        # Like `asdict`, which takes ten times as long.
        plain = {name: getattr(self, name) for name in ("model", "schema", "max_tokens", "stop")}
        sampling = {name: getattr(self.sampling, name) for name in SAMPLING}
        messages = [{"role": m.role, "content": m.content} for m in self.messages]
        return stable_hash({**plain, "messages": messages, "sampling": sampling}, length=32)


@dataclass(frozen=True, slots=True)
class Call:
    """A line of llm.jsonl.

    role: the caller; "probe" is the client itself. finish: the server's reason for the end.
    mode: the way to get JSON, "" for free text.
    error: "", "context" for a request too long for the model's context, which costs nothing, or
    LOST, of which `text` says why and `usage` is the maximum.
    attempts: requests until the response. seconds: from the first request to the response.
    estimated: usage is a guess. paid: False if the reply was copied from the cache of another run.
    thoughts: what the model thought before it, where the server shows it. thinking: the tokens that
    it spent on that, shown or not.
    """

    key: str
    role: str
    request: Request
    text: str
    finish: str
    usage: Usage
    mode: str = ""
    error: str = ""
    attempts: Count = 1
    seconds: Seconds = 0.0
    estimated: bool = False
    paid: bool = True
    thoughts: str = ""
    thinking: Count = 0

    @property
    def cut(self) -> bool:
        """Whether the reply ended before its answer did, or before it began."""
        return not self.error and (CUT.search(self.finish) is not None or not self.text.strip())

    @property
    def whole(self) -> str:
        """The reply without a last line that was cut off: half an action is another action."""
        return self.text.rpartition("\n")[0] if self.cut else self.text


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
        if path is not None and path.exists():
            with open_own(path, "r+b") as file:  # a killed process may have left half a line
                file.truncate(file.read().rfind(b"\n") + 1)
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
