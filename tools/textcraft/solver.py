"""A solver that finds the fewest actions for a goal, by search over a listing of recipes.

It proves that a task can be solved, and in how many steps; `plan` says how exact that is. The
expert that plays the shipped episodes (`expert.py`) chooses recipes by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ldm.errors import LdmError
from ldm.worlds.textcraft.environment import Amount, Book, Recipe, name_of, words

_CRAFT = re.compile(r"craft (.*) using (.*)")
_COUNTED = re.compile(r"([0-9]+) (.*)")


@dataclass(frozen=True, slots=True)
class Choices:
    """How a goal is crafted.

    order: everything that may be needed, each before what it is made of.
    recipes: item → the recipe to use. kinds: tag → the item that stands for it.
    """

    order: tuple[str, ...]
    recipes: Mapping[str, Recipe]
    kinds: Mapping[str, str]

    def item(self, name: str) -> str:
        """Return the item that a name stands for, itself unless it is a tag."""
        return self.kinds.get(name, name)

    def ingredients(self, recipe: Recipe) -> list[Amount]:
        """Return what a recipe takes, with tags replaced, in the order in which to provide it."""
        amounts = [Amount(self.item(a.name), a.count) for a in recipe.ingredients]
        return sorted(amounts, key=lambda amount: self.order.index(amount.name))

    def command(self, item: str) -> str:
        """Return the action that crafts an item once, ingredients in the recipe's order."""
        recipe = self.recipes[item]
        using = (Amount(self.item(a.name), a.count) for a in recipe.ingredients)
        return str(Recipe(recipe.item, recipe.count, tuple(using)))


def listed(opening: str) -> tuple[Recipe, ...]:
    """Return the recipes that an opening shows, in its order."""
    return tuple(recipe for line in opening.split("\n") if (recipe := parsed_recipe(line)))


def plan(item: str, recipes: Sequence[Recipe], book: Book) -> tuple[str, ...]:
    """Return the fewest actions that craft an item, the same ones every time.

    Fewest among plans that use one recipe for each item and one kind for each tag: then all that
    an item is needed for adds up, and one action fetches all of it. Raise LdmError where the
    recipes do not lead to the item.
    """
    choices = choose(item, recipes, book)
    demand = {item: 1}
    actions: list[list[str]] = []
    for name in choices.order:
        needed = demand.get(name, 0)
        if needed and name in choices.recipes:
            recipe = choices.recipes[name]
            times = -(-needed // recipe.count)
            actions.append([choices.command(name)] * times)
            for amount in choices.ingredients(recipe):
                demand[amount.name] = demand.get(amount.name, 0) + amount.count * times
        elif needed and name not in choices.kinds:
            actions.append([f"get {needed} {words(name)}"])
    return tuple(action for group in reversed(actions) for action in group)


def choose(item: str, recipes: Sequence[Recipe], book: Book) -> Choices:
    """Return the recipes and kinds of the shortest plan; the first listed on a tie.

    Raise LdmError where the recipes do not lead to the item.
    """
    search = _Search(item, recipes, book)
    search.search_from(0, {item: 1}, 0, {}, {})
    if search.best is None:
        raise LdmError(f"These recipes do not lead to {words(item)}.", "Leave the task out.")
    return search.best


class _Search:
    """A depth-first search; a thing's recipe is chosen once all that needs it has been chosen."""

    def __init__(self, item: str, recipes: Sequence[Recipe], book: Book) -> None:
        self._book = book
        self._recipes: dict[str, list[Recipe]] = {}
        for recipe in recipes:
            self._recipes.setdefault(recipe.item, []).append(recipe)
        self._order = self._sorted(item)
        self._least: int | None = None
        self.best: Choices | None = None

    def search_from(
        self,
        place: int,
        demand: Mapping[str, int],
        cost: int,
        recipes: Mapping[str, Recipe],
        kinds: Mapping[str, str],
    ) -> None:
        """Choose for everything from `place` on in the order, given the demand so far."""
        while place < len(self._order) and not demand.get(self._order[place]):
            place += 1
        if self._least is not None and cost >= self._least:
            return
        if place == len(self._order):
            self._least, self.best = cost, Choices(self._order, dict(recipes), dict(kinds))
            return
        name = self._order[place]
        needed = demand[name]
        if name in self._book.tags:
            for kind in self._kinds(name):
                next_demand = {**demand, kind: demand.get(kind, 0) + needed}
                self.search_from(place + 1, next_demand, cost, recipes, {**kinds, name: kind})
        elif self._book.fetchable(name):
            self.search_from(place + 1, demand, cost + 1, recipes, kinds)
        for recipe in self._recipes.get(name, ()):
            times = -(-needed // recipe.count)
            next_demand = dict(demand)
            for amount in recipe.ingredients:
                next_demand[amount.name] = next_demand.get(amount.name, 0) + amount.count * times
            self.search_from(place + 1, next_demand, cost + times, {**recipes, name: recipe}, kinds)

    def _kinds(self, tag: str) -> Iterator[str]:
        """Return the items of a tag that the listing makes, in its order."""
        return (item for item in self._recipes if self._book.tag_of.get(item) == tag)

    def _below(self, name: str) -> Iterator[str]:
        yield from self._kinds(name)
        for recipe in self._recipes.get(name, ()):
            yield from (amount.name for amount in recipe.ingredients)

    def _sorted(self, item: str) -> tuple[str, ...]:
        """Return all that may be needed, each before what it is made of; recipes form no circle."""
        visited: dict[str, None] = {}

        def visit(name: str) -> None:
            if name not in visited:
                for below in self._below(name):
                    visit(below)
                visited[name] = None

        visit(item)
        return tuple(reversed(visited))


def parsed_recipe(line: str) -> Recipe | None:
    """Return the recipe in a line of a listing; None if the line is not a recipe."""
    match = _CRAFT.fullmatch(line)
    product = _COUNTED.fullmatch(match.group(1)) if match else None
    if match is None or product is None:
        return None
    counted = [_COUNTED.fullmatch(part.strip()) for part in match.group(2).split(",")]
    amounts = tuple(Amount(name_of(part.group(2)), int(part.group(1))) for part in counted if part)
    complete = len(amounts) == len(counted)
    return Recipe(name_of(product.group(2)), int(product.group(1)), amounts) if complete else None
