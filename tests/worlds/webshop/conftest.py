"""Shops for the tests: our own small one, and the official data with their golden outputs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldm.worlds.webshop.catalogue import Catalogue, Files, Goals, Product, open_catalogue
from ldm.worlds.webshop.environment import World
from ldm.worlds.webshop.reward import Titles, parser_version
from tests.worlds.webshop.shop import draw, in_order, products_of, small_shop

#: A title → its nouns.
Parses = dict[str, tuple[str, ...]]


def lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def edge_files(golden: Path, *, human: bool = False) -> Files:
    """The products that are odd in some way."""
    edge = golden / "edge"
    instructions = edge / "items_human_ins.json" if human else None
    return Files(edge / "items.json", edge / "items_ins.json", instructions)


def human_goals(official: Path, golden: Path) -> tuple[list[Product], Goals]:
    """Products and the goals that people wrote, with prices that were drawn before."""
    files = Files.find(official, human=False)
    files = Files(files.products, files.attributes, golden / "items_human_ins_13.json")
    products, _ = products_of(files)
    prices = json.loads((golden / "prices.json").read_text())
    # A fresh seed for the caps.
    drawn = draw(replace(product, prices=(prices[product.asin],)) for product in products)
    return products, in_order(products, drawn)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a shop of 30 products."""
    return small_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="session")
def small_world(small: Path) -> World:
    return World(open_catalogue(Files.find(small, human=False)))


@pytest.fixture(scope="session")
def official(shared_data: Path) -> Path:
    """The folder of the official 1,000 products."""
    return shared_data / "webshop"


@pytest.fixture(scope="session")
def golden(official: Path) -> Path:
    """What the official code answered."""
    return official / "golden"


@pytest.fixture(scope="session")
def catalogue(official: Path) -> Catalogue:
    return open_catalogue(Files.find(official, human=False))


@pytest.fixture(scope="session")
def parses(golden: Path) -> Parses:
    """The nouns of the titles as the golden outputs' parser reads them."""
    return {one["name"]: tuple(one["nouns"]) for one in lines(golden / "titles_pos.jsonl")}


@pytest.fixture(scope="session")
def parsed() -> Titles:
    """Titles read by spaCy, which takes seconds to load; skips where it is not installed."""
    if parser_version() == "none":
        pytest.skip("spaCy's model is not installed: it comes with ldm-memory[webshop]")
    return Titles()


@pytest.fixture(scope="session")
def world(catalogue: Catalogue, parses: Parses) -> World:
    return World(catalogue, titles=Titles(parses))
