"""The generations of a memory: list them, add what refinement found, go back to an earlier one.

Generation 0 is the formed memory; each later one adds trajectories (`ldm.memory.build`) or the
tuples of a refinement (LDM² §3.3, Memory Enhancement), or hides tuples that did harm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ldm.embed import Embedder
from ldm.errors import MemoryStoreError
from ldm.memory.building import OnProgress, StagedEmbedder
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.memory.store import Store, digest, reading, writing


def generations(location: str, env: str) -> tuple[Generation, ...]:
    """List the generations of an environment's memory, oldest first.

    location: a directory or the http(s) address of a Chroma server.

    Returns an empty tuple where `location` is a memory, but has none of `env`.
    Raises MemoryStoreError where there is no memory at `location`.
    """
    with reading(location) as store:
        return store.generations(env)


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
    """Add `rows` to the memory as the generation after `base`, which must be the newest one.

    This is LDM²'s Memory Enhancement (§3.3). Tuples that the memory holds already are left out.
    Readers see the new generation once it is complete; a call repeated after an interruption adds
    nothing twice.

    location: a directory or the http(s) address of a Chroma server.
    rows: tuples of generation `base.number + 1` in cells of batches that exist (`Memory.place`), or
        of `batches`.
    embedder: the one that the memory was built with.
    tasks: ids of the tasks that were explored, whether or not they yielded a tuple.
    settings: how the tuples were found, for `Generation.settings`.
    batches: new batch memories, whose tuples are all among `rows`.
    on_progress: called with (stage, done, total) as texts are embedded.

    Returns the new generation.
    Raises MemoryStoreError where the memory has changed since `base` or has another embedder.
    """
    env, number = base.env, base.number + 1
    base.check_embedder(embedder.name)
    with writing(location) as store:
        present = store.generations(env)
        before = store.load(env, base.number).rows if base in present else ()
        known = {row.tuple.id for row in before}
        new = {row.tuple.id: row for row in rows if row.tuple.id not in known}
        generation = replace(
            base,
            number=number,
            origin="refined",
            tuples=len(before) + len(new),
            digest=digest([*before, *new.values()], base),
            settings=dict(settings),
            tasks=tuple(sorted(tasks)),
        )
        if generation in present:
            return generation
        _check_newest(location, base, present, "explored", "explore again")
        _write(store, generation, tuple(new.values()), batches, embedder, on_progress)
        return generation


def hide(
    location: str, base: Generation, tuples: Collection[str], *, settings: Mapping[str, str]
) -> Generation:
    """Add a generation that no longer recalls some tuples; `base` must be the newest one.

    Nothing is removed from the store: earlier generations recall the tuples as before, and
    `rollback` brings them back. Later generations inherit what is hidden. A call repeated after an
    interruption changes nothing.

    location: a directory or the http(s) address of a Chroma server.
    tuples: ids of tuples of the memory.
    settings: how they were chosen, for `Generation.settings`.

    Returns the new generation.
    Raises MemoryStoreError where the memory has changed since `base`, lacks one of the tuples, or
    would be left without any.
    """
    hidden = tuple(sorted({*base.hidden, *tuples}))
    changed = replace(base, origin="pruned", settings=dict(settings), tasks=(), hidden=hidden)
    return _over_the_same_tuples(location, base, changed)


def value(
    location: str, base: Generation, utilities: Mapping[str, float], *, settings: Mapping[str, str]
) -> Generation:
    """Add a generation that knows what its tuples are worth; `base` must be the newest one.

    Later generations inherit the utilities, and `rollback` forgets them. A call repeated after an
    interruption changes nothing.

    location, settings: as for `hide`.
    utilities: see `Generation.utilities`; they replace those of `base`.

    Returns the new generation.
    Raises MemoryStoreError where the memory has changed since `base`, or lacks one of the tuples.
    """
    changed = replace(
        base,
        origin="credited",
        settings=dict(settings),
        tasks=(),
        utilities=dict(sorted(utilities.items())),
    )
    return _over_the_same_tuples(location, base, changed)


def _over_the_same_tuples(location: str, base: Generation, changed: Generation) -> Generation:
    """Add the generation after `base` with the same tuples, otherwise as `changed` is."""
    with writing(location) as store:
        rows = store.load(base.env, base.number).rows
        known = {row.tuple.id for row in rows}
        if not known.issuperset({*changed.hidden, *changed.utilities}):
            raise MemoryStoreError(
                f"The memory of {base.env} at {location} lacks a tuple that is named.",
                "Name tuples that it holds.",
            )
        if not changed.recallable:
            raise MemoryStoreError(
                f"The memory of {base.env} at {location} would be left without any tuple.",
                "Leave some.",
            )
        generation = replace(changed, number=base.number + 1, digest=digest(rows, changed))
        present = store.generations(base.env)
        if generation in present:
            return generation
        _check_newest(location, base, present, changed.origin, "evaluate again")
        store.drop_after(base.env, base.number)  # what an interrupted call left behind
        store.commit(generation)
        return generation


def _check_newest(
    location: str, base: Generation, present: Sequence[Generation], done: str, remedy: str
) -> None:
    """Raise MemoryStoreError where `base` is no longer the newest of the `present` generations."""
    if not present or present[-1] != base:
        newest = present[-1].number if present else "none"
        raise MemoryStoreError(
            f"The memory of {base.env} at {location} has changed: generation {base.number} was "
            f"{done}, and the newest is {newest} now.",
            f"Go back with `ldm memory rollback {base.number}`, or {remedy}.",
        )


def _write(
    store: Store,
    generation: Generation,
    rows: Sequence[IndexedTuple],
    batches: Sequence[BatchIndex],
    embedder: Embedder,
    on_progress: OnProgress,
) -> None:
    """Write all that is new in `generation`, and then the generation itself."""
    store.drop_after(generation.env, generation.number - 1)  # what an interrupted call left behind
    staged = StagedEmbedder(embedder, None)
    texts = {text for row in rows for text in (row.tuple.goal, row.tuple.observation)}
    staged.prepare(sorted(texts), on_progress)
    store.add_tuples(list(rows), staged.embed_rows(list(rows)), embedder.name)
    for batch in batches:
        store.add_batch(generation.env, batch)
    store.commit(generation)


def rollback(location: str, env: str, number: int) -> tuple[Generation, ...]:
    """Make generation `number` the newest again, and remove the later ones for good.

    location: a directory or the http(s) address of a Chroma server.

    Returns the removed generations, oldest first.
    Raises MemoryStoreError where there is no memory or no such generation.
    """
    with writing(location) as store:
        present = store.generations(env)
        if number not in {generation.number for generation in present}:
            raise MemoryStoreError(
                f"The memory of {env} at {location} has no generation {number}.",
                f"It has {', '.join(str(g.number) for g in present) or 'none'}.",
            )
        store.drop_after(env, number)
        return tuple(g for g in present if g.number > number)
