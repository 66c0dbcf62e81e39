"""The layout of a memory's directory, and the errors about places without a memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from ldm.errors import MemoryStoreError
from ldm.memory import index_files, locks
from ldm.memory.addresses import is_server
from ldm.memory.index import Generation
from ldm.types import stable_hash

DATABASE = "chroma.sqlite3"
#: Folder inside a memory for the model calls of formation, written by the caller.
CALLS = "calls"
#: Folder inside a memory for pending additions (`ldm.memory.additions`).
ADDED = "added"


def check_directory(location: str) -> Path:
    """Return the database of a memory in a directory; raise MemoryStoreError if there is none."""
    path = Path(location)
    if not path.exists():
        raise MemoryStoreError(
            f"There is no memory at {location}.",
            "Make one with `ldm build-memory DATA`, or name another with --memory.",
        )
    if not (path / DATABASE).is_file():
        if any((path / ADDED).glob("*")):
            raise _only_added(location)
        raise MemoryStoreError(
            f"{location} is not a memory: it has no {DATABASE}.",
            "Name the directory that `ldm build-memory` wrote with --memory.",
        )
    return path / DATABASE


def check_free(location: str) -> None:
    """Raise MemoryStoreError if a directory holds something other than a memory."""
    names = {path.name for path in Path(location).iterdir()}
    others = names - {locks.LOCK, index_files.OPEN, CALLS, ADDED}
    if others and DATABASE not in others:
        raise MemoryStoreError(
            f"{location} holds other files and no memory.",
            "Name an empty or a new directory with --memory.",
        )


def additions_of(location: str, env: str) -> Path:
    """Return the file of pending additions to a memory in a directory."""
    return Path(location) / ADDED / f"{stable_hash(env)}.trajectories.log"


def chosen_of(
    present: Sequence[Generation], location: str, env: str, number: int | None
) -> Generation:
    """Return the generation called `number` (None: the newest), or raise MemoryStoreError."""
    if not present:
        if not is_server(location) and additions_of(location, env).exists():
            raise _only_added(location)
        raise unknown_environment(location, env)
    if number is None:
        return present[-1]
    for generation in present:
        if generation.number == number:
            return generation
    raise MemoryStoreError(
        f"The memory of {env} has no generation {number}.",
        f"It has {', '.join(str(g.number) for g in present)}.",
    )


def unknown_environment(location: str, env: str, known: Iterable[str] = ()) -> MemoryStoreError:
    """Return the error about a memory without `env`. known: its environments."""
    names = sorted(known)
    close = get_close_matches(env, names, n=1)
    holds = f"It holds {', '.join(names)}. " if names else ""
    return MemoryStoreError(
        f"{location} holds no memory of {env}.",
        f"Did you mean {close[0]}? {holds}".strip()
        if close
        else f"{holds}Make one with `ldm build-memory DATA`.",
    )


def _only_added(location: str) -> MemoryStoreError:
    return MemoryStoreError(
        f"{location} holds only pending additions, and no generation yet.",
        "Make one with `ldm memory fold`, or in Python with fold().",
    )
