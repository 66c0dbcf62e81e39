"""Count items, recipes and tasks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ldm.envs.metadata import DataCheck
from ldm.worlds.minecraft.environment import ENV, SPLITS, games, listed_tasks
from ldm.worlds.minecraft.rules import load_rules


def check(path: Path | None = None) -> DataCheck:
    """Count items, recipes and tasks.

    path: ignored, as the rules come with the package.
    """
    rules = load_rules("vanilla")
    facts = {
        "raw items": len(rules.sources),
        "crafting recipes": sum(map(len, rules.recipes.values())),
        "smelting recipes": sum(map(len, rules.smelting.values())),
        "tasks of the paper": len(listed_tasks()),
    }
    splits = {
        split: Counter(game.task.kind for game in games(split, rules, "listed76", 1))
        for split in SPLITS
    }
    return DataCheck(ENV, None, {s: dict(sorted(k.items())) for s, k in splits.items()}, facts)
