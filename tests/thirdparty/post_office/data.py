"""The letters: a file letters.jsonl with a person and a room in each line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ldm.errors import LdmError
from ldm.records import Problem


@dataclass(frozen=True, slots=True)
class Letter:
    """A letter for a person, and the room where that person is."""

    person: str
    room: str


@dataclass(frozen=True, slots=True)
class Report:
    """How many letters there are for each room, and which lines are none."""

    letters: tuple[Letter, ...]
    problems: tuple[Problem, ...]

    def lines(self) -> Iterator[str]:
        rooms = Counter(letter.room for letter in self.letters)
        yield f"Post office: {len(self.letters)} letters"
        for room, count in sorted(rooms.items()):
            yield f"  {room}: {count}"

    def as_json(self) -> dict[str, Any]:
        return {
            "letters": len(self.letters),
            "problems": [asdict(problem) for problem in self.problems],
        }


def check(path: Path | None) -> Report:
    """Read all letters in the folder `path`."""
    entries = list(_entries(path or Path()))
    letters = tuple(entry for entry in entries if isinstance(entry, Letter))
    return Report(letters, tuple(entry for entry in entries if isinstance(entry, Problem)))


def summary(path: Path) -> str:
    """Say in a line how many letters there are."""
    return f"{len(read(path))} letters in {path}"


def read(path: Path) -> tuple[Letter, ...]:
    """Return the letters in the folder `path`. Raises LdmError where there are none."""
    return check(path).letters


def _entries(folder: Path) -> Iterator[Letter | Problem]:
    file = folder / "letters.jsonl"
    if not file.is_file():
        raise LdmError(f"There is no {file}.", "Name the folder with letters.jsonl.")
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        fields = json.loads(line)
        if set(fields) == {"person", "room"}:
            yield Letter(**fields)
        else:
            yield Problem(str(file), number, "", "needs a person and a room")
