"""The effects of actions, with the official code's exact answers.

The numbers in comments refer to the project's notes on the official behaviour and its quirks.
Unlike in the official code, the recipes never change during play (42): there a goal, once set, can
be "crafted" by the recipes of its ingredients.
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

#: Item → how many are held, in the order in which they were obtained.
Inventory = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to an action.

    valid: whether it was understood and possible; otherwise the inventory is as before.
    crafted: the item that was crafted, "" if none was.
    """

    text: str
    inventory: Inventory
    valid: bool = True
    crafted: str = ""


def apply_action(action: str, inventory: Inventory, book: Book) -> Reply:
    """Return the answer to an action in a state; `inventory` itself is not modified."""
    if match := _CRAFT.match(action):
        return _craft(match.group(1), match.group(2), inventory, book)
    if match := _GET.match(action):
        return _get(match.group(1), match.group(2), inventory, book)
    if action.startswith("inventory"):
        return Reply(f"Inventory: {_listing(inventory)}", inventory)
    return _refused(f"Could not execute {action}", inventory)


def _listing(inventory: Inventory) -> str:
    entries = "".join(f"[{words(item)}] ({count}) " for item, count in inventory.items())
    return entries or NOTHING_HELD


def _get(digits: str, text: str, inventory: Inventory, book: Book) -> Reply:
    item = name_of(text)
    if not book.fetchable(item):
        return _refused(f"Could not find {text}", inventory)
    if len(digits) > MAX_DIGITS:
        return _refused(f"Could not execute get {digits} {text}", inventory)
    count = int(digits)
    after = {**inventory, item: inventory.get(item, 0) + count}
    return Reply(f"Got {count} {text}", after)


def _craft(product: str, ingredient_text: str, inventory: Inventory, book: Book) -> Reply:
    """Return the answer to a craft action; the inventory is checked before the recipe (38)."""
    ingredients = []
    for part in ingredient_text.split(","):
        amount_match = _COUNTED.match(part.strip())
        if not amount_match or len(amount_match.group(1)) > MAX_DIGITS:
            return _refused(f"Wrong item format: {part.strip()}", inventory)
        ingredients.append(_amount(amount_match))
    product_match = _COUNTED.match(product)
    if product_match and len(product_match.group(1)) > MAX_DIGITS:
        return _refused(f"Could not execute craft {product} using {ingredient_text}", inventory)
    target = _amount(product_match) if product_match else Amount(name_of(product), 1)
    generic = target.name in book.tags
    if any(inventory.get(a.name, -1) < a.count for a in ingredients):
        item_name = "None" if generic else f"minecraft:{target.name}"
        return _refused(f"Could not find enough items to craft {item_name}", inventory)
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
    return Reply(text, after, crafted=recipe.item)


def _amount(match: re.Match[str]) -> Amount:
    return Amount(name_of(match.group(2)), int(match.group(1)))


def _fitting(item: str, typed: list[Amount], book: Book) -> Recipe | None:
    """Return the first recipe of an item with exactly the typed ingredients, in any order (39)."""
    for recipe in book.recipes.get(item, ()):
        remaining = list(recipe.ingredients)
        for amount in typed:
            names = (amount.name, book.tag_of.get(amount.name))
            fit = next((a for a in remaining if a.name in names and a.count == amount.count), None)
            if fit is None:
                break
            remaining.remove(fit)
        else:
            if not remaining:
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
