"""The score by which tuples are ranked, and the bound by which ranking stops early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Similarities are rounded before ranking, so that the last bits of a sum decide nothing.
DECIMALS = 6
#: How far rounding may carry a cosine above 1.
ROUNDING = 1e-5


@dataclass(frozen=True, slots=True)
class Score:
    """The similarity of a tuple to a query: the weighted mean of two cosines.

    goal_weight: the weight of the goals' cosine, in [0, 1]; the observations' cosine has the rest.
    """

    goal_weight: float = 0.5

    def score(self, goal: Any, observation: Any) -> NDArray[np.float64]:
        """Return the scores of tuples whose goals and observations have these cosines."""
        goals, observations = (np.asarray(one, np.float64) for one in (goal, observation))
        mean = self.goal_weight * goals + (1 - self.goal_weight) * observations
        return np.round(mean, DECIMALS)

    def bound(self, goal: float) -> float:
        """Return the highest score of a tuple whose goal has at most this cosine."""
        return float(self.score(goal, 1 + ROUNDING))
