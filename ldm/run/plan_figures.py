"""How good optimised plans are: success by iteration, over repeats, and between settings.

AutoPlan, arXiv 2305.15064: Table 3 (each kind's last plan), Figure 3 (each iteration's, over five
runs) and Table 5 (t-tests between batch sizes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from ldm.run.repeats import Spread, TTest, spread, t_test
from ldm.run.results import Report


@dataclass(frozen=True, slots=True)
class PlanEvaluation:
    """On which tasks optimised plans are evaluated.

    split: "" is the environment's. limit: at most so many tasks, kinds evenly. curve: whether each
    iteration's plan is evaluated, X_0 included (Fig. 3), or the last alone (Table 3).
    tasks: how many there are; `check` fills it in.
    """

    split: str = ""
    limit: int | None = None
    curve: bool = False
    tasks: int = 0

    def iterations(self, last: int) -> Sequence[int]:
        """Return the numbers i of the plans X_i that are evaluated, of those up to the last."""
        return range(last + 1) if self.curve else (last,)


@dataclass(frozen=True, slots=True)
class PlanScore:
    """What the plans X_i of one run with one setting came to."""

    variant: str
    repeat: int
    iteration: int
    report: Report

    def rate(self, kind: str = "") -> float | None:
        """Return the success rate, of all tasks or of a kind; None where none was played."""
        summary = self.report.summary
        group = summary.by_kind.get(kind) if kind else summary.overall
        return None if group is None else group.success_rate


@dataclass(frozen=True, slots=True)
class Comparison:
    """The t-test between two settings at an iteration; None where t is not defined."""

    first: str
    second: str
    iteration: int
    test: TTest | None


@dataclass(frozen=True, slots=True)
class PlanScores:
    """How plans did, by setting, iteration and repeat."""

    evaluation: PlanEvaluation
    scores: tuple[PlanScore, ...]

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys(score.variant for score in self.scores))

    @property
    def iterations(self) -> list[int]:
        return sorted({score.iteration for score in self.scores})

    @property
    def kinds(self) -> list[str]:
        return sorted({kind for one in self.scores for kind in one.report.summary.by_kind})

    def spread(self, variant: str, iteration: int, kind: str = "") -> Spread | None:
        """Return the success rates of all repeats; None where nothing was played."""
        rates = [
            rate
            for one in self.scores
            if (one.variant, one.iteration) == (variant, iteration)
            and (rate := one.rate(kind)) is not None
        ]
        return spread(rates) if rates else None

    def comparisons(self) -> list[Comparison]:
        """Return the t-tests between the first setting and each other (Table 5).

        X_0, the empty plan, is the same for all and left out.
        """
        result = []
        first, *others = self.variants
        for second, iteration in product(others, self.iterations):
            pair = [self.spread(variant, iteration) for variant in (first, second)]
            if iteration and all(pair):
                test = t_test(*(one for one in pair if one is not None))
                result.append(Comparison(first, second, iteration, test))
        return result

    def rows(self) -> tuple[list[str], list[tuple[str, ...]]]:
        """Return columns and rows of success by iteration, a row a setting (Fig. 3)."""
        columns = ["plans", *(f"iteration {number}" for number in self.iterations)]
        return columns, [
            (variant or "–", *(_words(self.spread(variant, i)) for i in self.iterations))
            for variant in self.variants
        ]

    def rows_by_kind(self) -> tuple[list[str], list[tuple[str, ...]]]:
        """Return columns and rows of the last plans' success by kind (Table 3)."""
        columns = ["plans", *self.kinds, "all"]
        rows = []
        for variant in self.variants:
            last = max(one.iteration for one in self.scores if one.variant == variant)
            cells = (_words(self.spread(variant, last, kind)) for kind in (*self.kinds, ""))
            rows.append((variant or "–", *cells))
        return columns, rows

    def lines(self) -> Iterator[str]:
        """Yield what to know beside the tables."""
        repeats = max(one.repeat for one in self.scores)
        if repeats > 1:
            yield (
                f"Mean ± standard deviation (n - 1) of {repeats} runs, each with a seed of its own."
            )
        for one in self.comparisons():
            who = f"{one.first} and {one.second}, iteration {one.iteration}"
            if one.test is None:
                yield f"{who}: no t-test, as there are fewer than two runs or neither varies."
            else:
                yield (
                    f"{who}: t = {one.test.statistic:.2f}, p = {one.test.p_value:.3f} "
                    f"(t-test, two-sided; Welch's p = {one.test.welch_p_value:.3f})."
                )
        for directory in dict.fromkeys(str(one.report.directory) for one in self.scores):
            yield f"Files: {directory}"

    def as_json(self) -> dict[str, Any]:
        """Return JSON values; rates in [0, 1]."""
        return {
            "split": self.scores[0].report.split,
            "tasks": self.evaluation.tasks,
            "success": [
                {
                    "variant": variant,
                    "iteration": iteration,
                    **_data(self.spread(variant, iteration)),
                    "by_kind": {k: _data(self.spread(variant, iteration, k)) for k in self.kinds},
                    "runs": [
                        str(one.report.directory)
                        for one in self.scores
                        if (one.variant, one.iteration) == (variant, iteration)
                    ],
                }
                for variant, iteration in product(self.variants, self.iterations)
                if self.spread(variant, iteration) is not None
            ],
            "t_tests": [asdict(one) for one in self.comparisons()],
        }


def _words(figures: Spread | None) -> str:
    if figures is None:
        return "–"
    if figures.deviation is None:
        return f"{100 * figures.mean:.1f} %"
    return f"{100 * figures.mean:.1f} ± {100 * figures.deviation:.1f} %"


def _data(figures: Spread | None) -> dict[str, Any]:
    return {} if figures is None else asdict(figures)
