"""Snapshots: the tuples of a memory in files that readers map into memory.

They lie beside a memory in a directory, and in the user's cache for one on a server. Each
environment has one, of its newest generation, which includes all earlier ones. It is a folder:

- `texts.arrow`: the distinct texts; `tuples.arrow`: the columns of `Columns`; `pasts.arrow`;
- `vectors.npy`: the distinct vectors, float32, to which the tuples refer by number;
- `kinds.json`: the kind classifier;
- `manifest.json`: format, generation, batches, a checksum of each other file, and its own checksum
  in the last line.

A snapshot is written to a temporary folder and renamed. A missing or damaged one is made again from
Chroma, the store of record. `catalog.json` lists the generations, with the state of the database
that they were read from, and its checksum in the last line. A writer replaces it when a generation
is complete; until then readers use the previous one.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ldm import records
from ldm.errors import LdmError
from ldm.memory.addresses import is_server
from ldm.memory.columns import NUMBERS, TEXTS, Columns, Vectors
from ldm.memory.contents import Contents
from ldm.memory.index import FORMAT, BatchIndex, Generation
from ldm.memory.kind_classifier import KindWeights
from ldm.memory.rows import Rows
from ldm.text import check_file, read_array
from ldm.types import stable_hash

if TYPE_CHECKING:
    import polars as pl

SNAPSHOTS = "snapshots"
#: The folder of the snapshots of memories on servers.
CACHE = Path.home() / ".cache" / "ldm" / SNAPSHOTS
CATALOG = "catalog.json"
MANIFEST = "manifest.json"
TABLES = ("texts.arrow", "tuples.arrow", "pasts.arrow")
VECTORS = "vectors.npy"
KINDS = "kinds.json"
CHUNK = 1 << 20
#: Errors that a damaged or half-removed file may raise; polars has errors of its own.
DAMAGE = (OSError, ValueError, LookupError, LdmError)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a snapshot; written last. files: the CRC-32 of each file."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    format: int
    generation: Generation
    batches: tuple[BatchIndex, ...]
    files: dict[str, int]


@dataclass(frozen=True, slots=True)
class Catalog:
    """The generations of all environments. stamp: the state of the database they are from."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    format: int
    stamp: tuple[int, ...]
    generations: dict[str, tuple[Generation, ...]]


class MappedTexts(Sequence[str]):
    """Texts of a mapped Arrow column."""

    def __init__(self, column: pl.Series) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, at: Any) -> Any:
        return self._column[at]

    def __iter__(self) -> Iterator[str]:
        return iter(self._column.to_list())


def folder_of(location: str) -> Path:
    """Return the folder of a memory's snapshots."""
    return CACHE / stable_hash(location) if is_server(location) else Path(location) / SNAPSHOTS


def read(
    location: str, present: Sequence[Generation], number: int | None = None
) -> Contents | None:
    """Return a generation from the snapshot, or None if that is missing or damaged.

    present: the complete generations, oldest first. number: of one of them; None for the newest.
    """
    if not present:
        return None
    newest = _read(_place(location, present[-1]), present[-1])
    if newest is None or number in (None, present[-1].number):
        return newest
    return newest.at(next(g for g in present if g.number == number))


def _read(place: Path, generation: Generation) -> Contents | None:
    import polars as pl

    try:
        for name in (MANIFEST, *TABLES, VECTORS, KINDS):
            check_file(place / name)
        manifest = records.loads(_sealed(place / MANIFEST), Manifest)
        sums = {name: _checksum(place / name) for name in manifest.files}
        if (manifest.format, manifest.generation, manifest.files) != (FORMAT, generation, sums):
            return None
        texts, tuples, pasts = (pl.read_ipc(place / name) for name in TABLES)
        values = {name: tuples[name].to_numpy() for name in (*TEXTS, *NUMBERS)}
        nodes = np.stack([pasts[name].to_numpy() for name in pasts.columns], axis=1)
        columns = Columns(generation.env, MappedTexts(texts["text"]), values, nodes)
        kinds = records.loads((place / KINDS).read_bytes(), KindWeights)
        distinct = read_array(place / VECTORS, mapped=True).view(np.ndarray)  # indexed faster
    # A PanicException of its Rust code is no Exception.
    except (*DAMAGE, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    vectors = Vectors.of(distinct, columns)
    return Contents(generation, manifest.batches, Rows(columns), vectors, kinds)


def write(location: str, contents: Contents) -> None:
    """Write a snapshot of the newest generation unless it exists; ignore errors of the disk."""
    place = _place(location, contents.generation)
    part = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")
    with suppress(OSError):
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            _write_files(part, contents)
            if _read(place, contents.generation) is None:  # otherwise another process was first
                shutil.rmtree(place, ignore_errors=True)
                part.rename(place)
                _synced(place.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    if is_server(location):  # in a directory, `publish` removes outdated ones
        for other in place.parent.glob("[0-9]*"):
            if other != place:
                shutil.rmtree(other, ignore_errors=True)


def outdated(location: str, newest: Iterable[Generation]) -> list[Path]:
    """Return the snapshots, unfinished ones included, of other generations than `newest`."""
    current = {_place(location, generation) for generation in newest}
    return [place for place in folder_of(location).glob("*/*") if place not in current]


def stamp(database: Path) -> tuple[int, ...]:
    """Return size, time and change counter of an SQLite database; every write changes them."""
    with database.open("rb") as file:
        header = file.read(28)
        status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, int.from_bytes(header[24:28], "big")


def catalog(location: str) -> Catalog | None:
    """Return the published catalog, or None if it is missing or damaged."""
    try:
        check_file(folder_of(location) / CATALOG)
        known = records.loads(_sealed(folder_of(location) / CATALOG), Catalog)
    except DAMAGE:
        return None
    return known if known.format == FORMAT else None


def publish(
    location: str, generations: Mapping[str, tuple[Generation, ...]], now: tuple[int, ...]
) -> None:
    """Write the catalog and remove outdated snapshots; without it, readers ask the database."""
    listed = Catalog(FORMAT, now, dict(generations))
    with suppress(OSError):
        path = folder_of(location) / CATALOG
        if path.is_symlink() or not path.is_file():  # never write through it
            path.unlink(missing_ok=True)
        with records.replacing(path) as file:
            text = records.dumps(listed)
            file.write(f"{text}\n{zlib.crc32(text.encode())}")
    for place in outdated(location, (present[-1] for present in generations.values())):
        shutil.rmtree(place, ignore_errors=True)


def _sealed(path: Path) -> bytes:
    """Return a file without the checksum in its last line; raise ValueError if that is wrong."""
    text, _, checksum = path.read_bytes().rpartition(b"\n")
    if int(checksum) != zlib.crc32(text):
        raise ValueError("its checksum is wrong")
    return text


def _place(location: str, generation: Generation) -> Path:
    digest = stable_hash(json.loads(records.dumps(generation)))
    return folder_of(location) / stable_hash(generation.env) / f"{generation.number:06d}-{digest}"


def _write_files(place: Path, contents: Contents) -> None:
    import polars as pl

    columns, vectors = contents.rows.columns, contents.vectors
    names = ("before", "observation", "action")
    tables = [
        pl.DataFrame({"text": pl.Series(list(columns.texts), dtype=pl.String)}),
        pl.DataFrame(dict(columns.values)),
        pl.DataFrame({name: columns.pasts[:, i] for i, name in enumerate(names)}),
    ]
    for name, table in zip(TABLES, tables, strict=True):
        table.write_ipc(place / name, compression="uncompressed")
    np.save(place / VECTORS, np.asarray(vectors.distinct))
    (place / KINDS).write_text(records.dumps(contents.trained()), encoding="utf-8")
    files = {name: _checksum(place / name) for name in (*TABLES, VECTORS, KINDS)}
    manifest = Manifest(FORMAT, contents.generation, contents.batches, files)
    text = records.dumps(manifest).encode()
    (place / MANIFEST).write_bytes(text + f"\n{zlib.crc32(text)}".encode())
    for name in (*files, MANIFEST):
        _synced(place / name)


def _checksum(path: Path) -> int:
    """Return the CRC-32 of a file, which detects accidents and is fast enough for every opening."""
    checksum = 0
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            checksum = zlib.crc32(part, checksum)
    return checksum


def _synced(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
