"""A vector cache in a file that runs and worker processes share; it may fail without any loss.

A key covers the text and the encoder, identified by its vectors of known texts: other weights,
another version of a library or another processor have their own keys. A vector that is read thus
equals the computed one, to the bit.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import weakref
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldm.embed import pieces

if TYPE_CHECKING:
    from ldm.embed import Embedder

FILE = "embeddings.sqlite"
#: Maximum bytes of the file; beyond it all vectors are dropped, and those in use come again.
LIMIT = 200_000_000
#: Vectors written between two checks of the file's size.
BETWEEN_CHECKS = 1_000
#: Seconds to wait for another process that writes: about the time to compute a vector.
PATIENCE = 0.02
#: Texts per lookup.
CHUNK = 500
#: Texts of few and of many tokens, because libraries choose their methods by size.
PROBES = (
    "",
    "heat some egg and put it in fridge.",
    "You open the drawer 1. The drawer 1 is open. In it, you see a cloth 1, and a pen 2. " * 3,
)
#: Bytes of the checksum after each vector.
SUM = 4
#: Suffixes of the file and of SQLite's files beside it.
_SUFFIXES = ("", "-wal", "-shm")
#: Maximum deviation of a vector's length from 1.
UNIT = 1e-3
#: Connections of a parent process, which are never closed here.
_INHERITED: list[sqlite3.Connection | None] = []
TABLE = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)"


def remove(folder: Path) -> bool:
    """Remove the cached vectors in a folder; return whether there were any.

    The vectors of single texts cannot be removed, because only hashes of texts are kept.
    """
    files = [folder / f"{FILE}{suffix}" for suffix in _SUFFIXES]
    there = any(file.exists() for file in files)
    for file in files:
        file.unlink(missing_ok=True)
    return there


class VectorFile:
    """The vectors of one encoder in a folder's vectors.sqlite; for one thread at a time."""

    def __init__(self, folder: Path, encoder: Embedder, limit: int = LIMIT) -> None:
        """Take the folder of the file, which is opened when needed. limit: its size in bytes."""
        self._path = folder / FILE
        self._encoder = encoder
        self._limit = limit
        self._database: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._unchecked = 0
        self._given_up = False

    def read(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of the texts that are in the file."""
        vectors: dict[str, NDArray[np.float32]] = {}
        if self._given_up:
            return vectors
        text_of = {self._key(text): text for text in texts}
        keys = list(text_of)
        try:
            for start in range(0, len(keys), CHUNK):
                for key, row in self._rows(keys[start : start + CHUNK]):
                    if not isinstance(row, bytes):  # SQLite takes any value
                        continue
                    vector, checksum = row[:-SUM], row[-SUM:]
                    if checksum == _sum(key, vector):
                        held = np.frombuffer(vector, np.float32)
                        if self._is_sound(held):
                            vectors[text_of[key]] = held
        except (sqlite3.Error, OSError) as error:
            self._consider(error)
        return vectors

    def _is_sound(self, vector: NDArray[np.float32]) -> bool:
        """Return whether a vector can be the encoder's; a damaged one is computed again."""
        whole = len(vector) == self._encoder.dimension
        return whole and abs(float(np.linalg.norm(vector)) - 1) <= UNIT

    def write(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Store the vectors if possible; drop the others if the file is too large."""
        if self._given_up:
            return
        named = [(self._key(text), vector.tobytes()) for text, vector in vectors.items()]
        rows = [(key, vector + _sum(key, vector)) for key, vector in named]
        try:
            database = self._opened()
            with database:
                database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
            self._unchecked += len(rows)
            if self._unchecked >= BETWEEN_CHECKS:
                self._shrink(database)
        except (sqlite3.Error, OSError) as error:
            self._consider(error)

    def _rows(self, keys: Sequence[bytes]) -> list[tuple[bytes, Any]]:
        """Return the keys found with their vectors."""
        database, marks = self._opened(), ",".join("?" * len(keys))
        query = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608
        return database.execute(query, keys).fetchall()

    def _opened(self) -> sqlite3.Connection:
        if self._process != os.getpid():  # SQLite forbids to use or close a parent's connection
            _INHERITED.append(self._database)
            self._process, self._database = os.getpid(), None
        if self._database is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Its user lets one thread in at a time, but not always the same.
            opened = sqlite3.connect(self._path, timeout=PATIENCE, check_same_thread=False)
            weakref.finalize(self, _closed, opened, self._process)
            opened.execute("PRAGMA journal_mode = WAL")
            opened.execute("PRAGMA synchronous = NORMAL")  # in this mode a crash tears nothing
            opened.execute(TABLE)
            self._shrink(opened)
            self._database = opened
        return self._database

    def _shrink(self, database: sqlite3.Connection) -> None:
        """Drop all vectors if they need more than the limit."""
        self._unchecked = 0
        [pages], [free], [size] = (
            database.execute(f"PRAGMA {name}").fetchone()
            for name in ("page_count", "freelist_count", "page_size")
        )
        if (pages - free) * size > self._limit:
            with database:
                database.execute("DELETE FROM vectors")

    def _consider(self, error: Exception) -> None:
        """Try again later if another process is writing; otherwise give the file up."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return
        self._given_up = True
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            for suffix in _SUFFIXES:  # the next process starts a new one
                try:
                    Path(f"{self._path}{suffix}").unlink(missing_ok=True)
                except OSError:
                    return

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(self._identity + text.encode("utf-8", "surrogatepass")).digest()

    @cached_property
    def _identity(self) -> bytes:
        """A digest of the encoder and of the machine's arithmetic."""
        vectors = self._encoder.embed(PROBES)
        described = f"{self._encoder.name}\0{pieces.LIMIT}\0{vectors.shape}\0".encode()
        return hashlib.sha256(described + vectors.tobytes()).digest()


def _closed(database: sqlite3.Connection, process: int) -> None:
    """Close a connection in the process that opened it."""
    if process == os.getpid():
        database.close()


def _sum(key: bytes, vector: bytes) -> bytes:
    """Return a checksum that reveals a damaged vector, or one of another text."""
    return zlib.crc32(vector, zlib.crc32(key)).to_bytes(SUM, "big")
