"""Figures over repeated runs: mean, standard deviation, pass@k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from ldm.run.statistics import Interval, rate_interval
from ldm.types import EpisodeResult


@dataclass(frozen=True, slots=True)
class Spread:
    """Success rates of repeated runs, in their order.

    deviation: the standard deviation of a sample (n - 1); None of a single run.
    """

    rates: tuple[float, ...]
    mean: float
    deviation: float | None


@dataclass(frozen=True, slots=True)
class PassAt:
    """The chance that at least one of k attempts at a task succeeds, on average over tasks."""

    k: int
    rate: float
    interval: Interval


def pass_at(repeats: Sequence[Sequence[EpisodeResult]], *, seed: int = 0) -> tuple[PassAt, ...]:
    """Return pass@k for each k up to the number of repeats, which have the same tasks.

    The unbiased estimate of each task, 1 - C(n - c, k) / C(n, k) with c of n attempts successful
    (Chen et al., arXiv 2107.03374, Eq. 1). The interval is of tasks. An episode that ended in an
    error is a failure.
    """
    solved: dict[str, int] = {}
    for result in (result for repeat in repeats for result in repeat):
        succeeded = result.success and result.end != "error"
        solved[result.task.id] = solved.get(result.task.id, 0) + succeeded
    count = len(repeats)
    figures = []
    for k in range(1, count + 1):
        chances = [1 - comb(count - c, k) / comb(count, k) for c in solved.values()]
        interval = rate_interval(chances, seed=seed)
        figures.append(PassAt(k, float(np.mean(chances)), interval))
    return tuple(figures)


def spread(rates: Sequence[float]) -> Spread:
    """Return mean and deviation of at least one rate."""
    values = np.asarray(rates, dtype=np.float64)
    deviation = float(values.std(ddof=1)) if len(values) > 1 else None
    return Spread(tuple(float(value) for value in values), float(values.mean()), deviation)
