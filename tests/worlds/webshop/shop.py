"""A small shop of our own for tests: official files with products that differ in known ways."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ldm.records import Problem
from ldm.worlds.webshop.catalogue import SEED, Drawer, Files, Goals, Prices, Product, read_products

KINDS = ("lamp", "chair", "shirt", "soap", "cable", "tea")
COLORS = ("black", "light blue", "rose")
SIZES = ("small", "large", "x-large")


def raw(number: int, **changes: Any) -> dict[str, Any]:
    """A product as the official file has it; every third one has options."""
    kind = KINDS[number % len(KINDS)]
    options = {
        "Color": [{"value": color.title(), "image": None} for color in COLORS],
        "Size": [{"value": size, "image": None} for size in SIZES],
    }
    title = f"Number {number} {kind.title()}"
    product = {
        "asin": f"B{number:09d}",
        "name": title,
        "full_description": f"A fine {kind}, made for homes.",
        "small_description": [f"Good {kind}", "Lasts long"],
        "pricing": f"${number + 5}.50",
        "images": ["image.jpg"],
        "product_category": f"Things › {kind}s › Fine {kind}s",
        "category": "garden",
        "query": f"{kind}s",
        "average_rating": "",
        "customization_options": options if number % 3 == 0 else "",
        "title_nouns": ["number", kind],
    }
    return product | changes


def annotation(number: int) -> dict[str, Any]:
    """Its entry in the file of attributes."""
    kind = KINDS[number % len(KINDS)]
    return {
        "attributes": [f"good {kind}", "easy clean"],
        "instruction": f"Find me a good {kind}",
        "instruction_attributes": [f"good {kind}"],
    }


def write_shop(folder: Path, products: Iterable[Any], attributes: Any, human: Any = None) -> Path:
    """Write the official files; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "items_shuffle.json").write_text(json.dumps(list(products)))
    (folder / "items_ins_v2.json").write_text(json.dumps(attributes))
    if human is not None:
        (folder / "items_human_ins.json").write_text(json.dumps(human))
    return folder


def small_shop(folder: Path, number: int = 30) -> Path:
    """A shop of `number` products, all with instructions."""
    products = [raw(i) for i in range(number)]
    return write_shop(folder, products, {p["asin"]: annotation(i) for i, p in enumerate(products)})


def damaged_shop(folder: Path) -> Path:
    """Four products, one of them damaged, and one human instruction."""
    products = [raw(i) for i in range(3)] + [raw(3, pricing="free")]
    human = {"instruction": "a chair", "instruction_attributes": ["x"], "instruction_options": []}
    attributes = {p["asin"]: annotation(i) for i, p in enumerate(products)}
    return write_shop(folder, products, attributes, {"B000000001": [human]})


def draw(products: Iterable[Product], seed: int = SEED) -> Prices:
    """The prices and caps of products."""
    drawer = Drawer(seed)
    for product in products:
        drawer.take(product)
    return drawer.finish()


def in_order(products: Sequence[Product], prices: Prices) -> Goals:
    """The goals of products, not shuffled."""
    return Goals(products, prices, np.arange(prices.counts.sum()))


def products_of(files: Files) -> tuple[list[Product], list[Problem]]:
    """The products and the problems in files."""
    entries = list(read_products(files))
    products = [one for one in entries if isinstance(one, Product)]
    return products, [one for one in entries if isinstance(one, Problem)]
