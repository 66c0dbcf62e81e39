"""Settings of plan optimisation (AutoPlan, Ouyang & Li, arXiv 2305.15064)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ldm.agents.autoplan import AutoPlanAgent, AutoPlanOptions
from ldm.llm import Sampling
from ldm.types import Amount, Card, Mass, Positive

#: Training tasks that batches are drawn from if the environment's card has no published number.
POOL = 24


@dataclass(frozen=True, slots=True)
class AutoPlanSettings:
    """Options of an optimisation.

    iterations: I (§3.2.3; the first three in §4.5). batch: B (§3.2.1; 4 in §4.2). pool: §4.1.
    reflection: "summary" is the ablation (§4.5, Fig. 3b), "full" is §3.2.2. solution: the authors'
    code shows it for questions; §3.2.2 names only the reward. top_p: nucleus sampling (§4.2, which
    states no temperature).
    """

    iterations: Annotated[Positive, "Times that the plan is rewritten"] = 3
    batch: Annotated[Positive, "Tasks attempted in an iteration"] = 4
    pool: Annotated[
        Positive | None, "Training tasks that batches come from; none: as published"
    ] = None
    reflection: Annotated[
        Literal["summary", "full"], "Summary alone, or also flaw and revision"
    ] = "full"
    solution: Annotated[bool, "Show reflections the solution if the environment tells it"] = True
    steps: Annotated[Positive | None, "Steps of an attempt; none: as published"] = None
    temperature: Annotated[Amount, "Sampling temperature of all replies"] = 1.0
    top_p: Annotated[Mass, "Probability mass of nucleus sampling"] = 0.9
    part: Annotated[Positive, "Maximum tokens of each part of a reflection"] = 160
    length: Annotated[Positive, "Maximum tokens of a plan"] = 400

    def __post_init__(self) -> None:
        if self.pool is not None and self.batch > self.pool:
            raise ValueError("a batch cannot be larger than the pool that it is drawn from")

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_p)

    @property
    def attempts(self) -> int:
        """The total number of attempts; repeated tasks count each time."""
        return self.iterations * self.batch

    def agent(self, plan: str | None = None) -> AutoPlanOptions:
        """Return the options of an agent that makes attempts with a plan."""
        return AutoPlanOptions(
            plan=plan, budget=self.steps, temperature=self.temperature, top_p=self.top_p
        )

    def evaluated(self) -> dict[str, str]:
        """Return the options of an agent that evaluates the plans: as in attempts, but greedy."""
        return {} if self.steps is None else {"budget": str(self.steps)}


def published_settings(card: Card) -> dict[str, int]:
    """Return the settings published for an environment."""
    published = AutoPlanAgent.published
    return {
        "pool": published(card, "pool", POOL),
        "steps": published(card, "budget", AutoPlanAgent.default_budget),
    }
