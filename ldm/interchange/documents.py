"""Read a file's documents, one per line or a list in a JSON file, and the texts of messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ldm.envs.formats import FieldError
from ldm.records import Problem
from ldm.text import parse_json, read_bytes, read_lines

SUFFIX = ".json"

A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message: a text, a thought, a call of a tool or its result."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None


#: None for a message that only calls a tool.
Content = str | tuple[Part, ...] | None


def parts_of(content: Content, where: str, *types: str) -> Iterator[Part]:
    """Yield the parts of a message at the field `where`.

    Raise FieldError for one that neither has a text nor is of these types, such as an image: a step
    without it would be another one.
    """
    for place, part in enumerate(content if isinstance(content, tuple) else ()):
        if part.text is None and part.type not in types:
            raise FieldError(
                f"{where}.{place}", f"a part of the type {part.type!r} is not read here"
            )
        yield part
    if isinstance(content, str):
        yield Part("text", content)


def text_of(content: Content, where: str) -> str:
    """Return the text of a message; raise FieldError for a part that is something else."""
    return "\n".join(part.text or "" for part in parts_of(content, where))


def result_text(value: Any, where: str) -> str:
    """Return the answer of a tool: a text, the text of a message's parts, or JSON as it stands."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(one, dict) and "type" in one for one in value):
        parts = [Part(str(one["type"]), one.get("text")) for one in value]
        return text_of(tuple(parts), where)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
    """Return whether a JSON value is a list of chat messages, or of items of OpenAI's Responses."""
    if not isinstance(value, list) or not value:
        return False
    return all(
        isinstance(one, dict) and isinstance(one.get("role", one.get("type")), str) for one in value
    )
