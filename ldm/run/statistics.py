"""The figures of results: success with intervals, overall and by kind; the difference of agents.

An entry of COLUMNS appears in every table, in summaries, CSV, JSON and pages. An agent's own
figures (`ldm.reporting.Measure`) become further columns. Repeated runs have a mean, a standard
deviation and pass@k, and two settings a t-test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import comb
from statistics import fmean
from typing import Any, Literal

import numpy as np

from ldm.errors import LdmError
from ldm.reporting import NO_REPORTING, Measure, Reporting
from ldm.types import EpisodeResult, by_key


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of an episode.

    name: of the figure of one episode, in CSV and Parquet. of: its value; None if there is none.
    total: how episodes are aggregated: their mean, or their sum. over: "finished" leaves out
    episodes that ended in an error. summary: the name of that in summaries and JSON, "" for `name`.
    table: its heading in the table of a run, "" to leave it out. side: its heading beside other
    runs, where it is a mean per task. meaning: a few words, for pages. digits: after the point.
    """

    name: str
    of: Callable[[EpisodeResult], float | None]
    total: Literal["mean", "sum"] = "mean"
    over: Literal["finished", "all"] = "finished"
    summary: str = ""
    table: str = ""
    side: str = ""
    meaning: str = ""
    digits: int = 1

    @property
    def key(self) -> str:
        """The name in summaries and JSON."""
        return self.summary or self.name

    def text(self, value: float | None) -> str:
        """Return a value as tables show it; a dash if there is none."""
        return "–" if value is None else f"{value:.{self.digits}f}"


COLUMNS = (
    Column("steps", lambda one: one.env_steps, summary="mean_steps", table="steps", side="steps",
           meaning="environment steps per task"),
    Column("invalid", lambda one: one.invalid, "sum", table="invalid", digits=0,
           meaning="invalid actions"),
    Column("errors", lambda one: float(one.end == "error"), "sum", "all", table="errors", digits=0,
           meaning="episodes that ended in an error"),
    Column("seconds", lambda one: one.seconds, "sum", "all", table="seconds", side="s/task",
           meaning="seconds per task"),
    Column("trials", lambda one: one.trials, side="trials", meaning="trials per task"),
    Column("calls", lambda one: one.usage.calls, side="calls", meaning="model calls per task"),
    Column("tokens", lambda one: one.usage.tokens,
           side="tokens", meaning="tokens per task", digits=0),
    Column("prompt_tokens", lambda one: one.usage.prompt_tokens, digits=0),
    Column("completion_tokens", lambda one: one.usage.completion_tokens, digits=0),
)  # fmt: skip


def with_measures(measures: Iterable[Measure]) -> tuple[Column, ...]:
    """Return all columns, followed by an agent's own measures that have another name."""
    known = {column.name for column in COLUMNS}
    own = (Column(m.name, m.of, meaning=m.meaning, digits=2) for m in measures)
    return (*COLUMNS, *(column for column in own if column.name not in known))


LEVEL = 0.95
#: The corresponding quantile of the normal distribution.
_Z = 1.959963984540054
RESAMPLES = 10_000
#: Numbers drawn at a time, so that 10,000 resamples of 7,000 tasks fit into memory.
_BLOCK = 4_000_000

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Aggregated episodes. Those that ended in an error count as failures, with the score 0.

    A task may have been played repeatedly: its episodes are not independent observations, and are
    averaged first, so that the interval is over tasks.
    success_rate, mean_score: in [0, 1]; None without episodes.
    interval: of the success rate over tasks, see `rate_interval`.
    finished_rate: the success rate of the episodes that ended without an error, None without any.
    figures: totals of the columns by `Column.key`, None without episodes.
    measures: means of the agent's own figures, without those that no episode has.
    """

    episodes: int
    success_rate: float | None
    interval: Interval | None
    mean_score: float | None
    finished_rate: float | None
    figures: Mapping[str, float | None]
    measures: Mapping[str, float] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Return JSON values, with figures and measures beside the others."""
        data = asdict(self)
        figures, measures = data.pop("figures"), data.pop("measures")
        return {**data, **figures, **measures}


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run; derived from episodes.jsonl and written as summary.json."""

    overall: Aggregate
    by_kind: dict[str, Aggregate]

    def as_data(self) -> dict[str, Any]:
        """Return JSON values."""
        by_kind = {kind: group.as_data() for kind, group in self.by_kind.items()}
        return {"overall": self.overall.as_data(), "by_kind": by_kind}


@dataclass(frozen=True, slots=True)
class Difference:
    """Success of the first minus that of the second agent, over `tasks` that both played.

    An episode that ended in an error is a failure. For a task that was played repeatedly, the mean
    is compared. only_first, only_second: tasks that one of them solved and the other did not, or
    solved less often. p_value: of McNemar's exact test, that such tasks fall to either with the
    same chance; of repeated tasks that of the permutation test, `sign_flips`. interval: the 95 %
    bootstrap interval; None if it has no width, since all tasks show the same difference.
    repeated: whether a task was played more than once.
    corrected_p: the p-value corrected for all comparisons made beside it, see `holm`; None alone.
    """

    mean: float
    interval: Interval | None
    tasks: int
    only_first: int
    only_second: int
    p_value: float
    corrected_p: float | None = None
    repeated: bool = False


def bootstrap(values: Sequence[float] | np.ndarray, *, seed: int = 0) -> Interval:
    """Return the 95 % percentile bootstrap interval of the mean of `values` (n,), n > 0.

    The same values, in the same order, and seed give the same interval. If all values are
    equal it has no width (0 of n gives (0, 0)).
    """
    sample = np.asarray(values, dtype=np.float64)
    generator = np.random.default_rng(seed)
    count = len(sample)
    block = max(1, _BLOCK // count)
    sizes = (min(block, RESAMPLES - start) for start in range(0, RESAMPLES, block))
    means = [sample[generator.integers(0, count, (size, count))].mean(axis=1) for size in sizes]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)


def rate_interval(successes: Sequence[float] | np.ndarray, *, seed: int = 0) -> Interval:
    """Return the 95 % interval of the rate of `successes` (n,), n > 0, one per task, in [0, 1].

    It is the bootstrap's, or the exact one of Clopper and Pearson if all are equal, as the
    bootstrap's would have no width: 0 of 6 gives (0, 0.459).
    """
    if np.ptp(successes):
        return bootstrap(successes, seed=seed)
    count, rate, tail = len(successes), float(successes[0]), (1 - LEVEL) / 2
    if rate in (0.0, 1.0):
        bound = tail ** (1 / count)
        return (bound, 1.0) if rate else (0.0, 1 - bound)
    from scipy.stats import beta

    solved = rate * count
    return (
        float(beta.ppf(tail, solved, count - solved + 1)),
        float(beta.ppf(1 - tail, solved + 1, count - solved)),
    )


def wilson(successes: int, count: int) -> Interval:
    """Return Wilson's 95 % interval of a rate, which is fast enough for live displays.

    count: above 0. Source: Wilson, Journal of the American Statistical Association 1927.
    """
    rate, square = successes / count, _Z * _Z
    spread = _Z * math.sqrt(rate * (1 - rate) / count + square / (4 * count * count))
    centre, scale = rate + square / (2 * count), 1 + square / count
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def by_task(
    results: Sequence[EpisodeResult], value: Callable[[EpisodeResult], float]
) -> dict[str, list[float]]:
    """Return task id → a value of each of its episodes, in order."""
    return by_key((one.task.id, value(one)) for one in results)


def score_of(result: EpisodeResult) -> float:
    """Return the score that counts: 0 for an episode that ended in an error."""
    return 0.0 if result.end == "error" else result.score


def summarize(
    results: Sequence[EpisodeResult], *, seed: int = 0, reporting: Reporting = NO_REPORTING
) -> Summary:
    """Summarise results, overall and by kind (in alphabetical order); `seed` is the bootstrap's.

    reporting: that of the agent's class.
    """
    columns = with_measures(reporting.measures)
    kinds = by_key((one.task.kind, one) for one in results)
    by_kind = {kind: _group(kinds[kind], columns, seed) for kind in sorted(kinds)}
    return Summary(_group(results, columns, seed), by_kind)


def difference(first: Sequence[EpisodeResult], second: Sequence[EpisodeResult]) -> Difference:
    """Return the paired difference in success, with its bootstrap interval over tasks.

    Raises LdmError if no task was played by both.
    """
    one, other = (by_task(results, lambda one: one.solved) for results in (first, second))
    tasks = [task for task in one if task in other]
    if not tasks:
        raise LdmError("No task was played in both runs.", "Compare runs on the same tasks.")
    gains = np.array([fmean(one[task]) - fmean(other[task]) for task in tasks])
    first_only, second_only = int((gains > 0).sum()), int((gains < 0).sum())
    counts = {len(side[task]) for side in (one, other) for task in tasks}
    repeated = counts != {1}
    return Difference(
        mean=float(gains.mean()),
        interval=bootstrap(gains) if np.ptp(gains) else None,
        tasks=len(gains),
        only_first=first_only,
        only_second=second_only,
        p_value=sign_flips(gains, math.lcm(*counts))
        if repeated
        else mcnemar(first_only, second_only),
        repeated=repeated,
    )


def sign_flips(gains: Sequence[float] | np.ndarray, denominator: int = 1) -> float:
    """Return the two-sided p-value of the exact permutation test of paired `gains`, one per task.

    If two agents do not differ, each gain might as well have the other sign. The p-value is the
    share of all choices of signs whose sum is as far from 0; for gains of -1, 0 and 1 it is that of
    McNemar's exact test. denominator: gains times this are whole numbers.
    """
    sizes = np.rint(np.abs(np.asarray(gains, np.float64)) * denominator).astype(np.int64)
    observed = abs(int(np.rint(np.sum(gains) * denominator)))
    total = int(sizes.sum())
    chances = np.zeros(2 * total + 1)  # of each sum, from -total on
    chances[total] = 1.0
    for size in sizes[sizes > 0].tolist():
        chances = (np.roll(chances, size) + np.roll(chances, -size)) / 2
    sums = np.abs(np.arange(-total, total + 1))
    return float(min(1.0, chances[sums >= observed].sum()))


def mcnemar(only_first: int, only_second: int) -> float:
    """Return the two-sided p-value of McNemar's exact test, or 1 without discordant tasks."""
    from scipy.stats import binomtest

    discordant = only_first + only_second
    return float(binomtest(only_first, discordant).pvalue) if discordant else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values of several comparisons corrected by Holm's step-down method.

    Below 0.05 of them, the chance that any of the comparisons is a false alarm is at most 5 %,
    whether or not they depend on each other. Source: Holm, Scandinavian Journal of Statistics 1979.
    """
    count = len(p_values)
    corrected, least = [0.0] * count, 0.0
    for rank, place in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        least = max(least, min(1.0, (count - rank) * p_values[place]))
        corrected[place] = least
    return corrected


def _group(results: Sequence[EpisodeResult], columns: Sequence[Column], seed: int) -> Aggregate:
    finished = [one for one in results if one.end != "error"]
    solved = [fmean(values) for values in by_task(results, lambda one: one.solved).values()]
    scores = [fmean(values) for values in by_task(results, score_of).values()]
    totals: dict[str, float | None] = {}
    for column in columns:
        episodes = finished if column.over == "finished" else results
        values = [value for one in episodes if (value := column.of(one)) is not None]
        totals[column.key] = round(math.fsum(values), 3) if column.total == "sum" else _mean(values)
    own = [column.key for column in columns[len(COLUMNS) :]]
    return Aggregate(
        episodes=len(results),
        success_rate=_mean(solved),
        interval=rate_interval(solved, seed=seed) if solved else None,
        mean_score=_mean(scores),
        finished_rate=_mean([one.solved for one in finished]),
        figures={key: value for key, value in totals.items() if key not in own},
        measures={key: value for key in own if (value := totals[key]) is not None},
    )


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


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
    played, count = [result for repeat in repeats for result in repeat], len(repeats)
    solved = [sum(of) for of in by_key((one.task.id, one.solved) for one in played).values()]
    figures = []
    for k in range(1, count + 1):
        chances = [1 - comb(count - c, k) / comb(count, k) for c in solved]
        interval = rate_interval(chances, seed=seed)
        every = float(np.mean([comb(c, k) / comb(count, k) for c in solved]))
        figures.append(PassAt(k, float(np.mean(chances)), interval, every))
    return tuple(figures)


def spread(rates: Sequence[float]) -> Spread:
    """Return mean and deviation of at least one rate."""
    values = np.asarray(rates, dtype=np.float64)
    deviation = float(values.std(ddof=1)) if len(values) > 1 else None
    return Spread(tuple(float(value) for value in values), float(values.mean()), deviation)


def t_test(first: Spread, second: Spread) -> float | None:
    """Return the two-sided p-value of Student's unpaired t-test between the rates of two settings.

    Return None if one has fewer than two runs, or if neither varies: then t is not defined.
    """
    if None in (first.deviation, second.deviation) or not (first.deviation or second.deviation):
        return None
    from scipy.stats import ttest_ind_from_stats

    one, other = ((x.mean, x.deviation, len(x.rates)) for x in (first, second))
    return float(ttest_ind_from_stats(*one, *other).pvalue)
