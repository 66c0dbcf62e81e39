"""Check the installed recipes, and a published list of tasks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from ldm.envs.download import published
from ldm.envs.metadata import DataCheck
from ldm.records import Problem
from ldm.worlds.textcraft.environment import ENV, TEST, TRAIN, Game, load_book, own_games, read_list

#: The results of ADaPT's authors, which hold their 200 tasks.
FILES = published(__file__)


def check(path: Path | None = None) -> DataCheck:
    """Count the recipes, our own tasks and, if `path` is a published list, its tasks.

    A folder is one that the list was downloaded into.
    Raise LdmError if the recipes are not installed, or the file cannot be read.
    """
    book = load_book()
    if path is not None and path.is_dir():
        path /= FILES[""][0].filename
    own = {split: own_games(split, book) for split in (TRAIN, TEST)}
    facts: dict[str, Any] = {
        "recipes": sum(1 for _ in book.all_recipes()),
        "items": len(book.recipes),
    }
    entries = [] if path is None else list(read_list(path, book))
    listed = [game for game in entries if isinstance(game, Game)]
    if path is not None:
        trained = {game.item for game in own[TRAIN]}
        facts["listed"] = _by_kind(listed)
        facts["listed_items_of_train"] = sum(game.item in trained for game in listed)
    splits = {split: _by_kind(games) for split, games in own.items()}
    problems = tuple(entry for entry in entries if isinstance(entry, Problem))
    return DataCheck(ENV, path, splits, facts, problems)


def _by_kind(games: list[Game]) -> dict[str, int]:
    return dict(sorted(Counter(game.task.kind for game in games).items()))
