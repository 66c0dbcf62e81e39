"""A compiled catalogue: products, prices, goals and search index as arrays and one text.

It is compiled once for each set of files and settings, see `ldm.envs.download`. Goals are created
from the products' instructions as in the official code. Prices within a range and price caps are
drawn from our own generator, which is seeded before the first draw. The official server seeds only
before it shuffles the goals, so that its prices differ from start to start. With its seed, 233,
ours are those that it would draw if seeded first.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import numpy as np

from ldm.envs.download import Compiled, open_compiled, value_at
from ldm.envs.lucene.search import Index, Indexer
from ldm.envs.webshop.catalogue import Files, Instruction, Product, read_products
from ldm.errors import LdmError
from ldm.records import Problem

#: The official seed.
SEED = 233
#: The value of `Goal.price_cap` if there is no cap.
NO_CAP = 1_000_000.0
_STEPS = [10.0 * i for i in range(1, 100)]

#: A requested option: (name, value) in a synthetic goal, only the value in a human one.
RequestedOption = tuple[str, str] | str


class Products(Protocol):
    """Products by position."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int, /) -> Product: ...


@dataclass(frozen=True, slots=True)
class Goal:
    """A purchase to make.

    product: the one that fits exactly. price_cap: in dollars, NO_CAP if any price is acceptable.
    """

    product: Product
    text: str
    attributes: tuple[str, ...]
    options: tuple[RequestedOption, ...]
    price_cap: float


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of products, and the caps drawn for the instructions that have goals.

    amounts: dollars, in the order of the products. The others have one entry per instruction:
    products, instructions: position of the product, and of the instruction within it;
    caps: dollars; counts: the number of goals that it yields.
    """

    amounts: np.ndarray
    products: np.ndarray
    instructions: np.ndarray
    caps: np.ndarray
    counts: np.ndarray


class Drawer:
    """Draw prices and caps for a stream of products; all prices first, as in the official code."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)
        self._amounts: list[float] = []
        self._goal_counts: list[tuple[int, int, int]] = []

    def take(self, product: Product, amount: float | None = None) -> None:
        """Draw the price of the next product, or use `amount`."""
        low, *high = product.prices
        position = len(self._amounts)
        if amount is None:
            amount = self._random.uniform(low, *high) if high else low
        self._amounts.append(amount)
        for number, instruction in enumerate(product.instructions):
            self._goal_counts.append((position, number, _count(product, instruction)))

    def finish(self) -> Prices:
        """Draw the caps, now that all prices are known."""
        caps = [self._cap(self._amounts[position]) for position, _, _ in self._goal_counts]
        table = np.array(self._goal_counts, dtype=np.int32).reshape(-1, 3)
        return Prices(
            np.array(self._amounts, dtype=np.float64),
            table[:, 0].copy(),
            table[:, 1].copy(),
            np.array(caps, dtype=np.float64),
            table[:, 2].copy(),
        )

    def _cap(self, price: float) -> float:
        above = [step for step in _STEPS if step > price][:4]
        return max(self._random.sample(above, 2)) if len(above) >= 2 else NO_CAP


def draw(products: Iterable[Product], seed: int = SEED) -> Prices:
    """Return the prices and caps of `products`."""
    drawer = Drawer(seed)
    for product in products:
        drawer.take(product)
    return drawer.finish()


def shuffled(number: int, seed: int = SEED) -> np.ndarray:
    """Return the position before the shuffle of each of `number` goals (int32)."""
    order = list(range(number))
    random.Random(seed).shuffle(order)
    return np.array(order, dtype=np.int32)


class Goals:
    """All goals; with the official shuffle, the index is the official session number.

    A goal is built on access, as the 1.18 million products have millions of goals.
    """

    def __init__(self, products: Products, prices: Prices, order: np.ndarray | None = None) -> None:
        """Take the `order`, each goal's position before the shuffle; None does not shuffle."""
        self._products = products
        self._prices = prices
        self._order = order
        self._ends = np.cumsum(prices.counts, dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __iter__(self) -> Iterator[Goal]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> Goal:
        if not 0 <= number < len(self):
            raise IndexError(f"goal {number} of {len(self)}")
        entry, place = self._entry(number)
        prices = self._prices
        product = self._products[int(prices.products[entry])]
        instruction = product.instructions[int(prices.instructions[entry])]
        return _goal(product, instruction, place, float(prices.caps[entry]))

    def source(self, number: int) -> int:
        """Return the position of the product that goal `number` asks for."""
        return int(self._prices.products[self._entry(number)[0]])

    def sources(self) -> np.ndarray:
        """Return `source` of all goals (int32)."""
        positions = np.repeat(self._prices.products, self._prices.counts)
        return positions if self._order is None else positions[self._order]

    def _entry(self, number: int) -> tuple[int, int]:
        """Return the index of the instruction, and the number of the goal within it."""
        before = number if self._order is None else int(self._order[number])
        entry = int(np.searchsorted(self._ends, before, side="right"))
        return entry, before - int(self._ends[entry] - self._prices.counts[entry])


def _count(product: Product, instruction: Instruction) -> int:
    if instruction.options is not None:
        return 1
    return prod(len(values) for _, values in product.options)


def _goal(product: Product, instruction: Instruction, place: int, cap: float) -> Goal:
    price = "" if cap == NO_CAP else f", and price lower than {cap:.2f} dollars"
    if instruction.options is not None:
        text = instruction.text.strip(".") + price
        return Goal(product, text, instruction.attributes, instruction.options, cap)
    options: list[tuple[str, str]] = []
    # The last option changes fastest, as in itertools.product.
    for name, values in sorted(product.options, reverse=True):
        place, choice = divmod(place, len(values))
        options.append((name, values[choice]))
    options.reverse()
    requests = ", and ".join(f"{name}: {value}" for name, value in options)
    text = instruction.text + (f" with {requests}" if requests else "") + price
    return Goal(product, text, instruction.attributes, tuple(options), cap)


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
