"""The floor of every table: an admissible action drawn uniformly at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ldm.agents import Resources
from ldm.episode import Episode
from ldm.errors import LdmError
from ldm.types import Card, stable_seed


@dataclass(frozen=True, slots=True)
class RandomOptions:
    """budget: environment steps a trial may take (ours)."""

    budget: int = 50


class RandomAgent:
    """Draws an admissible action uniformly at random."""

    name = "random"
    sees_reward = False
    needs: ClassVar[Sequence[str]] = ()
    paper: ClassVar[str] = "baseline"
    Options: ClassVar[type[RandomOptions]] = RandomOptions

    def __init__(self, options: RandomOptions, resources: Resources) -> None:
        self.options = options
        self._seed = resources.seed

    def budget(self, card: Card) -> int:
        return self.options.budget

    def solve(self, episode: Episode) -> None:
        generator = random.Random(stable_seed(self._seed, episode.task_id))
        with episode.trial() as now:
            while True:
                if not now.admissible:
                    raise LdmError(
                        f"{episode.env_name} does not list admissible actions, so the random agent "
                        "has no choice.",
                        "Use another agent on it.",
                    )
                now = episode.act(generator.choice(now.admissible))
