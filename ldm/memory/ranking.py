"""The score by which tuples are ranked, and the bound by which ranking stops early."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Similarities are rounded before ranking, so that the last bits of a sum decide nothing.
DECIMALS = 6
#: How far rounding may carry a cosine above 1.
ROUNDING = 1e-5


def score(goal: Any, observation: Any) -> NDArray[np.float64]:
    """Return the similarities of tuples to a query: the means of the two cosines."""
    goals, observations = (np.asarray(one, np.float64) for one in (goal, observation))
    return np.round(0.5 * goals + 0.5 * observations, DECIMALS)


def bound(goal: float) -> float:
    """Return the highest score of a tuple whose goal has at most this cosine."""
    return float(score(goal, 1 + ROUNDING))
