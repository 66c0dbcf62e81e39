"""A catalogue ready for use: products, prices, goals and search index as arrays and one text.

It is made once for given files and settings. With a cache folder it is kept there, written
all or nothing, and memory-mapped, so that it opens at once and worker processes share its memory.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import mmap
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from ldm.envs.webshop.catalogue import Files, Product, read_products
from ldm.envs.webshop.goals import SEED, Drawer, Goals, Prices, shuffled
from ldm.envs.webshop.search import Index, Indexer
from ldm.errors import LdmError
from ldm.records import Problem, replacing
from ldm.types import stable_hash

#: Grows when the same files give other arrays than before.
FORMAT = "2"
#: Products kept read.
REMEMBERED = 20_000

_META, _TEXT = "meta.json", "products.jsonl"
_PRICES = ("amounts", "products", "instructions", "caps", "counts")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a catalogue depends on beside its files.

    human: goals from human instructions instead of synthetic ones. limit: only the first so many
    products. seed: of prices, caps and the order of the goals.
    """

    human: bool = False
    limit: int | None = None
    seed: int = SEED


class Catalogue:
    """Products by position and asin, their goals, and the search index."""

    def __init__(
        self, arrays: Mapping[str, np.ndarray], text: bytes | mmap.mmap, meta: Mapping[str, Any]
    ) -> None:
        self._arrays = arrays
        self._text = text
        self._meta = meta
        self._read: dict[int, Product] = {}
        self.amounts = arrays["amounts"]
        self.index = Index(arrays)
        prices = Prices(*(arrays[name] for name in _PRICES))
        self.goals = Goals(self, prices, arrays["order"])

    @property
    def digest(self) -> str:
        """Changes with any product, price, cap or goal."""
        return str(self._meta["digest"])

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The products that were left out because something is wrong with them."""
        return tuple(Problem(*fields) for fields in self._meta["problems"])

    @property
    def carries_nouns(self) -> bool:
        """Whether all titles come with their nouns, so that none needs to be parsed."""
        return bool(self._meta["nouns"])

    def __len__(self) -> int:
        return len(self.amounts)

    def __getitem__(self, position: int) -> Product:
        found = self._read.get(position)
        if found is None:
            ends = self._arrays["text_ends"]
            start = int(ends[position - 1]) if position else 0
            found = Product.from_json(json.loads(self._text[start : int(ends[position])]))
            if len(self._read) >= REMEMBERED:
                self._read.clear()
            self._read[position] = found
        return found

    def position(self, asin: str) -> int | None:
        """Where the product with this asin is, None where there is none."""
        by_asin = self._arrays["by_asin"]
        at = int(np.searchsorted(self._arrays["asins"], asin))
        if at < len(by_asin) and self._arrays["asins"][at] == asin:
            return int(by_asin[at])
        return None

    def in_category(self, name: str) -> tuple[int, ...]:
        """The positions of all products of a category."""
        return self._with("categories", name)

    def with_query(self, query: str) -> tuple[int, ...]:
        """The positions of all products whose query field is this text."""
        return self._with("queries", query)

    def _with(self, field: str, value: str) -> tuple[int, ...]:
        try:
            number = self._meta[field].index(value)
        except ValueError:
            return ()
        return tuple(np.flatnonzero(self._arrays[field] == number).tolist())


def open_catalogue(
    files: Files, settings: Settings, *, cache: Path | None = None, strict: bool = False
) -> Catalogue:
    """The catalogue in `files`, from the cache where it was made before.

    Raises LdmError where a file or the cache cannot be read, no product is left or, if strict, for
    a bad product.
    """
    if cache is None:
        text = io.BytesIO()
        arrays, meta = compile_products(
            read_products(files, limit=settings.limit, strict=strict), settings.seed, text
        )
        return Catalogue(arrays, text.getvalue(), meta)
    try:
        digests = [_file_digest(path, cache) for path in files]
        key = stable_hash(FORMAT, digests, settings.human, settings.limit, settings.seed)
        folder = cache / key
        if not folder.is_dir():
            with _lock(cache / f"{key}.lock"):
                if not folder.is_dir():
                    _write(folder, read_products(files, limit=settings.limit), settings.seed)
        found = _open(folder)
    except OSError as error:
        raise LdmError(
            f"The catalogue's cache {cache} cannot be used: {error}.",
            "Name another folder with --set env.cache=PATH.",
        ) from error
    if strict and found.problems:
        raise LdmError(
            f"{found.problems[0]}.", "Correct it, or leave strict off to skip such products."
        )
    return found


def compile_products(
    read: Iterable[Product | Problem], seed: int, text: IO[bytes]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """(arrays, meta) of a catalogue; the products themselves are written to `text`.

    Raises LdmError where there is no product.
    """
    drawer, indexer, digest = Drawer(seed), Indexer(), hashlib.sha256()
    asins: list[str] = []
    ends: list[int] = []
    groups: dict[str, dict[str, int]] = {"categories": {}, "queries": {}}
    numbers: dict[str, list[int]] = {"categories": [], "queries": []}
    problems, nouns = [], True
    for one in read:
        if isinstance(one, Problem):
            problems.append([one.file, one.line, one.field, one.message])
            continue
        line = json.dumps(one.as_json(), separators=(",", ":")).encode() + b"\n"
        text.write(line)
        digest.update(line)
        ends.append((ends[-1] if ends else 0) + len(line))
        asins.append(one.asin)
        drawer.take(one)
        indexer.add(one.search_text)
        for field, value in (("categories", one.category), ("queries", one.query)):
            known = groups[field]
            numbers[field].append(known.setdefault(value, len(known)))
        nouns = nouns and one.nouns is not None
    if not asins:
        raise LdmError("The catalogue holds no product.", "Check the data path.")
    prices = drawer.finish()
    found = {name: getattr(prices, name) for name in _PRICES}
    found["order"] = shuffled(int(prices.counts.sum()), seed)
    for values in found.values():
        digest.update(values.tobytes())
    by_asin = np.argsort(np.array(asins))
    found["asins"] = np.array(asins)[by_asin]
    found["by_asin"] = by_asin.astype(np.int32)
    ranks = np.empty(len(asins), dtype=np.int32)
    ranks[by_asin] = np.arange(len(asins), dtype=np.int32)
    found["text_ends"] = np.array(ends, dtype=np.int64)
    found.update((field, np.array(values, dtype=np.int32)) for field, values in numbers.items())
    found.update(indexer.finish(ranks))
    meta = {
        "digest": digest.hexdigest()[:16],
        "arrays": sorted(found),
        "problems": problems,
        "nouns": nouns,
        **{field: list(known) for field, known in groups.items()},
    }
    return found, meta


def _write(folder: Path, read: Iterable[Product | Problem], seed: int) -> None:
    """Make the catalogue in a folder beside `folder`, and give it that name once it is complete."""
    making = folder.with_name(f".{folder.name}.{os.getpid()}")
    making.mkdir(parents=True)
    try:
        with (making / _TEXT).open("wb") as text:
            arrays, meta = compile_products(read, seed, text)
        for name, values in arrays.items():
            np.save(making / f"{name}.npy", values)
        (making / _META).write_text(json.dumps(meta), encoding="utf-8")
        making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _open(folder: Path) -> Catalogue:
    try:
        meta = json.loads((folder / _META).read_text(encoding="utf-8"))
        arrays = {name: _mapped(folder / f"{name}.npy") for name in meta["arrays"]}
        with (folder / _TEXT).open("rb") as file:
            text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, EOFError, ValueError, KeyError) as error:
        raise LdmError(
            f"The catalogue kept in {folder} is damaged: {error}.",
            "Remove that folder; it will be made again.",
        ) from error
    return Catalogue(arrays, text, meta)


def _mapped(path: Path) -> np.ndarray:
    # A plain array on the mapped memory: what numpy.memmap adds costs microseconds at every slice.
    found: np.ndarray = np.asarray(np.load(path, mmap_mode="r"))
    return found


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Only one process at a time; the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _file_digest(path: Path, cache: Path) -> str:
    """SHA-256 of a file, remembered in the cache until size or time of change differ."""
    path = path.resolve()
    state = path.stat()
    note = cache / "digests" / stable_hash(str(path), state.st_size, state.st_mtime_ns)
    if note.is_file():
        return note.read_text(encoding="utf-8").strip()
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    with replacing(note) as out:
        out.write(found + "\n")
    return found
