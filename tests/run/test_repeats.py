"""Mean and deviation over repeated runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from ldm.run.repeats import pass_at, spread
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

    def test_an_error_is_a_failure(self) -> None:
        broken = tuple(replace(one, end="error") for one in episodes(True, True))
        assert [figure.rate for figure in pass_at([broken, episodes(False, True)])] == [0.25, 0.5]
