"""Fields of a trajectory that other formats lack, kept under the key `ldm`.

Observations and actions are read from the messages; the key holds the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

from ldm import records
from ldm.records import Problem
from ldm.types import Count, Origin, Reward, Score, Similarity, Step, Task, Trajectory

T = TypeVar("T")

#: The key of the fields that a format lacks.
KEY = "ldm"
#: Version of the content of that key; it changes if an older reader would lose data.
VERSION = 1
#: JSON has no infinite numbers.
_CONFIG = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True)
class Remainder:
    """Fields of a trajectory that messages lack.

    task: with the goal, which the messages must have, too.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _CONFIG

    version: Literal[1]
    task: Task
    score: Score
    success: bool
    origin: Origin

    def trajectory(self, opening: str, steps: Sequence[Step]) -> Trajectory:
        """Return the trajectory with the fields of the messages."""
        return Trajectory(self.task, opening, tuple(steps), self.score, self.success, self.origin)


@dataclass(frozen=True, slots=True)
class StepRemainder:
    """Fields of a step that messages lack, see `ldm.types.Step`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _CONFIG

    reward: Reward = 0.0
    valid: bool = True
    recalls: tuple[tuple[str, Similarity], ...] = ()
    followed: tuple[Count, ...] | None = None

    def step(self, action: str, observation: str, thought: str) -> Step:
        """Return the step with the fields of the messages."""
        return Step(
            action, observation, self.reward, thought, self.valid, self.recalls, self.followed
        )


def remainder(trajectory: Trajectory) -> dict[str, Any]:
    """Return the JSON object for a `Remainder`."""
    return {
        "version": VERSION,
        "task": without_defaults(trajectory.task),
        "score": trajectory.score,
        "success": trajectory.success,
        "origin": trajectory.origin,
    }


def without_defaults(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults, nested ones alike."""
    data = {}
    for field in fields(value):
        held = getattr(value, field.name)
        if field.default is MISSING or held != field.default:
            data[field.name] = without_defaults(held) if is_dataclass(held) else held
    return data


def parsed(
    text: str | bytes, record_type: type[T], file: str, number: int, notes: Mapping[str, str]
) -> T | Problem:
    """Return the record in a text, or the problem with it.

    notes: end of a field's path → addition to the message of a problem with it.
    """
    record = records.parse(text, record_type, file, number)
    if isinstance(record, Problem):
        notes = {f"{KEY}.version": "written by a newer ldm, update yours to read it", **notes}
        for field, note in notes.items():
            if record.field.endswith(field):
                return replace(record, message=f"{record.message}: {note}")
    return record
