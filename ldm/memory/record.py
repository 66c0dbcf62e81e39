"""The record of a memory: one file an environment, which readers map and a writer replaces.

    ldm-memory.json                  marks the directory and names the format
    .lock                            held by the one process that writes
    calls/                           model calls of formation, written by the caller
    chroma/                          the tuples as published for search (`ldm.memory.chroma`)
    environments/NAME/
        episodes.log, …              what a growing memory has recorded (`ldm.memory.log`)
        memory.bin                   the tuples of all generations

The file holds arrays, then a manifest in JSON, and in its last bytes the length and checksum of
that. The arrays are the columns of `Rows`, its texts in UTF-8 with the ends of each, pasts and
distinct vectors, and what the tuples teach, which small memories learn when they are opened.

Readers take no lock and need no permission to write. A new file is complete before it is renamed
into place, and whoever has mapped the former one goes on with that. Plain arrays can be mapped by a
forked process, too: the threads of a library for tables do not survive a fork.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import numpy as np

from ldm import records
from ldm.errors import LdmError, MemoryLocked, MemoryStoreError, did_you_mean
from ldm.files import ForeignFile, open_own, refuse_foreign, remove, unfollowed
from ldm.memory.index import FORMAT, BatchIndex, Generation, Kinds, Place
from ldm.memory.lessons import Contents, packed, unpacked
from ldm.memory.rows import KINDS, TEXTS, Array, Bytes, Numbers, Rows
from ldm.text import bare_url, guard, url_secrets
from ldm.types import Count

#: What the mark says.
MARKED = b'{"format": %d}' % FORMAT
MARK, LOCK, CALLS, CHROMA = "ldm-memory.json", ".lock", "calls", "chroma"
ENVIRONMENTS, FILE = "environments", "memory.bin"
#: What the tuples teach, which is stored for so many: fewer are learnt from in no time.
RELEVANCE, STORED_FROM = "relevance", 100
#: The arrays of a file, with their types and shapes; a column has one number a tuple.
ARRAYS: Mapping[str, Any] = {
    **KINDS,
    **{"texts": np.uint8, "ends": np.int64, "pasts": np.int32, "vectors": np.float32},
}
#: Where arrays begin: at multiples of so many bytes.
ALIGNED = 64
#: The end of a file: length and CRC-32 of the manifest before it.
END = struct.Struct("<QI")
#: Longest name of an environment's folder.
MOST_LETTERS = 200
#: Seconds for which a writer waits for the lock unless told otherwise, and between two attempts.
PATIENCE, PAUSE = 1.0, 0.02

T = TypeVar("T")

#: The remedy for missing credentials: Chroma's own variables.
LET_IN = (
    "Set CHROMA_CLIENT_AUTH_PROVIDER=chromadb.auth.token_authn.TokenAuthClientProvider and "
    "CHROMA_CLIENT_AUTH_CREDENTIALS to its token; or the former to "
    "chromadb.auth.basic_authn.BasicAuthClientProvider and the latter to user:password."
)
#: The open files of this process whose locks it holds.
held: set[int] = set()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a file.

    newest: the number of the newest generation that readers see; later ones were rolled back.
    log: as in `Contents`.
    arrays: where each begins, its bytes, and their CRC-32.
    """

    format: int
    generations: tuple[Generation, ...]
    batches: tuple[BatchIndex, ...]
    kinds: Kinds
    newest: Count
    log: Place
    arrays: dict[str, tuple[Count, Count, Count]]

    @property
    def visible(self) -> tuple[Generation, ...]:
        """The generations that readers see, oldest first."""
        return self.generations[: self.newest + 1]


@dataclass(frozen=True, slots=True, eq=False)
class MappedTexts(Sequence[str]):
    """Texts in UTF-8 within one mapped array."""

    _content: Bytes
    _ends: Numbers

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, at: Any) -> Any:
        number = range(len(self))[at]
        start = int(self._ends[number - 1]) if number else 0
        return str(self._content[start : int(self._ends[number])].data, "utf-8", "surrogatepass")


def is_server(location: str) -> bool:
    """Return whether a memory location is the address of a Chroma server.

    Raises MemoryStoreError if the address has a user, a password, a query or a path, because
    locations are shown and recorded.
    """
    if not location.lower().startswith(("http://", "https://")):
        return False
    if {*"@?#"} & {*location} or location.partition("://")[2].partition("/")[2]:
        guard(url_secrets(location))
        raise MemoryStoreError(
            f"The address of the memory ({bare_url(location)}) carries more than host and port:"
            " a password would be shown and recorded, and a path is none of a Chroma server's.",
            f"Leave that out. {LET_IN}",
        )
    return True


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
        marked = status(place / MARK)
    if not marked:
        raise MemoryStoreError(
            f"There is no memory at {location}.",
            "Make one with `ldm build-memory DATA`, or name another with --memory.",
        )
    stated = b""
    with suppress(OSError, LdmError), open_own(place / MARK) as file:
        stated = file.read(1000)
    if stated != MARKED:
        raise MemoryStoreError(
            f"{place / MARK} does not name format {FORMAT}.",
            f"Build the memory anew with `ldm build-memory DATA`, once {location} is away.",
        )


def environments(location: str) -> tuple[str, ...]:
    """Return the environments that have a folder in a memory, sorted."""
    check_memory(location)
    with store_errors(location):
        top = Path(location) / ENVIRONMENTS
        refuse_foreign(top)
        folders = (one.name for one in top.glob("*") if one.is_dir())
        return tuple(sorted(unquote(name) for name in folders if name.isascii()))


def known_generations(location: str) -> dict[str, tuple[Generation, ...]]:
    """Return the generations that readers see by environment, oldest first."""
    return {x: known for x in environments(location) if (known := generations(location, x))}


def generations(location: str, env: str) -> tuple[Generation, ...]:
    """Return the generations of an environment that readers see, oldest first, or ().

    Raises MemoryStoreError if its file is damaged.
    """
    check_memory(location)
    listed = _read_file(folder_of(location, env), _manifest)
    return listed.visible if listed else ()


def read(folder: Path) -> tuple[Manifest, Contents] | None:
    """Map an environment's file; return None if there is none.

    The contents are those of the last generation. Raises MemoryStoreError if it is damaged.
    """
    return _read_file(folder, _whole)


def load(location: str, env: str, generation: int | None = None) -> Contents:
    """Return the memory of `env` up to `generation` (None: the newest), mapped from its file.

    Raises MemoryStoreError if there is no such memory or generation, or it is damaged.
    """
    check_memory(location)
    known = read(folder_of(location, env))
    if known is None:
        raise missing(location, env)
    listed, contents = known
    chosen = chosen_of(listed.visible, env, generation)
    return contents if contents.generation == chosen else contents.at(chosen.number)


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
    names = [name for name in environments(location) if name != env]
    holds = f"It holds {', '.join(names)}. " if names else ""
    return MemoryStoreError(
        f"{location} holds no memory of {env}.",
        f"{did_you_mean(env, names)}{holds}Make one with `ldm build-memory DATA`.",
    )


def _read_file(folder: Path, read_of: Callable[[Bytes], T]) -> T | None:
    """Return what is read of an environment's file, mapped; None if there is none."""
    with store_errors(str(folder)):
        for one in (folder.parent, folder):
            refuse_foreign(one)
    path = folder / FILE
    try:
        with open_own(path) as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return read_of(np.frombuffer(content, np.uint8))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, struct.error, LdmError) as error:
        reason = " ".join(str(error).split())[:200]
        raise MemoryStoreError(
            f"The memory is damaged: {path} cannot be used ({reason}).",
            "Restore it from a copy or a pack, or build it again with `ldm build-memory DATA"
            " --rebuild`.",
        ) from error


def manifest_of(
    contents: Contents, arrays: dict[str, tuple[int, int, int]], newest: int | None = None
) -> Manifest:
    """Return the manifest of contents. newest: None for their last generation."""
    last = contents.generation.number if newest is None else newest
    known = contents.generations, contents.batches, contents.trained(), last, contents.log
    return Manifest(FORMAT, *known, arrays)


def _manifest(whole: Bytes) -> Manifest:
    """Return the manifest in the bytes of a file; raise ValueError or LdmError if it is damaged."""
    length, checksum = END.unpack(whole[-END.size :].tobytes())
    text = whole[-END.size - length : -END.size].tobytes()
    if (len(text), zlib.crc32(text)) != (length, checksum):
        raise ValueError("the checksum of its manifest is wrong")
    listed = records.loads(text, Manifest)
    numbers = [one.number for one in listed.generations]
    if listed.format != FORMAT or not numbers or numbers != [*range(len(numbers))]:
        raise ValueError("its generations are not numbered from 0")
    if listed.newest >= len(numbers) or {*listed.arrays} - {RELEVANCE} != {*ARRAYS}:
        raise ValueError("it shows a generation that it lacks, or holds other arrays")
    return listed


def _whole(whole: Bytes) -> tuple[Manifest, Contents]:
    """Return the manifest of a file, and the contents of its last generation."""
    listed = _manifest(whole)

    def raw(name: str) -> Bytes:
        start, size, checksum = listed.arrays[name]
        content = whole[start : start + size]
        if start % ALIGNED or zlib.crc32(content.data) != checksum:
            raise ValueError(f"the checksum of its {name} is wrong")
        return content

    newest = listed.generations[-1]
    arrays = {name: raw(name).view(kind) for name, kind in ARRAYS.items()}
    content, ends = arrays.pop("texts"), arrays.pop("ends")
    lengths = np.diff(ends, prepend=0)
    if (lengths < 0).any() or lengths.sum() != len(content):
        raise ValueError("its texts do not fit each other")
    pasts = arrays.pop("pasts").reshape(-1, 3)
    distinct = arrays.pop("vectors").reshape(-1, newest.dimension)
    if any(len(column) != newest.tuples for column in arrays.values()):
        raise ValueError("its columns do not fit each other")
    rows = Rows(newest.env, MappedTexts(content, ends), arrays, pasts, distinct)
    _check_numbers(rows)
    taught = unpacked(raw(RELEVANCE).data) if RELEVANCE in listed.arrays else None
    known = listed.batches, rows, listed.kinds, taught, listed.log
    return listed, Contents(listed.generations, *known)


def _check_numbers(rows: Rows) -> None:
    """Raise ValueError if a number refers to something that does not exist."""
    pasts, before, texts = rows.pasts, rows.pasts[:, 0], len(rows.texts)
    limits = dict.fromkeys(TEXTS, texts) | {"past": len(pasts)}
    limits |= dict.fromkeys(("goal_vector", "observation_vector"), len(rows.vectors))
    outside = bool(len(rows)) and any(
        not -1 <= int(rows.columns[name].min()) <= int(rows.columns[name].max()) < most
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
                written(place / MARK, [MARKED])
        check_memory(location)
        yield place
    finally:
        released(lock)
        os.close(lock)


def _check_free(location: str) -> None:
    """Raise MemoryStoreError if a directory holds something other than a memory."""
    names = {path.name for path in Path(location).iterdir() if MARK not in path.name[1:]}
    if not os.path.lexists(Path(location) / MARK) and names - {LOCK, CALLS}:
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


def commit(location: str, contents: Contents, newest: int | None = None) -> None:
    """Make `contents` what readers see; the caller holds the lock.

    newest: as in `Manifest`; None for the last generation.
    """
    folder = folder_of(location, contents.generation.env)
    with store_errors(location):
        refuse_foreign(Path(location) / ENVIRONMENTS)
        folder.mkdir(parents=True, exist_ok=True)
        written(folder / FILE, content_of(contents, newest))


def drop(location: str, env: str) -> None:
    """Remove everything of an environment; the caller holds the lock."""
    folder = folder_of(location, env)
    with store_errors(location):
        for path in (folder.parent, folder):
            refuse_foreign(path)
        clear(location, env)  # first, so that readers never see a part
        remove(folder)


def remove_chroma(location: str) -> None:
    """Remove the Chroma directory within a memory; nothing behind a link."""
    remove(Path(location) / CHROMA)


def clear(location: str, env: str) -> None:
    """Remove all generations of an environment; its logs stay. The caller holds the lock."""
    path = folder_of(location, env) / FILE
    with store_errors(location):
        for one in (path, *path.parent.glob(f".{FILE}.*")):
            one.unlink(missing_ok=True)


def written(path: Path, content: Iterable[bytes | memoryview]) -> None:
    """Replace a file, never through a link; it is on the disk when this returns."""
    refuse_foreign(path)
    with records.replaced(path) as part, open_own(part, "wb") as file:
        file.writelines(content)
        file.flush()
        os.fsync(file.fileno())
    number = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


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


def _arrays_of(contents: Contents) -> dict[str, Array]:
    """Return the arrays of a file by their names."""
    rows = contents.rows
    texts = [text.encode("utf-8", "surrogatepass") for text in rows.texts]
    arrays = {
        **rows.columns,
        "texts": np.frombuffer(b"".join(texts), np.uint8),
        "ends": np.cumsum([len(one) for one in texts], dtype=np.int64),
        "pasts": rows.pasts,
        "vectors": rows.vectors,
    }
    arrays = {name: np.asarray(arrays[name], kind) for name, kind in ARRAYS.items()}
    if len(rows) >= STORED_FROM:
        arrays[RELEVANCE] = np.frombuffer(packed(contents.learnt()), np.uint8)
    return arrays


def content_of(contents: Contents, newest: int | None = None) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a file; as in `commit`."""
    at, places = 0, dict[str, tuple[int, int, int]]()
    for name, array in _arrays_of(contents).items():
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        places[name] = at, len(content), zlib.crc32(content)
        yield content
        padding = bytes(-len(content) % ALIGNED)
        yield padding
        at += len(content) + len(padding)
    text = records.dumps(manifest_of(contents, places, newest)).encode()
    yield text + END.pack(len(text), zlib.crc32(text))
