"""Define what of a trajectory other formats have no field for, and where it rides along.

Messages say what was seen and done, and are what is read; the key `ldm` beside them holds the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

from ldm import records
from ldm.records import Problem
from ldm.types import Count, Origin, Reward, Score, Similarity, Step, Task, Trajectory

T = TypeVar("T")

#: The key for what no field of the format holds.
KEY = "ldm"
#: Of what stands under that key; it changes where an older reader would lose something.
VERSION = 1
#: JSON has no words for numbers that are not finite.
_CONFIG = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True)
class Remainder:
    """What the messages do not say of a trajectory.

    task: with the goal, which the messages have to name, too.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _CONFIG

    version: Literal[1]
    task: Task
    score: Score
    success: bool
    origin: Origin

    def trajectory(self, opening: str, steps: Sequence[Step]) -> Trajectory:
        """Return the trajectory of which the messages said the rest."""
        return Trajectory(self.task, opening, tuple(steps), self.score, self.success, self.origin)


@dataclass(frozen=True, slots=True)
class StepRemainder:
    """What the messages do not say of a step, see `ldm.types.Step`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _CONFIG

    reward: Reward = 0.0
    valid: bool = True
    recalls: tuple[tuple[str, Similarity], ...] = ()
    followed: tuple[Count, ...] | None = None

    def step(self, action: str, observation: str, thought: str) -> Step:
        """Return the step of which the messages said the rest."""
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


def step_remainder(step: Step) -> dict[str, Any]:
    """Return the JSON object for a `StepRemainder`, empty where the defaults hold."""
    return without_defaults(StepRemainder(step.reward, step.valid, step.recalls, step.followed))


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

    notes: end of a field's path → what is added to the message where that field does not fit.
    """
    record = records.parse(text, record_type, file, number)
    if isinstance(record, Problem):
        notes = {f"{KEY}.version": "written by a newer ldm, update yours to read it", **notes}
        for field, note in notes.items():
            if record.field.endswith(field):
                return replace(record, message=f"{record.message}: {note}")
    return record
