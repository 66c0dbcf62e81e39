"""Success rates, intervals and differences against values that are known."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from scipy.stats import binomtest

from ldm.errors import LdmError
from ldm.run import statistics
from ldm.run.statistics import (
    bootstrap,
    difference,
    holm,
    mcnemar,
    pass_at,
    rate_interval,
    sign_flips,
    spread,
    summarize,
    t_test,
    wilson,
)
from ldm.types import EpisodeResult, Task, Usage


def result(number: int, success: bool, kind: str = "heat", error: str = "") -> EpisodeResult:
    return EpisodeResult(
        task=Task(str(number), "house", "test", "a goal", kind),
        agent="ldm",
        trials=2,
        submitted=1,
        end="error" if error else "done" if success else "budget",
        score=float(success),
        success=success,
        env_steps=10 + number,
        invalid=1,
        usage=Usage(calls=3),
        seconds=0.5,
        error=error,
    )


class TestTheBootstrap:
    def test_is_that_of_scipy(self) -> None:
        sample = np.random.default_rng(3).random(80)
        result = scipy.stats.bootstrap(
            (sample,), np.mean, n_resamples=10_000, method="percentile", rng=4
        )
        expected = result.confidence_interval
        assert bootstrap(sample) == pytest.approx((expected.low, expected.high), abs=0.004)

    def test_equal_values_have_an_interval_without_width(self) -> None:
        for values in ([0.0] * 20, [1.0] * 20, [0.5]):
            assert bootstrap(values) == (values[0], values[0])

    def test_the_same_seed_gives_the_same_interval(self) -> None:
        values = np.random.default_rng(1).random(37)
        assert bootstrap(values, seed=5) == bootstrap(values, seed=5)
        assert bootstrap(values, seed=5) != bootstrap(values, seed=6)

    def test_many_tasks_are_drawn_in_blocks_that_fit_into_memory(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        values = np.random.default_rng(1).random(50)
        at_once = bootstrap(values)
        monkeypatch.setattr(statistics, "_BLOCK", 50 * 999)
        assert bootstrap(values) == pytest.approx(at_once, abs=0.01)


class TestTheIntervalOfARate:
    def test_is_the_bootstrap_s_where_tasks_differ(self) -> None:
        some = [1.0, 0.0, 0.0, 1.0, 0.0]
        assert rate_interval(some, seed=3) == bootstrap(some, seed=3)

    @pytest.mark.parametrize("count", [1, 2, 6, 24, 1000])
    def test_is_the_exact_one_where_all_are_equal(self, count: int) -> None:
        for value in (0.0, 1.0):
            exact = binomtest(round(value * count), count).proportion_ci(0.95, method="exact")
            assert rate_interval([value] * count) == pytest.approx((exact.low, exact.high))


class TestTheSummary:
    def test_errors_are_failures(self) -> None:
        results = [
            result(0, True),
            result(1, False),
            result(2, True, "cool"),
            replace(result(3, False, "cool"), end="error", error="Traceback …"),
        ]
        summary = summarize(results)
        overall = summary.overall
        assert (overall.episodes, overall.figures["errors"], overall.success_rate) == (4, 1, 0.5)
        assert overall.finished_rate == pytest.approx(2 / 3)
        figures = {"mean_steps": 11.0, "invalid": 3, "trials": 2, "calls": 3, "seconds": 2}
        assert {n: overall.figures[n] for n in figures} == pytest.approx(figures)
        assert list(summary.by_kind) == ["cool", "heat"]
        assert [one.success_rate for one in summary.by_kind.values()] == [0.5, 0.5]
        assert summary.by_kind["cool"].finished_rate == 1.0

    def test_where_all_failed_no_mean_is_of_the_others(self) -> None:
        overall = summarize([result(0, False, error="Traceback …")]).overall
        assert (overall.episodes, overall.figures["errors"]) == (1, 1)
        assert (overall.success_rate, overall.mean_score) == (0.0, 0.0)
        assert overall.interval == pytest.approx((0.0, 0.975))
        assert overall.finished_rate is None
        assert overall.figures["mean_steps"] is None


class TestDifferences:
    def test_are_paired_by_task(self) -> None:
        first = [result(number, True) for number in range(10)]
        second = [result(number, number < 5) for number in reversed(range(10))]
        pair = difference(first, second)
        assert pair.mean == 0.5
        assert pair.tasks == 10
        assert pair.interval is not None
        assert 0.1 <= pair.interval[0] < 0.5 < pair.interval[1] <= 0.9

    def test_count_errors_as_failures(self) -> None:
        first = [result(0, True), result(1, True, error="Traceback …"), result(2, True)]
        second = [result(0, False), result(1, True), result(3, True)]
        pair = difference(first, second)
        assert (pair.mean, pair.tasks) == (0.0, 2)
        assert (pair.only_first, pair.only_second) == (1, 1)

    def test_without_spread_have_no_interval(self) -> None:
        pair = difference([result(0, True)], [result(0, False)])
        assert (pair.mean, pair.interval) == (1.0, None)

    def test_need_a_common_task(self) -> None:
        with pytest.raises(LdmError, match="No task"):
            difference([result(0, True)], [result(1, True)])


class TestRepeatedTasks:
    """A task that was played repeatedly is one observation, whatever its repeats came to."""

    def test_the_same_outcomes_again_narrow_no_interval(self) -> None:
        once = [result(number, number % 3 == 0) for number in range(30)]
        again = summarize([*once, *once, *once]).overall
        assert again.interval == summarize(once).overall.interval
        assert again.episodes == 90
        assert again.success_rate == pytest.approx(1 / 3)

    def test_tasks_that_all_succeed_in_half_of_their_repeats_have_an_exact_interval(self) -> None:
        halves = [result(n, repeat == 0) for repeat in range(2) for n in range(10)]
        exact = binomtest(5, 10).proportion_ci(0.95, method="exact")
        assert summarize(halves).overall.interval == pytest.approx((exact.low, exact.high))

    def test_differences_are_of_their_means(self) -> None:
        first = [result(n, n < 6 or repeat == 0) for repeat in range(2) for n in range(12)]
        second = [result(n, False) for n in range(12)]
        pair = difference(first, second)
        assert (pair.mean, pair.tasks, pair.repeated) == (0.75, 12, True)
        assert (pair.only_first, pair.only_second) == (12, 0)
        assert pair.p_value == 2 / 2**12

    @pytest.mark.parametrize(("first", "second"), [(0, 0), (3, 1), (10, 4), (5, 5), (30, 12)])
    def test_the_permutation_test_is_mcnemars_without_repeats(
        self, first: int, second: int
    ) -> None:
        gains = [1.0] * first + [-1.0] * second + [0.0] * 5
        assert sign_flips(gains) == pytest.approx(mcnemar(first, second))

    def test_the_permutation_test_is_scipys(self) -> None:
        generator = np.random.default_rng(5)
        for _ in range(20):
            gains = generator.integers(-3, 4, 9) / 3
            reference = scipy.stats.permutation_test(
                (gains,),
                lambda sample, axis: np.abs(sample.sum(axis)),
                vectorized=True,
                permutation_type="samples",
                n_resamples=np.inf,
                alternative="greater",
            )
            assert sign_flips(gains, 3) == pytest.approx(reference.pvalue)


@pytest.mark.parametrize(("solved", "count"), [(0, 5), (3, 4), (70, 140), (140, 140)])
def test_the_interval_while_work_goes_on_is_wilsons(solved: int, count: int) -> None:
    reference = binomtest(solved, count).proportion_ci(0.95, method="wilson")
    assert wilson(solved, count) == pytest.approx((reference.low, reference.high))


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        ([], []),
        ([0.03], [0.03]),
        # Each is multiplied by how many are not smaller, and none falls below one before it.
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.9, 0.2, 0.5], [1.0, 0.6, 1.0]),
        ([0.01, 0.02, 0.03, 0.04], [0.04, 0.06, 0.06, 0.06]),
    ],
)
def test_p_values_of_several_comparisons_are_corrected(
    p_values: list[float], corrected: list[float]
) -> None:
    assert holm(p_values) == pytest.approx(corrected)


def episodes(*successes: bool) -> tuple[EpisodeResult, ...]:
    return tuple(result(number, success) for number, success in enumerate(successes))


def test_a_spread_has_the_deviation_of_a_sample() -> None:
    figures = spread([0.2, 0.4, 0.6])
    assert figures.mean == pytest.approx(0.4)
    assert figures.deviation == pytest.approx(0.2)
    assert figures.rates == (0.2, 0.4, 0.6)
    assert spread([0.7]).deviation is None


def test_the_t_test_is_students() -> None:
    first, second = [0.2, 0.4, 0.6], [0.5, 0.9, 0.7, 0.9]
    # t = -0.35 / sqrt(0.038 * (1 / 3 + 1 / 4)) = -2.3508 with 5 degrees of freedom.
    assert t_test(spread(first), spread(second)) == pytest.approx(0.0655, abs=1e-4)


@pytest.mark.parametrize(
    ("first", "second"), [([0.5], [0.1, 0.2]), ([0.1, 0.2], [0.5]), ([1.0, 1.0], [0.0, 0.0])]
)
def test_there_is_none_where_t_is_not_defined(first: list[float], second: list[float]) -> None:
    assert t_test(spread(first), spread(second)) is None


class TestPassAtK:
    def test_of_one_attempt_is_the_success_rate(self) -> None:
        (figure,) = pass_at([episodes(True, False, True, False)])
        assert (figure.k, figure.rate) == (1, 0.5)

    def test_is_the_share_of_subsets_with_a_success(self) -> None:
        rng = np.random.default_rng(3)
        outcomes = rng.random((4, 9)) < 0.4
        figures = pass_at([episodes(*map(bool, row)) for row in outcomes])
        for figure in figures:
            subsets = list(combinations(range(4), figure.k))
            shares = [
                np.mean([outcomes[list(s), task].any() for s in subsets]) for task in range(9)
            ]
            assert figure.rate == pytest.approx(np.mean(shares))
            assert figure.interval[0] <= figure.rate <= figure.interval[1]
            every = [np.mean([outcomes[list(s), task].all() for s in subsets]) for task in range(9)]
            assert figure.every == pytest.approx(np.mean(every))

    def test_an_error_is_a_failure(self) -> None:
        broken = tuple(replace(one, end="error") for one in episodes(True, True))
        assert [figure.rate for figure in pass_at([broken, episodes(False, True)])] == [0.25, 0.5]
