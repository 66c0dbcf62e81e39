"""Read a file's documents, one per line or a list in a JSON file, and the texts of messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ldm.envs.fields import FieldError
from ldm.records import Problem
from ldm.text import parse_json, read_bytes, read_lines

SUFFIX = ".json"

A = TypeVar("A")
R = TypeVar("R")


def located(read: Callable[[], R], file: str, number: int) -> R | Problem:
    """Return the result of `read`, or the problem with the field that it raises."""
    try:
        return read()
    except FieldError as error:
        return Problem(file, number, error.field, str(error))


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message; images and sounds have no text."""

    type: str
    text: str | None = None


#: None for a message that only calls a tool.
Content = str | tuple[Part, ...] | None


def text_of(content: str | Sequence[Part] | None) -> str:
    """Return the text of a message; a part without text is named in brackets."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(f"[{part.type}]" if part.text is None else part.text for part in content)


def documents(path: Path) -> Iterator[tuple[int, bytes] | Problem]:
    """Yield (number from 1, JSON) of each line, or of each item of a JSON file's list.

    A file that is not JSON is one problem. Raise LdmError if it cannot be read.
    """
    if path.suffix != SUFFIX:
        yield from read_lines(path)
        return
    value = parse_json(read_bytes(path), str(path))
    if isinstance(value, Problem):
        yield value
        return
    several = isinstance(value, list) and not is_bare(value)
    for number, item in enumerate(value if several else [value], 1):
        yield number, json.dumps(item, ensure_ascii=False).encode()


def each(
    path: Path, parse: Callable[[bytes, str, int, A], R | Problem], assumed: A
) -> Iterator[R | Problem]:
    """Yield the result of `parse(document, file, number, assumed)` for each document of a file."""
    for document in documents(path):
        if isinstance(document, Problem):
            yield document
        else:
            number, text = document
            yield parse(text, str(path), number, assumed)


def is_bare(value: Any) -> bool:
    """Return whether a JSON value is a list of chat messages."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in value)
