"""The two indices of a batch memory: goal types, and observation types within each (LDM² §3.2).

The kind of a goal chooses the batches, by logistic regression over the words of the memory's goals.
Embeddings do not separate kinds: "cool some egg" is nearer to "heat some egg" than to "cool a pan".
The weights are trained once per generation and stored in its snapshot, because scikit-learn takes
longer to load than a memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import not_
from typing import Annotated

from pydantic import Field

from ldm.errors import MemoryStoreError
from ldm.parallel import cached
from ldm.types import Count, StateActionTuple

#: The format of everything that stores a memory; any other one is refused.
FORMAT = 9
#: (batch, goal type, observation type).
Cell = tuple[str, int, int]
#: Called with (stage, done, total) to report progress.
OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class GoalType:
    """A type of goals, with the names of its observation types."""

    name: str
    observation_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BatchIndex:
    """The index of one batch memory M_b.

    id: e.g. "heat-2"; unique within the environment.
    kind: the task kind, "" for mixed batches.
    generation: number of the generation that it was formed for.
    trajectories: ids of the trajectories that it was formed from.
    reasoner: name of the reasoner that wrote its histories and made its types.
    """

    id: str
    kind: str
    generation: Count
    trajectories: tuple[str, ...]
    goal_types: tuple[GoalType, ...]
    reasoner: str = ""


@dataclass(frozen=True, slots=True)
class IndexedTuple:
    """A tuple and its cell: the indices of its goal type and, within it, its observation type."""

    tuple: StateActionTuple
    batch: str
    goal_type: Count
    observation_type: Count

    @property
    def cell(self) -> Cell:
        """(batch, goal type, observation type)."""
        return self.batch, self.goal_type, self.observation_type


@dataclass(frozen=True, slots=True)
class Generation:
    """The record that completes a generation; readers ignore tuples without one.

    number: 0 is the formed memory.
    origin: "formed", "added", "refined", "pruned" or "forgotten".
    dimension: of the embedder's vectors.
    tuples: number of tuples up to and including this generation.
    digest: of these tuples and their batches (`Rows.digest`); equal memories have equal digests.
    settings: how it was made (batch size, batching, seed, reasoner, …).
    tasks: ids of the tasks that a refinement explored for it, successful or not.
    hidden: sorted ids of the tuples that it does not recall. They stay in the store, because
        earlier generations recall them and the centroids of types include them.
    env_class: the environment's class as "module:Class" if it is not registered, so that its tasks
        can be played without naming it; "" if `env` suffices or the class is unknown.
    """

    number: Count
    origin: str
    env: str
    embedder: str
    dimension: Count
    tuples: Count
    digest: str
    settings: dict[str, str]
    tasks: tuple[str, ...] = ()
    hidden: Annotated[tuple[str, ...], Field(exclude_if=not_)] = ()
    env_class: Annotated[str, Field(exclude_if=not_)] = ""

    @property
    def recallable(self) -> int:
        """The number of tuples that it recalls."""
        return self.tuples - len(self.hidden)

    def check_embedder(self, name: str) -> None:
        """Raise MemoryStoreError unless the memory's vectors are those of embedder `name`."""
        check_embedder(self.env, self.embedder, name)


@dataclass(frozen=True, slots=True)
class Place:
    """How far a log was read. log: its identity, "" without a log. end: the byte after it."""

    log: str = ""
    end: Count = 0


NOWHERE = Place()


def check_embedder(env: str, recorded: str, given: str) -> None:
    """Raise MemoryStoreError unless the given embedder is the recorded one of a memory."""
    if given != recorded:
        raise MemoryStoreError(
            f"The memory of {env} was built with the embedder {recorded!r}, not {given!r}.",
            f"Name the embedder {recorded!r}, or build the memory again with --rebuild.",
        )


#: Trained classifiers that are cached; views of a memory often have the same goals.
CLASSIFIERS = 32
#: Single letters are words, too: "put a pen" and "put two pens" are different kinds.
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Kinds:
    """The k ≥ 1 kinds of tasks, and a classifier of goals by n words.

    weights: (n, k), the weight of each word for each kind. intercepts: (k,).
    """

    kinds: tuple[str, ...]
    words: tuple[str, ...] = ()
    weights: tuple[tuple[float, ...], ...] = ()
    intercepts: tuple[float, ...] = ()

    @classmethod
    @lru_cache(CLASSIFIERS)
    def trained(cls, goals: frozenset[tuple[str, str]]) -> Kinds:
        """Train on n ≥ 1 goals with their kinds.

        All kinds have the same weight, so that one with many goals does not attract those of
        others.
        """
        examples = sorted(goals)
        names = sorted({kind for _, kind in examples})
        if len(names) == 1 or not any(WORD.search(goal) for goal, _ in examples):
            return cls(tuple(names))
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import LogisticRegression

        counter = CountVectorizer(token_pattern=WORD.pattern, binary=True)
        model = LogisticRegression(max_iter=1000, class_weight="balanced")
        model.fit(counter.fit_transform([g for g, _ in examples]), [kind for _, kind in examples])
        weights, intercepts = model.coef_, model.intercept_
        if len(names) == 2:
            weights, intercepts = [-weights[0], weights[0]], [-intercepts[0], intercepts[0]]
        return cls(
            tuple(map(str, model.classes_)),
            tuple(counter.get_feature_names_out().tolist()),
            tuple(tuple(float(row[i]) for row in weights) for i in range(len(weights[0]))),
            tuple(float(one) for one in intercepts),
        )

    @cached_property
    def _of_words(self) -> dict[str, tuple[float, ...]]:
        """The weights of each word."""
        return dict(zip(self.words, self.weights, strict=True))

    @cached_property
    def _of_goals(self) -> dict[str, str]:
        """The kinds of latest goals: many states have one goal."""
        return {}

    def of(self, goal: str) -> str:
        """Return the most probable kind of a goal."""
        return cached(self._of_goals, goal, lambda: self._most_probable(goal), CLASSIFIERS)

    def _most_probable(self, goal: str) -> str:
        words = sorted(self._of_words.keys() & WORD.findall(goal.lower()))
        weights = [self.intercepts or (0.0,), *(self._of_words[word] for word in words)]
        totals = [sum(of_kind) for of_kind in zip(*weights, strict=True)]
        return self.kinds[totals.index(max(totals))]
