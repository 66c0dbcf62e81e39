"""Helpers for all importers: parse a line as JSON, and report the field that is invalid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldm.text import Problem, parse_json

#: No number in a recording is larger; an integer of a thousand digits is no float.
MOST = 1e300


class FieldError(Exception):
    """A field whose type or value its format does not allow.

    field: its path within the line, such as "goal" or "steps.3.action".
    """

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

    path: how the error names the field; "" for `name`.
    """
    value = line.get(name)
    if not isinstance(value, str) or not value.strip():
        raise FieldError(path or name, "missing, empty or not a text")
    return value


def number_in(line: Mapping[str, Any], name: str) -> float:
    """Return the finite number in field `name`; raise FieldError if there is none."""
    value = line.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= MOST:
        raise FieldError(name, "missing or not a number")
    return float(value)
