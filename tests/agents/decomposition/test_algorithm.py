"""A thousand random tasks are carried out as ADaPT's Algorithm 1 says, call by call.

The transcription below follows the paper's lines (arXiv 2311.05772, Algorithm 1, and App. B for
And and Or within one plan) and shares nothing with the package: it reads no plan and knows no
controller. Both are given the same tasks: which of them an executor can do, and how the planner
divides the others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import pytest

from ldm.llm import Message
from tests.agents.decomposition.ideal import ENV, TASK, block, play
from tests.agents.scripted import Scripted

TREES, DRAWS = 1000, 50

Ending = Literal["completed", "failed", "spent"]
#: A step's number, or an operator and its operands.
Expression = int | tuple[str, tuple["Expression", ...]]
#: Who was called, and for which task.
Call = tuple[Literal["executor", "planner"], str]


@dataclass
class Work:
    """A task: how an executor ends at it, and how the planner divides it."""

    name: str
    ending: Ending
    parts: list[Work] = field(default_factory=list)
    logic: Expression | None = None


# The paper's algorithm ---------------------------------------------------------------------------


def adapt(task: Work, k: int, d_max: int, calls: list[tuple[Call, int]]) -> bool:
    """Algorithm 1; calls: every call of executor and planner, with its depth."""
    if k > d_max:
        return False
    calls.append((("executor", task.name), k))
    completed = task.ending == "completed"
    if completed is False:
        calls.append((("planner", task.name), k))
        completed = combined(task, task.logic, k, d_max, calls)
    return completed


def combined(
    task: Work, logic: Expression | None, k: int, d_max: int, calls: list[tuple[Call, int]]
) -> bool:
    """Lines 10 and 12: the sub-tasks' outcomes under the plan's logic.

    And runs its operands "sequentially"; of Or "we execute the latter only if the agent has not
    found the mug yet" (§3.2). An operand with another operator is a level of its own (App. B).
    """
    if logic is None:
        return False
    if isinstance(logic, int):
        return adapt(task.parts[logic - 1], k + 1, d_max, calls)
    operator, operands = logic
    outcomes = (combined(task, operand, k, d_max, calls) for operand in operands)
    return all(outcomes) if operator == "AND" else any(outcomes)


# Random tasks ------------------------------------------------------------------------------------


def some_work(rng: random.Random, able: float, depth: int, name: str = "") -> Work:
    """A task with sub-tasks down to `depth`; able: how often an executor can do one."""
    ending: Ending = "completed" if rng.random() < able else rng.choice(("failed", "spent"))
    work = Work(name or TASK.goal, ending)
    if depth and rng.random() > 0.05:  # else the planner has no plan
        size = rng.randint(1, 5)
        work.parts = [
            some_work(rng, able, depth - 1, f"{name or 'part '}{letter}")
            for letter in "abcde"[:size]
        ]
        order = list(range(1, size + 1))
        rng.shuffle(order)
        work.logic = some_expression(rng, order)
    return work


def some_expression(rng: random.Random, steps: Sequence[int]) -> Expression:
    """An expression in which each of the steps occurs once, in this order."""
    if len(steps) == 1:
        return steps[0]
    cuts = sorted(rng.sample(range(1, len(steps)), rng.randint(1, len(steps) - 1)))
    ranges = zip([0, *cuts], [*cuts, len(steps)], strict=True)
    operands = tuple(some_expression(rng, steps[start:end]) for start, end in ranges)
    return rng.choice(("AND", "OR")), operands


def all_of(work: Work) -> list[Work]:
    return [work, *(one for part in work.parts for one in all_of(part))]


def written(expression: Expression, *, inner: bool = True) -> str:
    if isinstance(expression, int):
        return f"Step {expression}"
    text = f" {expression[0]} ".join(written(operand) for operand in expression[1])
    return f"({text})" if inner else text


def plan_of(work: Work) -> str:
    if work.logic is None:
        return "I would not know how."
    steps = [f"Step {number}: {part.name}" for number, part in enumerate(work.parts, 1)]
    return "\n".join([*steps, f"Execution Order: {written(work.logic, inner=False)}"])


# What the package does ---------------------------------------------------------------------------


@dataclass
class Watched:
    """A model for executor and planner that does as the task says, and the calls it got."""

    work: dict[str, Work]
    calls: list[Call] = field(default_factory=list)

    def model(self) -> Scripted:
        return Scripted(lambda messages, sampling: self.reply(messages))

    def reply(self, messages: Sequence[Message]) -> str:
        question = messages[-1].content
        work = self.work[block("task", question)]
        if "You divide a task" in messages[0].content:
            self.calls.append(("planner", work.name))
            return plan_of(work)
        if "\nAct: " not in block("so-far", question):
            self.calls.append(("executor", work.name))
            if work.ending == "completed":
                return "Act: go to sink"
        elif work.ending == "completed":
            return "Act: task completed"
        return "Act: task failed" if work.ending == "failed" else "Act: wait"


@pytest.mark.parametrize("draw", range(DRAWS))
def test_the_controller_calls_whom_the_algorithm_calls_in_its_order(draw: int) -> None:
    """But for one thing: at d_max it saves the planner's call, whose sub-tasks line 3 refuses.

    The paper's own "with d_max = 1 ADaPT solely relies on this executor" (§4.2) says as much.
    """
    rng = random.Random(f"algorithm 1, {draw}")
    for _ in range(TREES // DRAWS):
        d_max = rng.choice((1, 2, 3, 3, 4, 4, 4))
        work = some_work(rng, able=rng.choice((0.3, 0.5, 0.7)), depth=d_max)
        work.ending = rng.choice((work.ending, "failed", "failed", "spent", "spent"))
        expected: list[tuple[Call, int]] = []
        success = adapt(work, 1, d_max, expected)
        watched = Watched({one.name: one for one in all_of(work)})

        _, tree, _ = play(ENV, TASK, watched.model(), d_max=d_max, executor_steps=2)

        assert watched.calls == [call for call, k in expected if call[0] == "executor" or k < d_max]
        assert tree.success is success


def test_the_random_tasks_are_of_all_sorts() -> None:
    """Those above: deep ones, with either outcome, in which something is left untried."""
    rng = random.Random("sorts")
    sizes, outcomes, untried = [], set(), 0
    for _ in range(300):
        work = some_work(rng, able=0.5, depth=3)
        calls: list[tuple[Call, int]] = []
        outcomes.add(adapt(work, 1, 4, calls))
        sizes.append(max(k for _, k in calls))
        run = {call for call, _ in calls}
        untried += any(("executor", part.name) not in run for part in work.parts)
    assert set(sizes) == {1, 2, 3, 4}
    assert outcomes == {True, False}
    assert untried > 100
