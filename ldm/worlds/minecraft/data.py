"""Count items, recipes and tasks, and say why a task is impossible."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ldm.envs.metadata import DataReport
from ldm.worlds.minecraft.rules import RULE_SETS, RuleSet, load_rules
from ldm.worlds.minecraft.solver import obstacle, reachable, shortest
from ldm.worlds.minecraft.tasks import ENV, SPLITS, games, listed_tasks


def check(path: Path | None = None) -> DataReport:
    """Count items, recipes and tasks, and search a plan for every task of the paper.

    path: ignored, as the rules come with the package.
    """
    rules, had = load_rules("vanilla"), reachable("vanilla")
    recipes = [recipe for of in rules.recipes.values() for recipe in of]
    facts = {
        "raw items": len(rules.sources),
        "items made of them": len(had) - len(rules.sources),
        "crafting recipes": sum(all(p in had for p, _ in recipe.parts) for recipe in recipes),
        "smelting recipes": sum(part in had for parts in rules.smelting.values() for part in parts),
        "tasks of the paper": len(listed_tasks()),
        "impossible": {name: _impossible(name) for name in RULE_SETS},
    }
    splits = {
        split: Counter(game.task.kind for game in games(split, rules, "listed76", 1))
        for split in SPLITS
    }
    return DataReport(ENV, None, {s: dict(sorted(k.items())) for s, k in splits.items()}, facts)


def _impossible(rules: RuleSet) -> dict[str, str]:
    """Return the paper's tasks to which there is no way, by the paper's word, with the reason."""
    book, reasons = load_rules(rules), {}
    for listed in listed_tasks():
        items = [item for target in listed.targets for item in book.members(target)[:1]]
        if shortest(items, rules) is None:
            reasons[listed.word] = obstacle(items[0], rules)
    return reasons
