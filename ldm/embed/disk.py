"""A vector cache in a file that runs and worker processes share; it may fail without any loss.

A key covers the text and the encoder, identified by its vectors of known texts: other weights,
another version of a library or another processor have a file of their own. It is a sequence of
records of one length, each a key, a vector and their checksum. Writers append; readers look at what
was appended since. A vector that is read thus equals the computed one, to the bit.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ldm.embed import pieces
from ldm.files import unfollowed

if TYPE_CHECKING:
    from ldm.embed import Embedder

FILES = "embeddings-*.bin"
#: Maximum bytes of a file; beyond it all vectors are dropped, and those in use come again.
LIMIT = 200_000_000
#: Records read at a time.
CHUNK = 1_000
#: Texts of few and of many tokens, because libraries choose their methods by size.
PROBES = (
    "",
    "heat some egg and put it in fridge.",
    "You open the drawer 1. The drawer 1 is open. In it, you see a cloth 1, and a pen 2. " * 3,
)
#: Bytes of a key, and of the checksum after each vector.
KEY, SUM = 32, 4


def remove(folder: Path) -> bool:
    """Remove the cached vectors in a folder; return whether there were any.

    The vectors of single texts cannot be removed, because only hashes of texts are kept.
    """
    files = list(folder.glob(FILES))
    for file in files:
        file.unlink(missing_ok=True)
    return bool(files)


class VectorFile:
    """The vectors of one encoder in a file of a folder; for one thread at a time."""

    def __init__(self, folder: Path, encoder: Embedder, limit: int = LIMIT) -> None:
        """Take the folder of the file, which is opened when needed. limit: its size in bytes."""
        self._folder = folder
        self._encoder = encoder
        self._limit = limit
        self._places: dict[bytes, int] = {}
        self._end = 0

    def read(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of the texts that are in the file."""
        vectors: dict[str, NDArray[np.float32]] = {}
        try:
            with open(self._path, "rb", opener=unfollowed) as file:
                self._look(file)
                for text in texts:
                    key = self._key(text)
                    if (place := self._places.get(key)) is None:
                        continue
                    file.seek(place)
                    record = file.read(self._length)
                    if record == _record(key, record[KEY:-SUM]):  # else damaged, or begun anew
                        vectors[text] = np.frombuffer(record[KEY:-SUM], np.float32)
        except OSError:
            pass
        return vectors

    def write(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Store the vectors if possible; drop the others if the file becomes too large.

        Nothing is stored while another process writes.
        """
        added = b"".join(_record(self._key(text), one.tobytes()) for text, one in vectors.items())
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(self._path, "ab", opener=unfollowed) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                end = os.fstat(file.fileno()).st_size
                whole = end - end % self._length  # a killed writer may have left half a record
                file.truncate(whole if whole + len(added) <= self._limit else 0)
                file.write(added)
        except OSError:
            pass

    def _look(self, file: IO[bytes]) -> None:
        """Note the places of the records that were appended since the last look."""
        if os.fstat(file.fileno()).st_size < self._end:
            self._places, self._end = {}, 0
        file.seek(self._end)
        while content := file.read(CHUNK * self._length):
            for start in range(0, len(content) - self._length + 1, self._length):
                self._places[content[start : start + KEY]] = self._end
                self._end += self._length

    @property
    def _length(self) -> int:
        """The bytes of a record."""
        return KEY + 4 * self._encoder.dimension + SUM

    @property
    def _path(self) -> Path:
        return self._folder / FILES.replace("*", self._identity.hex()[:16])

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(self._identity + text.encode("utf-8", "surrogatepass")).digest()

    @cached_property
    def _identity(self) -> bytes:
        """A digest of the encoder and of the machine's arithmetic."""
        vectors = self._encoder.embed(PROBES)
        described = f"{self._encoder.name}\0{pieces.LIMIT}\0{vectors.shape}\0".encode()
        return hashlib.sha256(described + vectors.tobytes()).digest()


def _record(key: bytes, vector: bytes) -> bytes:
    """Return a record, whose checksum reveals a damaged vector, or one of another text."""
    return key + vector + zlib.crc32(key + vector).to_bytes(SUM, "big")
