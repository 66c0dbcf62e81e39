"""ADaPT (Prasad et al., arXiv 2311.05772): decompose a task when, and only when, it failed.

`controller` recurses, `logic` reads the planner's plans, `handing` says what goes from one
sub-task to the next, `tree` is what goes into the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from ldm.agents import demonstrations
from ldm.agents.adapt.controller import Controller, Counted, Limits
from ldm.agents.adapt.tree import NOTE
from ldm.agents.executor import LoopAgent, LoopOptions, examples
from ldm.episode import Episode

#: d_max and the steps of an executor call in the paper's experiments (§4.2, App. A).
DEPTHS: Mapping[str, int] = {"alfworld": 3, "webshop": 3, "textcraft": 4}
DEPTH = 3
STEPS: Mapping[str, int] = {"alfworld": 20, "webshop": 15, "textcraft": 20}
EXECUTOR_STEPS = 20
#: Steps of a trial where no budget is set: more than any recursion takes.
UNLIMITED = 100_000

Strength = Literal["task", "hybrid", "skills"]


@dataclass(frozen=True, slots=True)
class AdaptOptions(LoopOptions):
    """d_max: the greatest depth; None for 3, and 4 on TextCraft.

    budget: steps of a trial in all; None for no limit. executor_steps: of an executor call; None
    for 20, and 15 on WebShop. max_calls: model calls of a task in all, the planner's included;
    None for no limit. strength: what executors are shown (the paper's Fig. 5): demonstrations of
    the whole task, one of them and the environment's skills, or the skills alone.
    plan: tokens of a plan.
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

    def steps(self, env: str) -> int:
        """The budget of a trial in environment `env`."""
        return UNLIMITED if self.budget is None else self.budget

    def limits(self, env: str) -> Limits:
        """What holds for the recursion in environment `env`."""
        return Limits(
            d_max=DEPTHS.get(env, DEPTH) if self.d_max is None else self.d_max,
            steps=self.executor_steps or STEPS.get(env, EXECUTOR_STEPS),
            plan=self.plan,
        )

    @property
    def shown(self) -> int:
        """How many demonstrations executors are shown."""
        return {"task": self.shots, "hybrid": min(1, self.shots), "skills": 0}[self.strength]


class AdaptAgent(LoopAgent):
    """Tries the task; decomposes it, as deep as needed, where its executor fails."""

    name = "adapt"
    paper: ClassVar[str] = "ADaPT, arXiv 2311.05772"
    Options: ClassVar[type[AdaptOptions]] = AdaptOptions
    published: ClassVar[Mapping[str, Mapping[str, int]]] = {
        "d_max": DEPTHS,
        "executor_steps": STEPS,
    }
    options: AdaptOptions

    def solve(self, episode: Episode) -> None:
        """One trial. The tree goes into the record, however it ends."""
        options, made = self.options, list[int]()
        llm, planner = (
            Counted(self._resources.model(episode, role), options.max_calls, made)
            for role in ("llm", "planner")
        )
        with episode.trial():
            shown = examples(episode, options)
            plans = demonstrations.plans(episode.env_name, options.demonstrations)
            controller = Controller(
                episode,
                llm,
                planner,
                options,
                options.limits(episode.env_name),
                shown[: options.shown],
                () if options.strength == "task" else episode.card.skills,
                tuple((one, plans[one.task.id]) for one in shown if one.task.id in plans),
            )
            try:
                controller.solve()
            finally:
                root = controller.root
                episode.note(NOTE, k_max=root.k_max, calls=len(made), tree=root.as_data())
