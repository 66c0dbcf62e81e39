"""What was added to a memory one by one and is in no generation yet: a log of lines.

To write a generation takes as long as the memory is large, and each would be a batch of one
trajectory. So an addition is first a line in a file beside the memory, with the vectors of its
texts; `ldm.memory.growing` makes a generation of those that fill a batch. A line is appended and
synced, so that an addition is there or is not, whatever ends the process: a torn last line was
never added. Each line ends with its checksum.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import os
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar

import numpy as np

from ldm import records
from ldm.embed import Embedder
from ldm.errors import LdmError, MemoryStoreError
from ldm.memory.chroma import store_errors
from ldm.memory.directory import ADDED, additions_of
from ldm.memory.formation import texts_of
from ldm.text import MAX_LENGTH, Problem, check_file
from ldm.types import Reward, Trajectory, stable_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Batches' worth of additions, of kinds none of which fills a batch, that are kept in the log.
MOST_BATCHES = 4
#: How far a vector's length may be from 1.
UNIT = 1e-3

R = TypeVar("R")
#: (inode, size) of a log: what changes whenever it does.
State = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Addition:
    """A trajectory with the vectors of its texts.

    vectors: those of `texts_of`, float32, as base64. embedder: the one that made them.
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
        """Return the vector of each text; raise ValueError where they are no vectors of these."""
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
    """What came of an action that rests on recalls.

    kind: of the task. tuples: ids of those that were recalled. reward: what it earned.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    kind: str
    tuples: tuple[str, ...]
    reward: Reward


class Log(Generic[R]):
    """A file of records of one type, appended to by any thread of any process."""

    def __init__(self, path: Path, record_type: type[R]) -> None:
        """Name the file; it and its folder are made when something is appended."""
        self.path = path
        self._type = record_type
        self._lock = threading.Lock()

    def state(self) -> State:
        """Return what changes whenever the file does; (0, 0) where there is none."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return 0, 0
        return status.st_ino, status.st_size

    def read(self, start: int = 0) -> tuple[list[R], State]:
        """Return the records from a byte on, and the state up to their end.

        Raises MemoryStoreError where a line is damaged; the last one may be torn.
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
        """Add a record for good: it is on the disk when this returns.

        Raises MemoryStoreError where it cannot be written.
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
        """Leave only the records that `condition` is true for; return how many others there were.

        Either all of the others go or none.
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
        """Open the file to write, while no other thread or process does.

        A lock is that of a file, and `keep` puts another in its place: who has waited looks again.
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
            problem = "it is not as it was written"
        else:
            parsed = records.parse(text, self._type, str(self.path), number)
            if not isinstance(parsed, Problem):
                return parsed
            problem = f"{parsed.field}: {parsed.message}"
        raise MemoryStoreError(
            f"{self.path}, the log of recent additions to the memory, is damaged in line {number}:"
            f" {problem}.",
            "Remove that line; the others stay.",
        )


def _opened_itself(path: str, flags: int) -> int:
    """Open a file, but not what a link there leads to: a memory may come from somebody else."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o644)


#: Bytes of a line at which it is refused.
_MOST = MAX_LENGTH + 1


def _line(record: object) -> bytes:
    text = records.dumps(record).encode()
    return text + b"\t%08x\n" % zlib.crc32(text)


def _drop_torn(file: IO[bytes]) -> None:
    """Cut what a killed process left of a line off the end of a file."""
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
    """Return the log of trajectories that were added to a memory in a directory."""
    return Log(additions_of(location, env), Addition)


def feedback(location: str, env: str) -> Log[Feedback]:
    """Return the log of what came of recalls."""
    return Log(Path(location) / ADDED / f"{stable_hash(env)}.feedback.log", Feedback)


def environments(location: str) -> tuple[str, ...]:
    """Return the environments of which something is in no generation yet, sorted."""
    named = set[str]()
    for path in (Path(location) / ADDED).glob("*.trajectories.log"):
        named.update(one.trajectory.task.env for one in Log(path, Addition).read()[0])
    return tuple(sorted(named))


def drop(location: str, env: str, trajectories: Collection[str] | None = None) -> int:
    """Remove some trajectories from the log, all for None; return how many there were."""
    if trajectories is None:
        feedback(location, env).keep(lambda _: False)
    return additions(location, env).keep(
        lambda one: trajectories is not None and one.trajectory.id not in trajectories
    )


@dataclass(frozen=True, slots=True)
class Full:
    """Additions that fill a batch. batching: as in `FormationOptions`."""

    additions: tuple[Addition, ...]
    batching: Literal["kind", "mixed"]


def first_full(entries: Sequence[Addition], batch_size: int) -> Full | None:
    """Return the additions that were the first to fill a batch, None where none do.

    Which they are depends on the order of the additions alone, and not on when this is asked. Where
    there are many of many kinds, none of which fills a batch, the oldest make a mixed one.
    """
    counts = Counter[str]()
    for number, one in enumerate(entries, 1):
        kind = one.trajectory.task.kind
        counts[kind] += 1
        if counts[kind] == batch_size:
            members = (e for e in entries[:number] if e.trajectory.task.kind == kind)
            return Full(tuple(members), "kind")
        if number == MOST_BATCHES * batch_size:
            return Full(tuple(entries[:batch_size]), "mixed")
    return None


class KnownVectors:
    """An embedder that computes only what is not known."""

    def __init__(self, embedder: Embedder, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Wrap `embedder`; vectors: those of some texts, which are as it would compute them."""
        self.name = embedder.name
        self.dimension = embedder.dimension
        self._embedder = embedder
        self._vectors = vectors

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        new = list({text: None for text in texts if text not in self._vectors})
        computed = dict(zip(new, self._embedder.embed(new), strict=True)) if new else {}
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return np.stack([computed[t] if t in computed else self._vectors[t] for t in texts])
