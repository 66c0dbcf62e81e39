"""A compiled catalogue: products, prices, goals and search index as arrays and one text.

It is compiled once for each set of files and settings. A cache folder stores it, written
atomically and memory-mapped, so that it opens instantly and worker processes share its memory.
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

from ldm.envs.lucene.search import Index, Indexer
from ldm.envs.webshop.catalogue import Files, Product, read_products
from ldm.envs.webshop.goals import SEED, Drawer, Goals, Prices, shuffled
from ldm.errors import LdmError
from ldm.records import Problem, replacing
from ldm.types import stable_hash

#: Increased when the same files yield different arrays than before.
FORMAT = "2"
#: Parsed products that are kept in memory.
CACHED_PRODUCTS = 20_000

_META, _TEXT = "meta.json", "products.jsonl"
_PRICES = ("amounts", "products", "instructions", "caps", "counts")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that a catalogue depends on, in addition to its files.

    human: goals from human instructions instead of synthetic ones. limit: read only the first n
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
        self._parsed: dict[int, Product] = {}
        self.amounts = arrays["amounts"]
        self.index = Index(arrays)
        prices = Prices(*(arrays[name] for name in _PRICES))
        self.goals = Goals(self, prices, arrays["order"])

    @property
    def digest(self) -> str:
        """A hash of all products, prices, caps and goals."""
        return str(self._meta["digest"])

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The invalid products that were left out."""
        return tuple(Problem(*fields) for fields in self._meta["problems"])

    @property
    def carries_nouns(self) -> bool:
        """Whether the nouns of all titles are included, so that none needs to be parsed."""
        return bool(self._meta["nouns"])

    def __len__(self) -> int:
        return len(self.amounts)

    def __getitem__(self, position: int) -> Product:
        product = self._parsed.get(position)
        if product is None:
            ends = self._arrays["text_ends"]
            start = int(ends[position - 1]) if position else 0
            product = Product.from_json(json.loads(self._text[start : int(ends[position])]))
            if len(self._parsed) >= CACHED_PRODUCTS:
                self._parsed.clear()
            self._parsed[position] = product
        return product

    def position(self, asin: str) -> int | None:
        """Return the position of the product with this asin; None if there is none."""
        by_asin = self._arrays["by_asin"]
        at = int(np.searchsorted(self._arrays["asins"], asin))
        if at < len(by_asin) and self._arrays["asins"][at] == asin:
            return int(by_asin[at])
        return None

    def in_category(self, name: str) -> tuple[int, ...]:
        """Return the positions of all products of a category."""
        return self._with("categories", name)

    def with_query(self, query: str) -> tuple[int, ...]:
        """Return the positions of all products with this query field."""
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
    """Return the catalogue in `files`, from the cache if it has been compiled before.

    Raise LdmError if a file or the cache cannot be read, no product is left or, if strict, for
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
        catalogue = _open(folder)
    except OSError as error:
        raise LdmError(
            f"The catalogue's cache {cache} cannot be used: {error}.",
            "Use another folder with --set env.cache=PATH.",
        ) from error
    if strict and catalogue.problems:
        raise LdmError(
            f"{catalogue.problems[0]}.", "Correct it, or leave strict off to skip such products."
        )
    return catalogue


def compile_products(
    entries: Iterable[Product | Problem], seed: int, text: IO[bytes]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and metadata of a catalogue, and write the products to `text`.

    Raise LdmError if there is no product.
    """
    drawer, indexer, digest = Drawer(seed), Indexer(), hashlib.sha256()
    asins: list[str] = []
    ends: list[int] = []
    groups: dict[str, dict[str, int]] = {"categories": {}, "queries": {}}
    numbers: dict[str, list[int]] = {"categories": [], "queries": []}
    problems, nouns = [], True
    for entry in entries:
        if isinstance(entry, Problem):
            problems.append([entry.file, entry.line, entry.field, entry.message])
            continue
        line = json.dumps(entry.as_json(), separators=(",", ":")).encode() + b"\n"
        text.write(line)
        digest.update(line)
        ends.append((ends[-1] if ends else 0) + len(line))
        asins.append(entry.asin)
        drawer.take(entry)
        indexer.add(entry.search_text)
        for field, value in (("categories", entry.category), ("queries", entry.query)):
            group = groups[field]
            numbers[field].append(group.setdefault(value, len(group)))
        nouns = nouns and entry.nouns is not None
    if not asins:
        raise LdmError("The catalogue has no products.", "Check the data path.")
    prices = drawer.finish()
    arrays = {name: getattr(prices, name) for name in _PRICES}
    arrays["order"] = shuffled(int(prices.counts.sum()), seed)
    for values in arrays.values():
        digest.update(values.tobytes())
    by_asin = np.argsort(np.array(asins))
    arrays["asins"] = np.array(asins)[by_asin]
    arrays["by_asin"] = by_asin.astype(np.int32)
    ranks = np.empty(len(asins), dtype=np.int32)
    ranks[by_asin] = np.arange(len(asins), dtype=np.int32)
    arrays["text_ends"] = np.array(ends, dtype=np.int64)
    arrays.update((field, np.array(values, dtype=np.int32)) for field, values in numbers.items())
    arrays.update(indexer.finish(ranks))
    meta = {
        "digest": digest.hexdigest()[:16],
        "arrays": sorted(arrays),
        "problems": problems,
        "nouns": nouns,
        **{field: list(group) for field, group in groups.items()},
    }
    return arrays, meta


def _write(folder: Path, entries: Iterable[Product | Problem], seed: int) -> None:
    """Compile the catalogue in a folder beside `folder`, and rename it once it is complete."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    temporary.mkdir(parents=True)
    try:
        with (temporary / _TEXT).open("wb") as text:
            arrays, meta = compile_products(entries, seed, text)
        for name, values in arrays.items():
            np.save(temporary / f"{name}.npy", values)
        (temporary / _META).write_text(json.dumps(meta), encoding="utf-8")
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _open(folder: Path) -> Catalogue:
    try:
        meta = json.loads((folder / _META).read_text(encoding="utf-8"))
        arrays = {name: _mapped(folder / f"{name}.npy") for name in meta["arrays"]}
        with (folder / _TEXT).open("rb") as file:
            text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, EOFError, ValueError, KeyError) as error:
        raise LdmError(
            f"The cached catalogue in {folder} is damaged: {error}.",
            "Remove that folder; it is then compiled again.",
        ) from error
    return Catalogue(arrays, text, meta)


def _mapped(path: Path) -> np.ndarray:
    # A plain array on the mapped memory: numpy.memmap would cost microseconds for every slice.
    array: np.ndarray = np.asarray(np.load(path, mmap_mode="r"))
    return array


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Admit one process at a time; the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _file_digest(path: Path, cache: Path) -> str:
    """Return the SHA-256 of a file, cached until its size or modification time changes."""
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
