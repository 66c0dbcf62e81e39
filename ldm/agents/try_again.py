"""Try Again (ADaPT's baseline, arXiv 2311.05772, §4.2): several trials, and the best one stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ldm.agents.executor import run
from ldm.agents.exemplars import ExemplarAgent, ExemplarOptions
from ldm.episode import Episode
from ldm.llm import GREEDY, Sampling

#: Trials where the environment's card has no published number: ADaPT's usual d_max.
TRIALS = 3


@dataclass(frozen=True, slots=True)
class TryAgainOptions(ExemplarOptions):
    """trials: attempts at a task; None for the environment's published number, d_max (§4.2), or 3.
    temperature: sampling temperature of all trials after the first (App. A).
    """

    trials: int | None = None
    temperature: float = 0.7

    def __post_init__(self) -> None:
        ExemplarOptions.__post_init__(self)
        if self.trials is not None and self.trials < 1:
            raise ValueError("trials is 1 or more")
        if self.temperature < 0:
            raise ValueError("temperature is 0 or more")


class TryAgainAgent(ExemplarAgent):
    """ReAct once greedily, then at a temperature, until a trial succeeds; the best one stands."""

    name = "try_again"
    sees_reward = True
    paper: ClassVar[str] = "Try Again, ADaPT, arXiv 2311.05772, §4.2"
    Options: ClassVar[type[TryAgainOptions]] = TryAgainOptions
    options: TryAgainOptions

    def solve(self, episode: Episode) -> None:
        """Start trials; of those with the same score the first stands."""
        options = self.options
        llm = self._resources.model(episode)
        trials = self.setting(episode.card, "trials", TRIALS)
        scores: list[float] = []
        for number in range(trials):
            sampling = Sampling(options.temperature) if number else GREEDY
            with episode.trial():
                run(episode, llm, self.work(episode, sampling=sampling), options)
            tried = episode.trajectory(number)
            scores.append(tried.score)
            if tried.success:
                break
        best = scores.index(max(scores))
        episode.note("choice", scores=scores, chosen=best)
        episode.submit(best)
