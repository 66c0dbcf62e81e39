"""The log of episodes: what a growing memory has recorded, one line an event, for good.

An event is on the disk when `append` returns. A line is the name of the event, a tab, JSON, a tab
and the CRC-32 of what stands before it; a torn last line was never written. The first line gives
the log its identity, which a rewriting changes (`keep`): so a reader knows whether the bytes that
it has read are still those of the file, whatever number the system gives to that.
"""

from __future__ import annotations

import fcntl
import io
import mmap
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, get_args

from ldm import records
from ldm.errors import MemoryStoreError
from ldm.files import open_own
from ldm.memory.index import NOWHERE, Place
from ldm.memory.record import held, released, status, store_errors, written
from ldm.parallel import ForkLock
from ldm.text import MAX_LENGTH, Problem
from ldm.types import Labels, Origin, Possible, Reward, Score, Step, Task, Time, Trajectory

EPISODES = "episodes.log"
#: The longest text of an event in characters: every line of such texts can be read again.
MAX_TEXT = 4 * 2**20
#: The beginning of a line with a reward.
RATE = b"Rate\t"
#: Bytes that the first line may have.
FIRST_LINE = 1_000
#: The split of recorded tasks.
SPLIT = "train"


@dataclass(frozen=True, slots=True)
class Log:
    """The first line of a log. id: its identity. embedder: the name of the memory's."""

    id: str
    embedder: str


@dataclass(frozen=True, slots=True)
class Begin:
    """The beginning of an episode. `time` is when it happened, as in all events."""

    episode: str
    task: Task
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

    episode: str
    score: Score
    observation: str = ""
    time: Time = 0.0


@dataclass(frozen=True, slots=True)
class Correct:
    """Another score of a finished episode or of an added trajectory."""

    episode: str
    score: Score
    time: Time = 0.0


@dataclass(frozen=True, slots=True)
class Add:
    """A whole trajectory."""

    trajectory: Trajectory
    time: Time = 0.0

    @property
    def episode(self) -> str:
        """The trajectory's id."""
        return self.trajectory.id


@dataclass(frozen=True, slots=True)
class Rate:
    """The reward of an action that was based on recalled tuples, by their ids."""

    tuples: tuple[str, ...]
    reward: Reward
    time: Time = 0.0


Event = Begin | StepTaken | Finish | Correct | Add | Rate
LINES: Mapping[bytes, type[Event | Log]] = {
    one.__name__.encode(): one for one in get_args(Event | Log)
}


class EpisodeLog:
    """The log of one environment, appended to by any thread of any process."""

    def __init__(self, folder: Path, embedder: str = "") -> None:
        """Take the environment's folder; appending creates it.

        embedder: the name that a new log records.
        """
        self.path = folder / EPISODES
        self._embedder = embedder
        self._lock = ForkLock()

    def status(self) -> tuple[int, ...]:
        """Return what changes with the file, without reading it; () if there is none."""
        return status(self.path)

    def read(
        self, since: Place = NOWHERE, *, rated: bool = False
    ) -> tuple[list[tuple[int, Event]], Place]:
        """Return (byte, event) after a place, and the new place.

        If the log is not that of `since`, it is read from its beginning: compare the places.
        rated: whether rewards that were given before the place are among the events.

        Raises MemoryStoreError if a line other than a torn last one is damaged.
        """
        with self._reading() as file:
            first, first_line = self._first(file), file.tell()
            if first is None:
                return [], NOWHERE
            end = first_line
            if since.log == first.id and since.end > end:
                file.seek(since.end - 1)
                if file.read(1) == b"\n":  # not so in an older copy of the log
                    end = since.end
            events, at = [], file.seek(first_line if rated else end)
            while (line := file.readline(MAX_LENGTH + 1)).endswith(b"\n"):
                if at >= end or line.startswith(RATE):
                    event = self._parsed(line, at)
                    if isinstance(event, Log):
                        raise self._damaged(at, "it is the first line of a log")
                    events.append((at, event))
                at += len(line)
            if len(line) > MAX_LENGTH:
                raise self._damaged(at, "it is too long")
        return events, Place(first.id, at)

    def append(self, events: Sequence[Event]) -> None:
        """Append events, all or none of which are on the disk when this returns or fails.

        Raises ValueError if one could not be read again, MemoryStoreError if they cannot be
        written.
        """
        lines = b"".join(map(_line, events))
        with store_errors(str(self.path)), self._opened() as file:
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

        An interruption removes all of them or none.
        """
        with store_errors(str(self.path)):
            if not self.status():
                return 0
            with self._opened():
                events = [event for _, event in self.read()[0]]
                rest = [event for event in events if condition(event)]
                if len(rest) < len(events):
                    written(self.path, map(_line, [_begun(self.embedder()), *rest]))
                return len(events) - len(rest)

    def embedder(self) -> str:
        """Return the recorded name of the embedder, "" without a log."""
        with self._reading() as file:
            first = self._first(file)
        return first.embedder if first else ""

    @contextmanager
    def _reading(self) -> Iterator[IO[bytes]]:
        """Open the file to read; one that is not there is empty."""
        with store_errors(str(self.path)):
            if not self.status():
                yield io.BytesIO()
                return
            with open_own(self.path) as file:
                yield file

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
                            file.write(_line(_begun(self._embedder)))
                            file.flush()
                        yield file
                        return
                    finally:
                        released(file.fileno())

    def _first(self, file: IO[bytes]) -> Log | None:
        """Return the first line, or None if there is none or it is torn."""
        line = file.readline(FIRST_LINE)
        if not line.endswith(b"\n") and len(line) < FIRST_LINE:
            return None
        first = self._parsed(line, 0)
        if not isinstance(first, Log):
            raise self._damaged(0, "it is not the first line of a log")
        return first

    def _parsed(self, line: bytes, start: int) -> Event | Log:
        """Return what a line holds; raise MemoryStoreError if it is damaged."""
        content, _, checksum = line.rstrip(b"\n").rpartition(b"\t")
        name, _, text = content.partition(b"\t")
        if checksum != b"%08x" % zlib.crc32(content) or name not in LINES:
            raise self._damaged(start, "its checksum is wrong")
        parsed = records.parse(text, LINES[name], str(self.path), 1)
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


@dataclass(slots=True)
class Episodes:
    """The episodes that events tell of.

    finished: the trajectories by id, in order; one that was added whole has its own id, and adding
        it again changes nothing. running: the beginning and the steps of those without an end.
    """

    finished: dict[str, Trajectory] = field(default_factory=dict)
    running: dict[str, tuple[Begin, list[StepTaken]]] = field(default_factory=dict)

    def take(self, events: Iterable[Event]) -> dict[str, Trajectory]:
        """Take further events; return the episodes that they finish or give another score."""
        new: dict[str, Trajectory] = {}
        for event in events:
            match event:
                case Begin():
                    self.running[event.episode] = event, []
                case StepTaken(episode=name) if name in self.running:
                    self.running[name][1].append(event)
                case Finish(episode=name) if name in self.running:
                    begin, steps = self.running.pop(name)
                    if steps:
                        self.finished[name] = new[name] = _trajectory(begin, steps, event)
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


def _trajectory(begin: Begin, steps: Sequence[StepTaken], finish: Finish) -> Trajectory:
    """Return the trajectory of an episode with at least one step."""
    answers = [*(one.observation for one in steps[1:]), finish.observation]
    return Trajectory(
        task=begin.task,
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


def _line(event: Event | Log) -> bytes:
    """Return the line of an event; raise ValueError if it could not be read again."""
    text = records.dumps(event).encode()
    if len(text) > MAX_LENGTH - 1000:
        raise ValueError(f"an episode of {len(text):,} bytes is too long: record its steps")
    parsed = records.parse(text, type(event), "the episode", 1)
    if isinstance(parsed, Problem):
        raise ValueError(f"it cannot be kept: {parsed.field}: {parsed.message}")
    content = type(event).__name__.encode() + b"\t" + text
    return content + b"\t%08x\n" % zlib.crc32(content)


def _begun(embedder: str) -> Log:
    """Return the first line of a new log."""
    return Log(os.urandom(8).hex(), embedder)


def _drop_torn(file: IO[bytes]) -> None:
    """Cut off a torn last line, which a killed process left."""
    if size := file.seek(0, os.SEEK_END):
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as content:
            end = content.rfind(b"\n") + 1
        if end < size:
            file.truncate(end)
