"""Files of trajectories in our own schema and in others' formats, told apart by their lines."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from ldm import records
from ldm.envs.field_errors import line_object
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.types import Trajectory

#: Our own schema.
OWN = "ldm"
#: Others' formats → the module that reads them. Adding one is a module and a line here.
FORMATS = {
    "alfworld-conversations": "ldm.envs.alfworld.conversations",
    "webshop-sessions": "ldm.envs.webshop.sessions",
    "webshop-episodes": "ldm.envs.webshop.episodes",
}
SUFFIXES = (".jsonl", ".jsonl.gz")

#: (line number from 1, its text)
Line = tuple[int, str]


class Format(Protocol):
    """What a module in FORMATS offers: `detect`, and `scan` of a file.

    A module whose trajectories are lines offers `parse` in place of `scan`.
    """

    def detect(self, line: Mapping[str, Any]) -> bool:
        """Whether a JSON object is of this format."""
        ...

    def scan(
        self, lines: Iterable[Line], file: str, data: str | None
    ) -> Iterator[Trajectory | Problem]:
        """The trajectories in a file's lines, and what is wrong with some.

        data: a folder with the environment's data, where what was seen may be rebuilt from it.
        """
        ...


class LineFormat(Protocol):
    """A format with a trajectory in each line."""

    def detect(self, line: Mapping[str, Any]) -> bool: ...

    def parse(self, line: Mapping[str, Any], file: str, number: int) -> Trajectory | Problem:
        """The trajectory in a line, or what is wrong with it."""
        ...


def files_below(paths: Iterable[Path]) -> list[Path]:
    """The JSONL files among `paths` and below them, sorted; hidden files and folders are left out.

    Raises LdmError for a path that does not exist, and for a named file of another kind.
    """
    found: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise LdmError(f"{path} does not exist.", "Check the path.")
        if path.is_dir():
            below = (p for p in path.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES))
            visible = (
                p for p in below if not any(q.startswith(".") for q in p.relative_to(path).parts)
            )
            found.update(visible)
        elif path.name.endswith(SUFFIXES):
            found.add(path)
        else:
            raise LdmError(
                f"{path} is not a JSONL file.", f"Trajectory files end in {' or '.join(SUFFIXES)}."
            )
    return sorted(found)


def format_of(path: Path) -> str | None:
    """The format of a file, judged by its first readable line; None where it is none of ours."""
    for _, text in records.numbered_lines(path):
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        return _format_of(line) if isinstance(line, dict) else None
    return None


def read(path: Path, name: str, data: str | None = None) -> Iterator[Trajectory | Problem]:
    """Every trajectory of a file in the format `name`, and what is wrong with lines that have none.

    data: see `Format.scan`.
    """
    if name == OWN:
        yield from records.scan(path, Trajectory)
        return
    reader = _load(name)
    lines = records.numbered_lines(path)
    if hasattr(reader, "scan"):
        yield from reader.scan(lines, str(path), data)
        return
    for number, text in lines:
        line = line_object(text, str(path), number)
        yield line if isinstance(line, Problem) else reader.parse(line, str(path), number)


def _format_of(line: Mapping[str, Any]) -> str | None:
    if {"task", "opening", "steps"} <= line.keys():
        return OWN
    return next((name for name in FORMATS if _load(name).detect(line)), None)


def _load(name: str) -> Format | LineFormat:
    if name not in FORMATS:
        raise LdmError(f"There is no format {name!r}.", f"Known: {', '.join([OWN, *FORMATS])}.")
    return cast("Format | LineFormat", importlib.import_module(FORMATS[name]))
