"""Check what can be played: the installed recipes, and a published list of tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.envs.textcraft.recipes import load_book
from ldm.envs.textcraft.tasks import ENV, TEST, TRAIN, Game, own_games, read_list
from ldm.records import Problem


@dataclass(frozen=True, slots=True)
class Report:
    """The recipes and tasks that can be played.

    recipes, items: their numbers; an item can have several recipes. splits: our own tasks by kind.
    listed: the tasks of a published list by kind; None if no list is set. in_train: how many of
    them craft an item of our training split, so that the split stored_test leaves them out.
    """

    path: Path | None
    recipes: int
    items: int
    splits: Mapping[str, Mapping[str, int]]
    listed: Mapping[str, int] | None
    in_train: int
    problems: tuple[Problem, ...]

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text."""
        yield f"TextCraft: {self.recipes} recipes that craft {self.items} items"
        for split, counts in self.splits.items():
            yield f"  {split}: {_counted(counts)}"
        if self.listed is not None:
            yield f"  {self.path}: {_counted(self.listed)}; {self.in_train} in our train"

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "env": ENV,
            "path": None if self.path is None else str(self.path),
            "recipes": self.recipes,
            "items": self.items,
            "splits": {split: dict(counts) for split, counts in self.splits.items()},
            "listed": None if self.listed is None else dict(self.listed),
            "in_train": self.in_train,
            "problems": [
                {"file": p.file, "line": p.line, "field": p.field, "message": p.message}
                for p in self.problems
            ],
        }


def check(path: Path | None = None) -> Report:
    """Count the recipes, our own tasks and, if `path` is a published list, its tasks.

    Raise LdmError if the recipes are not installed, or the file cannot be read.
    """
    book = load_book()
    own = {split: own_games(split, book) for split in (TRAIN, TEST)}
    entries = [] if path is None else list(read_list(path, book))
    games = [game for game in entries if isinstance(game, Game)]
    trained = {game.item for game in own[TRAIN]}
    return Report(
        path=path,
        recipes=sum(1 for _ in book.all_recipes()),
        items=len(book.recipes),
        splits={split: _by_kind(of) for split, of in own.items()},
        listed=None if path is None else _by_kind(games),
        in_train=sum(game.item in trained for game in games),
        problems=tuple(problem for problem in entries if isinstance(problem, Problem)),
    )


def _by_kind(games: list[Game]) -> dict[str, int]:
    return dict(sorted(Counter(game.task.kind for game in games).items()))


def _counted(counts: Mapping[str, int]) -> str:
    kinds = ", ".join(f"{kind} {count}" for kind, count in counts.items())
    return f"{sum(counts.values())} tasks ({kinds or 'none'})"
