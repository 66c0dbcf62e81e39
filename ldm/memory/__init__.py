"""The memory of LDM² (§3): trajectories become tuples, tuples are stored, indexed and recalled.

`Memory.open(…, create=True)` opens one that grows by an episode at a time (`ldm.memory.growing`).

`build` forms a memory from trajectories or adds to it. `Memory.open` reads it, and
`Memory.retrieve` recalls the tuples that fit a state. `extend` adds the tuples of a refinement as
the next generation, `hide` makes one that no longer recalls some tuples, and `rollback` goes back
to an earlier one, until `undo_rollback`. `environments`, `generations` and `inspect` say what a
memory holds.

A memory lies in a directory or on a Chroma server (its http(s) address), and holds one part per
environment. Failures raise `ldm.errors.MemoryStoreError`, whose `remedy` says what to do.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, overload

import numpy as np

from ldm.embed import Embedder, load_embedder
from ldm.errors import MemoryStoreError
from ldm.memory.building import BuildResult, OnProgress, StagedEmbedder, build
from ldm.memory.contents import Contents, kinds_of
from ldm.memory.exemplars import Exemplar, nearest
from ldm.memory.formation import (
    Failures,
    FormationOptions,
    form_batch,
    plan_batches,
    tuples_of,
)
from ldm.memory.generations import (
    Selection,
    extend,
    generations,
    hide,
    rollback,
    undo_rollback,
    value,
)
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.memory.kind_classifier import KindClassifier
from ldm.memory.opening import known_generations, load
from ldm.memory.retrieval import DECIMALS, Query, Retriever
from ldm.memory.rows import Rows, outcome_counts, type_sizes
from ldm.reason import Reasoner
from ldm.types import Recall, StateActionTuple, stable_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ldm.memory.growing import GrowingMemory

#: Where histories or utilities count too, this many times `k` tuples are ranked by them.
HISTORY_CANDIDATES = 4
#: Batches that a message names.
MOST_NAMED = 20


class Memory:
    """A read-only snapshot of one environment's memory at one generation.

    `len(memory)` is the number of its tuples.
    """

    def __init__(self, contents: Contents, embedder: Embedder) -> None:
        """Take what a store holds; `Memory.open` reads it from a location.

        Raises MemoryStoreError where the memory was not built with `embedder`.
        """
        self._contents = contents
        self._location = ""
        self._embedder = embedder
        self._hidden: NDArray[np.bool_] | None = None
        self.record.check_embedder(embedder.name)
        if self.record.hidden:
            self._hidden = self.rows.columns.named(self.record.hidden)

    @overload
    @classmethod
    def open(
        cls,
        location: str,
        env: str,
        *,
        embedder: Embedder | None = None,
        generation: int | None = None,
        create: Literal[False] = False,
    ) -> Memory: ...

    @overload
    @classmethod
    def open(
        cls,
        location: str,
        env: str,
        *,
        embedder: Embedder | None = None,
        generation: None = None,
        create: Literal[True],
    ) -> GrowingMemory: ...

    @classmethod
    def open(
        cls,
        location: str,
        env: str,
        *,
        embedder: Embedder | None = None,
        generation: int | None = None,
        create: bool = False,
    ) -> Memory | GrowingMemory:
        """Read the memory of one environment.

        location: the directory that `build` wrote, or the http(s) address of a Chroma server.
        env: the environment's name, as in its tasks ("alfworld").
        embedder: the one that the memory was built with; None loads it.
        generation: the number of the generation to read; None for the newest.
        create: whether the memory is to be added to, and begun where there is none.

        Returns the memory: with `create` a `GrowingMemory`, otherwise one that later changes at the
        location do not affect.
        Raises MemoryStoreError where there is no such memory or generation, it is damaged, or it
        was built with another embedder, ValueError for a generation with `create`.
        """
        if create:
            from ldm.memory.growing import GrowingMemory

            if generation is not None:
                raise ValueError("what is added to is the newest generation: name none")
            return GrowingMemory.open(location, env, embedder=embedder, create=True)
        contents = load(location, env, generation)
        memory = cls(contents, embedder or load_embedder(contents.generation.embedder))
        memory._location = location
        return memory

    def refresh(self) -> Memory:
        """Return the newest generation of this memory: `self` where no other was added.

        What `without` hides and `with_rows` adds is not in it.
        Raises what `open` raises, and ValueError where the memory was not opened from a location.
        """
        if not self._location:
            raise ValueError("only a memory that was opened from a location can be refreshed")
        contents = load(self._location, self.env)
        if contents.generation == self.record:
            return self
        memory = Memory(contents, self._embedder)
        memory._location = self._location
        return memory

    @property
    def record(self) -> Generation:
        """The generation: how it was made, from which embedder, its digest."""
        return self._contents.generation

    @property
    def contents(self) -> Contents:
        """All that it holds."""
        return self._contents

    @property
    def batches(self) -> tuple[BatchIndex, ...]:
        """The indices of its batch memories, sorted by id."""
        return self._contents.batches

    @property
    def rows(self) -> Rows:
        """Its tuples, each with its cell; those that the generation hides are never recalled."""
        return self._contents.rows

    @property
    def env(self) -> str:
        """The environment's name."""
        return self.record.env

    @property
    def generation(self) -> int:
        """The number of the generation that was read."""
        return self.record.number

    @cached_property
    def _retriever(self) -> Retriever:
        return Retriever(self.batches, self.rows, self._contents.vectors)

    @cached_property
    def _kinds(self) -> KindClassifier:
        kinds = self._contents.kinds
        return KindClassifier(kinds or kinds_of(self.rows.columns, self._hidden, self.record))

    def __len__(self) -> int:
        return len(self.rows)

    def without(self, tuples: Collection[str] = (), trajectories: Collection[str] = ()) -> Memory:
        """Return a view of this memory that never recalls the named tuples and trajectories.

        tuples, trajectories: ids. Ids that the memory does not hold are ignored.
        """
        view = copy(self)
        view.__dict__["_retriever"] = self._retriever  # the same rows: read once for all views
        hidden = self.rows.columns.named(tuples, trajectories)
        view._hidden = hidden if self._hidden is None else self._hidden | hidden
        view._contents = replace(self._contents, kinds=None)  # to be trained without the hidden
        view.__dict__.pop("_kinds", None)
        return view

    def with_rows(self, rows: Sequence[IndexedTuple], batches: Sequence[BatchIndex] = ()) -> Memory:
        """Return this memory with `rows` added to it; nothing is stored, and `self` stays as it is.

        rows: tuples of a generation after this one, in cells of batches that exist (`place`) or of
            the new `batches`, which must be complete.
        """
        present = self.rows.columns.ids
        new = [row for row in rows if row.tuple.id not in present]
        vectors = StagedEmbedder(self._embedder, None).embed_rows(new)
        return Memory(self._contents.extended(new, vectors, batches), self._embedder)

    def kind_of(self, goal: str) -> str:
        """Return the task kind of a goal ("heat"), learned from the goals in the memory."""
        return self._kinds(goal)

    def batches_for(self, goal: str, limit: int = 0) -> tuple[str, ...]:
        """Return the ids of the batch memories for the goal's kind, mixed ones included.

        limit: return no more than so many; 0 for all.
        """
        batches = self._retriever.batches_of(self.kind_of(goal))
        return batches[:limit] if limit else batches

    def retrieve(  # noqa: PLR0913 - one parameter a decision of the caller
        self,
        goal: str,
        observation: str,
        k: int = 5,
        *,
        batches: Sequence[str] | None = None,
        classifier: Reasoner | None = None,
        history: str = "",
        utility: bool = False,
    ) -> list[Recall]:
        """Recall the `k` tuples that fit a goal and an observation best (LDM² Eq. 3, §3.2).

        In each batch, goal and observation are assigned to their types, and the tuples of that cell
        are ranked by similarity, the mean cosine of goal and observation. Where the cells hold
        fewer than `k`, the search widens to the goal type and then the batch
        (`Recall.fallback`).

        goal: the task in words.
        observation: what the agent sees now.
        k: how many tuples at most.
        batches: ids of the batch memories to search; None for those of the goal's kind.
        classifier: a reasoner that assigns the texts to types; None for the nearest centroid.
        history: the agent's history in words; if given, tuples with a similar one rank higher.
        utility: whether useful tuples rank higher, by `Generation.utilities`.

        Returns at most `k` recalls: within each scope the most similar first, the cells' before
        those of wider scopes; fewer than `k` only where the batches hold fewer distinct ones.
        Raises ValueError where `k` is below 1, MemoryStoreError for a batch that the memory does
        not have.
        """
        if k < 1:
            raise ValueError(f"k is the number of tuples to recall, 1 or more, and not {k}")
        self._check_batches(batches or ())
        query = self._query(goal, observation, classifier)
        searched = self.batches_for(goal) if batches is None else batches
        candidates = k * HISTORY_CANDIDATES if history or utility else k
        recalls = self._retriever.search(query, searched, candidates, self._hidden)
        if history:
            recalls = self._ranked_by_history(recalls, history)
        if utility:
            recalls = ranked_by_utility(recalls, self.record.utilities)
        return recalls[:k]

    def _ranked_by_history(self, recalls: Sequence[Recall], history: str) -> list[Recall]:
        """Rank anew within each scope, with the cosine of the histories as a third part."""
        texts = [history, *(recall.tuple.history.text for recall in recalls)]
        history_vector, *vectors = self._embedder.embed(texts)
        rescored = []
        for recall, vector in zip(recalls, vectors, strict=True):
            similarity = (2 * recall.similarity + float(vector @ history_vector)) / 3
            rescored.append(replace(recall, similarity=round(similarity, DECIMALS)))
        scopes = list(dict.fromkeys(recall.fallback for recall in recalls))
        return sorted(rescored, key=lambda r: (scopes.index(r.fallback), -r.similarity, r.tuple.id))

    def place(
        self,
        batch: str,
        tuples: Sequence[StateActionTuple],
        classifier: Reasoner | None = None,
        reach: float = 0.0,
    ) -> tuple[IndexedTuple, ...]:
        """Assign new tuples to the cells of a batch, by its present types (LDM² §3.3).

        Nothing is stored; `extend` does that.

        batch: the id of the batch memory.
        classifier: as in `retrieve`.
        reach: of all of them; see `IndexedTuple`.

        Returns the tuples with their cells, in the same order.
        Raises MemoryStoreError for a batch that the memory does not have.
        """
        self._check_batches([batch])
        return tuple(
            IndexedTuple(t, batch, *self._retriever.batches[batch].classify(query), reach)
            for t in tuples
            for query in [self._query(t.goal, t.observation, classifier)]
        )

    def _check_batches(self, names: Sequence[str]) -> None:
        """Raise MemoryStoreError where one of the batches is none of this memory's."""
        known = self._retriever.batches
        if unknown := [name for name in names if name not in known]:
            listed = ", ".join([*known][:MOST_NAMED]) + (", …" if len(known) > MOST_NAMED else "")
            raise MemoryStoreError(
                f"The memory of {self.env} has no batch {unknown[0]!r}.", f"It has: {listed}."
            )

    def sample(self, k: int, seed: int) -> list[Recall]:
        """Draw `k` tuples at random from the whole memory: the control of every experiment.

        seed: equal seeds draw equal tuples.

        Returns min(k, len(memory)) recalls with similarity 0.
        """
        generator = random.Random(stable_seed("sample", seed))
        visible = (
            range(len(self.rows))
            if self._hidden is None
            else np.flatnonzero(~self._hidden).tolist()
        )
        rows = generator.sample(visible, min(k, len(visible)))
        return [self._retriever.recall(row, 0.0) for row in rows]

    def whole_near(self, goal: str) -> Iterator[Exemplar]:
        """Yield whole trajectories that earned everything, those with the nearest goals first.

        There is one for each goal in the memory; see `ldm.memory.exemplars`.
        """
        (vector,) = self._embedder.embed([goal])
        return nearest(self.rows, self._contents.vectors, vector, self._hidden)

    def _query(self, goal: str, observation: str, classifier: Reasoner | None) -> Query:
        goal_vector, observation_vector = self._embedder.embed([goal, observation])
        return Query(goal, observation, goal_vector, observation_vector, classifier)


def ranked_by_utility(recalls: Sequence[Recall], known: Mapping[str, float]) -> list[Recall]:
    """Rank anew within each scope, by similarity and utility alike.

    This is the second phase of MemRL's retrieval (arXiv 2601.03192): both are standardised over
    the candidates of the first and then weigh the same.

    known: the utility of each tuple by id; that of others is 0.
    """
    similar = _standardised([recall.similarity for recall in recalls])
    useful = _standardised([known.get(recall.id, 0.0) for recall in recalls])
    ranks = {
        recall.id: round(float(s + u), DECIMALS)
        for recall, s, u in zip(recalls, similar, useful, strict=True)
    }
    scopes = list(dict.fromkeys(recall.fallback for recall in recalls))
    return sorted(recalls, key=lambda r: (scopes.index(r.fallback), -ranks[r.id], r.id))


def _standardised(values: Sequence[float]) -> NDArray[np.float64]:
    """Return `values` (n,) with mean 0 and standard deviation 1; zeros where all are equal."""
    array = np.asarray(values, np.float64)
    spread = float(array.std()) if len(array) else 0.0
    return (array - array.mean()) / spread if spread > 1e-12 else np.zeros_like(array)


def inspect(location: str, env: str, generation: int | None = None) -> Contents:
    """Read all that a memory holds of `env`, without an embedder: to look at, not to retrieve from.

    location, env, generation: as in `Memory.open`.

    Raises MemoryStoreError where there is no such memory or generation, or it is damaged.
    """
    return load(location, env, generation)


def environments(location: str) -> tuple[str, ...]:
    """List the environments that have a memory at `location`, sorted.

    Raises MemoryStoreError where `location` is not a memory.
    """
    return tuple(sorted(known_generations(location)))


__all__ = [
    "BatchIndex",
    "BuildResult",
    "Contents",
    "Exemplar",
    "Failures",
    "FormationOptions",
    "Generation",
    "IndexedTuple",
    "Memory",
    "OnProgress",
    "Selection",
    "build",
    "environments",
    "extend",
    "form_batch",
    "generations",
    "hide",
    "inspect",
    "outcome_counts",
    "plan_batches",
    "rollback",
    "tuples_of",
    "type_sizes",
    "undo_rollback",
    "value",
]
