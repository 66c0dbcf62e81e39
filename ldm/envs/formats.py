"""Read trajectory files in our own schema and in external formats, detected from their lines.

Each environment declares its external formats (`ldm.envs.metadata.Metadata.formats`).
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

from ldm import records
from ldm.envs.field_errors import line_object
from ldm.envs.metadata import metadata_of, registered
from ldm.errors import LdmError, RecordError
from ldm.records import Problem
from ldm.types import Trajectory

#: Our own schema.
OWN = "ldm"
SUFFIXES = (".jsonl", ".jsonl.gz")
#: Invalid records that are reported one by one; the rest are only counted.
MAX_REPORTED = 20

#: (line number from 1, its text)
Line = tuple[int, str]


class Format(Protocol):
    """The functions of a format's module: `detect`, and `scan` for a whole file.

    A module with one trajectory per line has `parse` instead of `scan`.
    """

    def detect(self, line: Mapping[str, Any]) -> bool:
        """Return whether a JSON object has this format."""
        ...

    def scan(
        self, lines: Iterable[Line], file: str, data: str | None
    ) -> Iterator[Trajectory | Problem]:
        """Yield the trajectories in a file's lines, and a problem for each invalid record.

        data: a folder with the environment's data, from which observations can be rebuilt.
        """
        ...


class LineFormat(Protocol):
    """A format with one trajectory per line."""

    def detect(self, line: Mapping[str, Any]) -> bool: ...

    def parse(self, line: Mapping[str, Any], file: str, number: int) -> Trajectory | Problem:
        """Return the trajectory in a line, or the problem with the line."""
        ...


def files_below(paths: Iterable[Path]) -> list[Path]:
    """Return the JSONL files among `paths` and below them, sorted, without hidden ones.

    Raise LdmError for a path that does not exist, and for a file that is not JSONL.
    """
    files: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise LdmError(f"{path} does not exist.", "Check the path.")
        if path.is_dir():
            below = (p for p in path.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES))
            visible = (
                p for p in below if not any(q.startswith(".") for q in p.relative_to(path).parts)
            )
            files.update(visible)
        elif path.name.endswith(SUFFIXES):
            files.add(path)
        else:
            raise LdmError(
                f"{path} is not a JSONL file.", f"Trajectory files end in {' or '.join(SUFFIXES)}."
            )
    return sorted(files)


def format_of(path: Path) -> str | None:
    """Return the format of a file, detected from its first readable line; None if unknown."""
    for _, text in records.numbered_lines(path):
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        return _format_of(line) if isinstance(line, dict) else None
    return None


def read(path: Path, name: str, data: str | None = None) -> Iterator[Trajectory | Problem]:
    """Yield the trajectories of a file in the format `name`, and a problem for each invalid line.

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


def read_all(
    paths: Iterable[Path],
    message: Callable[[str], None],
    *,
    name: str = "",
    strict: bool = False,
    data: Callable[[str], str | None] = lambda name: None,
) -> list[Trajectory]:
    """Return the trajectories of all files below `paths`; invalid records are reported and skipped.

    message: called with each line for the user. name: the files' format, "" to detect it. data:
    format → the data from which observations can be rebuilt.
    Raise RecordError at the first invalid record if `strict`.
    """
    trajectories: list[Trajectory] = []
    problems: list[Problem] = []
    for path in files_below(paths):
        file_format = name or format_of(path)
        if file_format is None:
            message(f"{path}: no trajectories, left out")
            continue
        for record in read(path, file_format, data(file_format)):
            if not isinstance(record, Problem):
                trajectories.append(record)
            elif strict:
                raise RecordError(str(record), "Correct it, or leave --strict out to skip it.")
            else:
                problems.append(record)
    for problem in problems[:MAX_REPORTED]:
        message(str(problem))
    if problems:
        message(f"{len(problems)} bad record(s) left out; {len(trajectories)} read.")
    return trajectories


def data_variable(name: str) -> str:
    """Return the environment variable for the data from which a format's pages can be rebuilt.

    "" if the format, or the environment that it belongs to, has none.
    """
    environments, _ = registered()
    owners = (metadata_of(env) for env in environments.values())
    sources = (owner.data for owner in owners if name in owner.formats)
    return next((source.variable for source in sources if source is not None), "")


def _format_of(line: Mapping[str, Any]) -> str | None:
    if {"task", "opening", "steps"} <= line.keys():
        return OWN
    return next((name for name in _modules() if _load(name).detect(line)), None)


def _load(name: str) -> Format | LineFormat:
    modules = _modules()
    if name not in modules:
        raise LdmError(f"There is no format {name!r}.", f"Known: {', '.join([OWN, *modules])}.")
    return cast("Format | LineFormat", importlib.import_module(modules[name]))


@cache
def _modules() -> dict[str, str]:
    """Return format → module for all registered environments, which are looked up once."""
    environments, _ = registered()
    return {
        name: module
        for env in environments.values()
        for name, module in metadata_of(env).formats.items()
    }
