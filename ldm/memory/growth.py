"""Generations after the first: what a refinement adds, and the way back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ldm.embed import Embedder
from ldm.errors import MemoryStoreError
from ldm.memory.building import OnProgress, StagedEmbedder
from ldm.memory.index import Generation, IndexedTuple
from ldm.memory.store import digest, writing


def extend(  # noqa: PLR0913 - one parameter a decision of the caller
    location: str,
    base: Generation,
    rows: Sequence[IndexedTuple],
    embedder: Embedder,
    *,
    tasks: Iterable[str],
    settings: Mapping[str, str],
    on_progress: OnProgress = lambda *_: None,
) -> Generation:
    """Make the generation after `base`, which must be the newest: its tuples and `rows`.

    rows: in cells of batches that exist, of the generation to be made; what the memory holds
    already is left out. Readers see the new generation once it is whole; done twice, it is there
    once. Raises MemoryStoreError where the memory has changed since `base`.
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
            digest=digest([*before, *new.values()]),
            settings=dict(settings),
            tasks=tuple(sorted(tasks)),
        )
        if base in present and present[-1] == generation:
            return generation
        if not present or present[-1] != base:
            newest = present[-1].number if present else "none"
            raise MemoryStoreError(
                f"The memory of {env} at {location} has changed: generation {base.number} was "
                f"explored, and the newest is {newest} now.",
                f"Go back with `ldm memory rollback {base.number}`, or explore again.",
            )
        store.drop_after(env, base.number)  # leftovers of one that was interrupted
        staged = StagedEmbedder(embedder, None)
        texts = {text for row in new.values() for text in (row.tuple.goal, row.tuple.observation)}
        staged.prepare(sorted(texts), on_progress)
        store.add_tuples(list(new.values()), staged.embed_rows(list(new.values())), embedder.name)
        store.commit(generation)
        return generation


def rollback(location: str, env: str, number: int) -> tuple[Generation, ...]:
    """Make generation `number` the newest again; the ones that went, oldest first.

    Raises MemoryStoreError where there is no such generation.
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
