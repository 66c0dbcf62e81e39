"""The episodes in a file of lines, or in a JSON file that holds one of them or a list."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ldm.records import Problem
from ldm.text import parse_json, read_bytes, read_lines

SUFFIX = ".json"

A = TypeVar("A")
R = TypeVar("R")


def documents(path: Path) -> Iterator[tuple[int, bytes] | Problem]:
    """Yield (number from 1, JSON) of each line, or of each item of a JSON file's list.

    A JSON file that cannot be read is one problem.
    Raises LdmError where the file cannot be read at all.
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
    path: Path,
    parse: Callable[[bytes, str, int, A], R | Problem],
    assumed: A,
) -> Iterator[R | Problem]:
    """Yield what `parse` makes of each document of a file, or the problem with it.

    parse: called with a document, the file's name, the number, and `assumed`.
    """
    for document in documents(path):
        if isinstance(document, Problem):
            yield document
        else:
            number, text = document
            yield parse(text, str(path), number, assumed)


def is_bare(value: Any) -> bool:
    """Return whether a JSON value is an episode by itself: chat messages, and nothing else."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in value)
