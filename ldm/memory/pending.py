"""Episodes that are in no generation yet, as memories of their own that are recalled at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ldm.embed import Embedder
from ldm.memory import Memory
from ldm.memory.columns import ColumnsBuilder
from ldm.memory.contents import Contents
from ldm.memory.formation import MIXED, FormationOptions, tuples_of
from ldm.memory.index import BatchIndex, Generation, GoalType, IndexedTuple
from ldm.memory.rows import Rows
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
        self._complete: tuple[Memory, ...] = ()
        self._embedder = embedder
        self._reasoner = reasoner
        name, size = embedder.name, embedder.dimension
        self._record = Generation(number, PENDING, env, name, size, 0, "", {})
        self._builder = ColumnsBuilder(env, size)

    def add(
        self, episodes: Mapping[str, Trajectory], vectors: Mapping[str, NDArray[np.float32]]
    ) -> None:
        """Add episodes by name. vectors: of their goals and observations."""
        options = FormationOptions(failures="contrast")
        for name, one in episodes.items():
            self.trajectories[name] = one
            tuples = tuples_of(one, self._reasoner, self._record.number, warning=options.warns(one))
            batch = f"{one.task.kind or MIXED}-{PENDING}"
            self._builder.add_rows(
                [IndexedTuple(step, batch, 0, 0) for step in tuples],
                [np.concatenate([vectors[t.goal], vectors[t.observation]]) for t in tuples],
            )
        columns, of_rows = self._builder.collected()
        only = (GoalType(PENDING, (PENDING,)),)
        batches = (
            BatchIndex(name, "", self._record.number, (), only) for name in columns.batch_spans()
        )
        contents = Contents(self._record, tuple(batches), Rows(columns), of_rows)
        self.memories = (*self._complete, Memory(contents, self._embedder))
        if len(columns) >= MOST:
            self._complete = self.memories
            self._builder = ColumnsBuilder(self._record.env, self._embedder.dimension)
