"""Recipes, tools, names and times, compared with what is known of the game."""

import pytest

from ldm.worlds.minecraft import controllers
from ldm.worlds.minecraft.commands import State
from ldm.worlds.minecraft.environment import listed_tasks, training_items
from ldm.worlds.minecraft.rules import RAW, load_rules
from ldm.worlds.textcraft.environment import Book

VANILLA, PAPER = load_rules("vanilla"), load_rules("paper")


@pytest.mark.parametrize(
    ("block", "tool", "time"),
    [("oak_log", "", 60), ("oak_log", "wooden_axe", 30), ("oak_log", "diamond_axe", 8),
     ("stone", "", 150), ("stone", "wooden_pickaxe", 23), ("stone", "stone_pickaxe", 12),
     ("stone", "iron_pickaxe", 8), ("iron_ore", "stone_pickaxe", 23), ("dirt", "", 15),
     ("coal_ore", "wooden_pickaxe", 45), ("diamond_ore", "iron_pickaxe", 15),
     ("crafting_table", "diamond_axe", 10)],
)  # fmt: skip
def test_digging_takes_the_ticks_of_the_game_and_a_pause(block: str, tool: str, time: int) -> None:
    assert controllers.digging(block, tool, VANILLA) == time + 6
    assert controllers.digging("grass", tool, VANILLA) == 0  # has no hardness


def test_the_best_tool_is_the_quickest_and_the_hand_where_none_is_quicker() -> None:
    state = State(inventory={"diamond_axe": 1, "wooden_pickaxe": 1})
    assert controllers.digger("oak_log", state, VANILLA) == "diamond_axe"
    assert controllers.digger("stone", state, VANILLA) == "wooden_pickaxe"
    assert controllers.digger("dirt", state, VANILLA) == ""


def test_a_cow_takes_ten_blows_of_the_hand_and_two_of_a_diamond_axe() -> None:
    assert controllers.killing("cow", "") == (10 * 5 + 9 * 40, 10)
    assert controllers.killing("cow", "diamond_axe") == (2 * 20 + 40, 2)
    both = State(inventory={"stone_sword": 1, "diamond_axe": 1})
    assert controllers.weapon("cow", both) == "stone_sword"  # two quick blows
    assert controllers.weapon("sheep", both) == "diamond_axe"  # one is enough


def test_a_family_word_stands_for_each_kind_of_wood() -> None:
    assert VANILLA.members("log") == tuple(sorted(i for i in RAW if i.endswith("_log")))
    assert VANILLA.members("Wooden Slab") == VANILLA.members("minecraft:wooden_slab")
    assert len(VANILLA.members("wooden_slab")) == 6
    assert VANILLA.members("stonebrick") == ("stone_bricks",)
    assert VANILLA.members("castle") == ()
    assert VANILLA.members("stone_slab") == ("stone_slab", "cobblestone_slab")


def test_under_the_paper_there_is_one_kind_of_wood() -> None:
    assert PAPER.members("log") == PAPER.members("birch_log") == ("log",)
    assert PAPER.members("spruce_planks") == ("planks",)
    assert PAPER.members("wooden_slab") == ("oak_slab",)


def test_every_word_of_the_paper_is_understood_under_both_rules() -> None:
    for rules in (VANILLA, PAPER):
        for task in listed_tasks():
            assert rules.members(task.word), task.word


def test_coal_takes_a_wooden_pickaxe_and_under_the_paper_one_of_stone() -> None:
    assert VANILLA.fit["coal"][0] == "wooden_pickaxe"
    assert PAPER.fit["coal"][0] == "stone_pickaxe"
    assert "golden_pickaxe" not in VANILLA.fit["iron_ore"]


def test_gold_is_smelted_from_its_ore_though_the_recipe_names_a_tag() -> None:
    assert VANILLA.smelting["gold_ingot"] == ["gold_ore"]
    assert "gold_ingot" in training_items()


def test_what_textcraft_crafts_of_these_items_is_crafted_here(book: Book) -> None:
    for item, recipes in book.recipes.items():
        mine = {recipe.parts for recipe in VANILLA.recipes.get(item, ())}
        for recipe in recipes:
            parts = {amount.name: amount.count for amount in recipe.ingredients}
            if parts.keys() <= VANILLA.items - {"quartz", "quartz_block"}:
                assert tuple(sorted(parts.items())) in mine, recipe


def test_no_training_item_is_a_task_of_the_paper_or_given() -> None:
    meant = {item for task in listed_tasks() for item in task.targets}
    assert not meant & training_items().keys()
    assert not RAW.keys() & training_items().keys()
    assert "diamond_axe" not in training_items()
