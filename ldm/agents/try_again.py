"""Try Again (ADaPT's baseline, arXiv 2311.05772, §4.2): several trials, the best one stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ldm.agents.loop import TaskAgent, TaskOptions
from ldm.episode import Episode
from ldm.llm import GREEDY, Sampling
from ldm.types import Amount, Positive

#: Trials if the environment's card has no published number: ADaPT's usual d_max.
TRIALS = 3


@dataclass(frozen=True, slots=True)
class TryAgainOptions(TaskOptions):
    """Options of Try Again. The number published for an environment is d_max (§4.2)."""

    trials: Annotated[Positive | None, "Attempts at a task; none: as published"] = None
    temperature: Annotated[Amount, "Sampling temperature after the first trial (App. A)"] = 0.7


class TryAgainAgent(TaskAgent):
    """Plays ReAct once greedily, then at a temperature, until a trial succeeds."""

    name = "try_again"
    sees_reward = True
    paper = "Try Again, ADaPT, arXiv 2311.05772, §4.2"
    Options = TryAgainOptions
    options: TryAgainOptions

    def solve(self, episode: Episode) -> None:
        """Play trials and submit the best; of equal scores the first."""
        trials = self.setting(episode.card, "trials", TRIALS)
        scores: list[float] = []
        for number in range(trials):
            sampling = Sampling(self.options.temperature) if number else GREEDY
            self.attempt(episode, sampling=sampling)
            tried = episode.trajectory(number)
            scores.append(tried.score)
            if tried.success:
                break
        best = scores.index(max(scores))
        episode.note("choice", scores=scores, chosen=best)
        episode.submit(best)
