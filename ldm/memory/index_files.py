"""Clearing uninitialised memory from Chroma's HNSW index files.

Chroma writes an index with room for more elements than it holds and does not initialise that room,
so it may hold secrets of the process. It does so even when a memory is only read. So the last
process that closes a directory clears the room.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import BinaryIO

#: Locked shared by all processes that have a directory open in Chroma, exclusively to clear files.
OPEN = ".open"

#: Written by hnswlib: version, offset, capacity, elements, bytes per element, …
HEADER = "header.bin"
_COUNTS = struct.Struct("<i4Q")
VERSION = 1
#: The vector and neighbours of each element, and its length.
ELEMENTS = "data_level0.bin"
LENGTHS = "length.bin"
_LENGTH_BYTES = 4


def joined(place: Path) -> BinaryIO:
    """Register that a directory is open in Chroma, until the returned file is closed.

    An absent directory is created. Raises OSError.
    """
    place.mkdir(parents=True, exist_ok=True)
    file = (place / OPEN).open("ab")
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def clear_if_last(place: Path) -> None:
    """Clear the index files of a directory after closing it, unless another process has it open.

    The next process clears the files of a killed one. Raises OSError.
    """
    with (place / OPEN).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        clear_unset(place)


def clear_unset(place: Path) -> None:
    """Zero the room after the elements of all indices in a memory's directory.

    No process may have it open in Chroma. Indices of an unknown version are left alone. Raises
    OSError.
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
    """Zero the bytes of a file from `start` on."""
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
