"""ADaPT (Prasad et al., arXiv 2311.05772): decompose a task when, and only when, it failed.

`controller` recurses, `logic` reads the planner's plans, `handover` says what goes from one
sub-task to the next, `tree` is what goes into the record, `findings` what reports make of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ldm.agents import demonstrations
from ldm.agents.adapt.controller import Controller, Counted, Limits
from ldm.agents.adapt.findings import REPORTING
from ldm.agents.adapt.tree import NOTE
from ldm.agents.executor import LoopAgent, LoopOptions, examples
from ldm.agents.reporting import Reporting
from ldm.episode import Episode
from ldm.types import Card

#: d_max and the steps of an executor call where the environment's card has no published numbers.
DEPTH = 3
EXECUTOR_STEPS = 20
#: Steps of a trial where no budget is set: more than any recursion takes.
UNLIMITED = 100_000

Strength = Literal["task", "hybrid", "skills"]


@dataclass(frozen=True, slots=True)
class AdaptOptions(LoopOptions):
    """d_max: the greatest depth (§3.3); None for the environment's published one (§4.2), or 3.

    budget: steps of a trial in all (ours); None for no limit. executor_steps: steps of an executor
    call; None for the environment's published number (App. A), or 20. max_calls: model calls of a
    task in all, the planner's included (ours); None for no limit. strength: what executors are
    shown (Fig. 5): demonstrations of the whole task, one of them and the environment's skills, or
    the skills alone. plan: tokens of a plan (ours).
    """

    d_max: int | None = None
    executor_steps: int | None = None
    max_calls: int | None = None
    strength: Strength = "task"
    plan: int = 300

    def __post_init__(self) -> None:
        LoopOptions.__post_init__(self)
        for name in ("d_max", "executor_steps", "max_calls", "plan"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is 1 or more")

    @property
    def shots_for_executors(self) -> int:
        """How many demonstrations executors are shown."""
        return {"task": self.shots, "hybrid": min(1, self.shots), "skills": 0}[self.strength]


class AdaptAgent(LoopAgent):
    """Tries the task; decomposes it, as deep as needed, where its executor fails."""

    name = "adapt"
    paper: ClassVar[str] = "ADaPT, arXiv 2311.05772"
    reporting: ClassVar[Reporting] = REPORTING
    Options: ClassVar[type[AdaptOptions]] = AdaptOptions
    options: AdaptOptions

    def budget(self, card: Card) -> int:
        """Return the steps of a trial in all."""
        return self.setting(card, "budget", UNLIMITED)

    def limits(self, card: Card) -> Limits:
        """Return what holds for the recursion in the environment of this card."""
        return Limits(
            d_max=self.setting(card, "d_max", DEPTH),
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
                trajectories[: options.shots_for_executors],
                () if options.strength == "task" else episode.card.skills,
                tuple((one, plans[one.task.id]) for one in trajectories if one.task.id in plans),
            )
            try:
                controller.solve()
            finally:
                root = controller.root
                episode.note(NOTE, k_max=root.k_max, calls=len(calls), tree=root.as_data())
