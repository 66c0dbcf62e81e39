"""What a whole run will cost, from a part of it."""

import math
import random

import pytest

from ldm.run.grid import extrapolate


def test_without_a_spread_the_rest_is_like_what_was_measured() -> None:
    assert extrapolate([1.0, 2.0, 3.0], 3) == (6.0, 6.0, 6.0)  # all is measured
    assert extrapolate([2.0], 10) == (20.0, 2.0, None)  # one says nothing of the spread
    assert extrapolate([5.0] * 4, 10) == (50.0, 50.0, 50.0)


def test_the_interval_is_students_for_the_sum_of_the_rest() -> None:
    expected, low, high = extrapolate([1.0, 3.0], 4)
    # Two are left; s = sqrt(2), its factor sqrt(2 + 4 / 2), and t(0.975; 1) = 12.7062.
    assert expected == 8.0
    assert high == pytest.approx(8.0 + 12.7062 * math.sqrt(2) * 2, rel=1e-4)
    assert low == 4.0  # no total is below what is spent already


def test_the_interval_holds_the_total_about_as_often_as_it_says() -> None:
    generator = random.Random(7)
    held = 0
    for _ in range(400):
        costs = [generator.gauss(10.0, 2.0) for _ in range(60)]
        _, low, high = extrapolate(costs[:6], 60)
        assert high is not None
        held += low <= sum(costs) <= high
    assert 0.92 <= held / 400 <= 0.98
