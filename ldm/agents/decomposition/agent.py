"""Base of agents that divide tasks: their limits, and the trial that their controller works in."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated, ClassVar

from ldm.agents.decomposition.controller import TREE, Controller, Counted
from ldm.agents.loop import ExecutorAgent, ExecutorOptions
from ldm.episode import Episode
from ldm.types import Card, Positive

#: Steps of an executor call if the environment's card has no published number.
EXECUTOR_STEPS = 20
#: Steps of a trial without a budget: more than any recursion takes.
UNLIMITED = 100_000


@dataclass(frozen=True, slots=True)
class DividingOptions(ExecutorOptions):
    """Options of agents that divide tasks (ADaPT, arXiv 2311.05772).

    Steps of an executor are published in App. A, its strength in §4.1 and App. A; the default is
    hybrid, ADaPT's standard executor. restore: the authors' code does so on ALFWorld and WebShop;
    the paper does not say it. Budget, calls and the length of a plan are ours; without a budget
    there is no limit.
    """

    executor_steps: Annotated[Positive | None, "Steps of an executor call; none: as published"] = (
        None
    )
    max_calls: Annotated[Positive | None, "Model calls per task, the planner's included"] = None
    plan: Annotated[Positive, "Maximum tokens of a plan"] = 300
    restore: Annotated[bool, "Return to the state after the last success before each try"] = False


class DividingAgent(ExecutorAgent):
    """An agent with a controller; subclasses add name, paper, maximum depth and when to plan."""

    divides = True
    default_budget = UNLIMITED
    default_strength = "hybrid"
    #: Whether the task is planned before an executor tries it.
    plan_first: ClassVar[bool] = False
    Options = DividingOptions
    options: DividingOptions

    def depth(self, card: Card) -> int:
        """Return the maximum depth of a sub-task; the whole task is at 1."""
        raise NotImplementedError

    def executor_steps(self, card: Card) -> int:
        """Return the steps of an executor call in the environment of this card."""
        return self.setting(card, "executor_steps", EXECUTOR_STEPS)

    def solve(self, episode: Episode) -> None:
        """Play one trial. The tree goes into the record, however it ends."""
        options = replace(self.options, strength=self.strength(episode.card))
        calls = list[int]()
        llm, planner = (
            Counted(self._resources.model(episode, role), options.max_calls, calls)
            for role in ("llm", "planner")
        )
        with episode.trial():
            controller = Controller(
                *(episode, llm, planner, options, self.depth(episode.card)),
                steps=self.executor_steps(episode.card),
                plan=options.plan,
                restore=options.restore,
                plan_first=self.plan_first,
            )
            try:
                controller.solve()
            finally:
                root = controller.root
                record = {TREE: asdict(root)}
                episode.note(
                    self.name,
                    k_max=root.k_max,
                    calls=len(calls),
                    replayed=controller.replayed,
                    **record,
                )
