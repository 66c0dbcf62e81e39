"""The log of additions to a memory that are in no generation yet.

Writing a generation for each episode would take longer the larger the memory, and make batches of
one trajectory. So an addition is a line in a file beside the memory, with the vectors of its texts,
until `ldm.memory.growing` forms a batch. A line ends with its checksum and is synced when it is
appended; a torn last line was never added.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import os
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldm import records
from ldm.errors import LdmError, MemoryStoreError
from ldm.memory.chroma import store_errors
from ldm.memory.directory import ADDED, additions_of
from ldm.memory.formation import texts_of
from ldm.text import MAX_LENGTH, Problem, check_file
from ldm.types import Reward, Trajectory, stable_hash

#: Multiple of the batch size at which additions of many kinds form a mixed batch.
MOST_BATCHES = 4
#: Tolerance for the length of a unit vector.
UNIT = 1e-3

R = TypeVar("R")
#: (inode, size) of a log, which change whenever it does.
State = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Addition:
    """A trajectory with the vectors of its texts.

    vectors: of `texts_of`, float32, as base64. embedder: the name of their embedder.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    trajectory: Trajectory
    embedder: str
    vectors: str

    @classmethod
    def of(cls, trajectory: Trajectory, embedder: str, vectors: NDArray[np.float32]) -> Addition:
        """Return the addition of a trajectory with the (n, dimension) vectors of its texts."""
        return cls(trajectory, embedder, base64.b64encode(vectors.tobytes()).decode())

    def by_text(self) -> dict[str, NDArray[np.float32]]:
        """Return the vector of each text; raise ValueError if they are damaged."""
        texts = texts_of([self.trajectory])
        if not any(step.action for step in self.trajectory.steps):
            raise ValueError("it holds no action")
        try:
            content = base64.b64decode(self.vectors, validate=True)
        except binascii.Error as error:
            raise ValueError("its vectors are not base64") from error
        vectors = np.frombuffer(content[: len(content) // 4 * 4], np.float32)
        if not texts or not len(vectors) or 4 * len(vectors) != len(content):
            raise ValueError("its vectors are damaged")
        if len(vectors) % len(texts):
            raise ValueError("it has vectors of other texts")
        rows = vectors.reshape(len(texts), -1)
        if not (np.abs(np.linalg.norm(rows, axis=1) - 1) <= UNIT).all():
            raise ValueError("its vectors are not of unit length")
        return dict(zip(texts, rows, strict=True))


@dataclass(frozen=True, slots=True)
class Feedback:
    """The reward of an action that was based on recalls. tuples: their ids."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    tuples: tuple[str, ...]
    reward: Reward


class Log(Generic[R]):
    """A file of records of one type, appended to by any thread of any process."""

    def __init__(self, path: Path, record_type: type[R]) -> None:
        """Take the path of the file; appending creates it and its folder."""
        self.path = path
        self._type = record_type
        self._lock = threading.Lock()

    def state(self) -> State:
        """Return the state of the file; (0, 0) if there is none."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return 0, 0
        return status.st_ino, status.st_size

    def read(self, start: int = 0) -> tuple[list[R], State]:
        """Return the records from byte `start` on, and the state after them.

        Raises MemoryStoreError if a line other than a torn last one is damaged.
        """
        if self.state() == (0, 0):
            return [], (0, 0)
        with store_errors(str(self.path)):
            try:
                check_file(self.path)
            except LdmError as error:
                raise MemoryStoreError(error.message, error.remedy) from error
            with self.path.open("rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                file.seek(start)
                entries, end = list[R](), start
                for number, line in enumerate(iter(lambda: file.readline(_MOST), b""), 1):
                    if not line.endswith(b"\n") and len(line) < _MOST:
                        break
                    entries.append(self._parsed(line, number))
                    end += len(line)
        return entries, (inode, end)

    def append(self, record: R) -> None:
        """Append a record, which is on the disk when this returns.

        Raises MemoryStoreError if it cannot be written.
        """
        line = _line(record)
        with store_errors(str(self.path.parent)):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._opened() as file:
                _drop_torn(file)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())

    def keep(self, condition: Callable[[R], bool]) -> int:
        """Keep only the records that satisfy `condition`; return the number of removed ones.

        An interruption removes all of them or none.
        """
        if self.state() == (0, 0):
            return 0
        with store_errors(str(self.path.parent)), self._opened():
            entries, _ = self.read()
            rest = [entry for entry in entries if condition(entry)]
            if len(rest) < len(entries):
                with records.replaced(self.path) as temporary, temporary.open("wb") as file:
                    file.writelines(map(_line, rest))
                    file.flush()
                    os.fsync(file.fileno())
            return len(entries) - len(rest)

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        """Open the file to write, excluding other threads and processes.

        A writer that waited for the lock checks whether `keep` has replaced the file meanwhile.
        """
        with self._lock:
            while True:
                with open(self.path, "a+b", opener=_opened_itself) as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    if os.fstat(file.fileno()).st_ino == self.state()[0]:
                        yield file
                        return

    def _parsed(self, line: bytes, number: int) -> R:
        text, _, checksum = line.rstrip(b"\n").rpartition(b"\t")
        if checksum != b"%08x" % zlib.crc32(text):
            problem = "its checksum is wrong"
        else:
            parsed = records.parse(text, self._type, str(self.path), number)
            if not isinstance(parsed, Problem):
                return parsed
            problem = f"{parsed.field}: {parsed.message}"
        raise MemoryStoreError(
            f"{self.path}, the log of additions to the memory, is damaged in line {number}:"
            f" {problem}.",
            "Remove that line; the others stay.",
        )


def _opened_itself(path: str, flags: int) -> int:
    """Open a file without following a link: a memory may come from somebody else."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o644)


#: Maximum bytes of a line.
_MOST = MAX_LENGTH + 1


def _line(record: object) -> bytes:
    text = records.dumps(record).encode()
    return text + b"\t%08x\n" % zlib.crc32(text)


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


def additions(location: str, env: str) -> Log[Addition]:
    """Return the log of trajectories added to a memory in a directory."""
    return Log(additions_of(location, env), Addition)


def feedback(location: str, env: str) -> Log[Feedback]:
    """Return the log of feedback on recalls."""
    return Log(Path(location) / ADDED / f"{stable_hash(env)}.feedback.log", Feedback)


def environments(location: str) -> tuple[str, ...]:
    """Return the environments with pending additions, sorted."""
    named = set[str]()
    for path in (Path(location) / ADDED).glob("*.trajectories.log"):
        named.update(one.trajectory.task.env for one in Log(path, Addition).read()[0])
    return tuple(sorted(named))


def drop(location: str, env: str, trajectories: Collection[str] | None = None) -> int:
    """Remove trajectories from the log (None: everything); return their number."""
    if trajectories is None:
        feedback(location, env).keep(lambda _: False)
    return additions(location, env).keep(
        lambda one: trajectories is not None and one.trajectory.id not in trajectories
    )


def first_full(
    entries: Sequence[Addition], batch_size: int
) -> tuple[Sequence[Addition], Literal["kind", "mixed"]] | None:
    """Return the first additions that fill a batch, and how they are batched, or None.

    The result depends on the order of the additions only, not on when this is called. If there are
    many of many kinds, none of which fills a batch, the oldest form a mixed one.
    """
    counts = Counter[str]()
    for number, one in enumerate(entries, 1):
        kind = one.trajectory.task.kind
        counts[kind] += 1
        if counts[kind] == batch_size:
            return [e for e in entries[:number] if e.trajectory.task.kind == kind], "kind"
        if number == MOST_BATCHES * batch_size:
            return entries[:batch_size], "mixed"
    return None
