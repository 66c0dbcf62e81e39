"""Changing the past of a memory: removing tuples from all generations, or correcting outcomes.

The file is written anew as if the tuples had always been so and renamed into place; the log of
episodes loses what purged ones came from, and Chroma's files are made again. A process that is
killed before leaves the memory as it was, or the command repeated completes it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ldm.embed.disk import remove as remove_vectors
from ldm.errors import MemoryStoreError
from ldm.memory import chroma, places, record
from ldm.memory.columns import Columns
from ldm.memory.contents import Contents
from ldm.memory.formation import WARNING
from ldm.memory.index import BatchIndex, Generation, GoalType, IndexedTuple
from ldm.memory.known_vectors import OnProgress
from ldm.memory.log import Add, EpisodeLog, Event, Rate, task_id
from ldm.types import Outcome


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

    This also removes the episodes that they came from in the log, texts, vectors and batches that
    only they used, words of type names that occur nowhere else, and all recorded model calls of
    formation, which quote trajectories.

    tuples: ids of tuples of the newest generation.
    episodes: ids of recorded episodes that are removed from the log as well, finished or not.
    everything: whether a generation, or the memory, may be left without any tuple.

    Raises MemoryStoreError if the memory would be left without any tuple, is damaged, or is on a
    server.
    """
    places.refuse_server(location, "may keep what is removed in its files")
    with record.writing(location) as place:
        purged = frozenset(tuples)
        folder = record.folder_of(location, env)
        present = record.generations(location, env)
        contents = record.load(location, env) if present or not episodes else None
        rows = contents.rows.with_ids(purged) if contents else ()
        changed = contents and _changed(
            contents, present, lambda row: None if row.tuple.id in purged else row
        )
        if changed and not everything and not all(one.tuples for one in changed[1]):
            raise MemoryStoreError(
                f"A generation of {env} would be left without any tuple.",
                "Build the memory again without them, or remove its directory.",
            )
        shutil.rmtree(place / record.CALLS, ignore_errors=True)
        chroma.remove(location)  # its files keep what is deleted in them
        trajectories = {row.tuple.trajectory_id for row in rows}
        tasks = {row.tuple.task_id for row in rows}
        tasks |= {task_id(name) for name in episodes}
        remove_vectors(folder)
        # The log first: its identity changes, and the generation is the mark of completion.
        EpisodeLog(folder).keep(lambda event: not _is_of(event, trajectories, tasks, purged))
        if changed and len(changed[0].rows):
            record.commit(location, *changed, ("", 0))
        else:
            record.clear(location, env)
        for other in record.environments(location):
            if record.generations(location, other):
                places.publish(location, record.load(location, other), on_progress)


def rewrite_outcomes(location: str, env: str, tuples: Collection[str], score: float) -> None:
    """Replace the score of tuples in all generations. score: in [0, 1]; 0 makes them warnings."""
    chosen = frozenset(tuples)
    outcome = Outcome(score, score if score > 0 else WARNING)

    def corrected(row: IndexedTuple) -> IndexedTuple:
        found = row.tuple.id in chosen
        return replace(row, tuple=replace(row.tuple, outcome=outcome)) if found else row

    with record.writing(location):
        present = record.generations(location, env)
        contents, made = _changed(record.load(location, env), present, corrected)
        places.commit(location, contents, made[:-1])


def _is_of(
    event: Event, trajectories: Collection[str], tasks: Collection[str], tuples: Collection[str]
) -> bool:
    """Return whether an event tells of purged trajectories, recorded tasks or tuples alone."""
    if isinstance(event, Add):
        return event.trajectory.id in trajectories
    if isinstance(event, Rate):
        return {*event.tuples} <= {*tuples}
    return event.episode in trajectories or task_id(event.episode) in tasks


def _changed(
    contents: Contents,
    present: Sequence[Generation],
    change: Callable[[IndexedTuple], IndexedTuple | None],
) -> tuple[Contents, tuple[Generation, ...]]:
    """Return a memory and its generations as if its tuples had always been changed.

    change: returns a tuple of the same cell, or None for one that was never there.
    """
    left = contents.rebuilt(change)
    before, columns = contents.rows.columns, left.rows.columns
    whole = replace(left, batches=_batches_of(contents, columns))
    gone = before.ids - columns.ids
    tasks = _tasks(before) - _tasks(columns)
    made, hidden = list[Generation](), frozenset[str]()
    for one in present:
        named = one.origin == "forgotten" and gone & (frozenset(one.hidden) - hidden)
        hidden = frozenset(one.hidden)
        shrunk = replace(
            one,
            hidden=tuple(name for name in one.hidden if name not in gone),
            tasks=tuple(name for name in one.tasks if name not in tasks),
            # The settings may name what was forgotten.
            settings={"chosen": "tuples that were purged later"} if named else one.settings,
        )
        made.append(whole.at(one).made(shrunk).generation)
    return whole.at(made[-1]), tuple(made)


def _tasks(columns: Columns) -> frozenset[str]:
    return frozenset(columns.distinct("task_id").values())


def _batches_of(contents: Contents, left: Columns) -> tuple[BatchIndex, ...]:
    """Return the batches of which tuples are left, with only words that these use in names."""
    words = frozenset[str]().union(
        *map(_split, (left.distinct("goal") | left.distinct("observation")).values())
    )
    members: dict[str, set[str]] = {}
    for batch, trajectory in left.pairs("batch", "trajectory_id"):
        members.setdefault(batch, set()).add(trajectory)
    return tuple(
        batch
        if members[batch.id] >= {*batch.trajectories}
        else replace(
            batch,
            trajectories=tuple(one for one in batch.trajectories if one in members[batch.id]),
            goal_types=tuple(
                GoalType(
                    _name(goal_type.name, words, g),
                    tuple(_name(n, words, o) for o, n in enumerate(goal_type.observation_types)),
                )
                for g, goal_type in enumerate(batch.goal_types)
            ),
        )
        for batch in contents.batches
        if batch.id in members
    )


def _name(name: str, words: frozenset[str], number: int) -> str:
    """Return a type's name, or a neutral one if it uses other words."""
    return name if _split(name) <= words or name == "other" else f"type {number + 1}"


def _split(text: str) -> frozenset[str]:
    plain = "".join(c if c.isalnum() else " " for c in text.lower())
    return frozenset(plain.split())
