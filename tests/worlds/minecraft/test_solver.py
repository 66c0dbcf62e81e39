"""Shortest plans, compared with those computed for the specification (plans.json)."""

import json
from pathlib import Path
from typing import Any

import pytest

from ldm.worlds.minecraft import Minecraft, MinecraftOptions
from ldm.worlds.minecraft.environment import listed_tasks
from ldm.worlds.minecraft.rules import RuleSet, load_rules
from tools.minecraft.solver import Plan, shortest

PLANS = json.loads((Path(__file__).parent / "plans.json").read_text("utf-8"))


def plan_of(word: str, targets: tuple[str, ...], rules: RuleSet) -> Plan | None:
    book = load_rules(rules)
    return shortest([item for t in targets for item in book.members(t)[:1]], rules)


def facts(plan: Plan | None) -> dict[str, Any] | None:
    if plan is None:
        return None
    gather = {"oak_log" if item == "log" else item: n for item, n in plan.gathered.items()}
    return {"goals": plan.goals, "gather": gather}


@pytest.mark.parametrize("rules", ["vanilla", "paper"])
def test_every_task_has_the_plan_that_was_computed_for_it(rules: RuleSet) -> None:
    plans = {task.word: facts(plan_of(task.word, task.targets, rules)) for task in listed_tasks()}
    assert plans == {word: expected[rules] for word, expected in PLANS.items()}


@pytest.mark.parametrize(("rules", "equal"), [("vanilla", 69), ("paper", 74)])
def test_so_many_printed_numbers_of_skills_are_reproduced(rules: RuleSet, equal: int) -> None:
    goals = {task.word: PLANS[task.word][rules] for task in listed_tasks()}
    same = [t.word for t in listed_tasks() if goals[t.word] and goals[t.word]["goals"] == t.skills]
    assert len(same) == equal


def test_smelting_is_fuelled_and_leftovers_are_used() -> None:
    plan = shortest({"iron_ingot": 3}, "vanilla")
    assert plan is not None
    # 12 planks: table 4, pickaxe 3, two runs of sticks 2, and 2 that burn 600 ticks.
    planks = next(move for move in plan.moves if move.item == "oak_planks")
    assert (planks.count, planks.runs) == (11, 3)
    assert plan.gathered == {"oak_log": 3, "cobblestone": 11, "iron_ore": 3}


def test_several_items_share_tools_and_stations() -> None:
    both = shortest({"stone_pickaxe": 1, "stone_axe": 1}, "vanilla")
    assert both is not None
    assert both.goals == 8
    assert both.gathered["cobblestone"] == 6


@pytest.mark.parametrize("rules", ["vanilla", "paper"])
def test_every_plan_can_be_carried_out_where_only_recipes_count(rules: RuleSet) -> None:
    options = MinecraftOptions(rules=rules, controller="none", task_set="listed76", tools="stated")
    env = Minecraft(options)
    for task, listed in zip(env.tasks("test"), listed_tasks(), strict=True):
        now = env.reset(task)
        plan = plan_of(listed.word, listed.targets, rules)
        for move in () if plan is None else plan.moves:
            station = f" with {move.tool}" if move.tool else ""
            now = env.step(f"{move.verb} {move.count} {move.item}{station}")
            assert now.valid
            assert "Nothing happens" not in now.observation
        assert now.done == (plan is not None)
        assert now.reward == (plan is not None)
