"""What importers of other formats share: reading a line, and saying which field is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ldm.records import Problem


class Wrong(Exception):
    """A field that is not as the format has it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def line_object(text: str, file: str, number: int) -> Mapping[str, Any] | Problem:
    """The JSON object in a line, or what is wrong with it."""
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        return Problem(file, number, "", f"not JSON: {getattr(error, 'msg', error)}")
    return found if isinstance(found, dict) else Problem(file, number, "", "not a JSON object")


def text_in(line: Mapping[str, Any], name: str, path: str = "") -> str:
    """The text in field `name`, with something in it. Raises Wrong."""
    value = line.get(name)
    if not isinstance(value, str) or not value.strip():
        raise Wrong(path or name, "missing, empty or not a text")
    return value


def number_in(line: Mapping[str, Any], name: str) -> float:
    """The finite number in field `name`. Raises Wrong."""
    value = line.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise Wrong(name, "missing or not a number")
    return float(value)
