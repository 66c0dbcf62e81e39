"""Estimates of what a whole run will cost, from a measured sample of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A total: the expected value and a 95 % prediction interval; high is None where unknown."""

    expected: float
    low: float
    high: float | None


def extrapolate(sample: Sequence[float], total: int) -> Estimate:
    """Estimate the total over `total` items of which `sample` was measured (at least one).

    The interval is Student's for the sum of the remaining items: their mean is uncertain, and so
    is each of them.
    """
    measured, remaining = sum(sample), total - len(sample)
    if remaining <= 0:
        return Estimate(measured, measured, measured)
    expected = measured + remaining * statistics.fmean(sample)
    if len(sample) < 2:
        return Estimate(expected, measured, None)
    from scipy.stats import t

    spread = statistics.stdev(sample) * math.sqrt(remaining + remaining**2 / len(sample))
    half = float(t.ppf(0.975, len(sample) - 1)) * spread
    return Estimate(expected, max(measured, expected - half), expected + half)
