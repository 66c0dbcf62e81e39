"""The floor of every table: an admissible action drawn uniformly at random."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated

from ldm.episode import Agent, Episode
from ldm.errors import LdmError
from ldm.types import Card, stable_seed


@dataclass(frozen=True, slots=True)
class RandomOptions:
    """Options of the random agent."""

    budget: Annotated[int, "Steps of a trial"] = 50


class RandomAgent(Agent):
    """Draws an admissible action uniformly at random."""

    name = "random"
    paper = "baseline"
    Options = RandomOptions
    options: RandomOptions

    def budget(self, card: Card) -> int:
        return self.options.budget

    def solve(self, episode: Episode) -> None:
        generator = random.Random(stable_seed(self._resources.seed, episode.task_id))
        with episode.trial() as now:
            while True:
                if not now.admissible:
                    raise LdmError(
                        f"{episode.env_name} does not list admissible actions, so the random agent "
                        "has no choice.",
                        "Use another agent on it.",
                    )
                now = episode.act(generator.choice(now.admissible))
