"""Pending additions as a small memory of their own: recalled at once, not clustered yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ldm.embed import Embedder
from ldm.memory import Memory
from ldm.memory.additions import Addition
from ldm.memory.contents import empty
from ldm.memory.formation import MIXED, FormationOptions, tuples_of
from ldm.memory.index import BatchIndex, Generation, GoalType, IndexedTuple
from ldm.memory.known_vectors import KnownVectors
from ldm.reason import Reasoner

#: The type, and a part of the name, of a batch that is not clustered yet.
PENDING = "pending"


def extended(
    memory: Memory | None,
    number: int,
    fresh: Sequence[Addition],
    reasoner: Reasoner,
    embedder: Embedder,
) -> Memory:
    """Return the memory of pending additions with more of them, one batch per kind.

    memory: the one so far. number: of the generation that they may become. fresh: at least one, all
    with vectors of `embedder`. reasoner: writes their histories.
    """
    env = fresh[0].trajectory.task.env
    generation = Generation(number, "added", env, embedder.name, embedder.dimension, 0, "", {})
    contents = memory.contents if memory else empty(generation)
    batches = {batch.id: batch for batch in contents.batches}
    rows = list[IndexedTuple]()
    options = FormationOptions(failures="contrast")
    for one in fresh:
        trajectory, kind = one.trajectory, one.trajectory.task.kind
        name = f"{kind or MIXED}-{PENDING}"
        warns = options.warns(trajectory)
        tuples = tuples_of(trajectory, reasoner, number, warning=warns)
        rows += [IndexedTuple(tuple_, name, 0, 0) for tuple_ in tuples]
        types = (GoalType(PENDING, (PENDING,)),)
        batch = batches.get(name) or BatchIndex(name, kind, number, (), types)
        batches[name] = replace(batch, trajectories=(*batch.trajectories, trajectory.id))
    known = KnownVectors(embedder, vectors_of(fresh))
    more = contents.extended(rows, known.embed_rows(rows))
    together = replace(
        more,
        generation=replace(generation, tuples=len(more.rows)),
        batches=tuple(batches[name] for name in sorted(batches)),
    )
    return Memory(together, embedder)


def vectors_of(additions: Iterable[Addition]) -> dict[str, NDArray[np.float32]]:
    """Return the vectors of additions by text; raise ValueError if they are damaged."""
    vectors: dict[str, NDArray[np.float32]] = {}
    for one in additions:
        vectors.update(one.by_text())
    return vectors
