"""A format that is attacked: a sound example, how it is read, and by which commands."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

#: In commands: FILE is the file, FOLDER its folder, NEW a place that does not exist yet.
NEW = "NEW"
IMPORT = "import FILE --out NEW --env kitchen"
VALIDATE = "validate FILE"


@dataclass(frozen=True)
class Subject:
    """A format.

    read: returns records and Problems, or raises LdmError. by_line: each line is a record of its
    own, of which none may be lost. torn_tail: except a last one without a newline.
    wrap: makes the file of the content: packs it, or adds a checksum.
    """

    name: str
    file: str
    content: bytes
    read: Callable[[Path], Iterable[object]]
    by_line: bool = False
    torn_tail: bool = False
    wrap: Callable[[bytes], bytes] = bytes
    commands: tuple[str, ...] = ()
