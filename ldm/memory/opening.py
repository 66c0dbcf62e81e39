"""Opening a memory: from its snapshot, and from Chroma only where that is missing or outdated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ldm.memory import snapshot
from ldm.memory.columns import Contents
from ldm.memory.index import Generation
from ldm.memory.store import Store, check_directory, chosen_of, is_server, reading, store_errors


def known_generations(location: str) -> Mapping[str, tuple[Generation, ...]]:
    """Return the complete generations at a memory location by environment, oldest first.

    Raises MemoryStoreError where there is no memory.
    """
    if is_server(location):
        with reading(location) as store:
            return _generations(store)
    database = check_directory(location)
    with store_errors(location):
        before = snapshot.stamp(database)
    if (known := snapshot.catalog(location, before)) is not None:
        return known
    with reading(location) as store:
        found = _generations(store)
    _publish(location, database, before, found)
    return found


def load(location: str, env: str, generation: int | None = None) -> Contents:
    """Return the memory of `env` up to `generation` (None: the newest), mapped from its snapshot.

    Where that is missing or damaged, it is made from Chroma.
    Raises MemoryStoreError where there is no such memory or generation, or it is damaged.
    """
    known = known_generations(location)
    chosen = chosen_of(known.get(env, ()), location, env, generation)
    if contents := snapshot.read(location, chosen):
        if not is_server(location):
            return contents
        with reading(location) as store:  # where the cache cannot know of a memory built anew
            if {b for b in store.batches(env) if b.generation <= chosen.number} == {
                *contents.batches
            }:
                return contents
    database = Path(location) if is_server(location) else check_directory(location)
    before = () if is_server(location) else snapshot.stamp(database)
    with reading(location) as store:
        contents = store.load(env, chosen.number)
        found = _generations(store)
    snapshot.write(location, contents)
    if before:
        _publish(location, database, before, found)
    return snapshot.read(location, contents.generation) or contents


def _generations(store: Store) -> dict[str, tuple[Generation, ...]]:
    return {env: store.generations(env) for env in store.environments()}


def _publish(
    location: str,
    database: Path,
    before: tuple[int, ...],
    found: Mapping[str, tuple[Generation, ...]],
) -> None:
    """Note what was found, unless the database was changed while it was read.

    Chroma itself makes one change whenever it opens a database.
    """
    now = snapshot.stamp(database)
    if now[-1] - before[-1] <= 1:
        snapshot.publish(location, found, now)
