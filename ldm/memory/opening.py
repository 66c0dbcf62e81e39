"""Opening a memory: from its snapshot, and from Chroma only where that is missing or outdated.

While a process writes to a directory, readers go by what it published last, and leave Chroma
alone. So they see whole generations only, and the writer need not wait for them.
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

#: How often a memory is read before a reader gives up, and the seconds between.
ATTEMPTS = 20
PAUSE = 0.1


def known_generations(location: str) -> Mapping[str, tuple[Generation, ...]]:
    """Return the complete generations at a memory location by environment, oldest first.

    Raises MemoryStoreError where there is no memory.
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


def load(
    location: str, env: str, generation: int | None = None, *, exact: bool = False
) -> Contents:
    """Return the memory of `env` up to `generation` (None: the newest), mapped from its snapshot.

    Where that is missing or damaged, it is made from Chroma.

    exact: whether vectors are read from Chroma where the snapshot keeps them rounded.

    Raises MemoryStoreError where there is no such memory or generation, or it is damaged.
    """
    for attempt in range(1, ATTEMPTS + 1):
        known = known_generations(location)
        if env not in known:
            raise unknown_environment(location, env, known)
        present = known[env]
        chosen = chosen_of(present, location, env, generation)
        try:
            if contents := _mapped(location, present, chosen) or _made(location, present, chosen):
                if not exact or contents.vectors.precision == snapshot.EXACT:
                    return contents
                with reading(location) as store:
                    return store.load(env, chosen.number)
        except MemoryStoreError:
            if attempt == ATTEMPTS or is_server(location) or not locks.is_held(location):
                raise
        time.sleep(PAUSE)  # a writer has replaced or removed what was published
    raise MemoryStoreError(
        f"The memory of {env} at {location} changes while it is read.", "Try again."
    )


def _mapped(location: str, present: Sequence[Generation], chosen: Generation) -> Contents | None:
    contents = snapshot.read(location, present, chosen.number)
    if contents is None or not is_server(location):
        return contents
    # The digest covers no names of types: the cache cannot know of a memory that was built anew.
    with reading(location) as store:
        batches = {b for b in store.batches(chosen.env) if b.generation <= chosen.number}
    return contents if batches == {*contents.batches} else None


def _made(location: str, present: Sequence[Generation], chosen: Generation) -> Contents | None:
    """Make the snapshot from Chroma; return `chosen` of it, None where it is gone meanwhile."""
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
    mapped = snapshot.read(location, present, chosen.number)
    return mapped or snapshot.as_kept(location, contents).at(chosen)


def _published(location: str, database: Path) -> Mapping[str, tuple[Generation, ...]] | None:
    """Return the generations that were published last, None where they may no longer be all."""
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
    """Note the complete generations, unless the database was changed while they were read.

    Chroma itself makes one change whenever it opens a database.
    """
    now = snapshot.stamp(database)
    if now[-1] - before[-1] <= 1 and not locks.is_held(location):
        snapshot.publish(location, complete, now)
