"""Check what can be played: items, recipes and tasks, and which task is impossible and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.records import Problem
from ldm.worlds.minecraft.rules import RULE_SETS, load_rules
from ldm.worlds.minecraft.solver import obstacle, reachable, shortest
from ldm.worlds.minecraft.tasks import ENV, SPLITS, games, listed_tasks


@dataclass(frozen=True, slots=True)
class Report:
    """What can be played.

    counts: of things by name, under the vanilla rules. splits: tasks by kind. impossible: rules →
    word of a task of the paper → why there is no way to it.
    """

    counts: Mapping[str, int]
    splits: Mapping[str, Mapping[str, int]]
    impossible: Mapping[str, Mapping[str, str]]
    problems: tuple[Problem, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text."""
        yield "Minecraft: " + ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        for split, kinds in self.splits.items():
            listed = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
            yield f"  {split}: {sum(kinds.values())} tasks ({listed})"
        for rules, reasons in self.impossible.items():
            ways = len(listed_tasks()) - len(reasons)
            yield f"  rules={rules}: {ways} of the paper's {len(listed_tasks())} tasks are possible"
            yield from (f"    {word} is not: {reason}" for word, reason in reasons.items())

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "env": ENV,
            "path": None,
            "counts": dict(self.counts),
            "splits": {split: dict(kinds) for split, kinds in self.splits.items()},
            "impossible": {rules: dict(reasons) for rules, reasons in self.impossible.items()},
            "problems": [],
        }


def check(path: Path | None = None) -> Report:
    """Count items, recipes and tasks, and search a plan for every task of the paper.

    Nothing is read from `path`: all of it comes with the package.
    """
    rules = load_rules("vanilla")
    had = reachable("vanilla")
    recipes = [recipe for of in rules.recipes.values() for recipe in of]
    counts = {
        "raw items": len(rules.sources),
        "items made of them": len(had) - len(rules.sources),
        "crafting recipes": sum(all(p in had for p, _ in recipe.parts) for recipe in recipes),
        "smelting recipes": sum(part in had for parts in rules.smelting.values() for part in parts),
    }
    splits = {
        split: dict(
            sorted(Counter(g.task.kind for g in games(split, rules, "listed76", 1)).items())
        )
        for split in SPLITS
    }
    impossible: dict[str, dict[str, str]] = {}
    for name in RULE_SETS:
        book = load_rules(name)
        reasons = {}
        for listed in listed_tasks():
            items = [item for target in listed.targets for item in book.members(target)[:1]]
            if shortest(items, name) is None:
                reasons[listed.word] = obstacle(items[0], name)
        impossible[name] = reasons
    return Report(counts, splits, impossible)
