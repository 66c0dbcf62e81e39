"""Retrieval (LDM² Eq. 3): the few tuples that fit a goal and an observation best.

All ranking is exact and in process, over a snapshot of one generation: equal memories and equal
queries give equal recalls, which an approximate index does not guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from ldm.memory.columns import AssembledVectors, Columns, Rows, Vectors
from ldm.memory.index import BatchIndex
from ldm.parallel import map_concurrently
from ldm.reasoner import EXAMPLES, Reasoner, TypeView
from ldm.types import Recall

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Similarities are rounded before ranking, so that the last bits of a sum decide nothing.
DECIMALS = 6
#: Ranked rows whose numbers are looked up at a time.
RANKED = 128

K = TypeVar("K")
Fallback = Literal["", "goal type", "batch"]


@dataclass(frozen=True, slots=True)
class Query:
    """The goal and observation that tuples are to fit.

    goal_vector, observation_vector: (dimension,) unit vectors.
    classifier: the reasoner that assigns texts to types; None for the nearest centroid.
    """

    goal: str
    observation: str
    goal_vector: NDArray[np.float32]
    observation_vector: NDArray[np.float32]
    classifier: Reasoner | None = None


class _Types:
    """Named types with their centroids."""

    def __init__(self, views: Sequence[TypeView]) -> None:
        self.views = tuple(views)
        self._centroids = np.stack([view.centroid for view in views])

    def nearest(self, vector: NDArray[np.float32]) -> int:
        """Return the index of the type nearest a (dimension,) vector, the first of equals."""
        return int(np.argmax(np.round(self._centroids @ vector, DECIMALS)))


class _Batch:
    """One batch memory: the span of each of its cells in the snapshot's rows, and its types."""

    def __init__(
        self,
        index: BatchIndex,
        columns: Columns,
        vectors: Vectors,
        span: slice,
    ) -> None:
        self.index = index
        self.span = span
        self._columns = columns
        self._vectors = vectors
        goals, observations = (
            columns[name][span].tolist() for name in ("goal_type", "observation_type")
        )
        self.goal_spans = _spans(span.start, goals)
        self.cells = _spans(span.start, list(zip(goals, observations, strict=True)))

    @cached_property
    def goal_types(self) -> _Types:
        """The goal types."""
        return _Types(
            [
                self._view(goal_type.name, "goal", self.goal_spans[g])
                for g, goal_type in enumerate(self.index.goal_types)
            ]
        )

    @cached_property
    def observation_types(self) -> list[_Types]:
        """The observation types of each goal type."""
        return [
            _Types(
                [
                    self._view(name, "observation", self.cells[g, o])
                    for o, name in enumerate(goal_type.observation_types)
                ]
            )
            for g, goal_type in enumerate(self.index.goal_types)
        ]

    def _view(self, name: str, column: str, span: slice) -> TypeView:
        """Return the type with the members in `span`.

        Refinement adds tuples to the present types; centroids stay those of the formed batch.
        """
        columns = self._columns
        formed = columns["generation"][span] == self.index.generation
        numbers = np.flatnonzero(formed) + span.start
        of = self._vectors.of_goals if column == "goal" else self._vectors.of_observations
        texts = list(dict.fromkeys(columns[column][numbers].tolist()))[:EXAMPLES]
        return TypeView.of(name, [columns.texts[i] for i in texts], of(numbers))

    def classify(self, query: Query) -> tuple[int, int]:
        """Return the indices of the query's goal type and of its observation type within that."""
        if query.classifier is None:
            g = self.goal_types.nearest(query.goal_vector)
            return g, self.observation_types[g].nearest(query.observation_vector)
        g = query.classifier.classify_goal(query.goal, self.goal_types.views)
        types = self.observation_types[g].views
        return g, query.classifier.classify_observation(query.observation, types)


class Retriever:
    """The search over a snapshot's rows and their batches."""

    def __init__(
        self,
        batches: Sequence[BatchIndex],
        rows: Rows,
        vectors: Vectors,
    ) -> None:
        """Take n rows, sorted by cell, and their vectors, (n, 2 · dimension)."""
        self._rows = rows
        self._vectors = vectors
        self._assembled = AssembledVectors(vectors)
        columns = rows.columns
        # Numbers instead of texts, because a widened search looks at thousands of rows.
        self._ids = columns["id"]
        self._trajectories = columns["trajectory_id"]
        self._texts = columns.same_texts()
        self._reaches = columns["reach"].astype(np.float32)
        self._scoped = bool(self._reaches.any())
        of_batch = columns["batch"]
        borders = [0, *(np.flatnonzero(np.diff(of_batch)) + 1).tolist(), len(rows)]
        names = columns.distinct("batch")
        spans = {
            names[int(of_batch[start])]: slice(start, stop)
            for start, stop in zip(borders, borders[1:], strict=False)
            if start < stop
        }
        self.batches = {b.id: _Batch(b, columns, vectors, spans[b.id]) for b in batches}

    def batches_of(self, kind: str) -> tuple[str, ...]:
        """Return the ids of the batches of task kind `kind` and of mixed ones, in their order."""
        return tuple(b for b, batch in self.batches.items() if batch.index.kind in (kind, ""))

    def search(
        self,
        query: Query,
        batches: Sequence[str],
        k: int,
        hidden: NDArray[np.bool_] | None = None,
    ) -> list[Recall]:
        """Return the best `k` recalls over `batches`, most similar first within each scope.

        At most one per text (goal, observation, action) and, as long as there are enough, one per
        source trajectory. Cells come first; while there are fewer than `k`, their goal types and
        then their batches are searched, and `Recall.fallback` says so. A tuple with a `reach` is
        recalled from its cell alone, for goals that are near enough.

        hidden: for each row whether it is passed over; None for no row.
        """
        concurrency = query.classifier.concurrency if query.classifier else 1
        cells = map_concurrently(lambda b: self.batches[b].classify(query), batches, concurrency)
        classified = [(self.batches[b], *cell) for b, cell in zip(batches, cells, strict=True)]
        groups = [batch.span for batch, _, _ in classified]
        scopes: list[tuple[Fallback, list[slice]]] = [
            ("", [batch.cells[g, o] for batch, g, o in classified]),
            ("goal type", [batch.goal_spans[g] for batch, g, _ in classified]),
            ("batch", groups),
        ]
        recalls: list[Recall] = []
        trajectories: set[int] = set()
        texts: set[int] = set()
        for spread, (fallback, spans) in product((True, False), scopes):
            located = list(zip(spans, groups, strict=True))
            ranked = self._ranked(located, query, hidden, own_cell=not fallback)
            for i, similarity, trajectory, text in ranked:
                if text in texts or (spread and trajectory in trajectories):
                    continue
                trajectories.add(trajectory)
                texts.add(text)
                recalls.append(self.recall(i, similarity, fallback))
                if len(recalls) == k:
                    return recalls
        return recalls

    def recall(self, row: int, similarity: float, fallback: Fallback = "") -> Recall:
        """Return row number `row` as a recall."""
        source = self._rows[row]
        goal_type = self.batches[source.batch].index.goal_types[source.goal_type]
        return Recall(
            tuple=source.tuple,
            similarity=similarity,
            batch=source.batch,
            goal_type=goal_type.name,
            observation_type=goal_type.observation_types[source.observation_type],
            fallback=fallback,
        )

    def _ranked(
        self,
        spans: Sequence[tuple[slice, slice]],
        query: Query,
        hidden: NDArray[np.bool_] | None,
        *,
        own_cell: bool,
    ) -> Iterator[tuple[int, float, int, int]]:
        """Yield row, similarity, and numbers of trajectory and texts of the rows in `spans`.

        The most similar come first, equal ones by tuple id.
        spans: each with that of its batch.
        """
        query_vector = np.concatenate([query.goal_vector, query.observation_vector])
        numbers = np.concatenate([np.arange(span.start, span.stop) for span, _ in spans])
        # Span by span: the last bits of a product depend on the rows that it is computed with.
        products = np.concatenate([self._assembled.block(*s) @ query_vector for s in spans])
        if hidden is not None or self._scoped:
            recalled = self._recalled(numbers, query, own_cell=own_cell)
            if hidden is not None:
                recalled &= ~hidden[numbers]
            numbers, products = numbers[recalled], products[recalled]
        similar = np.round(products.astype(np.float64) / 2, DECIMALS)
        order = np.lexsort((self._ids[numbers], -similar))
        for start in range(0, len(order), RANKED):
            some = order[start : start + RANKED]
            rows = numbers[some]
            yield from zip(
                rows.tolist(),
                similar[some].tolist(),
                self._trajectories[rows].tolist(),
                self._texts[rows].tolist(),
                strict=True,
            )

    def _recalled(
        self, numbers: NDArray[np.int64], query: Query, *, own_cell: bool
    ) -> NDArray[np.bool_]:
        """Return which of the rows `numbers` reach as far as the query's goal."""
        everywhere: NDArray[np.bool_] = self._reaches[numbers] == 0
        if not own_cell or everywhere.all():
            return everywhere
        dimension = len(query.goal_vector)
        near: NDArray[np.bool_] = everywhere.copy()
        for i in np.flatnonzero(~everywhere):
            row = numbers[i]
            cosine = round(float(self._vectors[row][:dimension] @ query.goal_vector), DECIMALS)
            near[i] = cosine >= round(float(self._reaches[row]), DECIMALS)
        return near


def _spans(start: int, keys: Sequence[K]) -> dict[K, slice]:
    """Return the span of each key, from `start` on; equal keys stand side by side."""
    spans: dict[K, slice] = {}
    for i, key in enumerate(keys, start):
        spans[key] = slice(spans[key].start if key in spans else i, i + 1)
    return spans
