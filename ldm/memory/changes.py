"""Changes of a memory: add tuples or hide some, go back to a generation, rewrite the past.

Generation 0 is the formed memory. Each later one adds trajectories (`ldm.memory.build`) or the
tuples of a refinement (LDM² §3.3, Memory Enhancement), or hides tuples.

Purging tuples and correcting outcomes change all generations: the file is written anew as if the
tuples had always been so, the log of episodes loses what purged ones came from, and Chroma's files
are made again. A process that is killed before leaves the memory as it was, or the command repeated
completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ldm import files
from ldm.embed import Embedder
from ldm.embed.caching import remove as remove_vectors
from ldm.errors import MemoryStoreError
from ldm.memory import places, record
from ldm.memory.formation import WARNING
from ldm.memory.index import NOWHERE, BatchIndex, Generation, GoalType, IndexedTuple, OnProgress
from ldm.memory.lessons import Contents
from ldm.memory.log import EpisodeLog, Event, Rate, task_id
from ldm.memory.rows import Rows
from ldm.types import Outcome, by_key


def extend(  # noqa: PLR0913 - one parameter a decision of the caller
    location: str,
    base: Generation,
    rows: Sequence[IndexedTuple],
    embedder: Embedder,
    *,
    tasks: Iterable[str],
    settings: Mapping[str, str],
    batches: Sequence[BatchIndex] = (),
    on_progress: OnProgress = lambda *_: None,
) -> Generation:
    """Add `rows` to the memory as the generation after `base`, the newest one.

    This is LDM²'s Memory Enhancement (§3.3). Tuples that the memory already holds are skipped, and
    a call repeated after an interruption adds nothing twice.

    location: a directory or the http(s) address of a Chroma server.
    base: the newest generation; its `env_class` may be set even if the stored one's is not.
    rows: tuples of generation `base.number + 1` in cells of existing batches (`Memory.place`) or of
        `batches`.
    embedder: the one that the memory was built with.
    tasks: ids of the explored tasks, successful or not.
    settings: how the tuples were made, for `Generation.settings`.
    batches: new batch memories, whose tuples are all among `rows`.
    on_progress: called with (stage, done, total) as texts are embedded.

    Returns the new generation.
    Raises MemoryStoreError if the memory has changed since `base` or has another embedder.
    """
    base.check_embedder(embedder.name)
    env_class, present = base.env_class, places.generations(location, base.env)
    base = next((one for one in present if replace(one, env_class=env_class) == base), base)
    refined: dict[str, Any] = {"origin": "refined", "tasks": tuple(sorted(tasks))}
    stated = replace(base, settings=dict(settings), env_class=env_class, **refined)
    return _succeed(
        *(location, base, stated),
        lambda contents: contents.extended(rows, embedder, batches, on_progress),
    )


def hide(
    location: str,
    base: Generation,
    tuples: Collection[str],
    *,
    settings: Mapping[str, str],
    origin: str = "pruned",
    everything: bool = False,
) -> Generation:
    """Add a generation that does not recall some tuples after `base`, the newest one.

    Nothing is removed: earlier generations recall the tuples, and `rollback` brings them back.
    Later generations inherit what is hidden. A call repeated after an interruption changes nothing.

    location: a directory or the http(s) address of a Chroma server.
    tuples: ids of tuples of the memory.
    settings: how they were chosen, for `Generation.settings`. origin: the generation's.
    everything: whether it may recall none.

    Returns the new generation.
    Raises MemoryStoreError if the memory has changed since `base`, lacks one of the tuples, or
    would be left without any.
    """
    hidden = tuple(sorted({*base.hidden, *tuples}))
    changed = replace(base, origin=origin, settings=dict(settings), tasks=(), hidden=hidden)

    def checked(contents: Contents) -> Contents:
        if not contents.rows.ids.issuperset(hidden):
            raise MemoryStoreError(
                f"The memory of {base.env} at {location} does not hold all of the named tuples.",
                "Name tuples that it holds.",
            )
        if not changed.recallable and not everything:
            raise MemoryStoreError(
                f"The memory of {base.env} at {location} would be left without any tuple.",
                "Keep some.",
            )
        return contents

    return _succeed(location, base, changed, checked)


def show(location: str, env: str, tuples: Collection[str]) -> Generation:
    """Add a generation that recalls hidden tuples again.

    Returns the newest generation. Raises MemoryStoreError if there is none.
    """
    base = places.load(location, env).generation
    hidden = tuple(name for name in base.hidden if name not in tuples)
    changed = replace(base, origin="added", settings={}, tasks=(), hidden=hidden)
    return _succeed(location, base, changed)


def _succeed(
    location: str,
    base: Generation,
    stated: Generation,
    change: Callable[[Contents], Contents] = lambda contents: contents,
) -> Generation:
    """Write a generation that is `stated` but for its number after `base`, unless it is there.

    change: makes its contents of those of `base`.
    """
    with places.writing(location):
        present = places.generations(location, base.env)
        if base in present:
            contents = change(places.load(location, base.env, base.number))
            made = contents.made(replace(stated, number=base.number + 1))
            if base == present[-1]:
                places.commit(location, made)
            if base == present[-1] or made.generation in present:
                return made.generation
    raise MemoryStoreError(
        f"The memory of {base.env} at {location} has changed: its newest generation is "
        f"{present[-1].number if present else 'gone'}, not {base.number}.",
        f"Use the newest, or go back with `ldm memory rollback {base.number}`.",
    )


def rollback(location: str, env: str, number: int) -> tuple[Generation, ...]:
    """Make generation `number` the newest one; readers do not see later ones.

    The same call with a higher number brings these back, until something else is written to the
    memory.

    location: a directory.

    Returns the generations that were there before, oldest first.
    Raises MemoryStoreError if there is no memory or no such generation, or it is damaged.
    """
    places.refuse_server(location, "keeps only the newest generation of a tuple")
    with record.writing(location):
        folder = record.folder_of(location, env)
        known = record.read(folder)
        if known is None:
            raise record.missing(location, env)
        listed, whole = known
        record.chosen_of(listed.generations, env, number)
        record.commit(location, whole, number)
        places.publish(location, whole.at(number))
        return listed.visible


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
    only they used, the names of types in batches that held them, and all recorded model calls of
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
        known = record.generations(location, env)
        contents = record.load(location, env) if known or not episodes else None
        changed = contents and _rewritten(
            contents, lambda row: None if row.tuple.id in purged else row
        )
        if changed and not everything and not all(one.tuples for one in changed.generations):
            raise MemoryStoreError(
                f"A generation of {env} would be left without any tuple.",
                "Build the memory again without them, or remove its directory.",
            )
        files.remove(place / record.CALLS)
        record.remove_chroma(location)  # its files keep what is deleted in them
        gone = contents.rows.take(contents.rows.named(purged)) if contents else Rows.empty(env, 0)
        trajectories = {*gone.distinct("trajectory_id").values()}
        tasks = {*_tasks(gone), *map(task_id, episodes)}
        remove_vectors(folder)

        def stays(event: Event) -> bool:
            if isinstance(event, Rate):
                return not purged.issuperset(event.tuples)
            return event.episode not in trajectories and task_id(event.episode) not in tasks

        # The log first: its identity changes, and the generation is the mark of completion.
        EpisodeLog(folder).keep(stays)
        if changed and len(changed.rows):
            record.commit(location, replace(changed, log=NOWHERE))
        else:
            record.clear(location, env)
        for other in record.known_generations(location):
            places.publish(location, record.load(location, other), on_progress)


def rewrite_outcomes(location: str, env: str, tuples: Collection[str], score: float) -> None:
    """Replace the score of tuples in all generations. score: in [0, 1]; 0 makes them warnings."""
    chosen = frozenset(tuples)
    outcome = Outcome(score, score if score > 0 else WARNING)

    def corrected(row: IndexedTuple) -> IndexedTuple:
        if row.tuple.id not in chosen:
            return row
        return replace(row, tuple=replace(row.tuple, outcome=outcome))

    with record.writing(location):
        places.commit(location, _rewritten(record.load(location, env), corrected))


def _rewritten(
    contents: Contents, change: Callable[[IndexedTuple], IndexedTuple | None]
) -> Contents:
    """Return a memory as if its tuples had always been changed.

    change: returns a tuple of the same cell, or None for one that was never there.
    """
    left = contents.rebuilt(change)
    whole = replace(left, batches=_batches_of(contents, left.rows))
    gone = contents.rows.ids - left.rows.ids
    tasks = _tasks(contents.rows) - _tasks(left.rows)
    made, hidden = list[Generation](), frozenset[str]()
    for one in contents.generations:
        named = one.origin == "forgotten" and gone & (frozenset(one.hidden) - hidden)
        hidden = frozenset(one.hidden)
        shrunk = replace(
            one,
            hidden=tuple(name for name in one.hidden if name not in gone),
            tasks=tuple(name for name in one.tasks if name not in tasks),
            # The settings may name what was forgotten.
            settings={"chosen": "tuples that were purged later"} if named else one.settings,
        )
        made.append(whole.at(one.number).made(shrunk).generation)
    return replace(whole, generations=tuple(made), kinds=None, relevance=None)


def _tasks(rows: Rows) -> frozenset[str]:
    return frozenset(rows.distinct("task_id").values())


def _batches_of(contents: Contents, left: Rows) -> tuple[BatchIndex, ...]:
    """Return the batches of which tuples are left.

    Names of types may quote what is gone: a batch that loses a trajectory gets others.
    """
    members = by_key(left.pairs("batch", "trajectory_id"))
    return tuple(
        batch
        if {*batch.trajectories} <= {*members[batch.id]}
        else replace(
            batch,
            trajectories=tuple(one for one in batch.trajectories if one in members[batch.id]),
            goal_types=tuple(
                GoalType(f"type {g}", tuple(f"type {o + 1}" for o in range(len(below))))
                for g, below in enumerate((one.observation_types for one in batch.goal_types), 1)
            ),
        )
        for batch in contents.batches
        if batch.id in members
    )
