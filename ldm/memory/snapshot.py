"""Snapshots: a memory's tuples in files that are mapped into memory instead of being read.

Beside a memory in a directory, in the user's cache for one on a server. Each environment has one,
of its newest generation, which holds all earlier ones. A snapshot is a folder:

- `texts.arrow`: the distinct texts; `tuples.arrow`: the columns of `Columns`; `pasts.arrow`;
- `vectors.npy`: the distinct vectors, that the tuples refer to by number: float32, or rounded to
  float16 where the catalog says so;
- `kinds.json`: the classifier of kinds;
- `manifest.json`: the format, the generation, its batches, a checksum of each other file, and its
  own in a line below.

It is written beside its place and renamed, so that there is a whole one or none. One that is
damaged or missing, or has vectors of another precision, is made again from Chroma, the store of
record. `catalog.json` lists the generations, with the state of the database that they were read
from, and a checksum in a line below. The writer replaces it when a generation is complete; until
then readers go by the one before.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ldm import records
from ldm.errors import LdmError
from ldm.memory.addresses import is_server
from ldm.memory.columns import NUMBERS, TEXTS, Columns, Vectors
from ldm.memory.contents import Contents
from ldm.memory.index import BatchIndex, Generation
from ldm.memory.kind_classifier import KindWeights
from ldm.memory.rows import Rows
from ldm.text import check_file, read_array
from ldm.types import stable_hash

if TYPE_CHECKING:
    import polars as pl

FORMAT = 3
SNAPSHOTS = "snapshots"
#: Where the snapshots of memories on servers are.
CACHE = Path.home() / ".cache" / "ldm" / SNAPSHOTS
CATALOG = "catalog.json"
MANIFEST = "manifest.json"
TABLES = ("texts.arrow", "tuples.arrow", "pasts.arrow")
VECTORS = "vectors.npy"
KINDS = "kinds.json"
CHUNK = 1 << 20
Precision = Literal["float32", "float16"]
#: That of the vectors in Chroma.
EXACT: Precision = "float32"
#: What a damaged or half-removed file may raise; polars has errors of its own.
DAMAGE = (OSError, ValueError, LookupError, LdmError)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a snapshot holds; written last. files: the CRC-32 of each file."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    format: int
    generation: Generation
    batches: tuple[BatchIndex, ...]
    files: dict[str, int]


@dataclass(frozen=True, slots=True)
class Catalog:
    """The generations of all environments.

    stamp: the state of the database they are from. vectors: how snapshots keep vectors.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    format: int
    stamp: tuple[int, ...]
    generations: dict[str, tuple[Generation, ...]]
    vectors: Annotated[Precision, Field(exclude_if=lambda content: content == EXACT)] = EXACT


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
    """Return where the snapshots of a memory are."""
    return CACHE / stable_hash(location) if is_server(location) else Path(location) / SNAPSHOTS


def read(
    location: str, present: Sequence[Generation], number: int | None = None
) -> Contents | None:
    """Return a generation from the snapshot; None where that is missing or damaged.

    present: the complete generations, oldest first; number: one of theirs, None for the newest.
    """
    if not present:
        return None
    newest = _read(_place(location, present[-1]), present[-1], precision(location))
    if newest is None or number in (None, present[-1].number):
        return newest
    return newest.at(next(g for g in present if g.number == number))


def _read(place: Path, generation: Generation, vectors_as: Precision) -> Contents | None:
    import polars as pl

    try:
        for name in (MANIFEST, *TABLES, VECTORS, KINDS):
            check_file(place / name)
        text, _, checksum = (place / MANIFEST).read_bytes().rpartition(b"\n")
        if int(checksum) != zlib.crc32(text):
            return None
        manifest = records.loads(text, Manifest)
        sums = {name: _checksum(place / name) for name in manifest.files}
        if (manifest.format, manifest.generation, manifest.files) != (FORMAT, generation, sums):
            return None
        texts, tuples, pasts = (pl.read_ipc(place / name) for name in TABLES)
        values = {name: tuples[name].to_numpy() for name in (*TEXTS, *NUMBERS)}
        nodes = np.stack([pasts[name].to_numpy() for name in pasts.columns], axis=1)
        columns = Columns(generation.env, MappedTexts(texts["text"]), values, nodes)
        kinds = records.loads((place / KINDS).read_bytes(), KindWeights)
        distinct = read_array(place / VECTORS, mapped=True).view(np.ndarray)  # indexed faster
    # A panic of its Rust code is no Exception.
    except (*DAMAGE, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    if distinct.dtype != vectors_as:
        return None
    vectors = Vectors.of(distinct, columns)
    return Contents(generation, manifest.batches, Rows(columns), vectors, kinds)


def write(location: str, contents: Contents) -> None:
    """Write a snapshot of the newest generation, unless it is there.

    One that cannot be written is made at another time.
    """
    place = _place(location, contents.generation)
    part = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")
    with suppress(OSError):
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            content = as_kept(location, contents)
            _write_files(part, content)
            exactness = precision(location)
            if _read(place, contents.generation, exactness) is None:  # or another process was first
                shutil.rmtree(place, ignore_errors=True)
                part.rename(place)
                _synced(place.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    if is_server(location):  # of a directory, `publish` removes what is outdated
        for other in place.parent.glob("[0-9]*"):
            if other != place:
                shutil.rmtree(other, ignore_errors=True)


def outdated(location: str, newest: Iterable[Generation]) -> list[Path]:
    """Return the snapshots, and unfinished ones, of other generations than these."""
    current = {_place(location, generation) for generation in newest}
    return [place for place in folder_of(location).glob("*/*") if place not in current]


def stamp(database: Path) -> tuple[int, ...]:
    """Return size, time and number of changes of an SQLite database, which every write changes."""
    with database.open("rb") as file:
        header = file.read(28)
        status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, int.from_bytes(header[24:28], "big")


def catalog(location: str) -> Catalog | None:
    """Return what was published last; None where nothing was, or it is damaged."""
    try:
        check_file(folder_of(location) / CATALOG)
        text, _, checksum = (folder_of(location) / CATALOG).read_bytes().rpartition(b"\n")
        if int(checksum) != zlib.crc32(text):
            return None
        known = records.loads(text, Catalog)
    except DAMAGE:
        return None
    return known if known.format == FORMAT else None


def precision(location: str) -> Precision:
    """Return how the snapshots of a memory keep vectors."""
    known = catalog(location)
    return known.vectors if known else EXACT


def as_kept(location: str, contents: Contents) -> Contents:
    """Return a memory with its vectors as the snapshots at a location keep them."""
    return replace(contents, vectors=contents.vectors.rounded(precision(location)))


def publish(
    location: str,
    generations: Mapping[str, tuple[Generation, ...]],
    now: tuple[int, ...],
    vectors: Precision | None = None,
) -> None:
    """Write the catalog, and remove outdated snapshots.

    vectors: how snapshots keep vectors from now on; None for as before.

    Where that is not possible, readers ask the database.
    """
    listed = Catalog(FORMAT, now, dict(generations), vectors or precision(location))
    with suppress(OSError):
        path = folder_of(location) / CATALOG
        if path.is_symlink() or not path.is_file():  # nothing is written through it
            path.unlink(missing_ok=True)
        with records.replacing(path) as file:
            text = records.dumps(listed)
            file.write(f"{text}\n{zlib.crc32(text.encode())}")
    for place in outdated(location, (present[-1] for present in generations.values())):
        shutil.rmtree(place, ignore_errors=True)


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
    (place / KINDS).write_text(records.dumps(contents.with_kinds().kinds), encoding="utf-8")
    files = {name: _checksum(place / name) for name in (*TABLES, VECTORS, KINDS)}
    manifest = Manifest(FORMAT, contents.generation, contents.batches, files)
    text = records.dumps(manifest).encode()
    (place / MANIFEST).write_bytes(text + f"\n{zlib.crc32(text)}".encode())
    for name in (*files, MANIFEST):
        _synced(place / name)


def _checksum(path: Path) -> int:
    """Return the CRC-32 of a file: against accidents, and fast enough for every opening."""
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
