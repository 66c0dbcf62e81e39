"""Opening a memory: from its snapshot, or from Chroma if that is missing or outdated.

While a process writes to a directory, readers use the published catalog and snapshot and leave
Chroma alone, so that they see whole generations only and the writer does not wait for them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ldm.errors import MemoryStoreError
from ldm.memory import locks, snapshot
from ldm.memory.access import reading
from ldm.memory.addresses import is_server
from ldm.memory.chroma import store_errors
from ldm.memory.contents import Contents
from ldm.memory.directory import check_directory, chosen_of, unknown_environment
from ldm.memory.index import Generation
from ldm.memory.store import Store

#: Attempts to read a memory that changes meanwhile, and the seconds between them.
ATTEMPTS = 20
PAUSE = 0.1


def known_generations(location: str) -> Mapping[str, tuple[Generation, ...]]:
    """Return the complete generations at a location by environment, oldest first.

    Raises MemoryStoreError if there is no memory.
    """
    if is_server(location):
        with reading(location) as store:
            return store.complete()
    database = check_directory(location)
    if (published := _published(location, database)) is not None:
        return published
    with store_errors(location):
        before = snapshot.stamp(database)
    with reading(location) as store:
        complete = store.complete()
    _publish(location, database, before, complete)
    return complete


def load(location: str, env: str, generation: int | None = None) -> Contents:
    """Return the memory of `env` up to `generation` (None: the newest), mapped from its snapshot.

    A missing or damaged snapshot is made from Chroma.

    Raises MemoryStoreError if there is no such memory or generation, or it is damaged.
    """
    for attempt in range(1, ATTEMPTS + 1):
        known = known_generations(location)
        if env not in known:
            raise unknown_environment(location, env, known)
        present = known[env]
        chosen = chosen_of(present, location, env, generation)
        try:
            contents = snapshot.read(location, present, chosen.number)
            if contents := contents or _made(location, present, chosen):
                return contents
        except MemoryStoreError:
            if attempt == ATTEMPTS or is_server(location) or not locks.is_held(location):
                raise
        time.sleep(PAUSE)  # a writer has replaced or removed the published snapshot
    raise MemoryStoreError(
        f"The memory of {env} at {location} changes while it is read.", "Try again."
    )


def stored(store: Store, env: str, generation: int | None = None) -> Contents:
    """Return the memory of `env` in an open store up to `generation`, if possible mapped."""
    present = store.generations(env)
    return snapshot.read(store.location, present, generation) or store.load(env, generation)


def _made(location: str, present: Sequence[Generation], chosen: Generation) -> Contents | None:
    """Make the snapshot from Chroma and return `chosen` of it, or None if it has disappeared."""
    newest = present[-1]
    database = Path(location) if is_server(location) else check_directory(location)
    before = () if is_server(location) else snapshot.stamp(database)
    with reading(location) as store:
        complete = store.complete()
        if complete.get(newest.env, ())[-1:] != (newest,):
            return None
        contents = store.load(newest.env, newest.number)
    snapshot.write(location, contents)
    if before:
        _publish(location, database, before, complete)
    return snapshot.read(location, present, chosen.number) or contents.at(chosen)


def _published(location: str, database: Path) -> Mapping[str, tuple[Generation, ...]] | None:
    """Return the published generations, or None if they may be outdated."""
    known = snapshot.catalog(location)
    if known is None:
        return None
    with store_errors(location):
        valid = known.stamp == snapshot.stamp(database) or locks.is_held(location)
    return known.generations if valid else None


def _publish(
    location: str,
    database: Path,
    before: tuple[int, ...],
    complete: Mapping[str, tuple[Generation, ...]],
) -> None:
    """Publish the generations unless the database was changed while they were read.

    Chroma itself changes a database once whenever it opens it.
    """
    now = snapshot.stamp(database)
    if now[-1] - before[-1] <= 1 and not locks.is_held(location):
        snapshot.publish(location, complete, now)
