"""The log of episodes: what a growing memory has recorded, one line an event, for good.

An event is on the disk when `append` returns. A line is the name of the event, a tab, JSON, a tab
and the CRC-32 of what stands before it; a torn last line was never written. The first line gives
the log its identity, which a rewriting changes (`keep`): so a reader knows whether the bytes that
it has read are still those of the file, whatever number the system gives to that.

Vectors of the texts lie beside it, so that other processes need not compute them again; they can
be lost without harm.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldm import records
from ldm.errors import LdmError, MemoryStoreError
from ldm.files import ForeignFile, open_own, read_own
from ldm.memory.record import held, released, status, store_errors
from ldm.text import MAX_LENGTH, Problem
from ldm.types import Labels, Origin, Possible, Reward, Score, Step, Task, Time, Trajectory

EPISODES, FEEDBACK, VECTORS = "episodes.log", "feedback.log", "vectors.bin"
#: The longest text of an event in characters: every line of such texts can be read again.
MAX_TEXT = 4 * 2**20
#: Bytes of a text's key in the file of vectors, and of the checksum after each vector.
KEY, SUM = 16, 4
#: Tolerance for the length of a unit vector.
UNIT = 1e-3
#: The split of recorded tasks.
SPLIT = "train"
_STRICT = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class Begin:
    """The beginning of an episode. `time` is when it happened, as in all events."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT

    episode: str
    env: str
    goal: str
    kind: str
    source: str
    origin: Origin
    time: Time = 0.0
    scope: Labels = ()
    tags: Labels = ()


@dataclass(frozen=True, slots=True)
class StepTaken:
    """One action.

    followed: ids of the tuples that it was based on and does not merely repeat. possible: see
    `Step.possible`.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT

    episode: str
    observation: str
    action: str
    reward: Reward | None = None
    followed: tuple[str, ...] = ()
    time: Time = 0.0
    possible: Possible = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of an episode. observation: the last one."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT

    episode: str
    score: Score
    observation: str = ""
    time: Time = 0.0


@dataclass(frozen=True, slots=True)
class Correct:
    """Another score of a finished episode or of an added trajectory."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT

    episode: str
    score: Score
    time: Time = 0.0


@dataclass(frozen=True, slots=True)
class Add:
    """A whole trajectory."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT

    trajectory: Trajectory
    time: Time = 0.0


@dataclass(frozen=True, slots=True)
class Rate:
    """The reward of an action that was based on recalled tuples, by their ids."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT

    tuples: tuple[str, ...]
    reward: Reward
    time: Time = 0.0


Event = Begin | StepTaken | Finish | Correct | Add | Rate
EVENTS: Mapping[bytes, type[Event]] = {
    one.__name__.encode(): one for one in (Begin, StepTaken, Finish, Correct, Add, Rate)
}


@dataclass(frozen=True, slots=True)
class Place:
    """How far a log was read. log: its identity, "" without a log. end: the byte after it."""

    log: str = ""
    end: int = 0


class EpisodeLog:
    """The log of one environment, appended to by any thread of any process."""

    def __init__(self, folder: Path, embedder: str = "", name: str = EPISODES) -> None:
        """Take the environment's folder; appending creates it.

        embedder: the name that a new log records. name: of the file.
        """
        self.path = folder / name
        self._embedder = embedder
        self._lock = threading.Lock()

    def after_fork(self) -> None:
        """Replace the lock, which another thread of the parent may hold."""
        self._lock = threading.Lock()

    def status(self) -> tuple[int, ...]:
        """Return what changes with the file, without reading it; () if there is none."""
        return status(self.path)

    def read(self, since: Place = Place()) -> tuple[list[tuple[int, Event]], Place]:
        """Return (byte, event) after a place, and the new place.

        If the log is not that of `since`, it is read from its beginning: compare the places.

        Raises MemoryStoreError if a line other than a torn last one is damaged.
        """
        with store_errors(str(self.path)):
            if not self.status():
                return [], Place()
            with open_own(self.path) as file:
                identity, _, end = self._identity(file)
                if not identity:
                    return [], Place()
                if since.log == identity and since.end > end:
                    file.seek(since.end - 1)
                    if file.read(1) == b"\n":  # not so in an older copy of the log
                        end = since.end
                events = []
                file.seek(end)
                number = 0
                while (line := file.readline(MAX_LENGTH + 1)).endswith(b"\n"):
                    number += 1
                    events.append((end, self._parsed(line, end)))
                    end += len(line)
                if len(line) > MAX_LENGTH:
                    raise self._damaged(end, "it is too long")
        return events, Place(identity, end)

    def append(
        self, events: Sequence[Event], vectors: Mapping[str, NDArray[np.float32]] | None = None
    ) -> None:
        """Append events, all or none of which are on the disk when this returns or fails.

        vectors: of their texts, for other processes.

        Raises ValueError if one could not be read again, MemoryStoreError if they cannot be
        written.
        """
        lines = b"".join(map(_line, events))
        with store_errors(str(self.path)), self._opened() as file:
            if vectors:
                _append_vectors(self.path.with_name(VECTORS), vectors)
            size = file.seek(0, os.SEEK_END)
            try:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise

    def keep(self, condition: Callable[[Event], bool]) -> int:
        """Keep only the events that satisfy `condition`; return the number of removed ones.

        An interruption removes all of them or none. The vectors of all texts are removed with them.
        """
        with store_errors(str(self.path)):
            if not self.status():
                return 0
            with self._opened():
                events = [event for _, event in self.read()[0]]
                rest = [event for event in events if condition(event)]
                if len(rest) < len(events):
                    self.path.with_name(VECTORS).unlink(missing_ok=True)
                    part = self.path.with_name(f".{EPISODES}")
                    part.unlink(missing_ok=True)
                    embedder = self.embedder()
                    with part.open("xb") as file:
                        file.write(_first_line(embedder) + b"".join(map(_line, rest)))
                        file.flush()
                        os.fsync(file.fileno())
                    part.replace(self.path)
                return len(events) - len(rest)

    def vectors(self, dimension: int) -> dict[bytes, NDArray[np.float32]]:
        """Return the stored vectors by the keys of their texts; ignore damaged ones."""
        path, size = self.path.with_name(VECTORS), KEY + 4 * dimension + SUM
        try:
            content = read_own(path)
        except (OSError, LdmError):
            return {}
        vectors = {}
        for start in range(0, len(content) - size + 1, size):
            record = content[start : start + size]
            if zlib.crc32(record[:-SUM]) == int.from_bytes(record[-SUM:], "big"):
                vectors[record[:KEY]] = np.frombuffer(record[KEY:-SUM], np.float32)
        return vectors

    def embedder(self) -> str:
        """Return the recorded name of the embedder, "" without a log."""
        with store_errors(str(self.path)):
            if not self.status():
                return ""
            with open_own(self.path) as file:
                return self._identity(file)[1]

    def drop_vectors(self, place: Place) -> None:
        """Remove the stored vectors if nothing was appended after a place."""
        with store_errors(str(self.path)), self._opened() as file:
            if file.seek(0, os.SEEK_END) == place.end:
                self.path.with_name(VECTORS).unlink(missing_ok=True)

    def add_vectors(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Store vectors of texts in the log that are missing; ignore errors of the disk."""
        with suppress(OSError, MemoryStoreError, ForeignFile), self._opened():
            _append_vectors(self.path.with_name(VECTORS), vectors)

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        """Open the file to append, excluding other threads and processes.

        A writer that waited for the lock checks whether `keep` has replaced the file meanwhile.
        """
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            while True:
                with open_own(self.path, "a+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    status = self.status()
                    if not status or os.fstat(file.fileno()).st_ino != status[0]:
                        continue
                    _drop_torn(file)
                    held.add(file.fileno())
                    try:
                        if not file.seek(0, os.SEEK_END):
                            file.write(_first_line(self._embedder))
                            file.flush()
                        yield file
                        return
                    finally:
                        released(file.fileno())

    def _identity(self, file: IO[bytes]) -> tuple[str, str, int]:
        """Return the identity and embedder in the first line, and its end; empty if it is torn."""
        line = file.readline(1000)
        if not line.endswith(b"\n") and len(line) < 1000:
            return "", "", 0
        name, text = _unsealed(line)
        try:
            if name != b"log":
                raise ValueError(name)
            stated = json.loads(text)
            return str(stated["id"]), str(stated["embedder"]), len(line)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise self._damaged(0, "it is not the first line of a log") from error

    def _parsed(self, line: bytes, start: int) -> Event:
        name, text = _unsealed(line)
        if name not in EVENTS:
            raise self._damaged(start, "its checksum is wrong")
        parsed = records.parse(text, EVENTS[name], str(self.path), 1)
        if isinstance(parsed, Problem):
            raise self._damaged(start, f"{parsed.field}: {parsed.message}")
        return parsed

    def _damaged(self, start: int, reason: str) -> MemoryStoreError:
        with open_own(self.path) as file:
            number = file.read(start).count(b"\n") + 1
        return MemoryStoreError(
            f"{self.path}, the log of episodes, is damaged in line {number}: {reason}.",
            "Remove that line; the others stay.",
        )


def key_of(text: str) -> bytes:
    """Return the key of a text in the file of vectors."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:KEY]


@dataclass(slots=True)
class Episodes:
    """The episodes that events tell of.

    finished: the trajectories by id, in order; one that was added whole has its own id, and adding
        it again changes nothing. running: the events of episodes that have no end yet.
    """

    finished: dict[str, Trajectory] = field(default_factory=dict)
    running: dict[str, list[Event]] = field(default_factory=dict)

    def take(self, events: Iterable[Event]) -> dict[str, Trajectory]:
        """Take further events; return the episodes that they finish or give another score."""
        new: dict[str, Trajectory] = {}
        for event in events:
            match event:
                case Begin():
                    self.running[event.episode] = [event]
                case StepTaken():
                    self.running.get(event.episode, []).append(event)
                case Finish():
                    parts = self.running.pop(event.episode, [])
                    if len(parts) > 1:
                        whole = _trajectory(parts, event)
                        self.finished[event.episode] = new[event.episode] = whole
                case Add(trajectory=whole) if whole.id not in self.finished:
                    self.finished[whole.id] = new[whole.id] = whole
                case Correct(episode=name) if name in self.finished:
                    rescored = _rescored(self.finished[name], event.score)
                    self.finished[name] = new[name] = rescored
        return new


def _rescored(trajectory: Trajectory, score: float) -> Trajectory:
    """Return a trajectory with another score; rewards of its steps are dropped."""
    steps = tuple(replace(step, reward=0.0) for step in trajectory.steps)
    return replace(trajectory, steps=steps, score=score, success=score >= 1)


def present() -> float:
    """Return the present time in seconds since 1970, to the millisecond."""
    return round(time.time(), 3)


def task_id(episode: str) -> str:
    """Return the id of the task that a recorded episode stands for."""
    return f"recorded/{episode}"


def _trajectory(parts: Sequence[Event], finish: Finish) -> Trajectory:
    """Return the trajectory of an episode's events: a beginning and at least one step."""
    [begin] = [one for one in parts if isinstance(one, Begin)]
    steps = [one for one in parts if isinstance(one, StepTaken)]
    answers = [*(one.observation for one in steps[1:]), finish.observation]
    return Trajectory(
        task=Task(task_id(begin.episode), begin.env, SPLIT, begin.goal, begin.kind, begin.source),
        opening=steps[0].observation,
        steps=tuple(
            Step(one.action, answer, one.reward or 0.0, possible=one.possible)
            for one, answer in zip(steps, answers, strict=True)
        ),
        score=finish.score,
        success=finish.score >= 1,
        origin=begin.origin,
        time=finish.time,
        scope=begin.scope,
        tags=begin.tags,
    )


def _append_vectors(path: Path, vectors: Mapping[str, NDArray[np.float32]]) -> None:
    """Append vectors; a torn last one is cut off first."""
    with open_own(path, "a+b") as file:
        size = KEY + 4 * len(next(iter(vectors.values()))) + SUM
        end = file.seek(0, os.SEEK_END)
        if end % size:
            file.truncate(end - end % size)
        for text, vector in vectors.items():
            record = key_of(text) + vector.astype(np.float32, copy=False).tobytes()
            file.write(record + zlib.crc32(record).to_bytes(SUM, "big"))


def _first_line(embedder: str) -> bytes:
    """Return the first line of a new log."""
    text = json.dumps({"id": os.urandom(8).hex(), "embedder": embedder})
    return _sealed(b"log", text.encode())


def _sealed(name: bytes, text: bytes) -> bytes:
    """Return a line with its checksum."""
    content = name + b"\t" + text
    return content + b"\t%08x\n" % zlib.crc32(content)


def _unsealed(line: bytes) -> tuple[bytes, bytes]:
    """Return the name and the text of a line; the name is empty if the checksum is wrong."""
    content, _, checksum = line.rstrip(b"\n").rpartition(b"\t")
    name, _, text = content.partition(b"\t")
    return (name if checksum == b"%08x" % zlib.crc32(content) else b""), text


def _line(event: Event) -> bytes:
    """Return the line of an event; raise ValueError if it could not be read again."""
    content = records.dumps(event).encode()
    if len(content) > MAX_LENGTH - 1000:
        raise ValueError(f"an episode of {len(content):,} bytes is too long: record its steps")
    parsed = records.parse(content, type(event), "the episode", 1)
    if isinstance(parsed, Problem):
        raise ValueError(f"it cannot be kept: {parsed.field}: {parsed.message}")
    return _sealed(type(event).__name__.encode(), content)


def _drop_torn(file: IO[bytes]) -> None:
    """Cut off a torn last line, which a killed process left."""
    size = file.seek(0, os.SEEK_END)
    end = size
    while end:
        start = max(0, end - 2**16)
        file.seek(start)
        part = file.read(end - start)
        if b"\n" in part:
            end = start + part.rindex(b"\n") + 1
            break
        end = start
    if end < size:
        file.truncate(end)
