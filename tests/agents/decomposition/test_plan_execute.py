"""Plan-and-Execute: one detailed plan, whose steps go to executors by its logic and no deeper."""

import random
from typing import Any

import pytest

from ldm.agents import Resources
from ldm.agents.decomposition.controller import REPORTING
from ldm.agents.plan_execute import PlanExecuteAgent
from ldm.types import Card
from ldm.worlds.alfworld.environment import CARD as ALFWORLD
from ldm.worlds.textcraft.environment import CARD as TEXTCRAFT
from ldm.worlds.webshop.environment import CARD as WEBSHOP
from tests.agents.decomposition.ideal import ENV, TASK, Ideal, outline, play
from tests.agents.decomposition.test_algorithm import (
    DRAWS,
    TREES,
    Call,
    Watched,
    all_of,
    combined,
    some_work,
)

GOAL = TASK.goal


def executing(*args: Any, **options: Any) -> Any:
    """An episode of plan_execute, with its tree and its trial."""
    return play(*args, name="plan_execute", **options)


class TestThePlan:
    def test_is_asked_for_once_and_in_detail(self) -> None:
        plan = "Step 1: a\nStep 2: b\nExecution Order: Step 1 OR Step 2"
        llm, planner = Ideal({}).model(), Ideal({}, {GOAL: plan}).model()
        _, tree, _ = executing(ENV, TASK, llm, planner)
        ((messages, _),) = planner.requests
        assert "Nobody divides them further" in messages[0].content
        assert "3 to 5" not in messages[0].content
        assert outline(tree) == [(1, GOAL, ""), (2, "a", "failed"), (2, "b", "failed")]

    def test_can_be_told_in_words(self) -> None:
        ideal = Ideal(
            {"a": ["go to sink"]}, {GOAL: "Step 1: a\nStep 2: b\nExecution Order: 1 OR 2"}
        )
        result, _, _ = executing(ENV, TASK, ideal.model())
        reporting = PlanExecuteAgent.reporting
        tree = reporting.tree(result)
        assert tree is not None
        assert list(tree.lines()) == [
            f"{GOAL}  [k 1, planned first, success]",
            "  plan: Step 1 OR Step 2",
            "  Step 1: a  [k 2, executor says completed (1 steps)]",
            "  Step 2: b  [not tried]",
        ]
        assert reporting.measures == ()  # its depth is always the same
        assert reporting.findings([result]) == REPORTING.findings([result])
        assert reporting.findings([result]).values["self_judged"] == [
            {"said": "success", "episodes": 1, "right": 0}
        ]


@pytest.mark.parametrize("draw", range(DRAWS))
def test_a_thousand_random_plans_are_carried_out_as_the_appendix_says(draw: int) -> None:
    rng = random.Random(f"appendix B, {draw}")
    for _ in range(TREES // DRAWS):
        work = some_work(rng, able=rng.choice((0.3, 0.5, 0.7)), depth=2)  # no one asks for the 2nd
        calls: list[tuple[Call, int]] = [(("executor", GOAL), 1)]
        success = work.ending == "completed"  # where there is no plan
        if work.logic is not None:
            calls.clear()
            success = combined(work, work.logic, 1, 2, calls)
        executors = [call for call, _ in calls if call[0] == "executor"]
        watched = Watched({one.name: one for one in all_of(work)})

        _, tree, _ = executing(ENV, TASK, watched.model(), executor_steps=2)

        assert watched.calls == [("planner", GOAL), *executors]
        assert tree.success is success


@pytest.mark.parametrize(("card", "steps"), [(ALFWORLD, 20), (WEBSHOP, 15), (TEXTCRAFT, 20)])
def test_each_executor_has_the_papers_steps_and_the_trial_has_no_limit(
    card: Card, steps: int
) -> None:
    """App. A gives all executors so many; only ReAct, which has but one call, gets d_max times."""
    agent = PlanExecuteAgent(PlanExecuteAgent.Options(), Resources())
    assert (agent.setting(card, "executor_steps", 0), agent.depth(card)) == (steps, 2)
    assert agent.budget(card) > 10_000
