"""The record of a memory: files that readers map and a writer renames into place.

    ldm-memory.json                  marks the directory and names the format
    .lock                            held by the one process that writes
    calls/                           model calls of formation, written by the caller
    chroma/                          the tuples as published for search (`ldm.memory.chroma`)
    environments/NAME/
        episodes.log, …              what a growing memory has recorded (`ldm.memory.log`)
        current.json                 names the generation that readers see
        gen-000007-1a2b3c4d/         all tuples up to a generation
            manifest.json            its generations and batches, and a checksum of each other file
            tuples-32.npy            (c, n): one row for each of WIDE32, numbers of texts and others
            tuples-64.npy            (d, n): one row for each of WIDE64
            texts.npy, ends.npy      the distinct texts in UTF-8, and where each of them ends
            pasts.npy, vectors.npy   as in `Columns` and `Vectors`
            kinds.json               the classifier of task kinds
            relevance                what its tuples teach; small memories learn it when opened

Readers take no lock and need no permission to write. A generation exists once `current.json` names
its folder, which is complete by then. The columns are plain arrays because a process that was
forked can map them: the threads of a library for tables do not survive a fork.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from ldm import records
from ldm.errors import LdmError, MemoryLocked, MemoryStoreError
from ldm.files import ForeignFile, open_own, read_own, refuse_foreign, remove, unfollowed
from ldm.memory.columns import NUMBERS, TEXTS, Columns, Vectors
from ldm.memory.contents import Contents
from ldm.memory.index import FORMAT, BatchIndex, Generation
from ldm.memory.kind_classifier import KindWeights
from ldm.memory.lessons import packed, unpacked
from ldm.memory.rows import Rows
from ldm.text import parse_json, read_array

MARK, LOCK, CALLS, CHROMA = "ldm-memory.json", ".lock", "calls", "chroma"
ENVIRONMENTS = "environments"
POINTER, MANIFEST, KINDS = "current.json", "manifest.json", "kinds.json"
#: What the tuples teach, which is stored for so many: fewer are learnt from in no time.
RELEVANCE, STORED_FROM = "relevance", 100
ARRAYS = ("tuples-32.npy", "tuples-64.npy", "texts.npy", "ends.npy", "pasts.npy", "vectors.npy")
#: The columns of `Columns` by the size of their numbers.
WIDE32 = (*TEXTS, *(name for name, kind in NUMBERS.items() if np.dtype(kind).itemsize == 4))
WIDE64 = tuple(name for name in NUMBERS if name not in WIDE32)
#: Longest name of an environment's folder.
MOST_LETTERS = 200
#: Seconds for which a writer waits for the lock unless told otherwise, and between two attempts.
PATIENCE, PAUSE = 1.0, 0.02
#: Attempts to read a generation that a writer replaces meanwhile.
ATTEMPTS = 20
CHUNK = 1 << 20
#: Bytes of an .npy file before its numbers; one without any cannot be mapped.
HEADER = 128


T = TypeVar("T")
#: The open files of this process whose locks it holds.
held: set[int] = set()


@dataclass(frozen=True, slots=True)
class Pointer:
    """The folder that readers use, and the generation that they see of it."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    folder: str
    generation: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a generation's folder.

    log: the identity of the log of episodes, and the byte before which every episode that can be
        remembered is in this generation; ("", 0) without a log. files: the CRC-32 of each file.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    format: int
    generations: tuple[Generation, ...]
    batches: tuple[BatchIndex, ...]
    log: tuple[str, int]
    files: dict[str, int]


class MappedTexts(Sequence[str]):
    """Texts in UTF-8 within one mapped array."""

    def __init__(self, content: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self._content = content.data
        self._ends = ends

    def __reduce__(self) -> tuple[type[MappedTexts], tuple[NDArray[np.uint8], NDArray[np.int64]]]:
        return type(self), (np.frombuffer(self._content, np.uint8), self._ends)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, at: Any) -> Any:
        number = range(len(self))[at]
        start = int(self._ends[number - 1]) if number else 0
        return str(self._content[start : int(self._ends[number])], "utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        content, start = self._content, 0
        for end in self._ends.tolist():
            yield str(content[start:end], "utf-8", "surrogatepass")
            start = end


def folder_of(location: str, env: str) -> Path:
    """Return the folder of an environment; raise MemoryStoreError if its name is too long."""
    name = quote(env, safe=" ").replace(".", "%2E")
    if not 0 < len(name) <= MOST_LETTERS:
        raise MemoryStoreError(
            f"The environment's name {env[:40]!r} is {'too long' if env else 'empty'}.",
            f"Use one to {MOST_LETTERS} letters.",
        )
    return Path(location) / ENVIRONMENTS / name


def check_memory(location: str) -> None:
    """Raise MemoryStoreError unless a directory holds a memory of this format."""
    place = Path(location)
    with store_errors(location):
        exists, marked = place.exists(), os.path.lexists(place / MARK)
    if not exists:
        raise MemoryStoreError(
            f"There is no memory at {location}.",
            "Make one with `ldm build-memory DATA`, or name another with --memory.",
        )
    if not marked:
        older = (place / "chroma.sqlite3").is_file()
        raise MemoryStoreError(
            f"{location} is {'of another format' if older else 'not a memory'}: it has no {MARK}.",
            "Build it anew in another place with `ldm build-memory DATA --memory PLACE`."
            if older
            else "Name the directory that `ldm build-memory` wrote with --memory.",
        )
    try:
        with open_own(place / MARK) as file:
            stated = parse_json(file.read(1000), str(place / MARK))
    except (OSError, LdmError):
        stated = None
    if stated != {"format": FORMAT}:
        raise MemoryStoreError(
            f"{place / MARK} does not name format {FORMAT}.",
            "Build the memory anew with `ldm build-memory DATA --memory PLACE`.",
        )


def environments(location: str) -> tuple[str, ...]:
    """Return the environments that have a folder in a memory, sorted."""
    check_memory(location)
    with store_errors(location):
        top = Path(location) / ENVIRONMENTS
        refuse_foreign(top)
        return tuple(sorted(unquote(one.name) for one in top.glob("*") if one.is_dir()))


def generations(location: str, env: str) -> tuple[Generation, ...]:
    """Return the generations of an environment that readers see, oldest first, or ()."""
    check_memory(location)
    return visible(folder_of(location, env))


def visible(folder: Path) -> tuple[Generation, ...]:
    """Return the generations of an environment's folder that readers see, oldest first."""
    return _current(folder, visible_of) or ()


def manifest(folder: Path) -> tuple[Pointer, Manifest] | None:
    """Return the pointer and the manifest of the current generation, or None if there is none.

    Raises MemoryStoreError if one of them is damaged.
    """
    return _current(folder, lambda pointer, listed: (pointer, listed))


def _current(folder: Path, read_of: Callable[[Pointer, Manifest], T]) -> T | None:
    """Return what is read of the current generation, again if a writer replaces it meanwhile."""
    with store_errors(str(folder)):
        for path in (folder.parent, folder):
            refuse_foreign(path)
    for attempt in count(1):
        pointer = _pointer(folder)
        if pointer is None:
            return None
        try:
            listed = _manifest(folder / pointer.folder)
            if not 0 <= pointer.generation < len(listed.generations):
                raise ValueError(f"the pointer names generation {pointer.generation}")
            return read_of(pointer, listed)
        except (OSError, ValueError, LookupError, LdmError) as error:
            if attempt == ATTEMPTS or _pointer(folder) == pointer:
                raise _damaged(folder / pointer.folder, error) from error
    return None


def load(location: str, env: str, generation: int | None = None) -> Contents:
    """Return the memory of `env` up to `generation` (None: the newest), mapped from its files.

    Raises MemoryStoreError if there is no such memory or generation, or it is damaged.
    """
    check_memory(location)
    folder = folder_of(location, env)
    known = _current(
        folder,
        lambda pointer, listed: (
            visible_of(pointer, listed),
            read(folder / pointer.folder, listed),
        ),
    )
    if known is None:
        raise missing(location, env)
    present, contents = known
    chosen = chosen_of(present, env, generation)
    return contents if contents.generation == chosen else contents.at(chosen)


def visible_of(pointer: Pointer, listed: Manifest) -> tuple[Generation, ...]:
    """Return the generations of a manifest that a pointer shows."""
    return tuple(one for one in listed.generations if one.number <= pointer.generation)


def chosen_of(present: Sequence[Generation], env: str, number: int | None) -> Generation:
    """Return the generation called `number` (None: the newest), or raise MemoryStoreError."""
    if number is None:
        return present[-1]
    for generation in present:
        if generation.number == number:
            return generation
    raise MemoryStoreError(
        f"The memory of {env} has no generation {number}.",
        f"It has {', '.join(str(g.number) for g in present)}.",
    )


def missing(location: str, env: str) -> MemoryStoreError:
    """Return the error about a memory that holds nothing of `env`."""
    folder = folder_of(location, env)
    if (folder / "episodes.log").exists():
        return MemoryStoreError(
            f"{location} holds only pending additions of {env}, and no generation yet.",
            "Make one with `ldm memory fold`, or in Python with fold().",
        )
    names = environments(location)
    close = get_close_matches(env, names, n=1)
    holds = f"It holds {', '.join(names)}. " if names else ""
    return MemoryStoreError(
        f"{location} holds no memory of {env}.",
        f"Did you mean {close[0]}? {holds}".strip()
        if close
        else f"{holds}Make one with `ldm build-memory DATA`.",
    )


def read(place: Path, listed: Manifest, *, checked: bool = True) -> Contents:
    """Map the files of a generation's folder.

    checked: whether to compare the files with their checksums.

    Raises OSError, ValueError, LookupError or LdmError if it is damaged.
    """
    for name in listed.files:
        refuse_foreign(place / name)
    if checked and listed.files != {name: _checksum(place / name) for name in listed.files}:
        raise ValueError("a checksum is wrong")
    # A plain view of a mapped array is indexed faster.
    small, large, content, ends, pasts, distinct = (
        read_array(place / name, mapped=(place / name).stat().st_size > HEADER).view(np.ndarray)
        for name in ARRAYS
    )
    newest = listed.generations[-1]
    if (small.dtype, large.dtype) != (np.uint32, np.uint64) or (small.shape, large.shape) != (
        (len(WIDE32), newest.tuples),
        (len(WIDE64), newest.tuples),
    ):
        raise ValueError("its columns do not fit each other")
    values = {name: small[i].view(_kind(name)) for i, name in enumerate(WIDE32)}
    values |= {name: large[i].view(_kind(name)) for i, name in enumerate(WIDE64)}
    columns = Columns(newest.env, MappedTexts(content, ends), values, pasts)
    kinds = records.loads(read_own(place / KINDS), KindWeights)
    taught = RELEVANCE in listed.files
    relevance = unpacked(read_own(place / RELEVANCE)) if taught else None
    _check_numbers(columns, content, ends, distinct, newest)
    vectors = Vectors.of(distinct, columns)
    return Contents(newest, listed.batches, Rows(columns), vectors, kinds, relevance)


def _check_numbers(
    columns: Columns,
    content: NDArray[np.uint8],
    ends: NDArray[np.int64],
    distinct: NDArray[np.float32],
    newest: Generation,
) -> None:
    """Raise ValueError if a number refers to something that does not exist."""
    texts, pasts = len(ends), columns.pasts
    sound = (
        (content.dtype == np.uint8 and ends.dtype == np.int64 and pasts.dtype == np.int32)
        and (content.ndim, ends.ndim, pasts.shape[1:]) == (1, 1, (3,))
        and (np.diff(ends, prepend=0) >= 0).all()
        and (not texts or ends[-1] == len(content))
        and distinct.dtype == np.float32
        and distinct.shape[1:] == (newest.dimension,)
    )
    if not sound:
        raise ValueError("its arrays do not fit each other")
    before = pasts[:, 0]
    limits = dict.fromkeys(TEXTS, texts) | {"past": len(pasts)}
    limits |= {"goal_vector": len(distinct), "observation_vector": len(distinct)}
    outside = any(
        len(columns) and not -1 <= int(columns[name].min()) <= int(columns[name].max()) < most
        for name, most in limits.items()
    )
    outside |= bool(((before < -1) | (before >= np.arange(len(pasts)))).any())
    outside |= bool(((pasts[:, 1:] < 0) | (pasts[:, 1:] >= texts)).any())
    if outside:
        raise ValueError("a tuple refers to a text, past or vector that does not exist")


@contextmanager
def writing(location: str, patience: float | None = None) -> Iterator[Path]:
    """Hold the writer's lock of a directory, which is created if absent.

    patience: seconds to wait for another writer; None for PATIENCE.

    Raises MemoryLocked if another process holds it, MemoryStoreError if the directory holds
    something other than a memory or cannot be written.
    """
    place = Path(location)
    with store_errors(location):
        place.mkdir(parents=True, exist_ok=True)
        _check_free(location)
        lock = unfollowed(place / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        _wait_for(lock, location, PATIENCE if patience is None else patience)
        with store_errors(location):
            if not os.path.lexists(place / MARK):
                written(place / MARK, json.dumps({"format": FORMAT}).encode())
        check_memory(location)
        with store_errors(location):
            _tidy(place)
        yield place
    finally:
        released(lock)
        os.close(lock)


def _tidy(place: Path) -> None:
    """Remove what killed writers left; a damaged environment stays as it is."""
    if not (place / ENVIRONMENTS).is_symlink():
        for folder in (place / ENVIRONMENTS).glob("*"):
            with suppress(MemoryStoreError):
                for one in () if folder.is_symlink() else leftovers(folder):
                    remove(one)


def _check_free(location: str) -> None:
    """Raise MemoryStoreError if a directory holds something other than a memory."""
    names = {path.name for path in Path(location).iterdir()}
    if MARK not in names and (others := names - {LOCK, CALLS, f".{MARK}.new"}):
        if "chroma.sqlite3" in others:
            check_memory(location)
        raise MemoryStoreError(
            f"{location} holds other files and no memory.",
            "Name an empty or a new directory with --memory.",
        )


def _wait_for(lock: int, location: str, patience: float) -> None:
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if time.monotonic() > until:
                raise MemoryLocked(
                    f"Another process is writing to the memory at {location}.",
                    "Wait until it has finished, or name another with --memory.",
                ) from error
            time.sleep(PAUSE)
        else:
            held.add(lock)
            return


def status(path: Path) -> tuple[int, ...]:
    """Return what changes with a file, without reading it; () if there is none."""
    try:
        state = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return state.st_ino, state.st_size, state.st_mtime_ns


def released(lock: int) -> None:
    """Give a file's lock back, which a fork that has the file open would keep otherwise."""
    held.discard(lock)
    fcntl.flock(lock, fcntl.LOCK_UN)


def _after_fork() -> None:
    """Let a forked process have none of its parent's locks, even if the parent is killed."""
    for lock in held:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, lock)
        os.close(nothing)
    held.clear()


os.register_at_fork(after_in_child=_after_fork)


def commit(
    location: str,
    contents: Contents,
    generations: Sequence[Generation],
    log: tuple[str, int] | None = None,
) -> None:
    """Make `contents` what readers see; the caller holds the lock.

    generations: all of them, that of `contents` last. log: as in `Manifest`; None for the present.
    """
    env = contents.generation.env
    folder = folder_of(location, env)
    with store_errors(location):
        refuse_foreign(Path(location) / ENVIRONMENTS)
        folder.mkdir(parents=True, exist_ok=True)
        refuse_foreign(folder)
        known = manifest(folder)
        stated = log if log is not None else known[1].log if known else ("", 0)
        part = folder / ".writing"
        remove(part)
        part.mkdir()
        files = _write_files(part, contents)
        listed = Manifest(FORMAT, tuple(generations), contents.batches, stated, files)
        text = records.dumps(listed).encode()
        written(part / MANIFEST, _sealed(text))
        name = f"gen-{contents.generation.number:06d}-{zlib.crc32(text):08x}"
        if not (known and known[0].folder == name):  # otherwise it is there already
            remove(folder / name)
            part.rename(folder / name)
            _synced(folder)
        point(folder, Pointer(name, contents.generation.number))
        for one in leftovers(folder):
            remove(one)


def point(folder: Path, pointer: Pointer) -> None:
    """Let readers see another generation; the caller holds the lock."""
    written(folder / POINTER, _sealed(records.dumps(pointer).encode()))


def leftovers(folder: Path) -> list[Path]:
    """Return what interrupted and earlier writers left in an environment's folder."""
    pointer = _pointer(folder)
    current = pointer.folder if pointer else ""
    entries = sorted(folder.glob("gen-*")) + sorted(folder.glob(".*"))
    return [one for one in entries if one.name != current]


def drop(location: str, env: str) -> None:
    """Remove everything of an environment; the caller holds the lock."""
    folder = folder_of(location, env)
    with store_errors(location):
        for path in (folder.parent, folder):
            refuse_foreign(path)
        (folder / POINTER).unlink(missing_ok=True)  # first, so that readers never see a part
        remove(folder)


def clear(location: str, env: str) -> None:
    """Remove all generations of an environment; its logs stay. The caller holds the lock."""
    folder = folder_of(location, env)
    with store_errors(location):
        (folder / POINTER).unlink(missing_ok=True)
        for one in leftovers(folder):
            remove(one)


def written(path: Path, content: bytes) -> None:
    """Replace a file, never through a link; it is on the disk when this returns."""
    part = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        part.unlink()
    with part.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    _synced(path.parent)


@contextmanager
def store_errors(location: str) -> Iterator[None]:
    """Turn a failure of the disk, or what is no memory's, into a MemoryStoreError with a remedy."""
    try:
        yield
    except ForeignFile as error:
        raise MemoryStoreError(error.message, error.remedy) from error
    except OSError as error:
        full = "space left" in str(error) or "quota" in str(error).lower()
        too_large = "File too large" in str(error)
        raise MemoryStoreError(
            f"The memory at {location} cannot be read or written:"
            f" {error.strerror or error}{f' ({error.filename})' if error.filename else ''}.",
            "Free some space and repeat the command; nothing was lost."
            if full
            else "Raise the limit on the size of files (`ulimit -f`); nothing was lost."
            if too_large
            else "Check the permissions of the directory, or name another with --memory.",
        ) from error


def _kind(name: str) -> Any:
    return NUMBERS.get(name, np.uint32)


def _write_files(part: Path, contents: Contents) -> dict[str, int]:
    columns, encoded = (
        contents.rows.columns,
        [text.encode("utf-8", "surrogatepass") for text in contents.rows.columns.texts],
    )
    arrays: tuple[NDArray[Any], ...] = (
        np.stack([np.asarray(columns[name], _kind(name)).view(np.uint32) for name in WIDE32]),
        np.stack([np.asarray(columns[name], _kind(name)).view(np.uint64) for name in WIDE64]),
        np.frombuffer(b"".join(encoded), np.uint8),
        np.cumsum([len(one) for one in encoded], dtype=np.int64),
        np.asarray(columns.pasts, np.int32),
        np.asarray(contents.vectors.distinct, np.float32),
    )
    for name, array in zip(ARRAYS, arrays, strict=True):
        with (part / name).open("xb") as file:
            # `np.save` does not say why it could not write.
            np.lib.format.write_array_header_1_0(
                file, np.lib.format.header_data_from_array_1_0(array)
            )
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            file.flush()
            os.fsync(file.fileno())
    written(part / KINDS, records.dumps(contents.trained()).encode())
    if len(columns) >= STORED_FROM:
        written(part / RELEVANCE, packed(contents.learnt()))
    return {path.name: _checksum(path) for path in sorted(part.iterdir())}


def _pointer(folder: Path) -> Pointer | None:
    """Return the pointer, or None if there is no generation; raise MemoryStoreError if damaged."""
    path = folder / POINTER
    try:
        pointer = records.loads(_unsealed(path), Pointer)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LdmError) as error:
        if not os.path.lexists(path):
            return None
        raise _damaged(path, error) from error
    if Path(pointer.folder).name != pointer.folder or not pointer.folder.startswith("gen-"):
        raise _damaged(path, ValueError("it names no generation"))
    return pointer


def _manifest(place: Path) -> Manifest:
    """Read the manifest of a folder; raise an error of any kind if it is damaged."""
    refuse_foreign(place)
    listed = records.loads(_unsealed(place / MANIFEST), Manifest)
    numbers = [one.number for one in listed.generations]
    if listed.format != FORMAT or not numbers or numbers != [*range(len(numbers))]:
        raise ValueError("its generations are not numbered from 0")
    if {*listed.files} - {RELEVANCE} != {*ARRAYS, KINDS} or not 0 <= listed.log[1] < 2**63:
        raise ValueError("it names other files, or no place in a log")
    return listed


def _sealed(text: bytes) -> bytes:
    return text + b"\n%08x" % zlib.crc32(text)


def _unsealed(path: Path) -> bytes:
    """Return a file without the checksum in its last line; raise ValueError if that is wrong."""
    text, _, checksum = read_own(path).rpartition(b"\n")
    if checksum != b"%08x" % zlib.crc32(text):
        raise ValueError("its checksum is wrong")
    return text


def _damaged(path: Path, error: Exception) -> MemoryStoreError:
    reason = " ".join(str(error).split())[:200]
    return MemoryStoreError(
        f"The memory is damaged: {path} cannot be used ({reason}).",
        "Restore it from a copy or a pack, or build it again with `ldm build-memory DATA"
        " --rebuild`.",
    )


def _checksum(path: Path) -> int:
    """Return the CRC-32 of a file, which detects accidents and is fast enough for every opening."""
    checksum = 0
    with open_own(path) as file:
        while part := file.read(CHUNK):
            checksum = zlib.crc32(part, checksum)
    return checksum


def _synced(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
