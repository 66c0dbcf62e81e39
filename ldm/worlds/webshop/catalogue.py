"""Read WebShop's product files as immutable values (Yao et al., NeurIPS 2022).

A data folder holds `items_shuffle*.json` (the products, a JSON array), `items_ins_v2*.json` (asin →
attributes and a synthetic instruction) and, for human goals, `items_human_ins.json` (asin → human
instructions); each may end in .json.gz. Our own products also have `title_nouns`, the noun tokens
of the title in lower case. Products are read as a stream: all 1.18 million are 5 GB of JSON.

`Catalogue` holds products, prices, goals and search index as arrays and one text, compiled once for
each set of files and settings (`ldm.envs.download`). Goals are created from the products'
instructions as in the official code. Prices within a range and price caps are drawn from our own
generator, which is seeded before the first draw. The official server seeds only before it shuffles
the goals, so that its prices differ from start to start. With its seed, 233, ours are those that it
would draw if seeded first.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np

from ldm.envs.download import Compiled, open_compiled
from ldm.envs.formats import FieldError
from ldm.errors import LdmError
from ldm.parallel import cached
from ldm.text import MAX_LENGTH, Problem, opened, parse_json, read_json, value_in
from ldm.worlds.lucene.search import Index, Indexer

#: The price of official products without one.
NO_PRICE = 100.0
#: The attribute that the official code assigns to a product without any.
NO_ATTRIBUTE = "DUMMY_ATTR"
LONGEST_ASIN = 10

#: Bytes read at a time; the rest of them is copied for each product.
_CHUNK = 1 << 16
#: Bytes of the largest object in a file of its own: attributes and instructions of all products.
_MOST = 4 * 2**30
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)
_BETWEEN = re.compile(r"[\s,]*")
_NOT_NUMERIC = re.compile(r"[^\d.]")
_PRODUCTS = ("items_shuffle*.json", "items_shuffle*.json.gz")
_ATTRIBUTES = ("items_ins_v2*.json", "items_ins_v2*.json.gz")
_HUMAN = ("items_human_ins*.json", "items_human_ins*.json.gz")
_DOWNLOAD = "Download the official files with: ldm data webshop --to FOLDER."

#: Option name → its values, in page order.
Options = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction from which a product's goals are created.

    options: the requested option values of a human instruction; None for a synthetic one, which
        yields a goal for each combination of the product's options.
    """

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Product:
    """One product as the site shows it.

    prices: one, or the two ends of a range, in dollars.
    instructions: those of its goals; empty if it has no goal.
    nouns: the lower-case noun tokens of the title if the file has them, else None.
    """

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    options: Options
    prices: tuple[float, ...]
    category: str
    query: str
    product_category: str
    attributes: tuple[str, ...]
    instructions: tuple[Instruction, ...] = ()
    nouns: tuple[str, ...] | None = None

    @cached_property
    def price_tag(self) -> str:
        """The price as displayed on pages."""
        return " to ".join(f"${price}" for price in self.prices)

    @property
    def search_text(self) -> str:
        """The indexed text: title, description, first bullet, options."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        bullet = self.bullets[0] if self.bullets else ""
        return " ".join([self.title, self.description, bullet, options]).lower()

    @cached_property
    def category_set(self) -> frozenset[str]:
        """The product's categories, general and specific."""
        return frozenset(part.strip() for part in self.product_category.split("›"))

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> Product:
        """Return the product whose `astuple` these JSON values are."""
        product = cls(*_tuples(values))
        instructions: Any = product.instructions
        return replace(product, instructions=tuple(Instruction(*one) for one in instructions))


def _tuples(value: Any) -> Any:
    """Return a JSON value with tuples in place of lists."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one data folder; human is None if synthetic instructions are used."""

    products: Path
    attributes: Path
    human: Path | None = None

    @classmethod
    def find(cls, folder: Path, *, human: bool) -> Files:
        """Return the files in `folder`. Raise LdmError if one is missing or ambiguous."""
        return cls(
            _the_one(folder, _PRODUCTS),
            _the_one(folder, _ATTRIBUTES),
            _the_one(folder, _HUMAN) if human else None,
        )

    def __iter__(self) -> Iterator[Path]:
        return iter(path for path in (self.products, self.attributes, self.human) if path)


def read_products(files: Files, *, limit: int | None = None) -> Iterator[Product | Problem]:
    """Yield the products of `files` in order, and a problem for each invalid one.

    limit: read only the first n entries of the file. A problem's `line` is the position of the
    product in the array, counted from 1. As in the official code, products whose asin is "nan",
    longer than 10 characters or a duplicate are skipped silently.
    Raise LdmError if a file cannot be read.
    """
    attributes = _read_object(files.attributes)
    human = _read_object(files.human) if files.human else None
    known_asins: set[str] = set()
    for position, raw in stream_array(files.products):
        if limit is not None and position > limit:
            return
        try:
            if isinstance(raw, Problem):
                raise FieldError(raw.field, raw.message)
            asin = _text(raw, "asin")
            if asin == "nan" or len(asin) > LONGEST_ASIN or asin in known_asins:
                continue
            known_asins.add(asin)
            yield _product(
                raw, attributes.get(asin), None if human is None else human.get(asin, ())
            )
        except FieldError as error:
            yield _problem(files.products, position, raw, error)


def stream_array(path: Path) -> Iterator[tuple[int, Any | Problem]]:
    """Yield (position from 1, value) for every element of a JSON array, one at a time.

    An element that is damaged in itself is yielded as a Problem, its line being its position.
    Raise LdmError with file and position if the file ends too early, or is no array.
    """
    position = 0
    with opened(path) as raw:
        file = io.TextIOWrapper(raw, "utf-8-sig", "surrogateescape", newline="")
        buffer = file.read(_CHUNK).lstrip()
        if not buffer.startswith("["):
            raise LdmError(f"{path} is not a JSON array of products.", _DOWNLOAD)
        start = 1
        while True:
            start = _BETWEEN.match(buffer, start).end()  # type: ignore[union-attr]
            if buffer[start : start + 1] == "]":
                return
            value, end = value_in(buffer, start) or (None, _end_of(buffer, start))
            # A number at the end of the buffer may go on in the next chunk.
            if start < end < len(buffer):
                position += 1
                if value is None:
                    value = parse_json(buffer[start:end], str(path), position)
                if isinstance(value, Problem):
                    value = replace(value, line=position)
                yield position, value
                start = end
                continue
            chunk = file.read(max(_CHUNK, len(buffer) - start))
            if not chunk or len(buffer) - start > MAX_LENGTH:
                raise LdmError(
                    f"{path}: product {position + 1} does not end, or the file ends within it.",
                    _DOWNLOAD,
                )
            buffer, start = buffer[start:] + chunk, 0


def _end_of(text: str, start: int) -> int:
    """Return the end of the element that begins at `start`, by its brackets; else `start`."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
        if depth < 0 or (depth == 0 and token[0] == ","):
            return token.start()
        if depth == 0 and token[0] in "]}":
            return token.end()
    return start


def _problem(path: Path, position: int, raw: Any, error: FieldError) -> Problem:
    asin = raw.get("asin") if isinstance(raw, Mapping) else None
    which = f"product {position}" + (f" ({asin})" if isinstance(asin, str) else "")
    return Problem(str(path), position, error.field, f"{which}: {error}")


def _product(raw: Mapping[str, Any], annotations: Any, human: Any) -> Product:
    """Return the product in one entry.

    annotations: its entry in the attributes file. human: its human instructions, None if
    synthetic ones are used.
    """
    if not raw.get("images"):
        raise FieldError("images", "it has no image")
    annotations = annotations if isinstance(annotations, Mapping) else {}
    bullets = raw.get("small_description")
    nouns = raw.get("title_nouns")
    return Product(
        asin=_text(raw, "asin"),
        title=_text(raw, "name"),
        description=_text(raw, "full_description"),
        bullets=_texts(bullets if isinstance(bullets, list) else [bullets], "small_description"),
        options=_options(_value(raw, "customization_options")),
        prices=_prices(_text(raw, "pricing")) if raw.get("pricing") else (NO_PRICE,),
        category=_text(raw, "category"),
        query=_text(raw, "query").lower().strip(),
        product_category=_text(raw, "product_category"),
        attributes=_texts(annotations.get("attributes", [NO_ATTRIBUTE]), "attributes"),
        instructions=_synthetic(annotations) if human is None else _human(human),
        nouns=None if nouns is None else _texts(nouns, "title_nouns"),
    )


def _value(raw: Any, field: str) -> Any:
    if not isinstance(raw, Mapping):
        raise FieldError("", "it is not a JSON object")
    if field not in raw:
        raise FieldError(field, "it is missing")
    return raw[field]


def _text(raw: Any, field: str) -> str:
    value = _value(raw, field)
    if not isinstance(value, str):
        raise FieldError(field, f"it is not text: {value!r:.40}")
    return value


def _texts(values: Any, field: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise FieldError(field, f"it is not text: {values!r:.40}")
    return tuple(values)


def _prices(pricing: str) -> tuple[float, ...]:
    amounts = pricing.split("$")[1:3]
    try:
        prices = tuple(float(Decimal(_NOT_NUMERIC.sub("", amount))) for amount in amounts)
        # Further amounts are not displayed, but must be prices too.
        _ = [Decimal(_NOT_NUMERIC.sub("", amount)) for amount in pricing.split("$")[3:]]
    except InvalidOperation:
        prices = ()
    if not prices:
        raise FieldError("pricing", f"no price can be read in {pricing!r:.40}")
    return prices


def _options(groups: Any) -> Options:
    """Return the options in lower case, values stripped, "/" as " | " (quirk 4)."""
    if not groups:
        return ()
    if not isinstance(groups, Mapping):
        raise FieldError("customization_options", "it is not a JSON object")
    options: dict[str, tuple[str, ...]] = {}
    for name, contents in groups.items():
        if contents is None:
            continue
        try:
            values = [content["value"] for content in contents]
        except (TypeError, KeyError) as error:
            raise FieldError("customization_options", f"a value of {name!r} is missing") from error
        texts = _texts(values, "customization_options")
        options[name.lower()] = tuple(t.strip().replace("/", " | ").lower() for t in texts)
    return tuple(options.items())


def _synthetic(annotations: Mapping[str, Any]) -> tuple[Instruction, ...]:
    text = annotations.get("instruction")
    if text is None:
        return ()
    attributes = _texts(annotations.get("instruction_attributes"), "instruction_attributes")
    if not isinstance(text, str) or not attributes:
        raise FieldError("instruction", "the instruction has no text or no attributes")
    return (Instruction(text, attributes),)


def _human(entries: Any) -> tuple[Instruction, ...]:
    """Return the human instructions of one product; those without attributes are left out."""
    instructions = []
    for entry in entries or ():
        if not isinstance(entry, Mapping):
            raise FieldError("instruction", "a human instruction is not a JSON object")
        attributes = _texts(entry.get("instruction_attributes"), "instruction_attributes")
        options = _texts(entry.get("instruction_options"), "instruction_options")
        if attributes:
            instructions.append(Instruction(_text(entry, "instruction"), attributes, options))
    return tuple(instructions)


def _the_one(folder: Path, patterns: Sequence[str]) -> Path:
    paths = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    if len(paths) == 1:
        return paths[0]
    if not paths:
        raise LdmError(f"{folder} holds no file {patterns[0]}.", _DOWNLOAD)
    names = ", ".join(path.name for path in paths)
    raise LdmError(
        f"{folder} holds several files {patterns[0]}: {names}.", "Keep only one in the folder."
    )


def _read_object(path: Path) -> dict[str, Any]:
    content = read_json(path, most=_MOST)
    if not isinstance(content, dict):
        raise LdmError(f"{path} is not a JSON object.", _DOWNLOAD)
    return content


#: The official seed.
SEED = 233
#: The value of `Goal.price_cap` if there is no cap.
NO_CAP = 1_000_000.0
_STEPS = [10.0 * i for i in range(1, 100)]

#: A requested option: (name, value) in a synthetic goal, only the value in a human one.
RequestedOption = tuple[str, str] | str


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


class Prices(NamedTuple):
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

    def take(self, product: Product) -> None:
        """Draw the price of the next product."""
        low, *high = product.prices
        position = len(self._amounts)
        self._amounts.append(self._random.uniform(low, *high) if high else low)
        for number, instruction in enumerate(product.instructions):
            self._goal_counts.append((position, number, _count(product, instruction)))

    def finish(self) -> Prices:
        """Draw the caps, now that all prices are known."""
        caps = [self._cap(self._amounts[position]) for position, _, _ in self._goal_counts]
        table = np.array(self._goal_counts, dtype=np.int32).reshape(-1, 3)
        products, instructions, counts = table.T.copy()
        return Prices(np.array(self._amounts), products, instructions, np.array(caps), counts)

    def _cap(self, price: float) -> float:
        above = [step for step in _STEPS if step > price][:4]
        return max(self._random.sample(above, 2)) if len(above) >= 2 else NO_CAP


def shuffled(number: int, seed: int = SEED) -> np.ndarray:
    """Return the position before the shuffle of each of `number` goals (int32)."""
    order = list(range(number))
    random.Random(seed).shuffle(order)
    return np.array(order, dtype=np.int32)


class Goals:
    """All goals; with the official shuffle, the index is the official session number.

    A goal is built on access, as the 1.18 million products have millions of goals.
    """

    def __init__(
        self, products: Catalogue | Sequence[Product], prices: Prices, order: np.ndarray
    ) -> None:
        """Take the `order`, each goal's position before the shuffle."""
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
        prices, before = self._prices, int(self._order[number])
        entry = int(np.searchsorted(self._ends, before, side="right"))
        place = before - int(self._ends[entry] - prices.counts[entry])
        product = self._products[int(prices.products[entry])]
        instruction = product.instructions[int(prices.instructions[entry])]
        return _goal(product, instruction, place, float(prices.caps[entry]))

    def sources(self) -> np.ndarray:
        """Return the position of the product that each goal asks for (int32)."""
        return np.asarray(np.repeat(self._prices.products, self._prices.counts)[self._order])


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


class Catalogue:
    """Products by position and asin, their goals, and the search index.

    digest: a hash of all products, prices, caps and goals. carries_nouns: whether the nouns of all
    titles are included, so that none needs to be parsed.
    """

    def __init__(self, compiled: Compiled) -> None:
        arrays = self._arrays = compiled.arrays
        self._compiled, self._meta = compiled, compiled.meta
        self._parsed: dict[int, Product] = {}
        self.digest = str(self._meta["digest"])
        self.carries_nouns = bool(self._meta["nouns"])
        self.amounts = arrays["amounts"]
        self.index = Index(arrays)
        prices = Prices(*(arrays[name] for name in Prices._fields))
        self.goals = Goals(self, prices, arrays["order"])

    def __len__(self) -> int:
        return len(self.amounts)

    def __getitem__(self, position: int) -> Product:
        return cached(self._parsed, position, lambda: self._parse(position), CACHED_PRODUCTS)

    def _parse(self, position: int) -> Product:
        return Product.from_json(self._compiled.value(position))

    def position(self, asin: str) -> int | None:
        """Return the position of the product with this asin; None if there is none."""
        by_asin = self._arrays["by_asin"]
        at = int(np.searchsorted(self._arrays["asins"], asin))
        if at < len(by_asin) and self._arrays["asins"][at] == asin:
            return int(by_asin[at])
        return None

    def having(self, field: Literal["categories", "queries"], value: str) -> tuple[int, ...]:
        """Return the positions of all products of a category, or with this query field."""
        names: list[str] = self._meta[field]
        if value not in names:
            return ()
        return tuple(np.flatnonzero(self._arrays[field] == names.index(value)).tolist())


def open_catalogue(
    files: Files, *, limit: int | None = None, seed: int = SEED, cache: Path | None = None
) -> Catalogue:
    """Return the catalogue in `files`, from the cache if it has been compiled before.

    limit: read only the first n products. seed: of prices, caps and the order of the goals.
    Raise LdmError if a file or the cache cannot be read, or no product is left.
    """
    compiling = partial(compile_products, read_products(files, limit=limit), seed)
    key = (FORMAT, files.human is not None, limit, seed)
    return Catalogue(open_compiled(compiling, files, key, cache))


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
        line = json.dumps(astuple(entry), separators=(",", ":")).encode() + b"\n"
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
    arrays = prices._asdict()
    arrays["order"] = shuffled(int(prices.counts.sum()), seed)
    for values in arrays.values():
        digest.update(values.tobytes())
    by_asin = np.argsort(np.array(asins))
    arrays["asins"] = np.array(asins)[by_asin]
    arrays["by_asin"] = by_asin.astype(np.int32)
    arrays["text_ends"] = np.array(ends, dtype=np.int64)
    arrays.update((field, np.array(values, dtype=np.int32)) for field, values in numbers.items())
    arrays.update(indexer.finish(np.argsort(by_asin)))
    meta = {
        "digest": digest.hexdigest()[:16],
        "nouns": nouns,
        **{field: list(group) for field, group in groups.items()},
    }
    return arrays, meta
