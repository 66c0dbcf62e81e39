"""A cache of compiled data: arrays, one text and metadata, made once from files.

They are written atomically and memory-mapped, so that they open instantly and worker processes
share their memory.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import mmap
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from ldm.errors import LdmError
from ldm.records import replacing
from ldm.text import check_file
from ldm.text import read_array as array_in
from ldm.types import stable_hash

_META, _TEXT = "meta.json", "text.jsonl"
#: Bytes of a file that are read for its checksum: all of it, unless opening would take long.
_SUMMED = 64 * 2**20
#: Exceptions that a damaged cache may raise.
DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, AttributeError),
    *(RecursionError, LdmError),
)

#: Write the text to a binary file; return the arrays by name, and metadata as JSON values.
Compile = Callable[[IO[bytes]], tuple[dict[str, np.ndarray], dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Compiled:
    """Arrays by name, a text (mapped memory if it comes from a cache), and metadata."""

    arrays: Mapping[str, np.ndarray]
    text: bytes | mmap.mmap
    meta: Mapping[str, Any]


def open_compiled(
    compile_files: Compile, files: Iterable[Path], settings: object, cache: Path | None
) -> Compiled:
    """Return the result of `compile_files` for `files`, from the cache if it is there.

    settings: JSON values that the result depends on in addition to the files, the version of its
    format among them. cache: None compiles without storing.
    Raise LdmError if the cache cannot be used, and any exception of `compile_files`.
    """
    if cache is None:
        text = io.BytesIO()
        arrays, meta = compile_files(text)
        return Compiled(arrays, text.getvalue(), meta)
    try:
        key = stable_hash([file_digest(path, cache) for path in files], settings)
        folder = cache / key
        if not folder.is_dir():
            with _lock(cache / f"{key}.lock"):
                if not folder.is_dir():
                    _write(folder, compile_files)
        return _open(folder)
    except OSError as error:
        raise LdmError(
            f"The cache of compiled data {cache} cannot be used: {error}.",
            "Use another folder with --env.cache PATH.",
        ) from error


def value_at(text: bytes | mmap.mmap, start: int, end: int) -> Any:
    """Return the JSON value in a part of a compiled text; raise LdmError if it is damaged."""
    try:
        return json.loads(text[start:end])
    except (ValueError, RecursionError) as error:
        raise LdmError(
            f"The compiled data are damaged: {error}.",
            "Remove the folder of the cache; they are then compiled again.",
        ) from error


def file_digest(path: Path, cache: Path) -> str:
    """Return the SHA-256 of a file, cached until its size or modification time changes."""
    check_file(path)
    path = path.resolve()
    state = path.stat()
    note = cache / "digests" / stable_hash(str(path), state.st_size, state.st_mtime_ns)
    if note.is_file():
        return note.read_text(encoding="utf-8").strip()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with replacing(note) as out:
        out.write(digest + "\n")
    return digest


def _write(folder: Path, compile_files: Compile) -> None:
    """Compile into a folder beside `folder`, and rename it once it is complete."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    temporary.mkdir(parents=True)
    try:
        with (temporary / _TEXT).open("wb") as text:
            arrays, meta = compile_files(text)
        for name, values in arrays.items():
            np.save(temporary / f"{name}.npy", values)
        sums = {path.name: _sum(path) for path in temporary.iterdir()}
        (temporary / _META).write_text(
            json.dumps({**meta, "arrays": sorted(arrays), "sums": sums}), encoding="utf-8"
        )
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _open(folder: Path) -> Compiled:
    try:
        check_file(folder / _META)
        meta = json.loads((folder / _META).read_text(encoding="utf-8"))
        for name, known in meta["sums"].items():
            check_file(folder / name)
            if _sum(folder / name) != known:
                raise ValueError(f"{name} is not as it was written")
        arrays = {name: _mapped(folder / f"{name}.npy") for name in meta["arrays"]}
        with (folder / _TEXT).open("rb") as file:
            text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except DAMAGE as error:
        raise LdmError(
            f"The compiled data in {folder} are damaged: {error}.",
            "Remove that folder; it is then compiled again.",
        ) from error
    return Compiled(arrays, text, meta)


def _sum(path: Path) -> list[int]:
    """Return the size of a file and the CRC-32 of its beginning."""
    with path.open("rb") as file:
        return [path.stat().st_size, zlib.crc32(file.read(_SUMMED))]


def _mapped(path: Path) -> np.ndarray:
    # A plain array on the mapped memory: numpy.memmap would cost microseconds for every slice.
    array: np.ndarray = np.asarray(array_in(path, mapped=True))
    return array


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Admit one process at a time; the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
