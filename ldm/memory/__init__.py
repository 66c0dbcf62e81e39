"""The memory of LDM²: trajectories become tuples, tuples are stored, indexed and recalled.

`build` adds trajectories, `Memory.open` reads a generation, `Memory.retrieve` recalls; `extend`
adds the tuples of a refinement, `rollback` goes back to an earlier generation.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from ldm.embed import Embedder, load_embedder
from ldm.memory.building import Built, OnProgress, build
from ldm.memory.formation import FormationOptions, tuples_of
from ldm.memory.growth import extend, rollback
from ldm.memory.index import BatchIndex, Generation, IndexedTuple, type_sizes
from ldm.memory.kinds import KindClassifier
from ldm.memory.retrieval import DECIMALS, Query, Retriever
from ldm.memory.store import Contents, reading
from ldm.reasoner import Reasoner
from ldm.types import Recall, StateActionTuple, stable_seed

#: How many times as many tuples are looked at where histories are compared, too.
WIDER = 4


class Memory:
    """A read-only snapshot of one environment's memory at one generation."""

    def __init__(self, contents: Contents, embedder: Embedder) -> None:
        """Use `open`. Raises MemoryStoreError where `embedder` is not the one of the memory."""
        self.record = contents.generation
        self.batches = contents.batches
        self.rows = contents.rows
        self._vectors = contents.vectors
        self._embedder = embedder
        self.record.check_embedder(embedder.name)

    @classmethod
    def open(
        cls,
        location: str,
        env: str,
        *,
        embedder: Embedder | None = None,
        generation: int | None = None,
    ) -> Memory:
        """The memory of `env` at a directory or Chroma server, at `generation` (None: the newest).

        embedder: None loads the one that the memory was built with.
        Raises MemoryStoreError, with its remedy, where there is none or it does not fit.
        """
        with reading(location) as store:
            contents = store.load(env, generation)
        return cls(contents, embedder or load_embedder(contents.generation.embedder))

    @property
    def env(self) -> str:
        return self.record.env

    @property
    def generation(self) -> int:
        return self.record.number

    @cached_property
    def _retriever(self) -> Retriever:
        return Retriever(self.batches, self.rows, self._vectors)

    @cached_property
    def _kinds(self) -> KindClassifier:
        tuples = [row.tuple for row in self.rows]
        return KindClassifier([t.goal for t in tuples], [t.kind for t in tuples])

    def __len__(self) -> int:
        return len(self.rows)

    def kind_of(self, goal: str) -> str:
        """The task kind of a goal, judged by the recorded ones."""
        return self._kinds(goal)

    def batches_for(self, goal: str, limit: int = 0) -> tuple[str, ...]:
        """Ids of the batch memories that answer for `goal`'s kind; at most `limit` if not 0."""
        found = self._retriever.batches_of(self.kind_of(goal))
        return found[:limit] if limit else found

    def retrieve(
        self,
        goal: str,
        observation: str,
        k: int = 5,
        *,
        batches: Sequence[str] | None = None,
        classifier: Reasoner | None = None,
        history: str = "",
    ) -> list[Recall]:
        """The `k` tuples that fit a goal and an observation best (LDM² Eq. 3), best first.

        batches: the batch memories to search; None takes those of the goal's kind. classifier: a
        reasoner that says which types the texts belong to; None takes the nearest centroid.
        history: where given, the nearest WIDER · k are ranked by how like theirs is to it, too.
        """
        query = self._query(goal, observation, classifier)
        searched = self.batches_for(goal) if batches is None else batches
        if not history:
            return self._retriever.search(query, searched, k)
        found = self._retriever.search(query, searched, k * WIDER)
        embed = self._embedder.embed
        [wanted] = embed([history])
        weighed = []
        for recall in found:
            [told] = embed([recall.tuple.history.text])
            similarity = round((2 * recall.similarity + float(told @ wanted)) / 3, DECIMALS)
            weighed.append(replace(recall, similarity=similarity))
        scopes = list(dict.fromkeys(recall.fallback for recall in found))
        weighed.sort(key=lambda r: (scopes.index(r.fallback), -r.similarity, r.tuple.id))
        return weighed[:k]

    def place(
        self, batch: str, tuples: Sequence[StateActionTuple], classifier: Reasoner | None = None
    ) -> tuple[IndexedTuple, ...]:
        """New tuples in the cells of a batch that they belong to, by its present types.

        classifier: as in `retrieve`.
        """
        return tuple(
            IndexedTuple(t, batch, *self._retriever.batches[batch].classify(query))
            for t in tuples
            for query in [self._query(t.goal, t.observation, classifier)]
        )

    def sample(self, k: int, seed: int) -> list[Recall]:
        """`k` tuples drawn at random from the whole memory: the control of every experiment."""
        drawn = random.Random(stable_seed("sample", seed)).sample(
            range(len(self.rows)), min(k, len(self.rows))
        )
        return [self._retriever.recall(row, 0.0) for row in drawn]

    def _query(self, goal: str, observation: str, classifier: Reasoner | None) -> Query:
        # One by one: a text padded beside another gets a vector that differs in its last bits,
        # and then a recall could depend on what a worker happened to embed before.
        goal_vector, observation_vector = (
            self._embedder.embed([t])[0] for t in (goal, observation)
        )
        return Query(goal, observation, goal_vector, observation_vector, classifier)


def inspect(location: str, env: str, generation: int | None = None) -> Contents:
    """What a memory holds, without an embedder: for looking, not for retrieval."""
    with reading(location) as store:
        return store.load(env, generation)


def environments(location: str) -> tuple[str, ...]:
    """The environments with a memory at `location`. Raises MemoryStoreError where there is none."""
    with reading(location) as store:
        return store.environments()


def generations(location: str, env: str) -> tuple[Generation, ...]:
    """The generations of an environment's memory, oldest first; empty where it has none."""
    with reading(location) as store:
        return store.generations(env)


__all__ = [
    "BatchIndex",
    "Built",
    "Contents",
    "FormationOptions",
    "Generation",
    "IndexedTuple",
    "Memory",
    "OnProgress",
    "build",
    "environments",
    "extend",
    "generations",
    "inspect",
    "rollback",
    "tuples_of",
    "type_sizes",
]
