"""Conditions on tuples: by scope, tags, source, origin, task, episode, kind and outcome.

All but the last two hold for whole episodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ldm.errors import MemoryStoreError
from ldm.memory.log import Begin, task_id
from ldm.memory.rows import Mask, Rows, value_of
from ldm.types import Labels, Outcome, Trajectory

Outcomes = Literal["any", "success", "failure"]
#: A name of scope or tags, or one of FIELDS, with the value or values that are accepted.
Where = Mapping[str, str | Sequence[str]]
#: Names with a meaning of their own.
FIELDS = ("source", "origin", "task", "episode")
#: The accepted values of names.
_Values = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on tuples. kind: None for any."""

    where: tuple[tuple[str, tuple[str, ...]], ...] = ()
    kind: str | None = None
    outcomes: Outcomes = "any"

    @classmethod
    def of(cls, where: Where | None, kind: str | None = None, outcomes: Outcomes = "any") -> Filter:
        """Return a filter; raise TypeError or ValueError for what nothing could meet."""
        if outcomes not in get_args(Outcomes):
            raise ValueError(f"outcomes is one of {', '.join(get_args(Outcomes))}")
        conditions = []
        for name, value in (where or {}).items():
            values = (value,) if isinstance(value, str) else tuple(value)
            if not all(isinstance(one, str) for one in values):
                raise TypeError(f"where[{name!r}] must be a text or several, not {value!r:.100}")
            conditions.append((name, values))
        return cls(tuple(sorted(conditions)), kind, outcomes)

    def takes(self, one: Trajectory | Begin) -> bool:
        """Return whether an episode, or one that began so, is accepted."""
        name = one.id if isinstance(one, Trajectory) else one.episode
        of = one.task
        return self._met(_values(one.scope, one.tags, of.leak_key, one.origin, of.id, name))

    def mask(self, rows: Rows) -> Mask:
        """Return a mask of the accepted tuples."""
        accepted = np.ones(len(rows), np.bool_)
        if self.outcomes != "any":
            accepted = rows.with_outcome(self._earned)
        if self.kind is not None:
            accepted &= rows.having("kind", self.kind.__eq__)
        if self.where:
            met = [number for number, values in _episodes(rows) if self._met(values)]
            accepted &= np.isin(rows.columns["trajectory_id"], met)
        return accepted

    def check(self, rows: Rows) -> None:
        """Raise MemoryStoreError for a value that no tuple has."""
        episodes = [values for _, values in _episodes(rows)]
        for name, accepted in self.where:
            known = {value for values in episodes for value in values.get(name, ())}
            for value in accepted:
                if value not in known:
                    raise MemoryStoreError(
                        f"The memory of {rows.env} holds no tuple of the {name} {value!r}.",
                        "`ldm memory search --json` shows them with each tuple.",
                    )

    def _earned(self, outcome: Outcome | None) -> bool:
        return outcome is not None and (outcome.score <= 0) == (self.outcomes == "failure")

    def _met(self, values: _Values) -> bool:
        return all(not {*values.get(name, ())}.isdisjoint(some) for name, some in self.where)


EVERYTHING = Filter()


def _values(
    scope: Labels, tags: Labels, source: str, origin: str, task: str, trajectory: str
) -> _Values:
    """Return what the conditions on an episode are compared with."""
    values = {name: (value,) for name, value in (*tags, *scope)}
    values |= {"source": (source,), "origin": (origin,), "task": (task,)}
    return values | {"episode": (trajectory, task.removeprefix(task_id("")))}


def _episodes(rows: Rows) -> Iterator[tuple[int, _Values]]:
    """Yield the number of each trajectory, and what conditions are compared with."""
    numbers, firsts = np.unique(rows.columns["trajectory_id"], return_index=True)
    names = ("scope", "tags", "source", "origin", "task_id", "trajectory_id")
    for number, row in zip(numbers.tolist(), firsts.tolist(), strict=True):
        scope, tags, *others = (rows.texts[int(rows.columns[name][row])] for name in names)
        yield number, _values(value_of("scope", scope), value_of("tags", tags), *others)
