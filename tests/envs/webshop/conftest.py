"""Shops for the tests: our own small one, and the official data with their golden outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ldm.envs.webshop.catalogue import Files
from ldm.envs.webshop.store import Catalogue, Settings, open_catalogue
from ldm.envs.webshop.titles import Titles, parser_version
from ldm.envs.webshop.world import World
from tests.envs.webshop.shop import small_shop

#: A title → its nouns.
Parses = dict[str, tuple[str, ...]]


def lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a shop of 30 products."""
    return small_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="session")
def small_world(small: Path) -> World:
    return World(open_catalogue(Files.find(small, human=False), Settings()))


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
    return open_catalogue(Files.find(official, human=False), Settings())


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
