"""Mean, deviation and t-test over repeated runs."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import ttest_ind

from ldm.run.statistics import pass_at, spread, t_test
from ldm.types import EpisodeResult
from tests.run.test_statistics import result


def episodes(*successes: bool) -> tuple[EpisodeResult, ...]:
    return tuple(result(number, success) for number, success in enumerate(successes))


def test_a_spread_has_the_deviation_of_a_sample() -> None:
    figures = spread([0.2, 0.4, 0.6])
    assert figures.mean == pytest.approx(0.4)
    assert figures.deviation == pytest.approx(0.2)
    assert figures.rates == (0.2, 0.4, 0.6)
    assert spread([0.7]).deviation is None


def test_the_t_test_is_scipys_on_the_rates() -> None:
    rng = np.random.default_rng(7)
    for _ in range(50):
        first, second = rng.random(5).tolist(), rng.random(4).tolist()
        test = t_test(spread(first), spread(second))
        assert test is not None
        student = ttest_ind(first, second)
        assert test.statistic == pytest.approx(student.statistic)
        assert test.p_value == pytest.approx(student.pvalue)
        welch = ttest_ind(first, second, equal_var=False)
        assert test.welch_p_value == pytest.approx(welch.pvalue)


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
