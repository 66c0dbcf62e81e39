"""Retrieval (LDM² Eq. 3): the few tuples that fit a goal and an observation best.

All ranking is exact and in process, over a snapshot of one generation: equal memories and equal
queries give equal recalls, which an approximate index does not guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from ldm.memory.index import BatchIndex, IndexedTuple
from ldm.parallel import map_concurrently
from ldm.reasoner import Reasoner, TypeView
from ldm.types import Recall

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Similarities are rounded before ranking, so that the last bits of a sum decide nothing.
DECIMALS = 6

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
        rows: Sequence[IndexedTuple],
        vectors: NDArray[np.float32],
        span: slice,
    ) -> None:
        self.index = index
        self.span = span
        dimension = vectors.shape[1] // 2
        members = range(span.start, span.stop)
        # Refinement adds tuples to the present types; centroids stay those of the formed batch.
        formed = [i for i in members if rows[i].tuple.generation == index.generation]
        self.goal_spans = _spans(members, lambda i: rows[i].goal_type)
        self.cells = _spans(members, lambda i: (rows[i].goal_type, rows[i].observation_type))
        by_goal = _grouped(formed, lambda i: rows[i].goal_type)
        by_cell = _grouped(formed, lambda i: (rows[i].goal_type, rows[i].observation_type))
        self.goal_types = _Types(
            [
                TypeView.of(
                    goal_type.name,
                    [rows[i].tuple.goal for i in by_goal[g]],
                    vectors[by_goal[g], :dimension],
                )
                for g, goal_type in enumerate(index.goal_types)
            ]
        )
        self.observation_types = [
            _Types(
                [
                    TypeView.of(
                        name,
                        [rows[i].tuple.observation for i in by_cell[g, o]],
                        vectors[by_cell[g, o], dimension:],
                    )
                    for o, name in enumerate(goal_type.observation_types)
                ]
            )
            for g, goal_type in enumerate(index.goal_types)
        ]

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
        rows: Sequence[IndexedTuple],
        vectors: NDArray[np.float32],
    ) -> None:
        """Take n rows, sorted by cell, and their vectors, (n, 2 · dimension)."""
        self._rows = rows
        self._vectors = vectors
        # Numbers instead of texts, because a widened search looks at thousands of rows.
        self._by_id = np.argsort(np.argsort([row.tuple.id for row in rows]))
        self._trajectories = _numbered(row.tuple.trajectory_id for row in rows)
        self._texts = _numbered((t.goal, t.observation, t.action) for t in (r.tuple for r in rows))
        self._reaches = np.array([row.reach for row in rows], np.float32)
        self._scoped = bool(self._reaches.any())
        spans = _spans(range(len(rows)), lambda i: rows[i].batch)
        self.batches = {b.id: _Batch(b, rows, vectors, spans[b.id]) for b in batches}

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
        scopes: list[tuple[Fallback, list[slice]]] = [
            ("", [batch.cells[g, o] for batch, g, o in classified]),
            ("goal type", [batch.goal_spans[g] for batch, g, _ in classified]),
            ("batch", [batch.span for batch, _, _ in classified]),
        ]
        recalls: list[Recall] = []
        trajectories: set[int] = set()
        texts: set[int] = set()
        for spread, (fallback, spans) in product((True, False), scopes):
            for i, similarity in self._ranked(spans, query, hidden, own_cell=not fallback):
                trajectory, text = self._trajectories[i], self._texts[i]
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
        spans: Sequence[slice],
        query: Query,
        hidden: NDArray[np.bool_] | None,
        *,
        own_cell: bool,
    ) -> Iterator[tuple[int, float]]:
        """Yield (row, similarity) of the rows in `spans`, most similar first, ties by tuple id."""
        query_vector = np.concatenate([query.goal_vector, query.observation_vector])
        numbers = np.concatenate([np.arange(span.start, span.stop) for span in spans])
        products = np.concatenate([self._vectors[span] @ query_vector for span in spans])
        if hidden is not None or self._scoped:
            recalled = self._recalled(numbers, query, own_cell=own_cell)
            if hidden is not None:
                recalled &= ~hidden[numbers]
            numbers, products = numbers[recalled], products[recalled]
        similar = np.round(products.astype(np.float64) / 2, DECIMALS)
        order = np.lexsort((self._by_id[numbers], -similar))
        return zip(numbers[order].tolist(), similar[order].tolist(), strict=True)

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
            cosine = round(float(self._vectors[row, :dimension] @ query.goal_vector), DECIMALS)
            near[i] = cosine >= round(float(self._reaches[row]), DECIMALS)
        return near


def _numbered(items: Iterable[Hashable]) -> list[int]:
    """Return a number for each item: equal items have equal numbers."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(item, len(numbers)) for item in items]


def _spans(members: range, key: Callable[[int], K]) -> dict[K, slice]:
    """Return the span of each key; equal keys stand side by side, as rows are sorted."""
    spans: dict[K, slice] = {}
    for i in members:
        value = key(i)
        spans[value] = slice(spans[value].start if value in spans else i, i + 1)
    return spans


def _grouped(members: Sequence[int], key: Callable[[int], K]) -> dict[K, list[int]]:
    groups: dict[K, list[int]] = {}
    for i in members:
        groups.setdefault(key(i), []).append(i)
    return groups
