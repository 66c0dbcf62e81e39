"""Ideal models reproduce the dialogues of the DEPS paper: App. H's diamond, App. G's stone sword.

What is compared is the causes of failure: the inventories of App. H contradict one another
(docs/decisions/agents.md#deps). The plans are those of the dialogues, with their quotes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from ldm.agents.deps.findings import REPORTING
from ldm.worlds.minecraft import Minecraft
from ldm.worlds.minecraft.environment import MinecraftOptions
from tests.agents.deps.ideal import Ideal, play

TABLE = "crafting_table’"
STICKS = "craft({’stick’:4}, {’planks’:2}, null);"
STONE_PICKAXE = f"craft({{’stone_pickaxe’:1}}, {{’cobblestone’:3, stick’:2}}, {TABLE});"
IRON_PICKAXE = f"craft({{’iron_pickaxe’:1}}, {{’iron_ingot’:3, stick’:2}}, {TABLE});"
DIAMOND = "mine({’diamond’:1}, iron_pickaxe’);"
INGOT = "smelt({’iron_ingot’:1}, {’iron_ore’:1}, furnace’);"
WOODEN_PICKAXE = f"craft({{’wooden_pickaxe’:1}}, {{’planks’:3, stick’:2}}, {TABLE});"


@dataclass(frozen=True)
class Trace:
    """lines: plans. failures: (step that failed, what the world says is lacking)."""

    item: str
    plans: Sequence[Sequence[str]]
    failures: Sequence[tuple[int, str]]


APP_H = Trace(
    "diamond",
    [
        [
            "mine({’log’:3}, null); # step 1: mine 3 log without tool",
            "craft({’planks’:12}, {’log’:3}, null);",
            STICKS,
            "craft({’crafting_table’:1}, {’planks’:4}, null);",
            WOODEN_PICKAXE,
            "mine({’cobblestone’:2}, wooden_pickaxe’);",
            STONE_PICKAXE,
            "mine({’diamond’:1}, stone_pickaxe’);",
        ],
        [
            "mine({’cobblestone’:1}, wooden_pickaxe’);",
            STONE_PICKAXE,
            "mine({’diamond’:1}, stone_pickaxe’);",
        ],
        ["mine({’iron_ore’:1}, stone_pickaxe’);", INGOT, IRON_PICKAXE, DIAMOND],
        [
            "craft({’furnace’:1}, {’cobblestone’:8}, null);",
            "craft({’iron_ingot’:1}, {’iron_ore’:1}, furnace’);",
            IRON_PICKAXE,
            DIAMOND,
        ],
        [
            "mine({’cobblestone’:8}, stone_pickaxe’);",
            "craft({’furnace’:1}, {’cobblestone’:8}, null);",
            INGOT,
            IRON_PICKAXE,
            DIAMOND,
        ],
        [f"craft({{’furnace’:1}}, {{’cobblestone’:8}}, {TABLE});", INGOT, IRON_PICKAXE, DIAMOND],
        [
            "mine({’iron_ore’:2}, stone_pickaxe’); # action 1: mine 2 iron_ore",
            "smelt({’iron_ingot’:2}, {’iron_ore’:2}, furnace’);",
            IRON_PICKAXE,
            DIAMOND,
        ],
        ["craft({’stick’:2}, {’planks’:1}, null); # action 15", IRON_PICKAXE, DIAMOND],
    ],
    [
        (7, "cobblestone"),
        (3, "stone_pickaxe does not mine diamond"),
        (2, "furnace"),
        (1, "cobblestone"),
        (2, "crafting_table"),
        (3, "iron_ingot"),
        (3, "stick"),
    ],
)

STONE_SWORD = f"craft({{’stone_sword’:1}}, {{’cobblestone’:2, stick’:1}}, {TABLE}); # step 5"
APP_G = Trace(
    "stone_sword",
    [
        [
            "mine({’log’:3}, null);",
            "craft({’planks’:12}, {’log’:3}, null);",
            STICKS,
            "mine({’cobblestone’:2}, null); # step 4: mine 2 cobblestone without tool",
            STONE_SWORD,
        ],
        [WOODEN_PICKAXE, "mine({’cobblestone’:2}, wooden_pickaxe’);", STONE_SWORD],
        [
            "craft({’crafting_table’:1}, {’planks’:4}, null);",
            WOODEN_PICKAXE,
            "mine({’cobblestone’:2}, wooden_pickaxe’);",
            STONE_SWORD,
        ],
    ],
    [(4, "wooden_pickaxe"), (1, "crafting_table")],
)


@pytest.mark.parametrize("method", ["dep", "gpt_rp"])
@pytest.mark.parametrize("trace", [APP_H, APP_G], ids=lambda trace: str(trace.item))
def test_the_dialogue_of_the_paper(trace: Trace, method: str) -> None:
    options = MinecraftOptions(
        controller="none", rules="paper", tools="stated", feedback="fine", given="none"
    )
    env = Minecraft(options)
    task = next(task for task in env.tasks("test") if task.source == trace.item)
    ideal = Ideal(["\n".join(plan) for plan in trace.plans], {"failed": "Something is missing."})

    result, _, rounds = play(env, ideal.model(), task, method=method)

    assert (result.success, result.end) == (True, "done")
    assert [len(one["goals"]) for one in rounds] == [len(plan) for plan in trace.plans]
    assert all(one["dropped"] == [] for one in rounds)
    assert [one["failed"] for one in rounds] == [*(step for step, _ in trace.failures), None]
    for one, (_, lacking) in zip(rounds[:-1], trace.failures, strict=True):
        assert lacking in one["description"].partition("The answer was:")[2].partition("I hold")[0]
    assert ideal.requests.count("explain") == (len(trace.failures) if method == "dep" else 0)
    tree = REPORTING.tree(result)
    assert tree is not None
    assert tree.columns["plans"] == str(len(trace.plans))
