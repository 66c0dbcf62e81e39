"""Episodes that are in no generation yet, as memories of their own that are recalled at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ldm.embed import Embedder
from ldm.memory import Memory
from ldm.memory.contents import empty
from ldm.memory.formation import MIXED, failed, tuples_of
from ldm.memory.index import BatchIndex, Generation, GoalType, IndexedTuple
from ldm.reason import Reasoner
from ldm.types import Trajectory

#: The type, and a part of the name, of a batch that is not clustered yet.
PENDING = "pending"
#: Tuples beyond which a further memory is begun: each new episode makes the last one anew.
MOST = 1_000


class Pending:
    """The pending episodes. One thread adds at a time, while others recall.

    memories: of their tuples; they replace each other and never change.
    """

    def __init__(self, env: str, embedder: Embedder, reasoner: Reasoner, number: int) -> None:
        """Start without episodes.

        reasoner: writes histories. number: of the generation that they may become.
        """
        self.trajectories: dict[str, Trajectory] = {}
        self.memories: tuple[Memory, ...] = ()
        self._embedder = embedder
        self._reasoner = reasoner
        name, size = embedder.name, embedder.dimension
        self._empty = empty(Generation(number, PENDING, env, name, size, 0, "", {}))

    def add(
        self, episodes: Mapping[str, Trajectory], vectors: Mapping[str, NDArray[np.float32]]
    ) -> None:
        """Add episodes by name. vectors: of their goals and observations."""
        self.trajectories |= episodes
        number, rows = self._empty.generation.number, list[IndexedTuple]()
        for one in episodes.values():
            batch = f"{one.task.kind or MIXED}-{PENDING}"
            tuples = tuples_of(one, self._reasoner, number, warning=failed(one))
            rows += [IndexedTuple(step, batch, 0, 0) for step in tuples]
        complete, before = self.memories, self._empty
        if complete and len(complete[-1]) < MOST:
            complete, before = complete[:-1], complete[-1].contents
        only = (GoalType(PENDING, (PENDING,)),)
        names = {row.batch for row in rows} - {batch.id for batch in before.batches}
        contents = before.extended(
            rows,
            (np.concatenate([vectors[r.tuple.goal], vectors[r.tuple.observation]]) for r in rows),
            [BatchIndex(name, "", number, (), only) for name in sorted(names)],
        )
        self.memories = (*complete, Memory(contents, self._embedder))
