"""Parse a line as a JSON object, and take typed fields from it; errors name the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldm.text import Problem, parse_json

#: The largest number in a recording: an integer of a thousand digits is no float.
MOST = 1e300


class FieldError(Exception):
    """A field of the wrong type or value. field: its path, such as "goal" or "steps.3.action"."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def line_object(text: str | bytes, file: str, number: int) -> Mapping[str, Any] | Problem:
    """Return the JSON object in line `number` of `file`, or the problem with the line."""
    value = parse_json(text, file, number)
    if isinstance(value, dict | Problem):
        return value
    return Problem(file, number, "", "not a JSON object")


def text_in(line: Mapping[str, Any], name: str, path: str = "") -> str:
    """Return the text in field `name`; raise FieldError if it is missing, blank or not a text.

    path: the field's path in the error; "" for `name`.
    """
    value = line.get(name)
    if not isinstance(value, str) or not value.strip():
        raise FieldError(path or name, "missing, empty or not a text")
    return value


def reward_in(line: Mapping[str, Any]) -> float:
    """Return the reward in [0, 1] of a recording; raise FieldError if there is none."""
    reward = number_in(line, "reward")
    if not 0 <= reward <= 1:
        raise FieldError("reward", f"not between 0 and 1: {reward}")
    return reward


def number_in(line: Mapping[str, Any], name: str) -> float:
    """Return the finite number in field `name`; raise FieldError if there is none."""
    value = line.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= MOST:
        raise FieldError(name, "missing or not a number")
    return float(value)
