"""Ideal models reproduce the traces of the ADaPT paper in its three environments."""

import re
from dataclasses import replace

import pytest

from ldm.reporting import noted
from ldm.types import Task
from ldm.worlds.alfworld import ALFWorld
from ldm.worlds.webshop import WebShop
from tests.agents.decomposition.ideal import Ideal, block, outline, play
from tests.agents.loop_contract import RECIPES
from tests.cases import cases


def task_of(env: ALFWorld, split: str, part: str) -> Task:
    return next(task for task in env.tasks(split) if part in task.id)


def ideal_of(name: str, goal: str) -> Ideal:
    parts = cases(__file__, name)
    parts["plans"] = {task.replace("GOAL", goal): plan for task, plan in parts["plans"].items()}
    return Ideal(**parts)


def test_alfworld_with_and_above_or_and_what_is_left_untried() -> None:
    env = ALFWorld()
    task = task_of(env, "demo_train", "CounterTop-46")
    find = "find and take an apple"
    ideal = ideal_of("alfworld", task.goal)
    llm = ideal.model()

    result, tree, trial = play(env, task, llm)

    assert (result.success, result.end) == (True, "done")
    assert outline(tree) == [
        (1, task.goal, "failed"),
        (2, find, "failed"),
        (3, f"{find} from countertop 1", "failed"),
        (3, f"{find} from fridge 1", "completed"),
        (2, "heat the apple with microwave 1", "completed"),
        (2, "put the apple on countertop 3", "ended"),
    ]
    assert tree.k_max == 3
    assert tree.done
    assert tree.children[0].logic == "Step 1 OR Step 2 OR Step 3"
    assert [step.action for step in trial.steps] == [
        *ideal.can["find and take an apple from fridge 1"],
        *ideal.can["heat the apple with microwave 1"],
        *ideal.can["put the apple on countertop 3"],
    ]
    # The last action of what succeeded is handed on; to the Or siblings nothing has been yet.
    contexts = {block("task", prompt): block("before", prompt) for prompt in llm.prompts}
    assert contexts[f"{find} from fridge 1"] == ""
    assert contexts["heat the apple with microwave 1"] == "take apple 1 from fridge 1"
    assert contexts["put the apple on countertop 3"] == "heat apple 1 with microwave 1"
    # A sub-task begins with the room and what is seen now, not with the whole task.
    begun = next(p for p in llm.prompts if block("task", p).startswith("heat the apple"))
    assert "Looking quickly around you" in block("so-far", begun)
    assert "Now: You pick up the apple 1 from the fridge 1." in block("so-far", begun)
    assert "Your task is to" not in block("so-far", begun)


@pytest.mark.parametrize("restore", [True, False])
def test_a_failed_attempt_leaves_no_trace_if_the_state_is_restored(restore: bool) -> None:
    """Its hand stays full otherwise; either way nobody is shown where it was."""
    env = ALFWorld()
    task = task_of(env, "demo_train", "CounterTop-46")
    ideal = ideal_of("alfworld", task.goal)
    grab = ["go to countertop 1", "take potato 1 from countertop 1"]
    find, heat, _ = ideal.can.values()
    can = {**ideal.can, task.goal: [*grab, "task failed"]}
    can["heat the apple with microwave 1"] = [*heat, "go to fridge 1", "task failed"]
    again = "Step 1: warm the apple\nExecution Order: Step 1"
    llm = replace(
        ideal,
        can={**can, "warm the apple": heat},
        plans={**ideal.plans, "heat the apple with microwave 1": again},
    ).model()

    result, _, trial = play(env, task, llm, restore=restore, d_max=3)

    assert result.success == restore
    prompts = {block("task", p): p for p in llm.prompts if block("so-far", p)}
    assert not any("Now: You pick up the potato" in prompt for prompt in prompts.values())
    if restore:
        assert [step.action for step in trial.steps[:3]] == find  # repeated before each try
        assert (result.trials, (noted(result, "adapt") or {})["replayed"]) == (3, 3)
        assert "Now: You pick up the apple" in block("so-far", prompts["warm the apple"])


@RECIPES
def test_textcraft_of_depth_3_recurses_to_k_3() -> None:
    from ldm.worlds.textcraft import TextCraft

    env = TextCraft()
    task = next(task for task in env.tasks("test") if task.id == "test/activator_rail")
    assert task.kind == "depth3"
    ideal = ideal_of("textcraft", task.goal)
    llm = ideal.model()

    result, tree, trial = play(env, task, llm)

    assert (result.success, result.end, result.invalid) == (True, "done", 0)
    assert tree.k_max == 3
    assert [(k, how) for k, _, how in outline(tree)] == [
        (1, "failed"),
        (2, "failed"),
        (3, "completed"),
        (3, "completed"),
        (2, "completed"),
        (2, "completed"),
        (2, "ended"),
    ]
    # Executors of sub-tasks are told what is held, and see the recipes.
    inventories = {block("task", p): block("inventory", p) for p in llm.prompts}
    assert inventories["craft 1 redstone torch with the stick"] == "Inventory: [stick] (1)"
    assert "[redstone torch] (1)" in inventories["get 6 iron ingot"]
    begun = next(p for p in llm.prompts if block("task", p) == "get 6 iron ingot")
    assert "craft 1 minecart using 5 iron ingot" in block("so-far", begun)
    assert "Goal:" not in block("so-far", begun)
    assert [s.action for s in trial.steps].count("inventory") == 6


def test_webshop_with_shortlist_match_and_buy() -> None:
    env = WebShop()
    task = next(task for task in env.tasks("demo_train") if task.id == "demo_train/4270")
    ideal = ideal_of("webshop", task.goal)
    llm = ideal.model()

    result, tree, trial = play(env, task, llm)

    assert (result.score, result.success) == (1.0, True)
    modes = {node.task.split()[0]: node.mode for node in tree.walk()}
    assert (modes["shortlist"], modes["match"], modes["buy"]) == ("judge", "judge", "loop")
    looks = env.card.looks["match"]
    acted = [step.action for step in trial.steps if step.action and step.action not in looks]
    assert acted == [action for actions in ideal.can.values() for action in actions]
    assert [step.thought for step in trial.steps if not step.action] == list(ideal.sees.values())
    # The found product goes to later executors, page and failed calls to the planner.
    prompts = {(block("task", p), "seen" if block("seen", p) else "so-far"): p for p in llm.prompts}
    opening_prompt = prompts["open the product that was found", "so-far"]
    assert block("found", opening_prompt) == "L4DB6D575E"
    planning_prompt = prompts["buy one that matches", "seen"]
    assert "Page 1 (Total results: 50)" in block("seen", planning_prompt)
    assert block("failed", planning_prompt).splitlines() == [task.goal, "buy one that matches"]
    judged = next(p for p in llm.prompts if block("task", p).startswith("match"))
    assert "[Buy Now]" in block("page", judged)
    assert block("whole-task", judged) == task.goal
    assert re.search(r"Price: \$", block("page", judged))
    assert "light weight" in block("page", judged).rpartition("[Buy Now]")[2].casefold()
    assert block("whole-task", prompts[task.goal, "seen"]) == ""  # it is no part of itself


def test_a_named_product_is_opened_with_its_features_and_left_if_it_does_not_fit() -> None:
    env = WebShop()
    task = next(task for task in env.tasks("demo_train") if task.id == "demo_train/4270")
    ideal = ideal_of("webshop", task.goal)
    match = "match {} with a light weight rain jacket"
    one, other = (match.format(code) for code in ("L4DB6D575E", "L000000000"))
    plan = f"Step 1: find light weight rain jackets\nStep 2: {one}\nStep 3: {other}\n"
    plans = {task.goal: f"{plan}Execution Order: 1 AND (2 OR 3)"}

    _, _, trial = play(env, task, replace(ideal, plans=plans, sees={}).model(), d_max=2)

    looks = list(env.card.looks["match"])
    assert [step.action for step in trial.steps if step.action][1:] == [
        *["click[L4DB6D575E]", *looks],
        "click[< Prev]",  # to the results
    ]
    assert "[L4DB6D575E]" in trial.steps[-2].observation
