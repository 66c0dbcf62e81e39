"""An embedder that computes each distinct text once and keeps vectors in memory and on disk.

The file is shared by runs and worker processes; it may fail without any loss. A key covers the text
and the encoder, identified by its vectors of known texts: other weights, another version of a
library or another processor have a file of their own. It is a sequence of records of one length,
each a key, a vector and their checksum. Writers append; readers look at what was appended since. A
vector that is read thus equals the computed one, to the bit.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ldm.embed import pieces
from ldm.errors import LdmError
from ldm.files import unfollowed
from ldm.parallel import ForkLock

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
#: Returns the vectors of texts.
Compute = Callable[[Sequence[str]], Mapping[str, NDArray[np.float32]]]
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
        with suppress(OSError), open(self._path, "rb", opener=unfollowed) as file:
            self._look(file)
            for text in texts:
                key = self._key(text)
                if (place := self._places.get(key)) is None:
                    continue
                file.seek(place)
                record = file.read(self._length)
                if record == _record(key, record[KEY:-SUM]):  # else damaged, or begun anew
                    vectors[text] = np.frombuffer(record[KEY:-SUM], np.float32)
        return vectors

    def vectors(self, texts: Sequence[str], compute: Compute) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of texts; those that are not in the file are computed and stored."""
        known = self.read(texts)
        if new := [text for text in texts if text not in known]:
            computed = compute(new)
            self.write(computed)
            known |= computed
        return known

    def write(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Store the vectors if possible; drop the others if the file becomes too large.

        Nothing is stored while another process writes.
        """
        added = b"".join(_record(self._key(text), one.tobytes()) for text, one in vectors.items())
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(self._path, "ab", opener=unfollowed) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                end = os.fstat(file.fileno()).st_size
                whole = end - end % self._length  # a killed writer may have left half a record
                file.truncate(whole if whole + len(added) <= self._limit else 0)
                file.write(added)

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


#: Maximum vectors in memory; the texts of an episode repeat a lot.
CACHE_SIZE = 8_000
#: Maximum deviation of a vector's length from 1; others are scaled.
UNIT = 1e-3


class CachingEmbedder:
    """An embedder that asks another only for texts that are new. Thread-safe.

    The other computes for one thread at a time. Texts in the cache wait for none.
    """

    def __init__(
        self,
        source: Embedder,
        stored: VectorFile | None = None,
        *,
        on_disk: bool = True,
        size: int = CACHE_SIZE,
    ) -> None:
        """Wrap `source`.

        stored: keeps vectors beyond this process. on_disk: whether it may. size: the maximum number
            of vectors in memory.
        """
        self._size = size
        self.on_disk = on_disk
        self.source = source
        self.name = source.name
        self._stored = stored
        self._cache: dict[str, NDArray[np.float32]] = {}
        self._computing = ForkLock()

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self.source.dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors; cached ones have the same bits as computed ones.

        Raises LdmError if the source does not return a finite vector for each text.
        """
        known = self._known(texts)
        if len(known) < len(set(texts)):
            with self._computing:
                known |= self._known(text for text in texts if text not in known)
                new = sorted({text for text in texts if text not in known})
                if new and self._stored:
                    known |= self._stored.vectors(new, self._computed)
                elif new:
                    known |= self._computed(new)
                surplus = len(self._cache) + len(new) - self._size
                for text in list(islice(self._cache, max(0, surplus))):
                    del self._cache[text]
                self._cache |= {text: known[text] for text in new[: self._size]}
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return np.array([known[text] for text in texts])

    def _known(self, texts: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        cached = ((text, self._cache.get(text)) for text in texts)
        return {text: vector for text, vector in cached if vector is not None}

    def _computed(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        vectors = np.asarray(self.source.embed(texts), np.float32)
        shape = (len(texts), self.dimension)
        if vectors.shape != shape or not np.isfinite(vectors).all():
            raise LdmError(
                f"The embedder {self.name!r} returned an array of shape {vectors.shape} for"
                f" {len(texts)} texts, or one with infinite values.",
                f"It must return {shape}, a finite vector for each text.",
            )
        if (np.abs(np.linalg.norm(vectors, axis=1) - 1) > UNIT).any():
            vectors = pieces.unit(vectors)
        return dict(zip(texts, vectors, strict=True))
