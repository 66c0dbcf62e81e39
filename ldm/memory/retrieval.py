"""Retrieval (LDM² Eq. 3): the tuples most similar to a goal and an observation.

Ranking is exact and in process, over one generation: equal memories and equal queries give equal
recalls, which an approximate index does not guarantee. A similarity is computed from single vectors
(`score`), so it does not depend on what else is compared. Two things make it fast:
what depends on the goal alone is cached, because agents query one goal many times; and tuples are
compared in the order of their goals' similarity, until no other can be among the best. All scopes
are searched in this way: each is a set of cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice, product, tee
from typing import Any, Literal

import numpy as np

from ldm.memory.index import BatchIndex
from ldm.memory.rows import Array, Floats, Mask, Numbers, Rows, Span, Vectors, id_of
from ldm.parallel import cached, map_concurrently
from ldm.reason import EXAMPLES, Reasoner, TypeView
from ldm.reason.indexing import nearest_of_each
from ldm.types import Recall, by_key

#: Similarities are rounded before ranking, so that the last bits of a sum decide nothing.
DECIMALS = 6
#: How far rounding may carry a cosine above 1.
ROUNDING = 1e-5
#: Rows compared in the first part, three times as many where goals are sorted; each further part
#: is twice as large.
FIRST_ROWS = 96
#: Rows above which the goals are sorted instead of the rows.
MANY_ROWS = 8_000
#: Goals whose rankings and types are cached, and types whose views are.
KEPT_GOALS, KEPT_TYPES = 32, 100_000

Fallback = Literal["", "goal type", "batch"]
#: The scopes of a search, and the parts of their spans.
SCOPES: Mapping[Fallback, int] = {"": 3, "goal type": 2, "batch": 1}


@dataclass(frozen=True, slots=True)
class Query:
    """A goal and an observation to retrieve tuples for.

    goal_vector, observation_vector: (dimension,) unit vectors.
    classifier: the reasoner that assigns texts to types; None for the nearest centroid.
    """

    goal: str
    observation: str
    goal_vector: Vectors
    observation_vector: Vectors
    classifier: Reasoner | None = None


def score(goal: Any, observation: Any) -> Floats:
    """Return the similarities of tuples to a query: the means of the two cosines."""
    goals, observations = (np.asarray(one, np.float64) for one in (goal, observation))
    return np.round(0.5 * goals + 0.5 * observations, DECIMALS)


def bound(goal: float) -> float:
    """Return the highest score of a tuple whose goal has at most this cosine."""
    return 0.5 * goal + 0.5 * (1 + ROUNDING)


class Tree:
    """Batches, the goal types of each and the observation types of each of these.

    Each is told by its place, of one to three parts (`ldm.memory.rows.Span`). Those without tuples
    are left out: purging may have emptied a type, and the first tuples of one may be of a later
    generation than the one that is read.
    """

    def __init__(self, batches: Sequence[BatchIndex], spans: Iterable[Span]) -> None:
        """Take the indices of the batches, and the places of all that have tuples, in order."""
        self.below = by_key((span[:-1], span) for span in spans)
        held = {name for (name,) in self.below.get((), ())}
        self.batches = {one.id: one for one in batches if one.id in held}
        self._of_kinds = by_key((one.kind, name) for name, one in self.batches.items())
        self._views: dict[Span, TypeView] = {}
        self._beneath: dict[tuple[Span, ...], tuple[list[Span], Vectors, Numbers]] = {}
        self._nearest: dict[Any, tuple[Span, ...]] = {}

    def view(self, span: Span) -> TypeView:
        """Return a type."""
        raise NotImplementedError

    def batches_of(self, kind: str) -> tuple[str, ...]:
        """Return the ids of the batches of task kind `kind` and of mixed batches, in order."""
        own, mixed = (self._of_kinds.get(one, ()) for one in (kind, ""))
        return tuple(sorted({*own, *mixed}))

    def classify(self, query: Query, names: Sequence[str]) -> Sequence[Span]:
        """Return the query's cell in each of some batches."""
        batches = tuple((name,) for name in names)
        if by := query.classifier:
            return map_concurrently(partial(self._classified, query, by), batches, by.concurrency)
        key = query.goal_vector.tobytes(), batches
        made = partial(self._nearest_below, batches, query.goal_vector)
        goal_types = cached(self._nearest, key, made, KEPT_GOALS)
        return self._nearest_below(goal_types, query.observation_vector)

    def _classified(self, query: Query, by: Reasoner, batch: Span) -> Span:
        types = self.below[batch]
        below = self.below[types[by.classify_goal(query.goal, [*map(self.view, types)])]]
        return below[by.classify_observation(query.observation, [*map(self.view, below)])]

    def _nearest_below(self, spans: tuple[Span, ...], vector: Vectors) -> tuple[Span, ...]:
        """Return, of the types below each of some, the first of those nearest to a vector."""

        def made() -> tuple[list[Span], Vectors, Numbers]:
            types = [one for span in spans for one in self.below[span]]
            centroids = np.stack([self.view(one).centroid for one in types])
            return types, centroids, np.array([len(self.below[span]) for span in spans])

        types, centroids, sizes = cached(self._beneath, spans, made, KEPT_GOALS)
        return tuple(types[i] for i in nearest_of_each(vector, centroids, sizes).tolist())


#: Rows, the cosines of their goals, and the highest one of all rows that follow.
_Part = tuple[Numbers, Floats, float]


class Retriever(Tree):
    """The search over the rows of one generation and their batches."""

    def __init__(self, batches: Sequence[BatchIndex], rows: Rows) -> None:
        """Take n rows, sorted by cell."""
        self.rows = rows
        self.spans = rows.spans()
        self._sizes = {name: (one.start, one.stop - one.start) for name, one in self.spans.items()}
        super().__init__(batches, self.spans)
        # Numbers instead of texts, because a widened search compares thousands of rows.
        self.texts = rows.same_texts()
        self._near: dict[Any, tuple[Floats, Numbers, Numbers]] = {}

    def view(self, span: Span) -> TypeView:
        """Return a type, cached.

        Its centroid is that of the tuples that it was formed from, as long as one is left; tuples
        of later generations do not move it.
        """
        return cached(self._views, span, lambda: self._view(*span), KEPT_TYPES)

    def _view(self, batch: str, goal_type: int, *below: int) -> TypeView:
        index, rows = self.batches[batch], self.rows
        span = self.spans[batch, goal_type, *below]
        formed = rows.columns["generation"][span] == index.generation
        formed |= not formed.any()
        members = np.flatnonzero(formed) + span.start
        of = index.goal_types[goal_type]
        name = of.observation_types[below[0]] if below else of.name
        column = "observation" if below else "goal"
        texts = list(dict.fromkeys(rows.columns[column][members].tolist()))[:EXAMPLES]
        vectors = rows.vectors[rows.columns[f"{column}_vector"][members]]
        return TypeView.of(name, [rows.texts[i] for i in texts], vectors)

    def search(self, query: Query, batches: Sequence[str], k: int, hidden: Any) -> list[Recall]:
        """Return the best `k` recalls over `batches`, the most similar first within each scope.

        There is at most one recall per text (goal, observation, action) and, as long as there are
        enough, one per source trajectory, unless a reasoner classifies: cells go first then, as in
        the paper. If the cells yield fewer than `k`, their goal types and then their batches are
        searched, and `Recall.fallback` names the scope.

        hidden: a mask of the rows to skip.
        """
        if not batches:
            return []
        recalls: list[Recall] = []
        trajectories, texts = set[int](), set[int]()
        cells = self.classify(query, batches)
        ranked: dict[Fallback, tuple[Iterator[tuple[int, float, int, int]], ...]] = {}
        spreads = (True, False) if query.classifier is None else (False,)
        for spread, (fallback, depth) in product(spreads, SCOPES.items()):
            if fallback not in ranked:
                spans = [cell[:depth] for cell in cells]
                ranked[fallback] = tee(self._ranked(spans, query, hidden))
            for row, similarity, trajectory, text in ranked[fallback][spread]:
                if text in texts or (spread and trajectory in trajectories):
                    continue
                trajectories.add(trajectory)
                texts.add(text)
                recalls.append(self.recall(row, similarity, fallback))
                if len(recalls) == k:
                    return recalls
        return recalls

    def nearest(self, query: Query, count: int, hidden: Mask) -> list[Recall]:
        """Return the nearest rows in all batches, compared exactly, the best first.

        hidden: a mask of the rows to skip; of equal texts all but one should be.
        """
        best = self._ranked(self.below.get((), ()), query, hidden, count)
        return [self.recall(row, similarity) for row, similarity, _, _ in islice(best, count)]

    def similarities(self, query: Query, rows: Numbers) -> Floats:
        """Return the similarity of each row."""
        near = self._cosines("goal", rows, query.goal_vector)
        return score(near, self._cosines("observation", rows, query.observation_vector))

    @cached_property
    def _goals(self) -> tuple[Array, Array, Array]:
        """The vectors of goals, the numbers of their rows, and the goal of each row."""
        goals = self.rows.columns["goal_vector"]
        vectors, of_rows, counts = np.unique(goals, return_inverse=True, return_counts=True)
        return vectors, counts, of_rows.astype(np.int32)

    @cached_property
    def _by_goal(self) -> tuple[Numbers, Numbers]:
        """All rows by goal, and where those of each goal begin."""
        _, counts, of_rows = self._goals
        return np.argsort(of_rows, kind="stable"), np.cumsum(counts) - counts

    def _nearest_goals(self, vector: Vectors) -> tuple[Floats, Numbers, Numbers]:
        """Return the cosines of goals, their ranking, and the numbers of rows before each rank."""

        def made() -> tuple[Floats, Numbers, Numbers]:
            vectors, counts, _ = self._goals
            cosines = np.vecdot(self.rows.vectors[vectors], vector).astype(np.float64)
            ranking = np.argsort(-cosines, kind="stable")
            return cosines, ranking, np.cumsum(np.append(0, counts[ranking]))

        return cached(self._near, vector.tobytes(), made, KEPT_GOALS)

    def _cosines(self, column: str, rows: Numbers, vector: Vectors) -> Vectors:
        """Return the cosines of the goals, or the observations, of rows."""
        vectors = self.rows.vectors[self.rows.columns[f"{column}_vector"][rows]]
        cosines: Vectors = np.vecdot(vectors, vector)
        return cosines

    def recall(self, row: int, similarity: float, fallback: Fallback = "") -> Recall:
        """Return row number `row` as a recall."""
        source = self.rows[row]
        of = self.batches[source.batch].goal_types[source.goal_type]
        names = of.name, of.observation_types[source.observation_type]
        number = int(self.rows.columns["id"][row])
        return Recall(source.tuple, similarity, source.batch, *names, fallback, id_of(number))

    def _ranked(
        self, spans: Sequence[Span], query: Query, hidden: Any, count: int = 0
    ) -> Iterator[tuple[int, float, int, int]]:
        """Yield (row, similarity, trajectory, texts) of the rows in spans, the best first.

        Equal ones are sorted by tuple id. A row is yielded once its score is above the bound of all
        rows that were not compared yet.

        hidden: as in `search`. count: of the rows that are needed at most; 0 for all.
        """
        numbers = chain.from_iterable(map(self._sizes.__getitem__, spans))
        runs = np.fromiter(numbers, np.int64).reshape(-1, 2)
        parts = self._by_goals if runs[:, 1].sum() > MANY_ROWS else self._by_cosines
        waiting, similar = np.empty(0, np.int64), np.empty(0, np.float64)
        for rows, near, rest in parts(runs, query.goal_vector, hidden):
            new = score(near, self._cosines("observation", rows, query.observation_vector))
            waiting, similar = np.concatenate([waiting, rows]), np.concatenate([similar, new])
            if 0 < count < len(waiting):
                best = similar >= np.partition(similar, -count)[-count]
                waiting, similar = waiting[best], similar[best]
            ready = similar > bound(rest)
            yield from self._in_order(waiting[ready], similar[ready])
            waiting, similar = waiting[~ready], similar[~ready]

    def _by_cosines(self, runs: Numbers, vector: Vectors, hidden: Any) -> Iterator[_Part]:
        """Yield the rows in spans in parts, those with the nearest goals first.

        runs: (n, 2), the start and the size of each span.
        """
        rows = _rows_in(*runs.T)
        rows = rows[~hidden[rows]]
        near, size = self._nearest_goals(vector)[0][self._goals[2][rows]], FIRST_ROWS
        while len(rows) > size:
            taken = near >= np.partition(near, -size)[-size]
            part = rows[taken], near[taken]
            rows, near, size = rows[~taken], near[~taken], 2 * size
            yield *part, near.max(initial=-np.inf)
        yield rows, near, -np.inf

    def _by_goals(self, runs: Numbers, vector: Vectors, hidden: Any) -> Iterator[_Part]:
        """Yield the same, going through the sorted goals instead, which is faster for many rows."""
        (cosines, ranking, before), (by_goal, begins) = self._nearest_goals(vector), self._by_goal
        searched = np.zeros(len(self.rows), np.bool_)
        for start, count in runs.tolist():
            searched[start : start + count] = ~hidden[start : start + count]
        left, first, size = np.count_nonzero(searched), 0, 3 * FIRST_ROWS
        while left:
            stop = np.searchsorted(before, before[first] + size) - 1
            goals = ranking[first : max(first + 1, stop)]
            counts = self._goals[1][goals]
            rows = by_goal[_rows_in(begins[goals], counts)]
            inside, near = searched[rows], np.repeat(cosines[goals], counts)
            left -= np.count_nonzero(inside)
            first, size = first + len(goals), 2 * size
            yield rows[inside], near[inside], cosines[ranking[first]] if left else -np.inf

    def _in_order(self, rows: Numbers, similar: Floats) -> Iterator[tuple[int, float, int, int]]:
        trajectories = self.rows.columns["trajectory_id"]
        for at in np.lexsort((self.rows.columns["id"][rows], -similar)).tolist():
            row = int(rows[at])
            yield row, float(similar[at]), int(trajectories[row]), int(self.texts[row])


def _rows_in(starts: Numbers, sizes: Numbers) -> Numbers:
    """Return the numbers of several runs, each of a size from a start on."""
    ends = np.cumsum(sizes)
    rows: Numbers = np.repeat(starts - ends + sizes, sizes) + np.arange(sizes.sum())
    return rows
