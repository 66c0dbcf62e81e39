"""What agents that divide tasks share: limits, and the trial that their controller works in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ldm.agents import demonstrations
from ldm.agents.decomposition.controller import Controller, Counted, Limits
from ldm.agents.decomposition.tree import TREE
from ldm.agents.executor import LoopAgent, LoopOptions, examples
from ldm.episode import Episode
from ldm.types import Card

#: Steps of an executor call where the environment's card has no published number.
EXECUTOR_STEPS = 20
#: Steps of a trial where no budget is set: more than any recursion takes.
UNLIMITED = 100_000

Strength = Literal["task", "hybrid", "skills"]


@dataclass(frozen=True, slots=True)
class DividingOptions(LoopOptions):
    """budget: steps of a trial in all; None for no limit. executor_steps: of an executor call; None
    for the environment's published number, or 20. max_calls: model calls of a task in all, the
    planner's included; None for no limit. strength: what executors are shown (ADaPT's Fig. 5):
    demonstrations of the whole task, one of them and the environment's skills, or the skills alone.
    plan: tokens of a plan.
    """

    executor_steps: int | None = None
    max_calls: int | None = None
    strength: Strength = "task"
    plan: int = 300

    def __post_init__(self) -> None:
        LoopOptions.__post_init__(self)
        for name in ("executor_steps", "max_calls", "plan"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is 1 or more")

    @property
    def shots_for_executors(self) -> int:
        """How many demonstrations executors are shown."""
        return {"task": self.shots, "hybrid": min(1, self.shots), "skills": 0}[self.strength]


class DividingAgent(LoopAgent):
    """An agent with a controller; each adds its name, its paper, how deep and when it plans."""

    #: Whether the task is planned before anyone tries it.
    plan_first: ClassVar[bool] = False
    Options: ClassVar[type[DividingOptions]] = DividingOptions
    options: DividingOptions

    def budget(self, card: Card) -> int:
        """Return the steps of a trial in all."""
        return self.setting(card, "budget", UNLIMITED)

    def depth(self, card: Card) -> int:
        """Return the greatest depth of a sub-task; the whole task is at 1."""
        raise NotImplementedError

    def limits(self, card: Card) -> Limits:
        """Return what holds for the recursion in the environment of this card."""
        return Limits(
            d_max=self.depth(card),
            steps=self.setting(card, "executor_steps", EXECUTOR_STEPS),
            plan=self.options.plan,
        )

    def solve(self, episode: Episode) -> None:
        """Start one trial. The tree goes into the record, however it ends."""
        options, calls = self.options, list[int]()
        llm, planner = (
            Counted(self._resources.model(episode, role), options.max_calls, calls)
            for role in ("llm", "planner")
        )
        with episode.trial():
            trajectories = examples(episode, options)
            plans = demonstrations.plans(episode.env_name, options.demonstrations)
            controller = Controller(
                episode,
                llm,
                planner,
                options,
                self.limits(episode.card),
                plan_first=self.plan_first,
                demonstrations=trajectories[: options.shots_for_executors],
                skills=() if options.strength == "task" else episode.card.skills,
                divided=tuple(
                    (one, plans[one.task.id]) for one in trajectories if one.task.id in plans
                ),
            )
            try:
                controller.solve()
            finally:
                root = controller.root
                record = {TREE: root.as_data()}
                episode.note(self.name, k_max=root.k_max, calls=len(calls), **record)
