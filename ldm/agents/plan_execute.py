"""Plan-and-Execute (ADaPT's baseline, arXiv 2311.05772, §4.2, App. B): a plan that never changes.

One call writes a plan so detailed that an executor can do each of its steps. They go to executors
one after the other by the plan's And and Or, and are not divided further. If the planner gives no
steps, the task itself goes to an executor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from ldm.agents.decomposition.controller import REPORTING, DividingAgent, DividingOptions
from ldm.types import Card

#: The whole task, and its sub-tasks.
DEPTH = 2


@dataclass(frozen=True, slots=True)
class PlanExecuteOptions(DividingOptions):
    """Options of Plan-and-Execute. Its plan is long: some crafts take 27 actions."""

    plan: Annotated[int, "Maximum tokens of the plan"] = 800


class PlanExecuteAgent(DividingAgent):
    """Plans once, in detail; executors do the sub-tasks one after the other by the plan's logic."""

    name = "plan_execute"
    paper = "Plan-and-Execute, ADaPT, arXiv 2311.05772, §4.2, App. B"
    reporting = replace(REPORTING, measures=())
    Options = PlanExecuteOptions
    plan_first = True

    def depth(self, card: Card) -> int:
        return DEPTH
