"""The memory of LDM² (§3): trajectories become tuples, which are stored, indexed and recalled.

`build` forms a memory from trajectories or adds to it. `Memory.open` reads it, and
`Memory.retrieve` recalls the tuples that fit a state; with `create=True` it opens one that grows
one episode at a time (`ldm.memory.growing`). `extend` adds the tuples of a refinement as the next
generation, `hide` adds one that does not recall some tuples, and `rollback` goes back to an earlier
one. `environments`, `generations` and `inspect` list the contents. Types are in the modules.

A memory is a directory or a Chroma server (its http(s) address) with one part per environment.
Failures raise `ldm.errors.MemoryStoreError`, whose `remedy` says what to do.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

import numpy as np

from ldm.embed import Embedder, chosen_embedder
from ldm.errors import MemoryStoreError
from ldm.memory import places
from ldm.memory.index import BatchIndex, Generation, IndexedTuple, Kinds
from ldm.memory.lessons import Contents, relevance_of, rules_of
from ldm.memory.places import environments, generations, load
from ldm.memory.record import is_server
from ldm.memory.retrieval import Query, Retriever
from ldm.memory.rows import Mask, Rows
from ldm.reason import Reasoner
from ldm.reason.relevance import Relevance
from ldm.types import Recall, StateActionTuple, stable_seed

if TYPE_CHECKING:
    from ldm.memory.changes import extend, hide, rollback
    from ldm.memory.exact import Exact
    from ldm.memory.formation import FormationOptions, build
    from ldm.memory.growing import GrowingMemory
    from ldm.reason.rules import Rules

#: An embedder or its name; None for that of the memory.
By = Embedder | str | None
#: Maximum number of batches that a message names.
MOST_NAMED = 20
#: Steps by which a memory measures how similar its own states are, and the fewest goals for it.
FAMILIAR_STEPS, FAMILIAR_FROM = 50, 5


class Memory:
    """A read-only view of one environment's memory at one generation.

    `len(memory)` is the number of its tuples.
    """

    def __init__(self, contents: Contents, embedder: Embedder) -> None:
        """Take the contents of a memory; `Memory.open` reads them from a location.

        Raises MemoryStoreError if the memory was built with another embedder.
        """
        self._contents = contents
        self._embedder = embedder
        self.record.check_embedder(embedder.name)

    @overload
    @classmethod
    def open(
        cls, location: str, env: str, *, embedder: By = None, generation: int | None = None
    ) -> Memory: ...

    @overload
    @classmethod
    def open(
        cls, location: str, env: str, *, create: Literal[True], embedder: By = None, **growing: Any
    ) -> GrowingMemory: ...

    @classmethod
    def open(
        cls, location: str, env: str, *, embedder: By = None, create: bool = False, **options: Any
    ) -> Memory | GrowingMemory:
        """Read the memory of one environment.

        location: the directory that `build` wrote, or the http(s) address of a Chroma server.
        env: the environment's name, as in its tasks ("alfworld").
        embedder: the one that the memory was built with, an object or a name; None loads it.
        create: open a `GrowingMemory`, creating the memory if it does not exist.
        options: `generation`, the number of the generation to read, None for the newest; with
            `create` those of `GrowingMemory.open`, such as `condense` and `half_life`.

        Returns the memory, which later changes at the location do not affect unless it grows.
        Raises MemoryStoreError if there is no such memory or generation, or it is damaged or was
        built with another embedder.
        """
        if create:
            from ldm.memory.growing import GrowingMemory

            return GrowingMemory.open(location, env, embedder=embedder, create=True, **options)
        return cls._read(location, env, embedder, **options)

    @classmethod
    def _read(cls, location: str, env: str, by: By, generation: int | None = None) -> Memory:
        if is_server(location):
            served: Memory = places.server().ServerMemory(location, env, by, generation)
            return served
        contents = load(location, env, generation)
        return cls(contents, chosen_embedder(by, contents.generation.embedder))

    @property
    def record(self) -> Generation:
        """The record of the generation: how it was made, its embedder, its digest."""
        return self._contents.generation

    @property
    def contents(self) -> Contents:
        """Everything that it holds."""
        return self._contents

    @property
    def batches(self) -> tuple[BatchIndex, ...]:
        """The indices of its batch memories, sorted by id."""
        return self._contents.batches

    @property
    def rows(self) -> Rows:
        """Its tuples with their cells, including those that the generation hides."""
        return self.contents.rows

    @property
    def env(self) -> str:
        """The environment's name."""
        return self.record.env

    @property
    def generation(self) -> int:
        """The number of its generation."""
        return self.record.number

    @cached_property
    def _retriever(self) -> Retriever:
        return Retriever(self.batches, self.rows)

    @cached_property
    def relevance(self) -> Relevance:
        """What its tuples teach: which action a state calls for."""
        return self.contents.learnt()

    @cached_property
    def _rules(self) -> Rules:
        return rules_of(self.contents.recallable.tuples)

    def rules(self, kind: str | None = None) -> Rules:
        """Return in words what its tuples teach; the first call takes seconds, or a minute.

        kind: only of this kind of task; None for all.
        """
        return self._rules.of_kind(kind)

    def taught(self, localize: Callable[[str], str] = str, seed: int | None = None) -> Relevance:
        """Return what its tuples teach, as `localize` words them.

        seed: with their actions exchanged within a kind, as a control.
        """
        relevance = self.relevance
        wording = localize(relevance.sample)
        if seed is None and wording == relevance.sample:
            return relevance
        return relevance_of(self.contents.recallable, seed, localize, wording)

    @cached_property
    def _kinds(self) -> Kinds:
        return self._contents.kinds or self.contents.trained()

    def __len__(self) -> int:
        return len(self.rows)

    def without(self, tuples: Collection[str] = (), trajectories: Collection[str] = ()) -> Memory:
        """Return a view that neither recalls these tuples and trajectories nor learns from them.

        tuples, trajectories: ids; unknown ones are ignored.
        """
        named = self.rows.named(tuples, trajectories) & self.visible
        if not named.any():
            return self
        view = Memory(self.contents.hiding(self.rows.take(named).ids), self._embedder)
        view.__dict__["_retriever"] = self._retriever  # shared, because the rows are the same
        return view

    def with_rows(self, rows: Sequence[IndexedTuple], batches: Sequence[BatchIndex] = ()) -> Memory:
        """Return a copy of this memory with `rows` added; nothing is stored.

        rows: tuples of a later generation, in cells of existing batches (`place`) or of the new
            `batches`, which must be complete.
        """
        return Memory(self.contents.extended(rows, self._embedder, batches), self._embedder)

    def kind_of(self, goal: str, stated: str = "") -> str:
        """Return the task kind of a goal ("heat"): the stated one, if the memory knows it.

        Otherwise it is predicted from the memory's goals.
        """
        return stated if stated in self._kinds.kinds else self._kinds.of(goal)

    def batches_for(self, goal: str, limit: int = 0, kind: str = "") -> tuple[str, ...]:
        """Return the ids of the batch memories for the goal's kind, mixed ones included.

        limit: the maximum number of them; 0 for all. kind: see `kind_of`.
        """
        return self._retriever.batches_of(self.kind_of(goal, kind))[: limit or None]

    def retrieve(
        self,
        goal: str,
        observation: str,
        k: int = 5,
        *,
        batches: Sequence[str] | None = None,
        classifier: Reasoner | None = None,
    ) -> list[Recall]:
        """Recall the `k` tuples most similar to a goal and an observation (LDM² Eq. 3, §3.2).

        In each batch, goal and observation are assigned to their types, and the tuples of that cell
        are ranked by similarity, the mean cosine of goal and observation. If the cells hold fewer
        than `k`, the search widens to the goal type and then to the batch (`Recall.fallback`).

        goal: the task in words.
        observation: the agent's current observation.
        k: the maximum number of tuples.
        batches: ids of the batch memories to search; None for those of the goal's kind.
        classifier: a reasoner that assigns the texts to types; None for the nearest centroid.

        Returns at most `k` recalls, those of narrower scopes first and within a scope the most
        similar first; fewer only if the batches hold fewer distinct ones.
        Raises ValueError if `k` is below 1, MemoryStoreError for an unknown batch.
        """
        if k < 1:
            raise ValueError(f"k must be 1 or more (got {k})")
        self._check_batches(batches or ())
        query = self._query(goal, observation, classifier)
        searched = self.batches_for(goal) if batches is None else batches
        return self._retriever.search(query, searched, k, self._hidden)

    def recall(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: `open(…, create=True)` gives the memory that recalls with evidence, and grows."""
        raise MemoryStoreError(
            "This memory was opened to be read, with `retrieve`.",
            "Open it with create=True to recall with evidence, to record and to give feedback.",
        )

    begin = add = feedback = recall  # what else only a growing memory does

    def actions_of(self, trajectory: str) -> tuple[str, ...]:
        """Return the actions of a remembered trajectory, by its id, in their order."""
        own = self.rows.named((), [trajectory]) & self.visible
        tuples = self.rows.take(own).tuples
        return tuple(dict(sorted((one.step, one.action) for one in tuples)).values())

    @cached_property
    def visible(self) -> Mask:
        """A mask of the rows that are not hidden."""
        return self.contents.visible

    @cached_property
    def _hidden(self) -> Any:
        """What tells the retriever which rows not to recall."""
        return ~self.visible

    @cached_property
    def familiar(self) -> float:
        """The similarity below which a state is like none in the memory, in [-1, 1].

        It is somewhat less than the similarity of two of its own states, of different goals.
        """
        columns, visible = self.rows.columns, np.flatnonzero(self.visible)
        goals, vectors = columns["goal"], self.rows.vectors
        to_goals, to_observations = columns["goal_vector"], columns["observation_vector"]
        if len(np.unique(goals[visible])) < FAMILIAR_FROM:
            return -1.0
        similar = []
        for i in visible[:: -(-len(visible) // FAMILIAR_STEPS)].tolist():
            others = visible[goals[visible] != goals[i]]
            pairs = (vectors @ vectors[to_goals[i]])[to_goals[others]]
            pairs += (vectors @ vectors[to_observations[i]])[to_observations[others]]
            similar.append(float(np.median(pairs)) / 2)
        return 0.9 * float(np.median(similar))

    @cached_property
    def exact(self) -> Exact:
        """The exact search over all kinds."""
        from ldm.memory.exact import Exact

        return Exact(self._retriever, self.visible)

    def place(
        self, batch: str, tuples: Sequence[StateActionTuple], classifier: Reasoner | None = None
    ) -> tuple[IndexedTuple, ...]:
        """Assign new tuples to cells of a batch by its existing types (LDM² §3.3).

        Nothing is stored; `extend` does that.

        batch: the id of the batch memory.
        classifier: as in `retrieve`.

        Returns the tuples with their cells, in the same order.
        Raises MemoryStoreError for an unknown batch.
        """
        self._check_batches([batch])
        return tuple(
            IndexedTuple(t, *self._retriever.classify(query, [batch])[0])
            for t in tuples
            for query in [self._query(t.goal, t.observation, classifier)]
        )

    def _check_batches(self, names: Sequence[str]) -> None:
        """Raise MemoryStoreError for an unknown batch."""
        known = self._retriever.batches
        if unknown := [name for name in names if name not in known]:
            listed = ", ".join([*known][:MOST_NAMED]) + (", …" if len(known) > MOST_NAMED else "")
            raise MemoryStoreError(
                f"The memory of {self.env} has no batch {unknown[0]!r}.", f"It has: {listed}."
            )

    def sample(self, k: int, seed: int) -> list[Recall]:
        """Draw `k` tuples at random from the whole memory, as a control.

        seed: equal seeds draw equal tuples.

        Returns min(k, len(memory)) recalls with similarity 0.
        """
        generator = random.Random(stable_seed("sample", seed))
        visible = np.flatnonzero(self.visible).tolist()
        rows = generator.sample(visible, min(k, len(visible)))
        return [self._retriever.recall(row, 0.0) for row in rows]

    def _query(self, goal: str, observation: str, classifier: Reasoner | None) -> Query:
        goal_vector, observation_vector = self._embedder.embed([goal, observation])
        return Query(goal, observation, goal_vector, observation_vector, classifier)


#: Reads the contents of a memory without loading an embedder.
inspect = load

#: What writes memories, by its module, which those who only read do not load.
_WRITERS = {
    **dict.fromkeys(("extend", "hide", "rollback"), "ldm.memory.changes"),
    **dict.fromkeys(("FormationOptions", "build"), "ldm.memory.formation"),
}


def __getattr__(name: str) -> Any:
    if name not in _WRITERS:
        raise AttributeError(f"module 'ldm.memory' has no attribute {name!r}")
    return getattr(import_module(_WRITERS[name]), name)


#: What is done with memories; the types of their parts are imported from the modules.
__all__ = ["FormationOptions", "Memory", "build", "environments", "extend", "generations", "hide"]
__all__ += ["inspect", "rollback"]
