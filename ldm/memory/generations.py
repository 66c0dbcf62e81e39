"""The generations of a memory: list them, add what refinement found, go back to an earlier one.

Generation 0 is the formed memory; each later one adds trajectories (`ldm.memory.build`) or the
tuples of a refinement (LDM² §3.3, Memory Enhancement).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ldm.embed import Embedder
from ldm.errors import MemoryStoreError
from ldm.memory import snapshot
from ldm.memory.building import OnProgress, StagedEmbedder
from ldm.memory.columns import Columns, Contents, Rows, Vectors, collected, extended
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.memory.opening import known_generations
from ldm.memory.store import Store, writing

if TYPE_CHECKING:
    from numpy.typing import NDArray


def generations(location: str, env: str) -> tuple[Generation, ...]:
    """List the generations of an environment's memory, oldest first.

    location: a directory or the http(s) address of a Chroma server.

    Returns an empty tuple where `location` is a memory, but has none of `env`.
    Raises MemoryStoreError where there is no memory at `location`.
    """
    return known_generations(location).get(env, ())


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
        columns, of_rows = _before(store, base, present)
        known = columns.ids
        new = tuple({row.tuple.id: row for row in rows if row.tuple.id not in known}.values())
        # The digest covers no vectors: it is known before anything is embedded.
        whole, _ = extended(columns, of_rows, new, np.zeros((len(new), 2 * base.dimension)))
        generation = replace(
            base,
            number=number,
            origin="refined",
            tuples=len(whole),
            digest=whole.digest(),
            settings=dict(settings),
            tasks=tuple(sorted(tasks)),
        )
        if generation in present:
            return generation
        if not present or present[-1] != base:
            newest = present[-1].number if present else "none"
            raise MemoryStoreError(
                f"The memory of {env} at {location} has changed: generation {base.number} was "
                f"explored, and the newest is {newest} now.",
                f"Go back with `ldm memory rollback {base.number}`, or explore again.",
            )
        vectors = _write(store, generation, new, batches, embedder, on_progress)
        whole, of_rows = extended(columns, of_rows, new, vectors)
        snapshot.write(location, Contents(generation, store.batches(env), Rows(whole), of_rows))
        return generation


def _before(
    store: Store, base: Generation, present: Sequence[Generation]
) -> tuple[Columns, Vectors]:
    """Return the tuples of `base` and their vectors; none where it is not present."""
    if base not in present:
        return collected(base.env, base.dimension, (), ())
    before = snapshot.read(store.location, base) or store.load(base.env, base.number)
    return before.rows.columns, before.vectors


def _write(
    store: Store,
    generation: Generation,
    rows: Sequence[IndexedTuple],
    batches: Sequence[BatchIndex],
    embedder: Embedder,
    on_progress: OnProgress,
) -> NDArray[np.float32]:
    """Write all that is new in `generation`, and then it itself; return the rows' vectors."""
    store.drop_after(generation.env, generation.number - 1)  # what an interrupted call left behind
    staged = StagedEmbedder(embedder, None)
    texts = {text for row in rows for text in (row.tuple.goal, row.tuple.observation)}
    staged.prepare(sorted(texts), on_progress)
    vectors = staged.embed_rows(rows)
    store.add_tuples(rows, vectors, embedder.name)
    for batch in batches:
        store.add_batch(generation.env, batch)
    store.commit(generation)
    return vectors


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
