"""What an action does and how it is answered, word for word as the official code answers.

The texts and their oddities are described in the project's notes on the official behaviour; the
numbers in the comments are theirs. Unlike the official code nothing is ever added to the recipes
while playing (42): it lets a goal, once set, be "crafted" by the recipes of what it is made of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ldm.envs.textcraft.recipes import Amount, Book, Recipe, name_of, words

NOTHING_HELD = "You are not carrying anything."
#: Digits of the largest amount: Python refuses to write integers of more than some thousand.
MAX_DIGITS = 1000

# Matched at the start of the action only; a second line is ignored (37).
_CRAFT = re.compile(r"craft (.*) using (.*)")
_GET = re.compile(r"get ([0-9]+) (.*)")
_COUNTED = re.compile(r"([0-9]+) (.*)")

#: Item → how many are held, in the order in which they came.
Inventory = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to an action.

    valid: whether it was understood and possible; otherwise the inventory is as before.
    made: the item that was crafted, "" if none was.
    """

    text: str
    inventory: Inventory
    valid: bool = True
    made: str = ""


def carry_out(action: str, inventory: Inventory, book: Book) -> Reply:
    """The answer to an action in a state. `inventory` itself is left as it is."""
    if found := _CRAFT.match(action):
        return _craft(found.group(1), found.group(2), inventory, book)
    if found := _GET.match(action):
        return _get(found.group(1), found.group(2), inventory, book)
    if action.startswith("inventory"):
        return Reply(f"Inventory: {_listing(inventory)}", inventory)
    return _refused(f"Could not execute {action}", inventory)


def parsed_recipe(line: str) -> Recipe | None:
    """The recipe in a line of a listing; None where the line is none."""
    found = _CRAFT.fullmatch(line)
    made = _COUNTED.fullmatch(found.group(1)) if found else None
    if found is None or made is None:
        return None
    ingredients = [_COUNTED.fullmatch(part.strip()) for part in found.group(2).split(",")]
    amounts = tuple(_amount(part) for part in ingredients if part)
    whole = len(amounts) == len(ingredients)
    return Recipe(name_of(made.group(2)), int(made.group(1)), amounts) if whole else None


def _listing(inventory: Inventory) -> str:
    held = "".join(f"[{words(item)}] ({count}) " for item, count in inventory.items())
    return held or NOTHING_HELD


def _get(digits: str, text: str, inventory: Inventory, book: Book) -> Reply:
    item = name_of(text)
    if not book.fetchable(item):
        return _refused(f"Could not find {text}", inventory)
    if len(digits) > MAX_DIGITS:
        return _refused(f"Could not execute get {digits} {text}", inventory)
    count = int(digits)
    after = {**inventory, item: inventory.get(item, 0) + count}
    return Reply(f"Got {count} {text}", after)


def _craft(made: str, using: str, inventory: Inventory, book: Book) -> Reply:
    """The inventory is looked at before the recipe (38)."""
    ingredients = []
    for part in using.split(","):
        found = _COUNTED.match(part.strip())
        if not found or len(found.group(1)) > MAX_DIGITS:
            return _refused(f"Wrong item format: {part.strip()}", inventory)
        ingredients.append(_amount(found))
    counted = _COUNTED.match(made)
    if counted and len(counted.group(1)) > MAX_DIGITS:
        return _refused(f"Could not execute craft {made} using {using}", inventory)
    target = _amount(counted) if counted else Amount(name_of(made), 1)
    generic = target.name in book.tags
    if any(inventory.get(a.name, -1) < a.count for a in ingredients):
        shown = "None" if generic else f"minecraft:{target.name}"
        return _refused(f"Could not find enough items to craft {shown}", inventory)
    recipe = _fitting(target.name, ingredients, book)
    if recipe is None:
        return _refused(_no_recipe(target, generic=generic), inventory)
    after = dict(inventory)
    for amount in ingredients:
        after[amount.name] -= amount.count
        if not after[amount.name]:
            del after[amount.name]
    after[recipe.item] = after.get(recipe.item, 0) + recipe.count
    text = f"Crafted {recipe.count} minecraft:{recipe.item}"
    return Reply(text, after, made=recipe.item)


def _amount(found: re.Match[str]) -> Amount:
    return Amount(name_of(found.group(2)), int(found.group(1)))


def _fitting(item: str, typed: list[Amount], book: Book) -> Recipe | None:
    """The first recipe of an item with exactly the typed ingredients, in any order (39)."""
    for recipe in book.recipes.get(item, ()):
        left = list(recipe.ingredients)
        for amount in typed:
            names = (amount.name, book.tag_of.get(amount.name))
            fit = next((a for a in left if a.name in names and a.count == amount.count), None)
            if fit is None:
                break
            left.remove(fit)
        else:
            if not left:
                return recipe
    return None


def _no_recipe(target: Amount, *, generic: bool) -> str:
    tag = f"'minecraft:{target.name}'" if generic else None
    item = None if generic else f"minecraft:{target.name}"
    return (
        "Could not find a valid recipe for ItemTagWithCount("
        f"item_tag=ItemTag(tag={tag}, item_id={item!r}), count={target.count})"
    )


def _refused(text: str, inventory: Inventory) -> Reply:
    return Reply(text, inventory, valid=False)
