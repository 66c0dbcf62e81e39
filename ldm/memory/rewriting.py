"""Rewriting a memory's directory: compacting it, migrating one of an earlier version, and purging.

Chroma gives little space back: texts and vectors of what was deleted stay in its files. So all that
is to stay is written to a new database beside the old one and compared with it; then one renaming
puts it in its place. `kill -9` before that leaves the memory as it was, and after it as it is to
be; what was left over is removed by the next opening or rewriting.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import numpy as np

from ldm.errors import MemoryStoreError
from ldm.memory import additions, snapshot
from ldm.memory.access import locked, open_store, reading
from ldm.memory.addresses import is_server
from ldm.memory.chroma import store_errors
from ldm.memory.columns_builder import ColumnsBuilder
from ldm.memory.contents import Contents, Whole
from ldm.memory.directory import CALLS, DATABASE, STAGING, check_directory
from ldm.memory.index import BatchIndex, Generation, GoalType, IndexedTuple, TypePlaces
from ldm.memory.opening import known_generations, load
from ldm.memory.rows import Rows
from ldm.memory.store import is_old_collection

#: Folder inside a memory for the new database.
NEW = ".rewriting"

#: Called with (stage, done, total) as the work goes on.
OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What a rewriting did. before, after: bytes on the disk. tuples: by environment, how many.

    raised: whether there are new digests in place of those of version 0.1, which covered less. Runs
    recorded the old ones.
    """

    before: int
    after: int
    tuples: Mapping[str, int]
    raised: bool = False


def compact(
    location: str,
    on_progress: OnProgress = lambda *_: None,
    vectors: snapshot.Precision | None = None,
) -> Rewritten:
    """Write a memory's directory anew, without what deletions left behind.

    This also makes memories of versions before 0.3 compact, which held each tuple with its whole
    past, and removes what an interrupted build left behind, which then cannot be resumed. The
    digest of version 0.1, which leaves out sources, kinds, splits and pasts, gives way to one that
    covers all fields.

    vectors: how snapshots keep vectors from now on, None for as before. As float16 they take half
        the space; what leaves the memory (packs, merges) has the exact ones of the database.

    Raises MemoryStoreError where there is no memory, it is damaged, or it is on a server.
    """
    return _rewrite(location, lambda part: part, on_progress, vectors=vectors)


def is_outdated(location: str) -> bool:
    """Return whether a memory holds tuples, or has digests, in the way of earlier versions.

    Raises MemoryStoreError where there is no memory.
    """
    if is_server(location):
        with reading(location) as store:
            return any(store.is_outdated(env) for env in store.environments())
    database = check_directory(location).absolute()
    # Asked of the file, since `ldm memory show` does not wait for Chroma.
    with (
        store_errors(location),
        closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection,
    ):
        names = connection.execute("SELECT name FROM collections").fetchall()
    known = known_generations(location).values()
    old_digests = any(one.is_of_first_version for present in known for one in present)
    return old_digests or any(is_old_collection(name) for (name,) in names)


def purge(
    location: str,
    env: str,
    tuples: Sequence[str],
    on_progress: OnProgress = lambda *_: None,
) -> Rewritten:
    """Remove tuples from all generations of a memory and from the disk, for good.

    With them go their texts, vectors, batches and types that hold nothing else, words of type names
    that occur nowhere else, and all recorded model calls of formation (`calls/`), since these quote
    trajectories.

    tuples: ids of tuples of the newest generation.

    Raises MemoryStoreError where the memory would be left without any tuple, is damaged, or is on a
    server.
    """
    purged = frozenset(tuples)

    def without(part: Whole) -> Whole:
        return _without(part, purged) if part.contents.generation.env == env else part

    trajectories = frozenset[str]()
    if not is_server(location):  # which `_rewrite` refuses
        check_directory(location)
        rows = load(location, env).rows.with_ids(purged)
        trajectories = frozenset(row.tuple.trajectory_id for row in rows)
    done = _rewrite(location, without, on_progress, calls=True)
    additions.drop(location, env, trajectories)  # where forming them was interrupted
    return done


def _rewrite(
    location: str,
    change: Callable[[Whole], Whole],
    on_progress: OnProgress,
    *,
    calls: bool = False,
    vectors: snapshot.Precision | None = None,
) -> Rewritten:
    if is_server(location):
        raise MemoryStoreError(
            f"{location} is a server, which keeps its files itself.",
            "Stop it, and name its directory with --memory.",
        )
    check_directory(location)
    with locked(location) as place:
        before = size_of(place)
        new = place / NEW
        with store_errors(location):
            shutil.rmtree(new, ignore_errors=True)
        try:
            old = _parts(location)
            raised = any(one.is_of_first_version for part in old for one in part.generations)
            parts = [_raised(change(part)) for part in old]
            complete = {part.contents.generation.env: part.generations for part in parts}
            for part in parts:
                snapshot.write(str(new), part.contents)
            snapshot.publish(str(new), complete, ())
            _write(location, new, on_progress)
            precision = vectors or snapshot.precision(location)
            if precision != snapshot.EXACT:
                shutil.rmtree(new / snapshot.SNAPSHOTS)
                snapshot.publish(str(new), complete, (), precision)
                for part in parts:
                    snapshot.write(str(new), part.contents)
            with store_errors(location):
                _replace(place, new, calls=calls)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        snapshot.publish(location, complete, snapshot.stamp(place / DATABASE), vectors)
        tuples = {part.contents.generation.env: len(part.contents.rows) for part in parts}
        return Rewritten(before, size_of(place), tuples, raised)


def size_of(place: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def _parts(location: str) -> list[Whole]:
    with open_store(location) as store:
        return [Whole(store.load(env), present) for env, present in store.complete().items()]


def _raised(part: Whole) -> Whole:
    """Return a part whose digests cover all that this version's do; it decides as before."""
    raised = tuple(
        replace(
            bare := one.without_digest(),
            digest=part.contents.at(one).rows.columns.digest(bare, part.contents.at(one).batches),
        )
        if one.is_of_first_version
        else one
        for one in part.generations
    )
    return Whole(replace(part.contents, generation=raised[-1], kinds=None), raised)


def _write(location: str, new: Path, on_progress: OnProgress) -> None:
    """Have another process write the database of the snapshots in `new`, and compare both.

    Chroma writes memory that it has not set: in this process that could be texts that are to go.
    """
    code = (
        "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
        "from ldm.memory.rewriting import main; main(sys.argv[2])"
    )
    command = [sys.executable, "-P", "-c", code, json.dumps(sys.path), str(new)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as child:  # noqa: S603
        assert child.stdout is not None and child.stderr is not None  # noqa: S101, PT018 - pipes
        for line in child.stdout:
            done, total = map(int, line.split())
            on_progress("rewrite", done, total)
        complaint = child.stderr.read().strip()
    if child.returncode:
        reason = (complaint.splitlines() or ["no reason was given"])[-1]
        raise MemoryStoreError(
            f"The memory at {location} could not be rewritten: {reason}.",
            "It is unchanged. Free disk space if it is full; otherwise copy it and report this.",
        )


def main(new: str) -> None:
    """Write the database of the snapshots in a folder, and print how many tuples are written.

    Raises MemoryStoreError where the database does not hold what the snapshots do.
    """
    catalog = snapshot.catalog(new)
    assert catalog is not None  # noqa: S101 - `_rewrite` made it
    total = sum(present[-1].tuples for present in catalog.generations.values())
    done = 0
    for present in catalog.generations.values():
        contents = snapshot.read(new, present)
        assert contents is not None  # noqa: S101 - as before
        with open_store(new) as store:
            for written in store.add_memory(contents, present):
                done += written
                sys.stdout.write(f"{done} {total}\n")
                sys.stdout.flush()
        with open_store(new) as store:
            again = store.load(contents.generation.env)
        if again.rows != contents.rows or not _same_vectors(again, contents):
            raise MemoryStoreError("The new database differs from what was to be written.")


def _same_vectors(one: Contents, other: Contents) -> bool:
    spans = one.rows.columns.batch_spans().values()
    return all(np.array_equal(one.vectors[span], other.vectors[span]) for span in spans)


def _replace(place: Path, new: Path, *, calls: bool) -> None:
    """Put the new database in the place of the old one, and remove what that leaves behind."""
    for folder in new.iterdir():
        if folder.is_dir() and folder.name != snapshot.SNAPSHOTS:
            folder.rename(place / folder.name)
    for folder in new.glob(f"{snapshot.SNAPSHOTS}/*/*"):
        target = place / folder.relative_to(new)
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)
    for name in (STAGING, *([CALLS] if calls else [])):
        shutil.rmtree(place / name, ignore_errors=True)
    (new / DATABASE).replace(place / DATABASE)
    for name in leftovers(place):
        shutil.rmtree(place / name)


def leftovers(place: Path) -> list[str]:
    """Return the folders in a memory's directory that nothing refers to, sorted."""
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


def _without(part: Whole, purged: frozenset[str]) -> Whole:
    """Return a part as if some tuples had never been there."""
    contents = part.contents
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
    for generation in part.generations:
        shrunk = _shrunk(left, generation, purged, tasks)
        if generation.origin == "forgotten" and purged & {*generation.hidden} - hidden:
            # How they were chosen may name them.
            shrunk = replace(shrunk, settings={"chosen": "tuples that were purged later"})
        hidden = frozenset(generation.hidden)
        generations.append(shrunk)
    return Whole(left.at(generations[-1]), tuple(generations))


def _shrunk(
    left: Contents, generation: Generation, purged: frozenset[str], tasks: frozenset[str]
) -> Generation:
    """Return a generation's record for what is left of its tuples."""
    columns = left.at(generation).rows.columns
    if not len(columns):
        raise MemoryStoreError(
            f"Generation {generation.number} of {generation.env} would be left without any tuple.",
            "Go back or build the memory again without them.",
        )
    utilities = {name: u for name, u in generation.utilities.items() if name not in purged}
    shrunk = replace(
        generation,
        tuples=len(columns),
        hidden=tuple(name for name in generation.hidden if name not in purged),
        utilities=utilities,
        tasks=tuple(name for name in generation.tasks if name not in tasks),
    )
    return replace(shrunk, digest=columns.digest(shrunk, left.at(generation).batches))


def _reworded(batch: BatchIndex, words: frozenset[str]) -> BatchIndex:
    """Return a batch whose types are named with `words` alone."""
    goal_types = []
    for g, goal_type in enumerate(batch.goal_types):
        names = enumerate(goal_type.observation_types)
        below = tuple(_name(name, words, o) for o, name in names)
        goal_types.append(GoalType(_name(goal_type.name, words, g), below))
    return replace(batch, goal_types=tuple(goal_types))


def _name(name: str, words: frozenset[str], number: int) -> str:
    """Return a type's name, another one where it holds words that are nowhere else."""
    return name if _split(name) <= words or name == "other" else f"type {number + 1}"


def _words_of(rows: Sequence[IndexedTuple]) -> frozenset[str]:
    texts = {text for row in rows for text in (row.tuple.goal, row.tuple.observation)}
    return frozenset[str]().union(*map(_split, texts))


def _split(text: str) -> frozenset[str]:
    plain = "".join(c if c.isalnum() else " " for c in text.lower())
    return frozenset(plain.split())
