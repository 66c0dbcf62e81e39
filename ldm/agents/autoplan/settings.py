"""How a plan is optimised (AutoPlan, Ouyang & Li, arXiv 2305.15064)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from ldm.agents.autoplan import BUDGET, AutoPlanOptions, CardChoice, published
from ldm.llm import Sampling
from ldm.types import Card

#: Training tasks that batches are drawn from, where the environment's card has no published number.
POOL = 24


@dataclass(frozen=True, slots=True)
class AutoPlanSettings:
    """How a plan is optimised, with the section of the paper that each setting is from.

    iterations: I (§3.2.3); the paper evaluates the first three (§4.5). batch: B, tasks an iteration
    (§3.2.1; 4 in §4.2). pool: training tasks that batches are drawn from; None for the number that
    was published for the environment, or 24 (§4.1).
    reflection: "summary" leaves out flaw and revision (§4.5, Fig. 3b); "full" is §3.2.2.
    solution: whether reflections are shown the solution of the training task, where the environment
    tells it; the authors' code does so for questions, where the reward of §3.2.2 is all that the
    text names.
    card, admissible, joined: what attempts are shown, as of `AutoPlanOptions`.
    steps: of an attempt; None for the number that was published for the environment, or 35 (§4.2).
    temperature, top_p: sampling of all replies (§4.2: nucleus sampling with p = 0.9 during
    optimisation; the temperature is not stated). part: maximum tokens of each part of a reflection.
    length: maximum tokens of a plan.
    """

    iterations: int = 3
    batch: int = 4
    pool: int | None = None
    reflection: Literal["summary", "full"] = "full"
    solution: bool = True
    card: CardChoice = "bare"
    admissible: bool = False
    joined: bool = False
    steps: int | None = None
    temperature: float = 1.0
    top_p: float = 0.9
    part: int = 160
    length: int = 400

    def __post_init__(self) -> None:
        for name in ("iterations", "batch", "pool", "steps", "part", "length"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is 1 or more")
        if self.pool is not None and self.batch > self.pool:
            raise ValueError("a batch cannot be larger than the pool that it is drawn from")

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_p)

    @property
    def attempts(self) -> int:
        """How many tasks are attempted in all, repeated ones counted again."""
        return self.iterations * self.batch

    def agent(self, plan: str | None = None) -> AutoPlanOptions:
        """Return the options of an agent that makes attempts with a plan."""
        return AutoPlanOptions(
            plan=plan,
            budget=self.steps,
            card=self.card,
            admissible=self.admissible,
            joined=self.joined,
            temperature=self.temperature,
            top_p=self.top_p,
        )

    def evaluated(self) -> dict[str, str]:
        """Return the options of an agent whose plans are evaluated: shown the same, but greedy."""
        options = asdict(self.agent())
        default = asdict(AutoPlanOptions())
        names = ("budget", "card", "admissible", "joined")
        return {name: str(options[name]) for name in names if options[name] != default[name]}


def published_settings(card: Card) -> dict[str, int]:
    """Return the settings that depend on the environment, by what was published for it."""
    return {"pool": published(card, "pool", POOL), "steps": published(card, "budget", BUDGET)}
