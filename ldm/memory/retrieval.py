"""Retrieval (LDM² Eq. 3): the tuples most similar to a goal and an observation.

Ranking is exact and in process, over one generation: equal memories and equal queries give equal
recalls, which an approximate index does not guarantee. A similarity is computed from single vectors
(`score`), so it does not depend on what else is compared. Two things make it fast:
what depends on the goal alone is cached, because agents query one goal many times; and tuples are
compared in the order of their goals' similarity, until no other can be among the best. All scopes
are searched in this way: each is a set of cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, chain, groupby, islice, product, tee
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldm.memory.index import BatchIndex
from ldm.memory.rows import Rows, id_of
from ldm.parallel import cached, map_concurrently
from ldm.reason import EXAMPLES, Reasoner, TypeView
from ldm.types import Recall

#: Similarities are rounded before ranking, so that the last bits of a sum decide nothing.
DECIMALS = 6
#: How far rounding may carry a cosine above 1.
ROUNDING = 1e-5
#: Rows compared in the first part; each further part is twice as large.
FIRST_ROWS = 512
#: Goals whose rankings and cells are cached.
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


def score(goal: Any, observation: Any) -> NDArray[np.float64]:
    """Return the similarities of tuples to a query: the means of the two cosines."""
    goals, observations = (np.asarray(one, np.float64) for one in (goal, observation))
    return np.round(0.5 * goals + 0.5 * observations, DECIMALS)


def bound(goal: float) -> float:
    """Return the highest score of a tuple whose goal has at most this cosine."""
    return float(score(goal, 1 + ROUNDING))


class Types:
    """The types of one batch memory that have tuples; the others are left out.

    Purging may have emptied a type, and the first tuples of one may be of a later generation than
    the one that is read. Those that are left are numbered from 0 here, and their cells in order.
    """

    def __init__(
        self,
        index: BatchIndex,
        cells: Iterable[tuple[int, int]],
        view: Callable[[int, int, NDArray[np.int64]], TypeView],
        first: int = 0,
    ) -> None:
        """Take the sorted cells (goal type, observation type) by the index's numbers.

        view: returns a type by the index's numbers, -1 for no observation type, and the numbers of
            its cells. first: the number of the first cell.
        """
        self.index = index
        self._view = view
        #: The numbers of the observation types of each goal type.
        self.below = {g: [o for _, o in some] for g, some in groupby(cells, itemgetter(0))}
        self._borders = [first, *(first + n for n in accumulate(map(len, self.below.values())))]

    def cells_of(self, goal_type: int) -> NDArray[np.int64]:
        """Return the cells of a goal type."""
        return np.arange(self._borders[goal_type], self._borders[goal_type + 1])

    @property
    def cells(self) -> NDArray[np.int64]:
        """All of its cells."""
        return np.arange(self._borders[0], self._borders[-1])

    @cached_property
    def views(self) -> dict[tuple[int, int], TypeView]:
        """The types by the index's numbers, with -1 for no observation type."""
        views = {}
        for i, (g, numbers) in enumerate(self.below.items()):
            cells = self.cells_of(i)
            views[g, -1] = self._view(g, -1, cells)
            views |= {(g, o): self._view(g, o, cells[j : j + 1]) for j, o in enumerate(numbers)}
        return views

    @cached_property
    def goal_types(self) -> tuple[TypeView, ...]:
        """The goal types."""
        return tuple(self.views[g, -1] for g in self.below)

    @cached_property
    def observation_types(self) -> tuple[tuple[TypeView, ...], ...]:
        """The observation types of each goal type."""
        return tuple(tuple(self.views[g, o] for o in below) for g, below in self.below.items())

    @cached_property
    def centroids(self) -> tuple[NDArray[np.float32], tuple[NDArray[np.float32], ...]]:
        """The centroids of goal types, (g, dimension), and of each one's observation types."""
        goals = np.stack([view.centroid for view in self.goal_types])
        below = (np.stack([view.centroid for view in views]) for views in self.observation_types)
        return goals, tuple(below)

    def classify(self, query: Query) -> tuple[int, int]:
        """Return the query's goal type and observation type, by the index's numbers."""
        goal_type, observation_type = self.nearest_cell(query)
        number, below = [*self.below.items()][goal_type]
        return number, below[observation_type]

    def nearest_cell(self, query: Query) -> tuple[int, int]:
        """Return the query's goal type and observation type, by this class's numbers."""
        if query.classifier is None:
            goals, below = self.centroids
            g = _nearest(goals, query.goal_vector)
            return g, _nearest(below[g], query.observation_vector)
        g = query.classifier.classify_goal(query.goal, self.goal_types)
        types = self.observation_types[g]
        return g, query.classifier.classify_observation(query.observation, types)


@dataclass(frozen=True, slots=True, eq=False)
class _GoalCells:
    """The cells of the goal types that are nearest to a goal, one in each of some batches.

    cells, centroids: (c,) and (c, dimension), of their observations. firsts: those that begin a
    batch. widths: the numbers of cells of each batch.
    """

    cells: NDArray[np.int64]
    centroids: NDArray[np.float32]
    firsts: NDArray[np.int64]
    widths: NDArray[np.int64]

    def nearest(self, observation_vector: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return each batch's nearest cell, the first of equals."""
        products: NDArray[np.float32] = np.vecdot(self.centroids, observation_vector)
        similar = np.round(products, DECIMALS)
        best = np.maximum.reduceat(similar, self.firsts)
        nearest = np.flatnonzero(similar == np.repeat(best, self.widths))
        return self.cells[nearest[np.searchsorted(nearest, self.firsts)]]


class _Goals(NamedTuple):
    """The distinct goals of a memory, the nearest to a goal first.

    ranks: their numbers. cosines: float64. ends: the numbers of rows up to each.
    """

    ranks: NDArray[np.int64]
    cosines: NDArray[np.float64]
    ends: NDArray[np.int64]


class Retriever:
    """The search over the rows of one generation and their batches."""

    def __init__(self, batches: Sequence[BatchIndex], rows: Rows) -> None:
        """Take n rows, sorted by cell."""
        self._rows = rows
        columns = rows.columns
        # Numbers instead of texts, because a widened search compares thousands of rows.
        self._ids = columns["id"]
        self._trajectories = columns["trajectory_id"]
        self.texts = rows.same_texts()
        changes = np.zeros(len(rows), np.bool_)
        changes[:1] = True
        for name in ("batch", "goal_type", "observation_type"):  # the rows are in order
            changes[1:] |= np.diff(columns[name]) != 0
        starts = np.flatnonzero(changes)
        self._cell_of = np.cumsum(changes) - 1
        self._starts = np.append(starts, len(rows))
        self.batches: dict[str, Types] = {}
        names = ("goal_type", "observation_type")
        cells = [*zip(*(columns[name][starts].tolist() for name in names), strict=True)]
        spans = rows.batch_spans()
        for batch in batches:
            if span := spans.get(batch.id):  # purging may have left tuples of later ones only
                first, stop = np.searchsorted(starts, [span.start, span.stop]).tolist()
                view = partial(_type_view, rows, self._starts, batch)
                self.batches[batch.id] = Types(batch, cells[first:stop], view, first)
        self._of_kinds = by_kind(batches)
        self._cells: dict[Any, _GoalCells] = {}
        self._goals: dict[Any, _Goals] = {}

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
        parts = self._ranked(None, query, hidden, count)
        best = islice(chain.from_iterable(parts), count)
        return [self.recall(row, similarity) for row, similarity, _, _ in best]

    def similarities(self, query: Query, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the similarity of each row."""
        goals = self._rows.vectors[self._rows.columns["goal_vector"][rows]]
        near = np.vecdot(goals, query.goal_vector)
        return score(near, self._cosines(rows, query.observation_vector))

    @cached_property
    def _by_goals(self) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """All rows sorted by their goal; each goal's vector, number of rows, and first of them."""
        goals = self._rows.columns["goal_vector"]
        numbers, counts = np.unique(goals, return_counts=True)
        order = np.argsort(goals, kind="stable")
        return order, numbers, counts, np.cumsum(counts) - counts

    def _nearest_goals(self, vector: NDArray[np.float32]) -> _Goals:
        """Return the goals, the nearest to one with a vector first."""

        def made() -> _Goals:
            _, numbers, counts, _ = self._by_goals
            cosines = np.vecdot(self._rows.vectors[numbers], vector).astype(np.float64)
            ranks = np.argsort(-cosines, kind="stable")
            return _Goals(ranks, cosines[ranks], np.cumsum(counts[ranks]))

        return cached(self._goals, vector.tobytes(), made, KEPT_GOALS)

    def _nearest_cells(self, vector: NDArray[np.float32], names: Sequence[str]) -> _GoalCells:
        """Return the cells of each batch's goal type that is nearest to a goal with a vector."""

        def made() -> _GoalCells:
            batches = [self.batches[name] for name in names]
            chosen = [(one, _nearest(one.centroids[0], vector)) for one in batches]
            cells = [one.cells_of(g) for one, g in chosen]
            widths = np.array([len(one) for one in cells])
            centroids = np.concatenate([one.centroids[1][g] for one, g in chosen])
            return _GoalCells(np.concatenate(cells), centroids, np.cumsum(widths) - widths, widths)

        return cached(self._cells, (vector.tobytes(), *names), made, KEPT_GOALS)

    def _cosines(self, rows: NDArray[np.int64], vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosines of the observations of rows."""
        of_rows = self._rows.columns["observation_vector"][rows]
        used, places = np.unique(of_rows, return_inverse=True)
        products: NDArray[np.float32] = np.vecdot(self._rows.vectors[used], vector)
        return products[places]

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

    def _scopes(self, query: Query, names: Sequence[str]) -> Iterator[Any]:
        """Yield the query's cells, those of their goal types, and those of the batches."""
        if query.classifier is None:
            of_goal = self._nearest_cells(query.goal_vector, names)
            yield of_goal.nearest(query.observation_vector)
            yield of_goal.cells
        else:
            batches = [self.batches[name] for name in names]
            nearest = map_concurrently(
                lambda batch: batch.nearest_cell(query), batches, query.classifier.concurrency
            )
            classified = [(b.cells_of(g), o) for b, (g, o) in zip(batches, nearest, strict=True)]
            yield np.array([cells[o] for cells, o in classified])
            yield np.concatenate([cells for cells, _ in classified])
        yield np.concatenate([self.batches[name].cells for name in names])

    def _ranked(
        self, cells: Any, query: Query, hidden: NDArray[np.bool_] | None, count: int = 0
    ) -> Iterator[list[tuple[int, float, int, int]]]:
        """Yield (row, similarity, trajectory, texts) of the rows in cells, in parts, best first.

        Equal ones are sorted by tuple id. A row is yielded once its score is above the bound of all
        rows that were not compared yet.

        cells: None for all. count: of the rows that are needed at most; 0 for all.
        """
        goals = self._nearest_goals(query.goal_vector)
        left, chosen = len(self._rows), None
        if cells is not None:
            chosen = np.zeros(len(self._starts), np.bool_)
            chosen[cells] = True
            left = int((self._starts[cells + 1] - self._starts[cells]).sum())
        waiting, similar = np.empty(0, np.int64), np.empty(0, np.float64)
        start, size = 0, FIRST_ROWS
        while left:
            before = int(goals.ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(goals.ends, before + size)))
            rows, near = self._rows_of(goals, start, stop)
            start, size = stop, 2 * size
            if chosen is not None:
                inside = chosen[self._cell_of[rows]]
                rows, near = rows[inside], near[inside]
            left -= len(rows)
            if hidden is not None:
                visible = ~hidden[rows]
                rows, near = rows[visible], near[visible]
            new = score(near, self._cosines(rows, query.observation_vector))
            waiting, similar = np.concatenate([waiting, rows]), np.concatenate([similar, new])
            if 0 < count < len(waiting):
                best = similar >= np.partition(similar, -count)[-count]
                waiting, similar = waiting[best], similar[best]
            ready = np.ones(len(waiting), np.bool_)
            if left:
                ready = similar > bound(float(goals.cosines[start]))
            yield self._in_order(waiting[ready], similar[ready])
            waiting, similar = waiting[~ready], similar[~ready]

    def _rows_of(
        self, goals: _Goals, start: int, stop: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the rows of some goals, and the cosines of these."""
        order, _, counts, firsts = self._by_goals
        ranks = goals.ranks[start:stop]
        sizes = counts[ranks]
        places = np.repeat(firsts[ranks] - np.cumsum(sizes) + sizes, sizes)
        rows = order[places + np.arange(len(places))]
        return rows, np.repeat(goals.cosines[start:stop], sizes)

    def _in_order(
        self, rows: NDArray[np.int64], similar: NDArray[np.float64]
    ) -> list[tuple[int, float, int, int]]:
        order = np.lexsort((self._ids[rows], -similar))
        rows, similar = rows[order], similar[order]
        columns = rows, similar, self._trajectories[rows], self.texts[rows]
        return list(zip(*(column.tolist() for column in columns), strict=True))


def _type_view(
    rows: Rows,
    starts: NDArray[np.int64],
    index: BatchIndex,
    goal_type: int,
    observation_type: int,
    cells: NDArray[np.int64],
) -> TypeView:
    """Return a type whose members are in `cells`. starts: the first row of each cell.

    Its centroid is that of the tuples that it was formed from, as long as one is left; tuples of
    later generations do not move it.
    """
    start, stop = starts[cells[0]], starts[cells[-1] + 1]
    formed = rows.columns["generation"][start:stop] == index.generation
    formed |= not formed.any()
    members = np.flatnonzero(formed) + start
    of = index.goal_types[goal_type]
    name, column = of.name, "goal"
    if observation_type >= 0:
        name, column = of.observation_types[observation_type], "observation"
    texts = list(dict.fromkeys(rows.columns[column][members].tolist()))[:EXAMPLES]
    vectors = rows.vectors[rows.columns[f"{column}_vector"][members]]
    return TypeView.of(name, [rows.texts[i] for i in texts], vectors)


def by_kind(batches: Sequence[BatchIndex]) -> dict[str, tuple[str, ...]]:
    """Return the ids of the batches of each kind, mixed ones included; those alone for ""."""
    kinds = {"", *(one.kind for one in batches)}
    return {kind: tuple(b.id for b in batches if b.kind in (kind, "")) for kind in kinds}


def _nearest(centroids: NDArray[np.float32], vector: NDArray[np.float32]) -> int:
    """Return the number of the centroid nearest to a (dimension,) vector, the first of equals."""
    return int(np.argmax(np.round(np.vecdot(centroids, vector), DECIMALS)))
