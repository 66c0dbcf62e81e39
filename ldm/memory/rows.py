"""The tuples of a memory as a sequence of values, made from columns on access."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

import numpy as np

from ldm.memory.columns import NO_PAST, NUMBERS, TEXTS, Columns, row_of, value_of
from ldm.memory.index import BatchIndex, IndexedTuple
from ldm.types import Outcome, Past

#: Values and texts that are cached.
KEPT_ROWS = 20_000
KEPT_TEXTS = 20_000


class Rows:
    """The tuples of `Columns` in their cells, made on access and then cached.

    A cached tuple is always the same object, so that callers may identify it by its id().
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._rows: dict[int, IndexedTuple] = {}
        self._texts: dict[int, str] = {}
        self._pasts: dict[int, Past] = {NO_PAST: ()}

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[IndexedTuple]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, at: int) -> IndexedTuple:
        number = at if at >= 0 else at + len(self)
        if not 0 <= number < len(self):
            raise IndexError(at)
        row = self._rows.get(number)
        if row is None:
            if len(self._rows) >= KEPT_ROWS:
                self._rows.clear()
            row = self._rows.setdefault(number, self._made(number))  # the first thread wins
        return row

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Rows, tuple, list)):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # like a list

    def with_ids(self, ids: Collection[str]) -> tuple[IndexedTuple, ...]:
        """Return the tuples with these ids in the order of the rows, ignoring unknown ids."""
        return tuple(self[i] for i in np.flatnonzero(self.columns.named(ids)).tolist())

    def after(self, generation: int) -> tuple[IndexedTuple, ...]:
        """Return the tuples of later generations."""
        later = np.flatnonzero(self.columns["generation"] > generation)
        return tuple(self[i] for i in later.tolist())

    def sizes(self, batch: str) -> dict[tuple[int, int], int]:
        """Return the number of tuples in each cell (goal type, observation type) of a batch."""
        columns = self.columns
        members = columns.having("batch", batch.__eq__)
        pairs = np.stack([columns["goal_type"][members], columns["observation_type"][members]])
        cells, counts = np.unique(pairs, axis=1, return_counts=True)
        return {(g, o): n for g, o, n in zip(*cells.tolist(), counts.tolist(), strict=True)}

    def _text(self, number: int) -> str:
        text = self._texts.get(number)
        if text is None:
            if len(self._texts) >= KEPT_TEXTS:
                self._texts.clear()
            text = self._texts.setdefault(number, self.columns.texts[number])
        return text

    def past(self, node: int) -> Past:
        """Return the past that ends at a node of `Columns.pasts`."""
        later, at = [], node
        while (known := self._pasts.get(at)) is None:
            later.append(at)
            at = int(self.columns.pasts[at, 0])
        for one in reversed(later):
            _, observation, action = self.columns.pasts[one].tolist()
            known = (*known, (self._text(observation), self._text(action)))
            if len(self._pasts) >= KEPT_ROWS:
                self._pasts.clear()
                self._pasts[NO_PAST] = ()
            self._pasts[one] = known
        return known

    def _made(self, number: int) -> IndexedTuple:
        columns = self.columns
        texts = {name: self._text(int(columns[name][number])) for name in TEXTS}
        numbers = {name: columns[name][number] for name in NUMBERS}
        return row_of(columns.env, texts, numbers, self.past(int(numbers["past"])))


def type_sizes(batch: BatchIndex, rows: Rows) -> list[tuple[str, str, int, dict[str, int]]]:
    """Return (name, most frequent goal, tuples, tuples by observation type) of each goal type.

    rows: of the memory.
    """
    counts, columns = rows.sizes(batch.id), rows.columns
    goals = columns.take(columns.having("batch", batch.id.__eq__))
    sizes = []
    for g, goal_type in enumerate(batch.goal_types):
        below = Counter[str]()
        for o, name in enumerate(goal_type.observation_types):
            below[name] += counts.get((g, o), 0)
        members = Counter(goals["goal"][goals["goal_type"] == g].tolist())
        texts = {columns.texts[number]: count for number, count in members.items()}
        typical = min(texts, key=lambda text: (-texts[text], text), default="")
        if members:  # purging may have emptied it
            sizes.append((goal_type.name, typical, below.total(), dict(+below)))
    return sizes


def outcome_counts(rows: Rows, generation: int | None = None) -> dict[str, int]:
    """Return the number of trajectories by outcome, without zeros.

    generation: the last one to count; None for all.

    The outcomes are "full", "partial", "failed" (a score of 0), "warning" (a score of 0, and the
    tuples vote against their actions) and "unknown".
    """
    columns = rows.columns
    if generation is not None:
        columns = columns.take(columns["generation"] <= generation)
    counted = {
        name: _earned(value_of("outcome", text))
        for name, text in columns.pairs("trajectory_id", "outcome")
    }
    earned = Counter(counted.values())
    names = ("full", "partial", "failed", "warning", "unknown")
    return {name: earned[name] for name in names if earned[name]}


def _earned(outcome: Outcome | None) -> str:
    if outcome is None:
        return "unknown"
    if outcome.is_warning:
        return "warning"
    if not outcome.fell_short:
        return "full"
    return "partial" if outcome.score > 0 else "failed"
