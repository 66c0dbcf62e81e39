"""The official code's recorded answers: the recipe tree, the listings, every reply."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ldm.worlds.textcraft import TextCraft
from ldm.worlds.textcraft.environment import DISTRACTORS, STORED, Book, Recipe
from tests.worlds.textcraft.conftest import lines
from tools.textcraft.solver import parsed_recipe

#: A recipe's group became its item's tag; of the beds' two groups the last one read counts.
BEDS = {"minecraft:bed", "minecraft:dyed_bed"}


def full(name: str) -> str:
    return f"minecraft:{name}"


def test_the_tree_has_the_official_items_recipes_tags_and_depths(book: Book, golden: Path) -> None:
    def part(name: str, count: int) -> dict[str, Any]:
        tag, item = (full(name), None) if name in book.tags else (None, full(name))
        return {"tag": tag, "item_id": item, "count": count}

    def form(recipe: Recipe) -> dict[str, Any]:
        parts = [part(amount.name, amount.count) for amount in recipe.ingredients]
        return {"text": str(recipe), "output_count": recipe.count, "inputs": parts}

    mine = [
        {
            "item": full(item),
            "min_depth": book.depth(item),
            "tag": full(book.tag_of[item]) if item in book.tag_of else None,
            "recipes": [form(recipe) for recipe in recipes],
        }
        for item, recipes in book.recipes.items()
    ]
    assert mine == lines(golden / "tree.jsonl")


def test_the_sets_are_the_official_ones(book: Book, golden: Path) -> None:
    official = json.loads((golden / "sets.json").read_text(encoding="utf-8"))
    assert sorted(map(full, book.items)) == sorted(official["itemid_set"])
    assert sorted(map(full, book.tags)) == sorted(official["tag_set"])
    assert {full(i): full(tag) for i, tag in book.tag_of.items()} == official["item_id_to_tag"]
    for tag, items in book.tags.items():
        if full(tag) not in BEDS:
            recipes = sorted(str(recipe) for item in items for recipe in book.recipes[item])
            assert recipes == sorted(official["tag_recipes"][full(tag)])


def test_what_a_goal_needs_is_what_the_official_listings_show(book: Book, golden: Path) -> None:
    for reset in lines(golden / "resets.jsonl"):
        needed = book.needed(reset["goal"].removeprefix("minecraft:"))
        assert sorted(map(str, needed)) == reset["needed"]
        # The official pool is drawn at random from the recipes that share an ingredient.
        shared = {amount.name for recipe in needed for amount in recipe.ingredients}
        for line in reset["distractor_pool"]:
            recipe = parsed_recipe(line)
            assert recipe is not None
            assert recipe in book.recipes[recipe.item]
            assert shared.intersection(amount.name for amount in recipe.ingredients)
        recipe_count = reset["observation"].count("\ncraft ")
        assert recipe_count - len(needed) <= DISTRACTORS


def rows_with_answers(env: TextCraft, golden: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    """Each recorded row, gold and faulty actions alike, with what is answered here."""
    tasks = env.tasks(STORED)
    for episode in lines(golden / "episodes.jsonl"):
        task = tasks[episode["index"]]
        for name in ("gold", "faulty"):
            opening = env.reset(task).observation
            assert opening == episode["initial_observation"]
            assert task.kind == f"depth{episode['min_depth']}"
            for row in episode.get(name, ()):
                yield row, env.step(row["action"])


def test_every_reply_is_the_official_one(env: TextCraft, golden: Path) -> None:
    for row, now in rows_with_answers(env, golden):
        answer = (now.observation, now.reward, now.done)
        assert answer == (row["observation"], row["reward"], row["done"])
        assert now.valid == (not row["observation"].startswith(("Could not", "Wrong item")))


def test_the_recipes_do_not_grow_by_playing(env: TextCraft, golden: Path) -> None:
    """The official code's reset adds recipes to the goal: those replies are not copied."""
    played = rows_with_answers(env, golden)
    grown = [(row["after_reset"], answer) for row, answer in played if "after_reset" in row]
    assert len(grown) == 150
    for official, answer in grown:
        assert answer.observation != official["observation"]
