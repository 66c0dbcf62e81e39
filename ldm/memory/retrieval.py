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
from typing import Any, Literal, NamedTuple

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
#: Rows compared in the first part; each further part is twice as large.
FIRST_ROWS = 512
#: Rows that are compared all at once, in any order.
FEW_ROWS = 256
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
    return float(score(goal, 1 + ROUNDING))


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


class _Goals(NamedTuple):
    """The distinct goals of a memory, the nearest to a goal first.

    ranks: their numbers. cosines: float64. ends: the numbers of rows up to each.
    """

    ranks: Numbers
    cosines: Floats
    ends: Numbers


class Retriever(Tree):
    """The search over the rows of one generation and their batches."""

    def __init__(self, batches: Sequence[BatchIndex], rows: Rows) -> None:
        """Take n rows, sorted by cell."""
        self.rows = rows
        self.spans = rows.spans()
        super().__init__(batches, self.spans)
        # Numbers instead of texts, because a widened search compares thousands of rows.
        self.texts = rows.same_texts()
        self._goals: dict[Any, _Goals] = {}

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

    def search(
        self, query: Query, batches: Sequence[str], k: int, hidden: Any = None
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
        trajectories, texts = set[int](), set[int]()
        cells = self.classify(query, batches)
        again: dict[Fallback, Iterator[list[tuple[int, float, int, int]]]] = {}
        spreads = (True, False) if query.classifier is None else (False,)
        for spread, (fallback, depth) in product(spreads, SCOPES.items()):
            if fallback in again:
                parts = again[fallback]
            else:
                ranked = self._ranked([cell[:depth] for cell in cells], query, hidden)
                parts, again[fallback] = tee(ranked)
            for row, similarity, trajectory, text in chain.from_iterable(parts):
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
        best = chain.from_iterable(self._ranked(self.below.get((), ()), query, hidden, count))
        return [self.recall(row, similarity) for row, similarity, _, _ in islice(best, count)]

    def similarities(self, query: Query, rows: Numbers) -> Floats:
        """Return the similarity of each row."""
        columns, vectors = self.rows.columns, self.rows.vectors
        goals, others = columns["goal_vector"][rows], columns["observation_vector"][rows]
        near = np.vecdot(vectors[goals], query.goal_vector)
        return score(near, np.vecdot(vectors[others], query.observation_vector))

    @cached_property
    def _by_goals(self) -> tuple[Array, Array, Numbers, Numbers]:
        """The vectors of goals, the numbers of their rows, where those begin, and all rows."""
        goals = self.rows.columns["goal_vector"]
        numbers, counts = np.unique(goals, return_counts=True)
        return numbers, counts, np.cumsum(counts) - counts, np.argsort(goals, kind="stable")

    def _nearest_goals(self, vector: Vectors) -> _Goals:
        """Return the goals, the nearest to one with a vector first."""

        def made() -> _Goals:
            numbers, counts, *_ = self._by_goals
            cosines = np.vecdot(self.rows.vectors[numbers], vector).astype(np.float64)
            ranks = np.argsort(-cosines, kind="stable")
            return _Goals(ranks, cosines[ranks], np.cumsum(counts[ranks]))

        return cached(self._goals, vector.tobytes(), made, KEPT_GOALS)

    def _cosines(self, rows: Numbers, vector: Vectors) -> Vectors:
        """Return the cosines of the observations of rows."""
        of_rows = self.rows.columns["observation_vector"][rows]
        used, places = np.unique(of_rows, return_inverse=True)
        products: Vectors = np.vecdot(self.rows.vectors[used], vector)
        return products[places]

    def recall(self, row: int, similarity: float, fallback: Fallback = "") -> Recall:
        """Return row number `row` as a recall."""
        source = self.rows[row]
        of = self.batches[source.batch].goal_types[source.goal_type]
        names = of.name, of.observation_types[source.observation_type]
        number = int(self.rows.columns["id"][row])
        return Recall(source.tuple, similarity, source.batch, *names, fallback, id_of(number))

    def _ranked(
        self, spans: Sequence[Span], query: Query, hidden: Any, count: int = 0
    ) -> Iterator[list[tuple[int, float, int, int]]]:
        """Yield (row, similarity, trajectory, texts) of the rows in spans, in parts, best first.

        Equal ones are sorted by tuple id. A row is yielded once its score is above the bound of all
        rows that were not compared yet.

        hidden: as in `search`. count: of the rows that are needed at most; 0 for all.
        """
        parts = [*map(self.spans.__getitem__, spans)]
        if sum(part.stop - part.start for part in parts) <= FEW_ROWS:
            few = (np.arange(part.start, part.stop) for part in parts)
            rows = np.concatenate([np.empty(0, np.int64), *few])
            rows = rows if hidden is None else rows[~hidden[rows]]
            yield self._in_order(rows, self.similarities(query, rows))
            return
        goals, (_, counts, begins, by_goal) = self._nearest_goals(query.goal_vector), self._by_goals
        searched = np.zeros(len(self.rows), np.bool_)
        for part in parts:
            searched[part] = True if hidden is None else ~hidden[part]
        left = np.count_nonzero(searched)
        waiting, similar = np.empty(0, np.int64), np.empty(0, np.float64)
        start, size = 0, FIRST_ROWS
        while left:
            before = int(goals.ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(goals.ends, before + size)))
            ranks = goals.ranks[start:stop]
            ends = np.cumsum(sizes := counts[ranks])
            rows = by_goal[np.repeat(begins[ranks] - ends + sizes, sizes) + np.arange(ends[-1])]
            near = np.repeat(goals.cosines[start:stop], sizes)
            start, size = stop, 2 * size
            inside = searched[rows]
            rows, near = rows[inside], near[inside]
            left -= len(rows)
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

    def _in_order(self, rows: Numbers, similar: Floats) -> list[tuple[int, float, int, int]]:
        order = np.lexsort((self.rows.columns["id"][rows], -similar))
        rows, similar = rows[order], similar[order]
        columns = rows, similar, self.rows.columns["trajectory_id"][rows], self.texts[rows]
        return list(zip(*(column.tolist() for column in columns), strict=True))
