"""Purging: removing tuples from all generations of a memory and from the disk.

The generation is written anew without the tuples and renamed into place, the log of episodes loses
what they came from, and Chroma's files are made again. A process that is killed before leaves the
memory as it was, or the command repeated completes it.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from ldm.errors import MemoryStoreError
from ldm.memory import chroma, places, record
from ldm.memory.columns import ColumnsBuilder
from ldm.memory.contents import Contents
from ldm.memory.formation import WARNING
from ldm.memory.index import BatchIndex, Generation, GoalType, IndexedTuple, TypePlaces
from ldm.memory.known_vectors import OnProgress
from ldm.memory.log import EPISODES, FEEDBACK, Add, EpisodeLog, Event, Rate, task_id
from ldm.memory.rows import Rows
from ldm.types import Outcome

#: The contents of an environment's newest generation, and all its generations.
_Part = tuple[Contents, tuple[Generation, ...]]


def purge(
    location: str,
    env: str,
    tuples: Collection[str],
    on_progress: OnProgress = lambda *_: None,
    *,
    episodes: Collection[str] = (),
    everything: bool = False,
) -> None:
    """Remove tuples from all generations of a memory and from the disk.

    This also removes the episodes that they came from in the log, texts, vectors, batches and types
    that only they used, words of type names that occur nowhere else, and all recorded model calls
    of formation, which quote trajectories.

    tuples: ids of tuples of the newest generation.
    episodes: ids of recorded episodes that are removed from the log as well, finished or not.
    everything: whether a generation, or the memory, may be left without any tuple.

    Raises MemoryStoreError if the memory would be left without any tuple, is damaged, or is on a
    server.
    """
    places.refuse_server(location, "may keep what is removed in its files")
    with record.writing(location) as place:
        purged = frozenset(tuples)
        present = record.generations(location, env)
        contents = record.load(location, env) if present or not episodes else None
        rows = contents.rows.with_ids(purged) if contents else ()
        left: _Part | None = None
        if contents and not (everything and contents.rows.columns.ids <= purged):
            left = _without(contents, present, purged, everything)
        shutil.rmtree(place / record.CALLS, ignore_errors=True)
        chroma.remove(location)  # its files keep what is deleted in them
        trajectories = {row.tuple.trajectory_id for row in rows}
        tasks = {row.tuple.task_id for row in rows}
        tasks |= {task_id(name) for name in episodes}
        # The logs first: an identity changes, and the generation is the mark of completion.
        for name in (EPISODES, FEEDBACK):
            EpisodeLog(record.folder_of(location, env), name=name).keep(
                lambda event: not _is_of(event, trajectories, tasks, purged)
            )
        if left:
            record.commit(location, *left, ("", 0))
        else:
            record.clear(location, env)
        for other in record.environments(location):
            if record.generations(location, other):
                places.publish(location, record.load(location, other), on_progress)


def rewrite_outcomes(location: str, env: str, tuples: Collection[str], score: float) -> None:
    """Replace the score of tuples in all generations. score: in [0, 1]; 0 makes them warnings."""
    with record.writing(location):
        contents = record.load(location, env)
        chosen = frozenset(tuples)
        outcome = Outcome(score, score if score > 0 else WARNING)
        rows = [
            replace(row, tuple=replace(row.tuple, outcome=outcome))
            if row.tuple.id in chosen
            else row
            for row in contents.rows
        ]
        builder = ColumnsBuilder(env, contents.vectors.dimension)
        builder.add_rows(rows, (contents.vectors[i] for i in range(len(rows))))
        columns, vectors = builder.collected()
        changed = replace(contents, rows=Rows(columns), vectors=vectors, kinds=None, relevance=None)
        digests = [
            replace(one, digest=held.rows.columns.digest(one, held.batches))
            for one in record.generations(location, env)
            for held in [changed.at(one)]
        ]
        made = replace(changed, generation=digests[-1])
        places.commit(location, made, digests[:-1])


def _is_of(
    event: Event, trajectories: Collection[str], tasks: Collection[str], tuples: Collection[str]
) -> bool:
    """Return whether an event tells of purged trajectories, recorded tasks or tuples alone."""
    if isinstance(event, Add):
        return event.trajectory.id in trajectories
    if isinstance(event, Rate):
        return {*event.tuples} <= {*tuples}
    return event.episode in trajectories or task_id(event.episode) in tasks


def _without(
    contents: Contents, present: Sequence[Generation], purged: frozenset[str], everything: bool
) -> _Part:
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
        shrunk = _shrunk(left, generation, purged, tasks, everything)
        if generation.origin == "forgotten" and purged & {*generation.hidden} - hidden:
            # Its settings may name them.
            shrunk = replace(shrunk, settings={"chosen": "tuples that were purged later"})
        hidden = frozenset(generation.hidden)
        generations.append(shrunk)
    return left.at(generations[-1]), tuple(generations)


def _shrunk(
    left: Contents,
    generation: Generation,
    purged: frozenset[str],
    tasks: frozenset[str],
    everything: bool,
) -> Generation:
    """Return the record of a generation for its remaining tuples."""
    columns = left.at(generation).rows.columns
    if not len(columns) and not everything:
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
