"""What tuples are credited with, in cases that can be computed by hand."""

from __future__ import annotations

import pytest

from ldm.run.credit import Credit, counted, tuple_credits
from ldm.types import End, EpisodeResult, Step, Task, Trajectory, Usage


def step(followed: str = "", recalled: str = "") -> Step:
    """A step that recalls tuples named by letters, and follows the first ones."""
    ids = followed + recalled
    return Step(
        "go", "there", recalls=tuple((i, 0.9) for i in ids), followed=tuple(range(len(followed)))
    )


def attempt(score: float, *steps: Step, kind: str = "heat") -> Trajectory:
    task = Task("t", "room", "train", "heat it", kind)
    return Trajectory(task, "start", steps, score, score == 1.0, "agent")


def by_id(*attempts: Trajectory) -> dict[str, Credit]:
    return {credit.tuple_id: credit for credit in tuple_credits(attempts)}


def test_steps_and_attempts_are_counted() -> None:
    by_tuple = by_id(
        attempt(1.0, step("a", "b"), step("a"), step("", "b")),
        attempt(0.0, step("b"), step("", "a"), step()),
        attempt(0.0, step("c")),
    )
    counts = {
        i: (c.recalled, c.recalled_in, c.followed, c.followed_in) for i, c in by_tuple.items()
    }
    assert counts == {"a": (3, 2, 2, 1), "b": (3, 2, 1, 1), "c": (1, 1, 1, 1)}


def test_scores_are_compared_with_attempts_that_did_not_follow_it() -> None:
    by_tuple = by_id(
        attempt(0.2, step("a")),
        attempt(0.4, step("a"), step("a")),
        attempt(0.6, step("", "a")),  # recalled, but not followed
        attempt(1.0, step("b")),
    )
    a, b = by_tuple["a"], by_tuple["b"]
    assert (a.score, a.without, a.others, a.harm) == (0.3, 0.8, 2, 1.0)  # 0.6 + 0.4 less than 0.8
    assert (b.score, b.without, b.others, b.harm) == (1.0, 0.4, 3, -0.6)


def test_kinds_are_compared_each_by_itself() -> None:
    """An easy kind without the tuple is no reproach to a hard one with it."""
    by_tuple = by_id(
        attempt(0.5, step("a"), kind="hard"),
        attempt(0.3, step("a"), kind="hard"),
        attempt(0.2, kind="hard"),
        attempt(1.0, step("a"), kind="easy"),
        attempt(0.8, kind="easy"),
        attempt(0.0, kind="never followed here"),
    )
    a = by_tuple["a"]
    assert (a.score, a.others) == (0.6, 2)
    assert a.without == pytest.approx((2 * 0.2 + 0.8) / 3)
    assert a.harm == pytest.approx(-0.3 - 0.1 - 0.2)


def test_what_was_never_followed_or_always_has_no_harm() -> None:
    by_tuple = by_id(attempt(0.0, step("a", "b")), attempt(0.5, step("a")))
    a, b = by_tuple["a"], by_tuple["b"]
    assert (a.score, a.without, a.others, a.harm) == (0.25, None, 0, 0.0)
    assert (b.score, b.without, b.others, b.harm) == (None, None, 0, 0.0)


def test_the_most_harmful_come_first() -> None:
    attempts = (
        *(attempt(1.0, step("g")), attempt(0.0, step("h", "z"))),
        *(attempt(0.0, step("h"), step("", "zy")), attempt(0.5, step("m"))),
    )
    # h lost 2 · 0.75, nobody followed z and y, m had 0.5 against 1/3, g 1 against 1/6.
    assert [*by_id(*attempts)] == ["h", "z", "y", "m", "g"]


def result(trials: int, end: End = "done") -> EpisodeResult:
    task = Task("t", "room", "train", "heat it", "heat")
    return EpisodeResult(task, "a", trials, 0, end, 1.0, True, 1, 0, Usage(), 0.1)


def test_attempts_of_episodes_that_ended_in_an_error_do_not_count() -> None:
    attempts = [attempt(score) for score in (0.1, 0.2, 0.3, 0.4)]
    results = [result(1), result(2, "error"), result(0), result(1, "budget")]
    assert [one.score for one in counted(results, attempts)] == [0.1, 0.4]
