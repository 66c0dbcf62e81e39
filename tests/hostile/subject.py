"""A format that is attacked: a sound example, how it is read, and by which commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

#: Commands in which FILE is the file, FOLDER its folder, PARENT the folder of that, GAMES the data.
NEW = "NEW"
IMPORT = "import FILE --out out.jsonl --env kitchen"
VALIDATE = "validate FILE"


def _as_it_is(content: bytes) -> bytes:
    return content


@dataclass(frozen=True)
class Subject:
    """A format. read: what a command makes of the file; its results may hold problems.

    by_line: whether each line is a record of its own, of which none may be lost. torn_tail: except
    a last one without its end, which a killed process has left.
    wrap: what becomes of the content, changed or not, before it is a file: packed, with a checksum.
    commands: whole commands that take the file.
    """

    name: str
    file: str
    content: bytes
    read: Callable[[Path], Iterable[object]]
    by_line: bool = False
    torn_tail: bool = False
    wrap: Callable[[bytes], bytes] = _as_it_is
    commands: tuple[str, ...] = ()
