"""Plan-and-Execute: one detailed plan, whose steps go to executors by its logic and no deeper."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ldm.agents import Resources
from ldm.agents.decomposition.controller import REPORTING
from ldm.agents.plan_execute import PlanExecuteAgent
from ldm.envs.alfworld import ALFWorld
from ldm.envs.alfworld.environment import CARD as ALFWORLD
from ldm.envs.textcraft.environment import CARD as TEXTCRAFT
from ldm.envs.webshop.environment import CARD as WEBSHOP
from ldm.types import Card
from tests.agents.decomposition.ideal import Ideal, block, outline, play
from tests.agents.decomposition.test_algorithm import (
    DRAWS,
    TREES,
    Call,
    Expression,
    Watched,
    all_of,
    some_work,
)
from tests.agents.scripted import always
from tests.toy import ToyEnv, expert

ENV = ToyEnv()
TASK = ENV.tasks("test")[0]
GOAL = TASK.goal
WAY = list(expert(TASK))


def executing(*args: Any, **options: Any) -> Any:
    """An episode of plan_execute, with its tree and its trial."""
    return play(*args, name="plan_execute", **options)


class TestTracesOfThePaper:
    def test_a_detailed_plan_with_an_or_within_an_and(self) -> None:
        """Figure 6 and App. B: (Step 1 OR Step 2 OR Step 3) AND Step 4 AND Step 5."""
        env = ALFWorld()
        task = next(one for one in env.tasks("demo_train") if "CounterTop-46" in one.id)
        find = "find an apple at the {} and take it"
        places = [find.format(place) for place in ("countertop 1", "fridge 1", "garbagecan 1")]
        heat, put = "heat the apple with microwave 1", "put the apple on countertop 3"
        steps = [f"Step {n}: {step}" for n, step in enumerate([*places, heat, put], 1)]
        order = "Execution Order: (Step 1 OR Step 2 OR Step 3) AND Step 4 AND Step 5"
        ideal = Ideal(
            can={
                places[1]: ["go to fridge 1", "open fridge 1", "take apple 1 from fridge 1"],
                heat: ["go to microwave 1", "heat apple 1 with microwave 1"],
                put: ["go to countertop 3", "move apple 1 to countertop 3"],
            },
            plans={task.goal: "\n".join([*steps, order])},
        )
        llm = ideal.model()

        result, tree, trial = executing(env, task, llm)

        assert (result.success, result.end, result.agent) == (True, "done", "plan_execute")
        assert outline(tree) == [
            (1, task.goal, ""),  # nobody tries the whole task
            (2, places[0], "failed"),
            (2, places[1], "completed"),
            (2, heat, "completed"),
            (2, put, "ended"),
        ]
        assert tree.logic == "(Step 1 OR Step 2 OR Step 3) AND Step 4 AND Step 5"
        assert [step.action for step in trial.steps] == [
            *ideal.can[places[1]],
            *ideal.can[heat],
            *ideal.can[put],
        ]
        contexts = {block("task", p): block("before", p) for p in llm.prompts if "<so-far>" in p}
        assert contexts == {
            places[0]: "",
            places[1]: "",
            heat: "take apple 1 from fridge 1",
            put: "heat apple 1 with microwave 1",
        }


class TestThePlan:
    def test_is_asked_for_once_and_in_detail(self) -> None:
        plan = "Step 1: a\nStep 2: b\nExecution Order: Step 1 OR Step 2"
        llm, planner = Ideal({}).model(), Ideal({}, {GOAL: plan}).model()
        _, tree, _ = executing(ENV, TASK, llm, planner)
        ((messages, _),) = planner.requests
        assert "Nobody divides them further" in messages[0].content
        assert "3 to 5" not in messages[0].content
        assert outline(tree) == [(1, GOAL, ""), (2, "a", "failed"), (2, "b", "failed")]

    @pytest.mark.parametrize("reply", ["", "I would not know how.", "Think: hm."])
    def test_without_steps_the_task_itself_goes_to_an_executor(self, reply: str) -> None:
        llm, planner = Ideal({GOAL: WAY}).model(), always(reply)
        result, tree, trial = executing(ENV, TASK, llm, planner)
        assert result.success
        assert (outline(tree), tree.flaw) == ([(1, GOAL, "ended")], "there are no steps")
        assert [step.action for step in trial.steps] == WAY
        assert len(planner.requests) == 1

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


def carried_out(expression: Expression, able: list[bool], calls: list[int]) -> bool:
    """App. B, on its own: each operand after the other, as far as the operator asks for it."""
    if isinstance(expression, int):
        calls.append(expression)
        return able[expression - 1]
    operator, operands = expression
    for operand in operands:
        if carried_out(operand, able, calls) is (operator == "OR"):
            return operator == "OR"
    return operator == "AND"


@pytest.mark.parametrize("draw", range(DRAWS))
def test_a_thousand_random_plans_are_carried_out_as_the_appendix_says(draw: int) -> None:
    rng = random.Random(f"appendix B, {draw}")
    for _ in range(TREES // DRAWS):
        work = some_work(rng, able=rng.choice((0.3, 0.5, 0.7)), depth=2)  # no one asks for the 2nd
        order: list[int] = []
        success = work.ending == "completed"  # where there is no plan
        expected: list[Call] = [("planner", GOAL)]
        if work.logic is None:
            expected.append(("executor", GOAL))
        else:
            able = [part.ending == "completed" for part in work.parts]
            success = carried_out(work.logic, able, order)
            expected += [("executor", work.parts[number - 1].name) for number in order]
        watched = Watched({one.name: one for one in all_of(work)})

        _, tree, _ = executing(ENV, TASK, watched.model(), executor_steps=2)

        assert watched.calls == expected
        assert tree.success is success


@pytest.mark.parametrize(("card", "steps"), [(ALFWORLD, 20), (WEBSHOP, 15), (TEXTCRAFT, 20)])
def test_each_executor_has_the_papers_steps_and_the_trial_has_no_limit(
    card: Card, steps: int
) -> None:
    """App. A gives all executors so many; only ReAct, which has but one call, gets d_max times."""
    agent = PlanExecuteAgent(PlanExecuteAgent.Options(), Resources())
    assert (agent.setting(card, "executor_steps", 0), agent.depth(card)) == (steps, 2)
    assert agent.budget(card) > 10_000
