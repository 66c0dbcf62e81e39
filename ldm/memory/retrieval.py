"""Retrieval (LDM² Eq. 3): the tuples most similar to a goal and an observation.

Ranking is exact and in process, over one generation: equal memories and equal queries give equal
recalls, which an approximate index does not guarantee. A similarity is computed from single vectors
(`ldm.memory.ranking`), so it does not depend on what else is compared. Two things make it fast:
results that depend on the goal alone are cached, because agents query one goal many times; and
tuples are compared in the order of their goals' similarity, until no other can be among the best.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, product, tee
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ldm.memory import ranking
from ldm.memory.columns import Columns, Vectors, id_of
from ldm.memory.index import BatchIndex
from ldm.memory.ranking import DECIMALS
from ldm.memory.rows import Rows
from ldm.parallel import map_concurrently
from ldm.reason import EXAMPLES, Reasoner, TypeView
from ldm.types import Recall

#: Rows compared in the first part; each further part is twice as large.
FIRST_ROWS = 256
#: Multiple of that if most rows of a part are outside the nearest cells.
CELLS = 4
#: Goals whose candidate rows are cached.
KEPT_GOALS = 32

Fallback = Literal["", "goal type", "batch"]


@dataclass(frozen=True, slots=True)
class Query:
    """A goal and an observation to retrieve tuples for.

    goal_vector, observation_vector: (dimension,) unit vectors.
    classifier: the reasoner that assigns texts to types; None for the nearest centroid.
    """

    goal: str
    observation: str
    goal_vector: NDArray[np.float32]
    observation_vector: NDArray[np.float32]
    classifier: Reasoner | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """n candidate rows for a goal, sorted by descending cosine of their goals.

    rows: (n,) int64, row numbers. cosines: (n,) float64, of the goals.
    cells, chosen: the cell of each row, (n,), and a mask of the cells that count; None if all do.
    """

    rows: NDArray[np.int64]
    cosines: NDArray[np.float64]
    cells: NDArray[np.int32] | None = None
    chosen: NDArray[np.bool_] | None = None

    def part(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the rows of one part that count, and their cosines."""
        part = slice(start, stop)
        if self.cells is None or self.chosen is None:
            return self.rows[part], self.cosines[part]
        places = np.flatnonzero(self.chosen[self.cells[part]]) + start
        return self.rows[places], self.cosines[places]


class _Batch:
    """One batch memory: its rows, the spans of its types, and their centroids.

    Empty types are left out and the others numbered from 0: a type's first tuples may be of a later
    generation than the one that is read.
    """

    def __init__(self, index: BatchIndex, columns: Columns, vectors: Vectors, span: slice) -> None:
        self.index = index
        self.span = span
        self._columns = columns
        self._vectors = vectors
        firsts = np.cumsum([0, *(len(one.observation_types) for one in index.goal_types)])
        cells = firsts[columns["goal_type"][span]] + columns["observation_type"][span]
        starts = np.flatnonzero(np.diff(cells, prepend=-1))  # the rows are in order
        filled = cells[starts]
        of_goal = np.searchsorted(firsts, filled, side="right") - 1
        #: The index's numbers of each cell's observation type and of each goal type.
        self._observation_numbers = (filled - firsts[of_goal]).tolist()
        numbers, first_cells = np.unique(of_goal, return_index=True)
        self._goal_numbers = numbers.tolist()
        # The first cell of each goal type.
        self.first_cells = np.append(first_cells, len(filled))
        self.borders = np.append(span.start + starts, span.stop)

    def cell_span(self, goal_type: int, observation_type: int) -> slice:
        """Return the span of a cell's rows."""
        cell = int(self.first_cells[goal_type]) + observation_type
        return slice(int(self.borders[cell]), int(self.borders[cell + 1]))

    def goal_span(self, goal_type: int) -> slice:
        """Return the span of a goal type's rows."""
        first, last = self.first_cells[goal_type], self.first_cells[goal_type + 1]
        return slice(int(self.borders[first]), int(self.borders[last]))

    @cached_property
    def goal_types(self) -> tuple[TypeView, ...]:
        """The goal types."""
        return tuple(
            self._view(self.index.goal_types[number].name, "goal", self.goal_span(g))
            for g, number in enumerate(self._goal_numbers)
        )

    @cached_property
    def observation_types(self) -> tuple[tuple[TypeView, ...], ...]:
        """The observation types of each goal type."""
        return tuple(
            tuple(
                self._view(
                    self.index.goal_types[number].observation_types[of_index],
                    "observation",
                    self.cell_span(g, o),
                )
                for o, of_index in enumerate(self._below(g))
            )
            for g, number in enumerate(self._goal_numbers)
        )

    def _below(self, goal_type: int) -> list[int]:
        """Return the index's numbers of the observation types of a goal type."""
        first, last = self.first_cells[goal_type], self.first_cells[goal_type + 1]
        numbers: list[int] = self._observation_numbers[first:last]
        return numbers

    @cached_property
    def centroids(self) -> tuple[NDArray[np.float32], tuple[NDArray[np.float32], ...]]:
        """The centroids of goal types, (g, dimension), and of each one's observation types."""
        goals = np.stack([view.centroid for view in self.goal_types])
        below = (np.stack([view.centroid for view in views]) for views in self.observation_types)
        return goals, tuple(below)

    def _view(self, name: str, column: str, span: slice) -> TypeView:
        """Return the type whose members are in `span`.

        Its centroid is that of the tuples that it was formed from, as long as one is left;
        tuples of later generations do not move it.
        """
        columns, vectors = self._columns, self._vectors
        formed = columns["generation"][span] == self.index.generation
        formed |= not formed.any()
        rows = np.flatnonzero(formed) + span.start
        numbers = vectors.goals if column == "goal" else vectors.observations
        texts = list(dict.fromkeys(columns[column][rows].tolist()))[:EXAMPLES]
        examples = [columns.texts[i] for i in texts]
        return TypeView.of(name, examples, vectors.numbered(numbers[rows]))

    def classify(self, query: Query) -> tuple[int, int]:
        """Return the query's goal type and observation type, by the index's numbers."""
        goal_type, observation_type = self.nearest_cell(query)
        return self._goal_numbers[goal_type], self._below(goal_type)[observation_type]

    def nearest_cell(self, query: Query) -> tuple[int, int]:
        """Return the query's goal type and observation type, by this class's numbers."""
        if query.classifier is None:
            goals, below = self.centroids
            g = _nearest(goals, query.goal_vector)
            return g, _nearest(below[g], query.observation_vector)
        g = query.classifier.classify_goal(query.goal, self.goal_types)
        types = self.observation_types[g]
        return g, query.classifier.classify_observation(query.observation, types)


class _GoalView:
    """The candidates for one goal from some batches: everything that depends on the goal alone."""

    def __init__(
        self, batches: Sequence[_Batch], goal_vector: NDArray[np.float32], vectors: Vectors
    ) -> None:
        self._batches = batches
        self._goal_vector = goal_vector
        self._vectors = vectors
        chosen = [(b, _nearest(b.centroids[0], goal_vector)) for b in batches]
        below = [b.centroids[1][g] for b, g in chosen]
        self._centroids = np.concatenate(below)
        self._widths = np.array([len(centroids) for centroids in below])
        self._firsts = np.cumsum(self._widths) - self._widths
        spans = [b.goal_span(g) for b, g in chosen]
        rows, cosines, order = _by_goal(spans, goal_vector, vectors)
        self.goal_types = _Candidates(rows, cosines)
        sizes = [np.diff(b.borders[b.first_cells[g] : b.first_cells[g + 1] + 1]) for b, g in chosen]
        cells = np.concatenate(sizes)
        self._cells = np.repeat(np.arange(len(cells), dtype=np.int32), cells)[order]

    @cached_property
    def whole_batches(self) -> _Candidates:
        """All rows of the batches."""
        spans = [batch.span for batch in self._batches]
        return _Candidates(*_by_goal(spans, self._goal_vector, self._vectors)[:2])

    def cells(self, observation_vector: NDArray[np.float32]) -> _Candidates:
        """Return the rows of each batch's nearest cell."""
        products: NDArray[np.float32] = np.vecdot(self._centroids, observation_vector)
        similar = np.round(products, DECIMALS)
        best = np.maximum.reduceat(similar, self._firsts)
        nearest = np.flatnonzero(similar == np.repeat(best, self._widths))
        chosen = np.zeros(len(similar), np.bool_)
        chosen[nearest[np.searchsorted(nearest, self._firsts)]] = True  # the first of equals
        return replace(self.goal_types, cells=self._cells, chosen=chosen)


class Retriever:
    """The search over the rows of one generation and their batches."""

    def __init__(self, batches: Sequence[BatchIndex], rows: Rows, vectors: Vectors) -> None:
        """Take n rows, sorted by cell, and their vectors."""
        self._rows = rows
        self._vectors = vectors
        columns = rows.columns
        # Numbers instead of texts, because a widened search compares thousands of rows.
        self._ids = columns["id"]
        self._trajectories = columns["trajectory_id"]
        self._texts = columns.same_texts()
        spans = columns.batch_spans()
        self.batches = {b.id: _Batch(b, columns, vectors, spans[b.id]) for b in batches}
        self._of_kinds = by_kind(batches)
        self._views: OrderedDict[tuple[bytes, tuple[str, ...]], _GoalView] = OrderedDict()
        self._all: OrderedDict[bytes, _Candidates] = OrderedDict()

    def batches_of(self, kind: str) -> tuple[str, ...]:
        """Return the ids of the batches of task kind `kind` and of mixed batches, in order."""
        return self._of_kinds.get(kind, self._of_kinds[""])

    def search(
        self, query: Query, batches: Sequence[str], k: int, hidden: NDArray[np.bool_] | None = None
    ) -> list[Recall]:
        """Return the best `k` recalls over `batches`, the most similar first within each scope.

        There is at most one recall per text (goal, observation, action) and, as long as there are
        enough, one per source trajectory, unless a reasoner classifies: cells go first then, as in
        the paper. If the cells yield fewer than `k`, their goal types and then their batches are
        searched, and `Recall.fallback` names the scope.

        hidden: a mask of the rows to skip, or None.
        """
        if not batches:
            return []
        recalls: list[Recall] = []
        trajectories: set[int] = set()
        texts: set[int] = set()
        scopes = self._scopes(query, batches)
        fallbacks: tuple[Fallback, ...] = ("", "goal type", "batch")
        again: dict[Fallback, Iterator[list[tuple[int, float, int, int]]]] = {}
        spreads = (True, False) if query.classifier is None else (False,)
        for spread, fallback in product(spreads, fallbacks):
            if fallback in again:
                parts = again[fallback]
            else:
                parts, again[fallback] = tee(self._ranked(next(scopes), query, hidden))
            for row, similarity, trajectory, text in chain.from_iterable(parts):
                if text in texts or (spread and trajectory in trajectories):
                    continue
                trajectories.add(trajectory)
                texts.add(text)
                recalls.append(self.recall(row, similarity, fallback))
                if len(recalls) == k:
                    return recalls
        return recalls

    def nearest(self, query: Query, count: int, hidden: NDArray[np.bool_]) -> list[Recall]:
        """Return the nearest rows in all batches, compared exactly, the best first.

        hidden: a mask of the rows to skip; of equal texts all but one should be.
        """
        parts = self._ranked(self._everything(query.goal_vector), query, hidden, count)
        best = islice(chain.from_iterable(parts), count)
        return [self.recall(row, similarity) for row, similarity, _, _ in best]

    def similarities(self, query: Query, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the similarity of each row."""
        goals = np.vecdot(self._vectors.numbered(self._vectors.goals[rows]), query.goal_vector)
        return ranking.score(goals, self._cosines(query.observation_vector)(rows))

    @cached_property
    def _by_goals(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.int64]]:
        """All rows sorted by their goal, the distinct goals' vectors, and the number of each."""
        goals = self._vectors.goals
        numbers, counts = np.unique(goals, return_counts=True)
        return np.argsort(goals, kind="stable"), numbers, counts

    def _everything(self, goal_vector: NDArray[np.float32]) -> _Candidates:
        """Return all rows."""
        key = goal_vector.tobytes()
        known = self._all.get(key)
        if known is None:
            order, numbers, counts = self._by_goals
            cosines = np.vecdot(self._vectors.numbered(numbers), goal_vector).astype(np.float64)
            ranks = np.argsort(-cosines, kind="stable")
            sizes = counts[ranks]
            starts = (np.cumsum(counts) - counts)[ranks] - (np.cumsum(sizes) - sizes)
            places = np.repeat(starts, sizes) + np.arange(len(order))
            repeated = np.repeat(cosines[ranks], sizes)
            known = self._all[key] = _Candidates(order[places], repeated)
            for oldest in list(self._all)[:-KEPT_GOALS]:
                self._all.pop(oldest, None)
        return known

    def _cosines(
        self, vector: NDArray[np.float32]
    ) -> Callable[[NDArray[np.int64]], NDArray[np.float32]]:
        """Return a function from rows to the cosines of their observations.

        Where most of them are asked for, all are computed at once, which copies no vectors.
        """
        distinct, numbers = self._vectors.distinct, self._vectors.observations
        known: list[NDArray[np.float32]] = []
        requested = 0

        def cosines(rows: NDArray[np.int64]) -> NDArray[np.float32]:
            nonlocal requested
            if not known:
                used, place = np.unique(numbers[rows], return_inverse=True)
                requested += len(used)
                if 4 * requested <= len(distinct):
                    products: NDArray[np.float32] = np.vecdot(distinct[used], vector)
                    return products[place]
                known.append(np.vecdot(distinct, vector))
            return known[0][numbers[rows]]

        return cosines

    def recall(self, row: int, similarity: float, fallback: Fallback = "") -> Recall:
        """Return row number `row` as a recall."""
        source = self._rows[row]
        goal_type = self.batches[source.batch].index.goal_types[source.goal_type]
        return Recall(
            source.tuple,
            similarity,
            source.batch,
            goal_type.name,
            goal_type.observation_types[source.observation_type],
            fallback,
            id_of(int(self._ids[row])),
        )

    def _scopes(self, query: Query, names: Sequence[str]) -> Iterator[_Candidates]:
        """Yield the candidates from the query's cells, from their goal types, from the batches."""
        if query.classifier is None:
            view = self._view(query, names)
            yield view.cells(query.observation_vector)
            yield view.goal_types
            yield view.whole_batches
            return
        batches = [self.batches[name] for name in names]
        cells = map_concurrently(
            lambda batch: batch.nearest_cell(query), batches, query.classifier.concurrency
        )
        classified = list(zip(batches, cells, strict=True))
        for spans in (
            [batch.cell_span(g, o) for batch, (g, o) in classified],
            [batch.goal_span(g) for batch, (g, _) in classified],
            [batch.span for batch in batches],
        ):
            yield _Candidates(*_by_goal(spans, query.goal_vector, self._vectors)[:2])

    def _view(self, query: Query, names: Sequence[str]) -> _GoalView:
        key = query.goal_vector.tobytes(), tuple(names)
        view = self._views.get(key)
        if view is None:
            batches = [self.batches[name] for name in names]
            view = self._views[key] = _GoalView(batches, query.goal_vector, self._vectors)
            for oldest in list(self._views)[:-KEPT_GOALS]:
                self._views.pop(oldest, None)  # another thread may have removed it
        return view

    def _ranked(
        self,
        candidates: _Candidates,
        query: Query,
        hidden: NDArray[np.bool_] | None,
        count: int = 0,
    ) -> Iterator[list[tuple[int, float, int, int]]]:
        """Yield (row, similarity, trajectory, texts) of the candidates in parts, the best first.

        Equal ones are sorted by tuple id. A row is yielded once its score is above the bound of all
        rows that were not compared yet. count: of the rows that are needed at most; 0 for all.
        """
        cosines = self._cosines(query.observation_vector)
        waiting = np.empty(0, np.int64)
        similar = np.empty(0, np.float64)
        start, total = 0, len(candidates.rows)
        size = FIRST_ROWS if candidates.cells is None else FIRST_ROWS * CELLS
        while start < total:
            rows, goals = candidates.part(start, start + size)
            start, size = start + size, 2 * size
            if hidden is not None:
                visible = ~hidden[rows]
                rows, goals = rows[visible], goals[visible]
            new = ranking.score(goals, cosines(rows))
            waiting, similar = np.concatenate([waiting, rows]), np.concatenate([similar, new])
            if 0 < count < len(waiting):
                near = similar >= np.partition(similar, -count)[-count]
                waiting, similar = waiting[near], similar[near]
            ready = np.ones(len(waiting), np.bool_)
            if start < total:
                ready = similar > ranking.bound(float(candidates.cosines[start]))
            yield self._in_order(waiting[ready], similar[ready])
            waiting, similar = waiting[~ready], similar[~ready]

    def _in_order(
        self, rows: NDArray[np.int64], similar: NDArray[np.float64]
    ) -> list[tuple[int, float, int, int]]:
        order = np.lexsort((self._ids[rows], -similar))
        rows, similar = rows[order], similar[order]
        columns = rows, similar, self._trajectories[rows], self._texts[rows]
        return list(zip(*(column.tolist() for column in columns), strict=True))


def by_kind(batches: Sequence[BatchIndex]) -> dict[str, tuple[str, ...]]:
    """Return the ids of the batches of each kind, mixed ones included; those alone for ""."""
    kinds = {"", *(one.kind for one in batches)}
    return {kind: tuple(b.id for b in batches if b.kind in (kind, "")) for kind in kinds}


def _nearest(centroids: NDArray[np.float32], vector: NDArray[np.float32]) -> int:
    """Return the number of the centroid nearest to a (dimension,) vector, the first of equals."""
    return int(np.argmax(np.round(np.vecdot(centroids, vector), DECIMALS)))


def _by_goal(
    spans: Sequence[slice], goal_vector: NDArray[np.float32], vectors: Vectors
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the rows in `spans` sorted by descending cosine of their goals.

    Also returns the cosines, and each row's place before sorting.
    """
    rows = np.concatenate([np.arange(span.start, span.stop) for span in spans])
    numbers, place = np.unique(vectors.goals[rows], return_inverse=True)
    products = np.vecdot(vectors.numbered(numbers), goal_vector).astype(np.float64)[place]
    order = np.argsort(-products, kind="stable")
    return rows[order], products[order], order
