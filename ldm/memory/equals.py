"""Equal tuples of a generation: those with the same goal, observation and action."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ldm.memory.columns import Columns, id_of, outcome_of
from ldm.memory.evidence import Trial, success_of
from ldm.memory.filters import Filter
from ldm.memory.pending import RECENT, Texts

#: Masks that are cached.
KEPT = 32


class Equals:
    """The groups of equal tuples among n tuples."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._masks: dict[tuple[int, Filter | None], NDArray[np.bool_]] = {}
        self._firsts: dict[tuple[int, Filter | None], NDArray[np.bool_]] = {}

    @cached_property
    def _texts(self) -> NDArray[np.int64]:
        return self._columns.same_texts()

    @cached_property
    def _order(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows sorted by their group, and the groups in that order."""
        order = np.argsort(self._texts, kind="stable")
        return order, self._texts[order]

    @cached_property
    def _by_action(self) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """The rows sorted by action and time, and the actions in that order."""
        order = np.lexsort((self._columns["time"], self._columns["action"]))
        return order, self._columns["action"][order]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        used = {
            i for name in ("goal", "observation", "action") for i in self._columns.distinct(name)
        }
        return {self._columns.texts[i]: i for i in used}

    @cached_property
    def _success(self) -> NDArray[np.float64]:
        """The success of each tuple's episode, NaN if unknown."""
        known = {i: success_of(outcome_of(t)) for i, t in self._columns.distinct("outcome").items()}
        values = np.full(max(known, default=0) + 1, np.nan)
        for number, earned in known.items():
            values[number] = np.nan if earned is None else earned
        success: NDArray[np.float64] = values[self._columns["outcome"]]
        return success

    def _rows_of(self, goal: int, observation: int, action: int) -> NDArray[np.int64]:
        """Return the rows with these numbers of texts."""
        columns, size = self._columns, len(self._columns.texts) + 1
        if size**3 >= 2**63:  # then the groups are numbered otherwise, see `Columns.same_texts`
            same = (columns["goal"] == goal) & (columns["observation"] == observation)
            return np.flatnonzero(same & (columns["action"] == action))
        order, groups = self._order
        group = (goal * size + observation) * size + action
        return order[np.searchsorted(groups, group) : np.searchsorted(groups, group, "right")]

    def mask(self, visible: NDArray[np.bool_], accepted: Filter | None) -> NDArray[np.bool_]:
        """Return a mask of the tuples that are visible and accepted."""
        if accepted is None:
            return visible
        key = id(visible), accepted
        if key not in self._masks:
            if len(self._masks) >= KEPT:
                self._masks.clear()
            self._masks[key] = visible & accepted.mask(self._columns)
        return self._masks[key]

    def first(self, visible: NDArray[np.bool_], accepted: Filter | None) -> NDArray[np.bool_]:
        """Return a mask of the first accepted tuple of each group."""
        key = id(visible), accepted
        if key not in self._firsts:
            if len(self._firsts) >= KEPT:
                self._firsts.clear()
            rows = np.flatnonzero(self.mask(visible, accepted))
            first = np.zeros(len(visible), np.bool_)
            first[rows[np.unique(self._texts[rows], return_index=True)[1]]] = True
            self._firsts[key] = first
        return self._firsts[key]

    def distinct(self, visible: NDArray[np.bool_]) -> int:
        """Return the number of visible tuples, those with equal texts and past counted once."""
        pairs = np.stack([self._texts[visible], self._columns["past"][visible]])
        return int(np.unique(pairs, axis=1).shape[1])

    def rows(
        self, texts: Texts, visible: NDArray[np.bool_], accepted: Filter | None = None
    ) -> NDArray[np.int64]:
        """Return the accepted rows with these texts."""
        goal, observation, action = (self._numbers.get(text, -1) for text in texts)
        if -1 in (goal, observation, action):
            return np.empty(0, np.int64)
        rows = self._rows_of(goal, observation, action)
        return rows[self.mask(visible, accepted)[rows]]

    def latest(
        self, action: str, visible: NDArray[np.bool_], accepted: Filter | None
    ) -> NDArray[np.int64]:
        """Return the rows of the latest accepted tuples with an action, at most RECENT."""
        order, actions = self._by_action
        number = self._numbers.get(action, -1)
        start, stop = np.searchsorted(actions, [number, number + 1])
        rows = order[start:stop]
        rows = rows[self.mask(visible, accepted)[rows]]
        return rows[-RECENT:]

    def trials_at(self, rows: NDArray[np.int64]) -> list[tuple[str, Trial]]:
        """Return the id and the trial of each row whose success is known."""
        columns = self._columns
        entries = zip(
            rows.tolist(),
            columns["id"][rows].tolist(),
            columns["time"][rows].tolist(),
            self._success[rows].tolist(),
            strict=True,
        )
        return [
            (id_of(number), Trial(time, row, success))
            for row, number, time, success in entries
            if not math.isnan(success)
        ]
