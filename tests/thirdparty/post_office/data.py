"""The letters: a file letters.jsonl with a person and a room in each line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ldm.envs.metadata import DataCheck
from ldm.errors import LdmError
from ldm.records import Problem

FILE = "letters.jsonl"


@dataclass(frozen=True, slots=True)
class Letter:
    """A letter for a person, and the room where that person is."""

    person: str
    room: str


def check(path: Path | None) -> DataCheck:
    """Read all letters in the folder `path`, and count those for each room."""
    entries = list(_entries(path or Path()))
    rooms = Counter(entry.room for entry in entries if isinstance(entry, Letter))
    problems = tuple(entry for entry in entries if isinstance(entry, Problem))
    return DataCheck("post_office", path, facts={"letters": dict(rooms)}, problems=problems)


def files(path: Path) -> list[Path]:
    """Return the one file. Raise LdmError if it is missing."""
    if not (path / FILE).is_file():
        raise LdmError(f"There is no {path / FILE}.", f"Name the folder with {FILE}.")
    return [path / FILE]


def read(path: Path) -> tuple[Letter, ...]:
    """Return the letters in the folder `path`. Raise LdmError if the file is missing."""
    return tuple(entry for entry in _entries(path) if isinstance(entry, Letter))


def _entries(folder: Path) -> Iterator[Letter | Problem]:
    (file,) = files(folder)
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        fields = json.loads(line)
        if set(fields) == {"person", "room"}:
            yield Letter(**fields)
        else:
            yield Problem(str(file), number, "", "needs a person and a room")
