"""Chroma's files of an HNSW index: the part of them that was never set.

Chroma writes a new index with room for more elements than it holds, and does not set that room: it
is whatever the process had in memory before, such as a key that was sent to a server. It writes
such files also when a memory is only read. So the last one that closes a directory clears them.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import BinaryIO

#: Locked by all that have a directory open in Chroma, together, and by one that clears its files.
OPEN = ".open"

#: The index's numbers, as hnswlib writes them: version, offset, capacity, elements, bytes each, …
HEADER = "header.bin"
_COUNTS = struct.Struct("<i4Q")
VERSION = 1
#: Of each element its vector and neighbours, and its length.
ELEMENTS = "data_level0.bin"
LENGTHS = "length.bin"
_LENGTH_BYTES = 4


def joined(place: Path) -> BinaryIO:
    """Join those that have a directory open in Chroma, until the returned file is closed.

    The directory is created where it is absent. Raises OSError.
    """
    place.mkdir(parents=True, exist_ok=True)
    file = (place / OPEN).open("ab")
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def clear_if_last(place: Path) -> None:
    """Clear the index files of a directory that nobody has open: called after closing it.

    Where others have it open, the last of them clears the files; a killed process leaves them to
    the next one. Raises OSError.
    """
    with (place / OPEN).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        clear_unset(place)


def clear_unset(place: Path) -> None:
    """Set what lies behind the elements of all indices in a memory's directory to zero.

    Nobody may have the directory open in Chroma. Indices of another version than the known one are
    left as they are. Raises OSError.
    """
    for header in sorted(place.glob(f"*/{HEADER}")):
        with header.open("rb") as file:
            start = file.read(_COUNTS.size)
        if len(start) < _COUNTS.size:
            continue
        version, offset, capacity, elements, size = _COUNTS.unpack(start)
        if version != VERSION or offset or elements > capacity:
            continue
        _clear(header.with_name(ELEMENTS), elements * size)
        _clear(header.with_name(LENGTHS), elements * _LENGTH_BYTES)


def _clear(path: Path, start: int) -> None:
    """Set a file's bytes from `start` on to zero, if there are any and they are not."""
    if not path.is_file() or path.stat().st_size <= start:
        return
    with path.open("r+b") as file:
        file.seek(start)
        rest = file.read()
        if rest.count(0) == len(rest):
            return
        file.seek(start)
        file.write(bytes(len(rest)))
        file.flush()
        os.fsync(file.fileno())
