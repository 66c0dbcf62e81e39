"""Files of trajectories in our own schema and in others' formats, told apart by their lines."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from ldm import records
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.types import Trajectory

#: Our own schema.
OWN = "ldm"
#: Others' formats → the module that reads them. Adding one is a module and a line here.
FORMATS = {"alfworld-conversations": "ldm.envs.alfworld.conversations"}
SUFFIXES = (".jsonl", ".jsonl.gz")


class Format(Protocol):
    """What a module in FORMATS offers."""

    def detect(self, line: Mapping[str, Any]) -> bool:
        """Whether a JSON object is of this format."""
        ...

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


def read(path: Path, name: str) -> Iterator[Trajectory | Problem]:
    """Every line of a file in the format `name`, as a trajectory or as what is wrong with it."""
    if name == OWN:
        yield from records.scan(path, Trajectory)
        return
    reader = _load(name)
    for number, text in records.numbered_lines(path):
        try:
            line = json.loads(text)
        except json.JSONDecodeError as error:
            yield Problem(str(path), number, "", f"not JSON: {error.msg}")
            continue
        if isinstance(line, dict):
            yield reader.parse(line, str(path), number)
        else:
            yield Problem(str(path), number, "", "not a JSON object")


def _format_of(line: Mapping[str, Any]) -> str | None:
    if {"task", "opening", "steps"} <= line.keys():
        return OWN
    return next((name for name in FORMATS if _load(name).detect(line)), None)


def _load(name: str) -> Format:
    if name not in FORMATS:
        raise LdmError(f"There is no format {name!r}.", f"Known: {', '.join([OWN, *FORMATS])}.")
    return cast(Format, importlib.import_module(FORMATS[name]))
