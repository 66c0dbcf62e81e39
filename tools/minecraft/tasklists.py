"""The lists of tasks: those of the paper, and the items that are left for memories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ldm.worlds.minecraft.rules import load_rules
from tools.minecraft.solver import shortest


def paper_tasks(path: Path) -> list[list[Any]]:
    """Return the tasks in tasks.json of the specification: the facts that the environment needs.

    A name that Table 21 prints in another way than Tables 9 to 16 is taken from Table 21.
    """
    tasks = json.loads(path.read_text("utf-8"))["minecraft"]["tasks"]
    return [
        [
            task["id"],
            task["meta"],
            task["object_in_table21"] or task["object"],
            task["targets_1_16"],
            task["required_skills"],
            "measured69" in task["sets"],
        ]
        for task in tasks
    ]


def other_items(listed: Iterable[list[Any]]) -> list[tuple[str, str]]:
    """Return (item, kind) of all that can be made and is neither raw nor in the paper, by kind."""
    rules = load_rules("vanilla")
    # One begins with a diamond axe.
    taken = {"diamond_axe", *(item for task in listed for item in task[3])}
    items = []
    made = rules.recipes.keys() | rules.smelting.keys()
    for item in sorted(made - rules.sources.keys() - taken):
        plan = shortest([item], "vanilla")
        if plan is not None:
            items.append((item, kind_of(item, plan.gathered)))
    return sorted(items, key=lambda one: (one[1], one[0]))


def kind_of(item: str, gathered: Mapping[str, int]) -> str:
    """Return the kind of an item of ours, by the raw items of its shortest plan."""
    tool = item.endswith(("_pickaxe", "_axe", "_shovel", "_hoe", "_sword"))
    raw = set(gathered)
    if raw & {"diamond", "gold_ore", "redstone", "lapis_lazuli"}:
        return "MT8"
    if "iron_ore" in raw:
        return "MT6" if tool else "MT7"
    if item.endswith(("_helmet", "_chestplate", "_leggings", "_boots", "_armor")):
        return "MT5"
    if raw & {"white_wool", "mutton", "beef", "leather", "porkchop", "chicken", "feather"}:
        return "MT3"
    if tool:
        return "MT2"
    stone = {"cobblestone", "coal", "sand", "clay_ball", "andesite", "diorite", "granite", "gravel"}
    return "MT4" if raw & stone else "MT1"


def tasks_text(listed: list[list[Any]], train: Iterable[tuple[str, str, int]]) -> str:
    """Return the contents of tasks.json, one task a line."""
    parts = {"listed": listed, "train": [list(one) for one in train]}
    body = ",\n".join(
        f"{json.dumps(name)}: [\n" + ",\n".join(f"  {json.dumps(line)}" for line in lines) + "\n]"
        for name, lines in parts.items()
    )
    return "{" + body + "}\n"
