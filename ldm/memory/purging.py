"""Purging: removing tuples from all generations of a memory and from the disk.

Deleting rows in Chroma leaves texts and vectors in its files. So a new database without the tuples
is written beside the old one, compared with what it should hold, and renamed into its place. A
process that is killed before that leaves the memory as it was; leftovers of one that is killed
after it are removed when the memory is next opened or purged.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import numpy as np

from ldm.errors import MemoryStoreError
from ldm.memory import additions, snapshot
from ldm.memory.access import locked, open_store
from ldm.memory.addresses import is_server
from ldm.memory.chroma import store_errors
from ldm.memory.columns_builder import ColumnsBuilder
from ldm.memory.contents import Contents
from ldm.memory.directory import CALLS, DATABASE, check_directory
from ldm.memory.index import BatchIndex, Generation, GoalType, IndexedTuple, TypePlaces
from ldm.memory.known_vectors import OnProgress
from ldm.memory.opening import load
from ldm.memory.rows import Rows

#: Folder inside a memory for the new database.
NEW = ".purging"
#: All of one environment: the contents of its newest generation, and all of these.
_Part = tuple[Contents, tuple[Generation, ...]]


def purge(
    location: str, env: str, tuples: Sequence[str], on_progress: OnProgress = lambda *_: None
) -> None:
    """Remove tuples from all generations of a memory and from the disk.

    This also removes texts, vectors, batches and types that only they used, words of type names
    that occur nowhere else, and all recorded model calls of formation, which quote trajectories.

    tuples: ids of tuples of the newest generation.

    Raises MemoryStoreError if the memory would be left without any tuple, is damaged, or is on a
    server.
    """
    if is_server(location):
        raise MemoryStoreError(
            f"{location} is a server, whose files cannot be rewritten.",
            "Stop it, and name its directory with --memory.",
        )
    check_directory(location)
    purged = frozenset(tuples)
    rows = load(location, env).rows.with_ids(purged)
    with locked(location) as place:
        new = place / NEW
        with store_errors(location):
            shutil.rmtree(new, ignore_errors=True)
        try:
            with open_store(location) as store:
                parts = [(store.load(name), held) for name, held in store.complete().items()]
            parts = [
                _without(contents, present, purged)
                if present[-1].env == env
                else (contents, present)
                for contents, present in parts
            ]
            complete = {present[-1].env: present for _, present in parts}
            for contents, _ in parts:
                snapshot.write(str(new), contents)
            snapshot.publish(str(new), complete, ())
            _write(new, parts, on_progress)
            with store_errors(location):
                _replace(place, new)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        snapshot.publish(location, complete, snapshot.stamp(place / DATABASE))
    # An interrupted folding may have left them there.
    additions.drop(location, env, {row.tuple.trajectory_id for row in rows})


def _write(new: Path, parts: Sequence[_Part], on_progress: OnProgress) -> None:
    """Write the memories to the database in `new`; raise MemoryStoreError if it then differs.

    What Chroma leaves uninitialised in its files is cleared when it is closed.
    """
    done, total = 0, sum(len(contents.rows) for contents, _ in parts)
    for contents, present in parts:
        with open_store(str(new)) as store:
            for written in store.add_memory(contents, present):
                done += written
                on_progress("rewrite", done, total)
        with open_store(str(new)) as store:
            again = store.load(contents.generation.env)
        if again.rows != contents.rows or not _same_vectors(again, contents):
            raise MemoryStoreError(
                f"The memory at {new.parent} could not be rewritten: the new database differs from"
                " what was written to it.",
                "It is unchanged. Free disk space if it is full; otherwise report this.",
            )


def _same_vectors(one: Contents, other: Contents) -> bool:
    spans = one.rows.columns.batch_spans().values()
    return all(np.array_equal(one.vectors[span], other.vectors[span]) for span in spans)


def _replace(place: Path, new: Path) -> None:
    """Put the new database in the place of the old one and remove the remains of that."""
    for folder in new.iterdir():
        if folder.is_dir() and folder.name != snapshot.SNAPSHOTS:
            folder.rename(place / folder.name)
    for folder in new.glob(f"{snapshot.SNAPSHOTS}/*/*"):
        target = place / folder.relative_to(new)
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)
    shutil.rmtree(place / CALLS, ignore_errors=True)
    (new / DATABASE).replace(place / DATABASE)
    for name in leftovers(place):
        shutil.rmtree(place / name)


def leftovers(place: Path) -> list[str]:
    """Return the folders in a memory's directory that are not in use, sorted."""
    with closing(sqlite3.connect(place / DATABASE)) as database:
        used = {row[0] for row in database.execute("SELECT id FROM segments")}
    folders = [path.name for path in place.iterdir() if path.is_dir()]
    return sorted(
        name for name in folders if name == NEW or (_is_segment(name) and name not in used)
    )


def _is_segment(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


def _without(contents: Contents, present: Sequence[Generation], purged: frozenset[str]) -> _Part:
    """Return a memory as if it had never held these tuples."""
    columns = contents.rows.columns
    rest = np.flatnonzero(~columns.named(purged))
    if not len(rest):
        raise MemoryStoreError(
            f"The memory of {columns.env} would be left without any tuple.",
            "Remove its directory instead.",
        )
    rows = [contents.rows[i] for i in rest.tolist()]
    words = _words_of(rows)
    batches = {batch.id: batch for batch in contents.batches}
    places: dict[str, TypePlaces] = {}
    for name in {row.batch for row in contents.rows.with_ids(purged)}:
        members = [row for row in rows if row.batch == name]
        reduced, places[name] = batches[name].reduced(members)
        batches[name] = _reworded(reduced, words)
    builder = ColumnsBuilder(columns.env, contents.vectors.dimension)
    builder.add_rows(
        (row.moved(places[row.batch]) if row.batch in places else row for row in rows),
        (contents.vectors[i] for i in rest.tolist()),
    )
    new_columns, vectors = builder.collected()
    left = Contents(
        contents.generation,
        tuple(batch for batch in batches.values() if batch.goal_types),
        Rows(new_columns),
        vectors,
    )
    tasks = frozenset(columns.distinct("task_id").values()) - {
        *new_columns.distinct("task_id").values()
    }
    generations: list[Generation] = []
    hidden: frozenset[str] = frozenset()
    for generation in present:
        shrunk = _shrunk(left, generation, purged, tasks)
        if generation.origin == "forgotten" and purged & {*generation.hidden} - hidden:
            # Its settings may name them.
            shrunk = replace(shrunk, settings={"chosen": "tuples that were purged later"})
        hidden = frozenset(generation.hidden)
        generations.append(shrunk)
    return left.at(generations[-1]), tuple(generations)


def _shrunk(
    left: Contents, generation: Generation, purged: frozenset[str], tasks: frozenset[str]
) -> Generation:
    """Return the record of a generation for its remaining tuples."""
    columns = left.at(generation).rows.columns
    if not len(columns):
        raise MemoryStoreError(
            f"Generation {generation.number} of {generation.env} would be left without any tuple.",
            "Build the memory again without them.",
        )
    shrunk = replace(
        generation,
        tuples=len(columns),
        hidden=tuple(name for name in generation.hidden if name not in purged),
        tasks=tuple(name for name in generation.tasks if name not in tasks),
    )
    return replace(shrunk, digest=columns.digest(shrunk, left.at(generation).batches))


def _reworded(batch: BatchIndex, words: frozenset[str]) -> BatchIndex:
    """Return a batch whose type names use only `words`."""
    goal_types = []
    for g, goal_type in enumerate(batch.goal_types):
        names = enumerate(goal_type.observation_types)
        below = tuple(_name(name, words, o) for o, name in names)
        goal_types.append(GoalType(_name(goal_type.name, words, g), below))
    return replace(batch, goal_types=tuple(goal_types))


def _name(name: str, words: frozenset[str], number: int) -> str:
    """Return a type's name, or a neutral one if it uses other words."""
    return name if _split(name) <= words or name == "other" else f"type {number + 1}"


def _words_of(rows: Sequence[IndexedTuple]) -> frozenset[str]:
    texts = {text for row in rows for text in (row.tuple.goal, row.tuple.observation)}
    return frozenset[str]().union(*map(_split, texts))


def _split(text: str) -> frozenset[str]:
    plain = "".join(c if c.isalnum() else " " for c in text.lower())
    return frozenset(plain.split())
