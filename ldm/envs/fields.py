"""Read the lines of others' recordings as dataclasses; problems name the field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from ldm import records
from ldm.records import Problem
from ldm.text import read_lines

A = TypeVar("A")
R = TypeVar("R")


class FieldError(Exception):
    """A field of the wrong type or value. field: its path, such as "goal" or "steps.3.action"."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "is empty")
    return text


#: A text with more than white space.
Text = Annotated[str, AfterValidator(_not_blank)]


def located(read: Callable[[], R], file: str, number: int) -> R | Problem:
    """Return the result of `read`, or the problem with the field that it raises."""
    try:
        return read()
    except FieldError as error:
        return Problem(file, number, error.field, str(error))


def parsed(
    text: str | bytes, line_type: type[A], make: Callable[[A], R], file: str, number: int
) -> R | Problem:
    """Return `make` of a line that was read as a dataclass, or the problem with the line."""
    line = records.parse(text, line_type, file, number, foreign=True)
    return line if isinstance(line, Problem) else located(lambda: make(line), file, number)


def read_as(path: Path, line_type: type[A], make: Callable[[A], R]) -> Iterator[R | Problem]:
    """Yield `parsed` for each line of a file."""
    for number, text in read_lines(path):
        yield parsed(text, line_type, make, str(path), number)
