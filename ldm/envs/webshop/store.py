"""A compiled catalogue: products, prices, goals and search index as arrays and one text.

It is compiled once for each set of files and settings, see `ldm.envs.cache`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from ldm.envs.cache import Compiled, open_compiled, value_at
from ldm.envs.lucene.search import Index, Indexer
from ldm.envs.webshop.catalogue import Files, Product, read_products
from ldm.envs.webshop.goals import SEED, Drawer, Goals, Prices, shuffled
from ldm.errors import LdmError
from ldm.records import Problem

#: Increased when the same files yield different arrays than before.
FORMAT = "2"
#: Parsed products that are kept in memory.
CACHED_PRODUCTS = 20_000

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

    def __init__(self, compiled: Compiled) -> None:
        arrays = self._arrays = compiled.arrays
        self._text = compiled.text
        self._meta = compiled.meta
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
            product = Product.from_json(value_at(self._text, start, int(ends[position])))
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

    def having(self, field: Literal["categories", "queries"], value: str) -> tuple[int, ...]:
        """Return the positions of all products of a category, or with this query field."""
        try:
            number = self._meta[field].index(value)
        except ValueError:
            return ()
        return tuple(np.flatnonzero(self._arrays[field] == number).tolist())


def open_catalogue(files: Files, settings: Settings, *, cache: Path | None = None) -> Catalogue:
    """Return the catalogue in `files`, from the cache if it has been compiled before.

    Raise LdmError if a file or the cache cannot be read, or no product is left.
    """

    def compile_files(text: IO[bytes]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        entries = read_products(files, limit=settings.limit)
        return compile_products(entries, settings.seed, text)

    key = (FORMAT, settings.human, settings.limit, settings.seed)
    return Catalogue(open_compiled(compile_files, files, key, cache))


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
    nouns = True
    for entry in entries:
        if isinstance(entry, Problem):  # `ldm data check` lists them
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
        "nouns": nouns,
        **{field: list(group) for field, group in groups.items()},
    }
    return arrays, meta
