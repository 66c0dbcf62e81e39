"""Figures over repeated runs: mean, standard deviation, pass@k, the t-test between two settings."""

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
class TTest:
    """Unpaired two-sided t-test between the rates of two settings.

    statistic, p_value: Student's, which assumes equal variances. welch_p_value: without that
    assumption.
    """

    statistic: float
    p_value: float
    welch_p_value: float


@dataclass(frozen=True, slots=True)
class PassAt:
    """The chance that at least one of k attempts at a task succeeds, on average over tasks.

    every: the chance that all of them do: pass^k of tau-bench (arXiv 2406.12045).
    """

    k: int
    rate: float
    interval: Interval
    every: float


def pass_at(repeats: Sequence[Sequence[EpisodeResult]], *, seed: int = 0) -> tuple[PassAt, ...]:
    """Return pass@k for each k up to the number of repeats, which have the same tasks.

    The unbiased estimate of each task, 1 - C(n - c, k) / C(n, k) with c of n attempts successful
    (Chen et al., arXiv 2107.03374, Eq. 1). The interval is over tasks. An episode that ended in
    an error is a failure.
    """
    solved: dict[str, int] = {}
    for result in (result for repeat in repeats for result in repeat):
        solved[result.task.id] = solved.get(result.task.id, 0) + result.solved
    count = len(repeats)
    figures = []
    for k in range(1, count + 1):
        chances = [1 - comb(count - c, k) / comb(count, k) for c in solved.values()]
        interval = rate_interval(chances, seed=seed)
        every = float(np.mean([comb(c, k) / comb(count, k) for c in solved.values()]))
        figures.append(PassAt(k, float(np.mean(chances)), interval, every))
    return tuple(figures)


def spread(rates: Sequence[float]) -> Spread:
    """Return mean and deviation of at least one rate."""
    values = np.asarray(rates, dtype=np.float64)
    deviation = float(values.std(ddof=1)) if len(values) > 1 else None
    return Spread(tuple(float(value) for value in values), float(values.mean()), deviation)


def t_test(first: Spread, second: Spread) -> TTest | None:
    """Return the t-test between two settings.

    Return None if one has fewer than two runs, or if neither varies: then t is not defined.
    """
    if first.deviation is None or second.deviation is None:
        return None
    if not (first.deviation or second.deviation):
        return None
    from scipy.stats import ttest_ind_from_stats

    figures = (
        *(first.mean, first.deviation, len(first.rates)),
        *(second.mean, second.deviation, len(second.rates)),
    )
    student = ttest_ind_from_stats(*figures)
    welch = ttest_ind_from_stats(*figures, equal_var=False)
    return TTest(float(student.statistic), float(student.pvalue), float(welch.pvalue))
