"""ADaPT from the command line: evaluated, swept, printed as a tree, interrupted and resumed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ldm.llm import Message
from tests.agents.decomposition.ideal import halving
from tests.cli.conftest import run
from tests.llm.server import FakeServer
from tests.toy import ToyEnv, expert

pytestmark = pytest.mark.usefixtures("place")

#: Goals that tell their tasks apart, since that is all that a model sees of them.
TASKS = {task.goal: task for task in reversed(ToyEnv().tasks("test"))}
IDS = [
    task_id
    for kind in ("fetch", "wash")
    for task_id in sorted(task.id for task in TASKS.values() if task.kind == kind)[:2]
]
TOY = ("--env", "tests.toy:ToyEnv", "--tasks", ",".join(IDS), "--llm", "fake")
ADAPT = ("eval", *TOY, "--agent", "adapt")


def reply(body: dict[str, Any]) -> str:
    messages = [Message(message["role"], message["content"]) for message in body["messages"]]
    ideal = halving({goal: expert(task) for goal, task in TASKS.items()})
    return "Hello." if len(messages) == 1 else ideal.reply(messages)


def test_depth_and_judgement_are_told_beside_success(server: FakeServer) -> None:
    outcome = run(*ADAPT).done(
        "k_max, the greatest depth used to succeed, on average: 3.00 (fetch 3.00, wash 3.00)."
    )
    judged = "Self-judged and true success: of 4 that the environment ended 4 are solved."
    assert judged in outcome.out
    assert "Plans: 8; 0 of them without a usable order" in outcome.out
    report = json.loads(run(*ADAPT, "--set", "d_max=2", "--json").out)
    assert (report["success_rate"], report.get("k_max")) == (0.0, None)  # used to succeed
    assert report["self_judged"] == [{"said": "failure", "episodes": 4, "right": 0}]
    assert (report["plans"], report["flawed_plans"]) == (4, 0)


def test_baselines_have_the_same_executor_by_one_option(server: FakeServer) -> None:
    agents = "react,try_again,reflexion,plan_execute,adapt"
    outcome = run(*ADAPT[:-1], agents, "--agent.strength", "hybrid", "--agent.trials", "2").done()
    assert "strength=hybrid has no effect" not in outcome.err
    table = outcome.out.partition("Side by side")[2]
    rows = dict(re.findall(r"^ *(\w+) +([\d.]+) % ", table, re.MULTILINE))
    assert rows == {
        "react": "0.0",
        "try_again": "0.0",
        "reflexion": "0.0",
        "plan_execute": "0.0",  # its second sub-task needs a division of its own
        "adapt": "100.0",
    }


def test_the_tree_of_a_task_is_printed(server: FakeServer, place: Path) -> None:
    run(*ADAPT, "--agent.strength", "task")
    (directory,) = Path("runs").iterdir()
    listing = run("runs", "show", directory, "--tree")
    assert "Trees" in listing.out
    assert all(task in listing.out for task in IDS)
    tree = run("runs", "show", directory, IDS[0], "--tree").out
    goal = next(task.goal for task in TASKS.values() if task.id == IDS[0])
    assert f"{IDS[0]}: solved" in tree
    assert "\nk_max 3\n" in tree
    assert f"{goal}  [k 1, executor says failed" in tree
    assert f"  Step 2: {goal}, end  [k 2, executor says failed" in tree
    assert f"    Step 1: {goal}, really  [k 3, executor the environment ended" in tree
    run("runs", "show", directory, "nothing like it", "--tree").refused("No task matches")
