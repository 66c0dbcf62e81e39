"""Conditions on tuples: by scope, tags, source, origin, episode, kind and outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ldm.memory.columns import Columns, labels_of
from ldm.memory.log import Begin, task_id
from ldm.types import Labels, Outcome, Trajectory

Outcomes = Literal["any", "success", "failure"]
#: A name of scope or tags, or one of FIELDS, with the value or values that are accepted.
Where = Mapping[str, str | Sequence[str]]
#: Names with a meaning of their own.
FIELDS = ("source", "origin", "episode")


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on tuples. kind: None for any."""

    where: tuple[tuple[str, tuple[str, ...]], ...]
    kind: str | None
    outcomes: Outcomes

    @classmethod
    def of(cls, where: Where | None, kind: str | None, outcomes: Outcomes) -> Filter | None:
        """Return a filter, or None if it would accept everything.

        Raises TypeError or ValueError for a condition that nothing could meet.
        """
        if outcomes not in get_args(Outcomes):
            raise ValueError(f"outcomes is one of {', '.join(get_args(Outcomes))}")
        conditions = []
        for name, value in (where or {}).items():
            values = (value,) if isinstance(value, str) else tuple(value)
            if not all(isinstance(one, str) for one in values):
                raise TypeError(f"where[{name!r}] must be a text or several, not {value!r:.100}")
            conditions.append((name, values))
        if not conditions and kind is None and outcomes == "any":
            return None
        return cls(tuple(sorted(conditions)), kind, outcomes)

    def takes(self, one: Trajectory) -> bool:
        """Return whether an episode is accepted."""
        fields = {"source": one.task.leak_key, "origin": one.origin}
        return self._matches(one.scope, one.tags, fields, (one.id, one.task.id))

    def began(self, one: Begin) -> bool:
        """Return whether the beginning of an episode is accepted."""
        fields = {"source": one.source, "origin": one.origin}
        return self._matches(one.scope, one.tags, fields, (one.episode, task_id(one.episode)))

    def mask(self, columns: Columns) -> NDArray[np.bool_]:
        """Return a mask of the accepted tuples."""
        accepted = columns.with_outcome(self._earned)
        if self.kind is not None:
            accepted &= columns.having("kind", self.kind.__eq__)
        for name, values in self.where:
            if name == "episode":
                one = columns.having("trajectory_id", values.__contains__)
                ids = {task_id(value) for value in values}
                accepted &= one | columns.having("task_id", ids.__contains__)
            elif name in FIELDS:
                accepted &= columns.having(name, values.__contains__)
            else:

                def labelled(text: str, name: str = name, values: Sequence[str] = values) -> bool:
                    return dict(labels_of(text)).get(name) in values

                accepted &= columns.having("scope", labelled) | columns.having("tags", labelled)
        return accepted

    def _earned(self, outcome: Outcome | None) -> bool:
        if self.outcomes == "any":
            return True
        failed = outcome is not None and (outcome.is_warning or outcome.score <= 0)
        return failed == (self.outcomes == "failure")

    def _matches(
        self, scope: Labels, tags: Labels, fields: Mapping[str, str], ids: Sequence[str]
    ) -> bool:
        for name, values in self.where:
            if name == "episode":
                met = any(one in values or one in map(task_id, values) for one in ids)
            elif name in fields:
                met = fields[name] in values
            else:
                met = dict(scope).get(name) in values or dict(tags).get(name) in values
            if not met:
                return False
        return True
