"""Making memories of versions before 0.3 compact: there each tuple was stored with its whole past.

Such a memory is read and added to as it is. Migration writes its tuples anew beside the old ones,
compares every generation, and only then removes the old ones: `kill -9` loses nothing.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

from ldm.memory.store import DATABASE, reading, writing


def migrate(location: str) -> dict[str, int]:
    """Make the memories at a location compact.

    location: a directory or the http(s) address of a Chroma server, which keeps the space that
        becomes free.

    Returns the number of tuples that were written anew by environment; 0 where there were none.
    Raises MemoryStoreError where there is no memory, or it is damaged; then it stays as it was.
    """
    with reading(location):
        pass  # that there is a memory: writing would make one
    with writing(location, then=_release_space) as store:
        return {env: store.migrate(env) for env in store.environments()}


def _release_space(place: Path) -> None:
    """Give back the space of what Chroma has deleted, which it does not do by itself."""
    with closing(sqlite3.connect(place / DATABASE)) as database:
        used = {row[0] for row in database.execute("SELECT id FROM segments")}
        database.execute("VACUUM")
    for folder in place.iterdir():
        if folder.is_dir() and _is_segment(folder.name) and folder.name not in used:
            shutil.rmtree(folder)


def _is_segment(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
