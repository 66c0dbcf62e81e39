"""What agents that divide tasks share: limits, and the trial that their controller works in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, cast

from ldm.agents import demonstrations
from ldm.agents.decomposition.controller import Controller, Counted, Limits
from ldm.agents.decomposition.tree import TREE
from ldm.agents.executor import LoopAgent, LoopOptions, Strength
from ldm.episode import Episode
from ldm.types import Card

#: Steps of an executor call where the environment's card has no published number.
EXECUTOR_STEPS = 20
#: Steps of a trial where no budget is set: more than any recursion takes.
UNLIMITED = 100_000

#: What executors are shown where the card has no published value: ADaPT's standard executor.
STRENGTH: Strength = "hybrid"


@dataclass(frozen=True, slots=True)
class DividingOptions(LoopOptions):
    """budget: maximum steps of a trial (ours); None for no limit. executor_steps: maximum steps of
    an executor call; None for the environment's published number (ADaPT, App. A), or 20. max_calls:
    maximum model calls per task, the planner's included (ours); None for no limit. plan: maximum
    tokens of a plan (ours). strength: how able executors are (ADaPT, §6.2 and Fig. 5): "skills" is
    shown a demonstration of each atomic skill (Table 1), "hybrid" those and whole tasks that are
    the same whatever the task's kind (§4.1), "task" whole tasks of its kind (App. C); None for the
    environment's published one (§4.1 and App. A), or hybrid.
    """

    executor_steps: int | None = None
    max_calls: int | None = None
    plan: int = 300

    def __post_init__(self) -> None:
        LoopOptions.__post_init__(self)
        for name in ("executor_steps", "max_calls", "plan"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is 1 or more")


class DividingAgent(LoopAgent):
    """An agent with a controller; each adds its name, its paper, how deep and when it plans."""

    #: Whether the task is planned before anyone tries it.
    plan_first: ClassVar[bool] = False
    Options: ClassVar[type[DividingOptions]] = DividingOptions
    options: DividingOptions

    @staticmethod
    def sources(options: LoopOptions, env: str) -> Iterable[str]:
        """Return the sources of what executors and planner may be shown."""
        place = options.demonstrations
        demonstrations.check(place, options.demonstrations_digest)
        return demonstrations.sources(env, place, options.shots, with_skills=True, with_plans=True)

    def budget(self, card: Card) -> int:
        """Return the steps of a trial in all."""
        return self.setting(card, "budget", UNLIMITED)

    def depth(self, card: Card) -> int:
        """Return the greatest depth of a sub-task; the whole task is at 1."""
        raise NotImplementedError

    def strength(self, card: Card) -> Strength:
        """Return how able executors are in the environment of this card."""
        published = card.published.get(self.name, {}).get("strength", STRENGTH)
        return self.options.strength or cast(Strength, published)

    def limits(self, card: Card) -> Limits:
        """Return what holds for the recursion in the environment of this card."""
        return Limits(
            d_max=self.depth(card),
            steps=self.setting(card, "executor_steps", EXECUTOR_STEPS),
            plan=self.options.plan,
        )

    def solve(self, episode: Episode) -> None:
        """Start one trial. The tree goes into the record, however it ends."""
        options = replace(self.options, strength=self.strength(episode.card))
        calls = list[int]()
        llm, planner = (
            Counted(self._resources.model(episode, role), options.max_calls, calls)
            for role in ("llm", "planner")
        )
        with episode.trial():
            controller = Controller(
                episode, llm, planner, options, self.limits(episode.card), self.plan_first
            )
            try:
                controller.solve()
            finally:
                root = controller.root
                record = {TREE: root.as_data()}
                episode.note(self.name, k_max=root.k_max, calls=len(calls), **record)
