"""Relevance: the rule that recorded steps teach."""

import hashlib
import os
import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from ldm.reason.candidates import Candidates
from ldm.reason.features import Situation
from ldm.reason.relevance import Fit, LeftOut, Relevance, gather, learn
from ldm.reason.vocabulary import Lesson, newest, vocabulary_of
from ldm.types import Past
from tests.processes import printed

COLOURS = ("red", "blue", "green", "black", "white", "grey")


def lessons(*, listed: bool = True) -> Iterator[Lesson]:
    """Yield the steps of a world in which the thing of the goal is taken, then brought to a box."""
    for n, colour in enumerate(COLOURS):
        other = COLOURS[(n + 1) % len(COLOURS)]
        view = f"You see a {other} ball, a {colour} ball, and a box {n % 3 + 1}."
        goal = f"put the {colour} ball in a box"
        actions = (
            f"take {other} ball",
            f"take {colour} ball",
            f"put {colour} ball in box {n % 3 + 1}",
        )
        possible = actions if listed else None
        yield Lesson(str(n), goal, "", (), view, actions[1], possible)
        past: Past = ((view, actions[1]),)
        yield Lesson(str(n), goal, "", past, f"{view} You hold it.", actions[2], possible)


def first(rule: Relevance, goal: str, past: Past, sight: str, possible: tuple[str, ...]) -> str:
    now = Situation(rule.vocabulary, goal, "", past, sight)
    return rule.rank(now, possible).ranked()[0][0]


VIEW = "You see a grey ball, a pink ball, and a box 2."
POSSIBLE = ("take grey ball", "put pink ball in box 2", "take pink ball")


def test_the_rule_holds_for_a_thing_never_met() -> None:
    rule = learn([*lessons()])
    goal = "put the pink ball in a box"
    assert first(rule, goal, (), VIEW, POSSIBLE) == "take pink ball"
    past: Past = ((VIEW, "take pink ball"),)
    assert first(rule, goal, past, f"{VIEW} You hold it.", POSSIBLE) == "put pink ball in box 2"


def test_a_number_decides_and_is_told() -> None:
    steps = [
        Lesson(str(n), "handle it", "", (), f'{{"price": {price}}}', action, None)
        for n, price in enumerate((10, 20, 30, 40, 60, 70, 80, 90))
        for action in ["refund" if price <= 50 else "escalate"]
    ]
    rule = learn(steps)
    for price, action in ((15, "refund"), (35, "refund"), (65, "escalate"), (85, "escalate")):
        now = Situation(rule.vocabulary, "handle it", "", (), f'{{"price": {price}}}')
        assert rule.rank(now, None).ranked()[0][0] == action
        other = {"refund": "escalate", "escalate": "refund"}[action]
        assert ("price ≤ 50" in rule.because(now, action, other)) == (action == "refund")


def test_what_failed_counts_against_its_action() -> None:
    steps = [
        Lesson(str(n), "open it", "", (), "A door.", action, ("push", "pull"), weight)
        for n in range(6)
        for action, weight in [("push", 1.0), ("pull", 1.0), ("pull", -1.0)]
    ]
    assert first(learn(steps), "open it", (), "A door.", ("pull", "push")) == "push"


def test_what_was_done_in_this_same_sight_is_not_done_again() -> None:
    rule = learn([*lessons()])
    past: Past = ((VIEW, "take pink ball"),) * 3
    assert first(rule, "put the pink ball in a box", past, VIEW, POSSIBLE) != "take pink ball"


def test_what_would_be_no_candidate_is_not_decided_right(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [*lessons(listed=False)]
    assert learn(steps).unlisted.right > 0.5
    monkeypatch.setattr("ldm.reason.candidates.MOST", 1)
    rule = learn(steps)
    assert rule.unlisted.right <= 0.5 < rule.left_out.right  # listed, it would be one


def test_a_thing_with_which_the_last_action_did_not_end_it_is_not_tried_again() -> None:
    actions = ("turn", "walk", "push")
    steps = [
        Lesson(f"{colour} {far}", "open the door", "", past, sight, action, actions)
        for colour in COLOURS
        for far in (2, 3)
        for sight, past, action in (
            (f"A {colour} box 1 step ahead", (), "turn"),
            (f"A {colour} door {far} steps ahead", (("", "turn"),), "walk"),
            (f"A {colour} door 1 step ahead", (("", "turn"), ("", "walk")), "push"),
        )
    ]
    rule = learn(steps)
    past: Past = (("", "turn"), ("A pink door 2 steps ahead", "walk"))
    door = "A pink door 1 step ahead"
    assert first(rule, "open the door", past, door, actions) == "push"
    past += ((door, "push"),)
    both = f"{door}, open\nA gold door 3 steps ahead"
    assert first(rule, "open the door", past, both, actions) == "walk"


def test_unknown_frames_come_last_unless_nothing_else_is_possible() -> None:
    rule = learn([*lessons()])
    now = Situation(rule.vocabulary, "put the pink ball in a box", "", (), VIEW)
    unknown, known = rule.logits(now, ("dance", "take grey ball"))
    assert unknown < known - 100
    assert abs(rule.logits(now, ("dance", "sing")).max()) < 100
    assert rule.logits(now, ()).shape == (0,)


def test_nothing_learnt_knows_nothing() -> None:
    for rule in (learn([]), Relevance()):
        assert not rule.rank(Situation(rule.vocabulary, "", "", (), ""), ("a", "b")).ranked()


def test_actions_of_one_form_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = learn([*lessons(listed=False)])
    now = Situation(rule.vocabulary, "put the pink ball in a box", "", (), VIEW)
    assert rule.form(now) == "take _"
    monkeypatch.setattr("ldm.reason.relevance.USED", 4)  # of too many, those of the most used form
    assert rule.form(now) == "put _ in _"


class TestCandidates:
    @staticmethod
    def of(sight: str, past: Past = (), goal: str = "") -> list[str]:
        steps = [*lessons(listed=False)]
        candidates = Candidates(dict.fromkeys(step.action for step in steps))
        return candidates.of(Situation(vocabulary_of(steps), goal, "", past, sight))

    def test_known_frames_are_filled_with_things_in_sight(self) -> None:
        actions = self.of("You see a red ball and a box 3.")
        assert {"take red ball"} <= {*actions}
        assert not any("blue" in action for action in actions)

    def test_actions_are_spelt_as_the_recorded_ones(self) -> None:
        assert {"take red ball"} <= {*self.of("RED BALL, to the left of a Box 3.")}

    def test_an_action_in_quotes_is_offered(self) -> None:
        assert "take blue lamp" in self.of("It's said: 'take blue lamp'.")

    def test_a_new_thing_of_the_goal_is_offered(self) -> None:
        assert "take pink ball" in self.of("You see a pink ball.", goal="put the pink ball away")


def test_equal_columns_are_learnt_as_one_with_the_same_result() -> None:
    steps = [*lessons()]
    vocabulary = vocabulary_of(steps)
    data = gather(steps, vocabulary, Candidates(step.action for step in steps))
    fit = Fit(data)
    weights = fit.weights()
    columns, each = fit.learnt(weights[:-1])
    assert fit.x.shape[1] < len(columns) / 2
    rule = Relevance(vocabulary, columns, each, (float(weights[-1]), 0.0, 9.0))
    of_rows = fit.logits(weights)
    for i, step in enumerate(steps):
        now = Situation(vocabulary, step.goal, step.kind, step.past, step.observation)
        actions = (step.action, *(a for a in step.possible or () if a != step.action))
        expected = of_rows[data.start[i] : data.ends[i]]
        actual = rule.logits(now, actions)
        # Features that tell no candidates of a step apart have no weight.
        np.testing.assert_allclose(actual - actual[0], expected - expected[0], atol=1e-4)


def test_confidence_is_how_often_left_out_steps_were_right() -> None:
    shares = np.linspace(0.0, 1.0, 600)
    right = (np.arange(600) % 10 < 10 * shares**2).astype(float)
    left_out = LeftOut.of(["a"] * 600, shares.tolist(), right.tolist())
    assert [*left_out.curve] == sorted(left_out.curve)
    assert [y for _, y in left_out.curve] == sorted(y for _, y in left_out.curve)
    assert left_out.confidence(0.5) == pytest.approx(0.25, abs=0.1)
    assert left_out.error < 0.035 < LeftOut.of(["a"] * 10, shares[:10].tolist(), [1.0] * 10).error
    assert left_out.right == pytest.approx(right.mean())
    assert sum(n for _, _, n in left_out.parts) == 600


def test_many_steps_calibrate_what_is_overconfident_and_a_few_only_a_little() -> None:
    shares = np.linspace(0.5, 1.0, 200).tolist()
    right = [float(i % 4 > 0) for i in range(200)]  # three of four, however sure
    left_out = LeftOut.of(["a", "b"] * 100, shares, right)
    assert left_out.confidence(0.95) < 0.85
    assert [(kind, n) for kind, n, _ in left_out.kinds] == [("a", 100), ("b", 100)]
    assert 0.7 < LeftOut.of(["a"] * 2, [0.7, 0.7], [1.0, 1.0]).confidence(0.7) < 0.85
    assert LeftOut().confidence(0.5) == 0.5


def learnt() -> str:
    """Return what the two kinds of lessons teach, in short."""
    rules = [learn([*lessons(listed=listed)]) for listed in (True, False)]
    content = b"".join(rule.columns.tobytes() + rule.weights.tobytes() for rule in rules)
    return f"{hashlib.sha256(content).hexdigest()} {[rule.actions for rule in rules]}"


@pytest.mark.process
def test_what_is_learnt_is_the_same_in_any_process() -> None:
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    code = "from tests.reason.test_relevance import learnt; print(learnt())"
    assert printed(code, seed=seed).strip() == learnt()


def test_the_order_of_episodes_steps_does_not_matter() -> None:
    steps = [*lessons()]
    mixed = [*steps[::2], *steps[1::2]]
    one, other = learn(steps), learn(mixed)
    np.testing.assert_array_equal(one.columns, other.columns)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)


def refunds(limit: int, numbers: range, *, dated: bool = True) -> Iterator[Lesson]:
    """Yield episodes in which what costs less than `limit` was to be refunded, some done wrong."""
    generator = random.Random(numbers.start)
    for n in numbers:
        price, refund = generator.randrange(200), generator.random() < 0.5
        weight = 1.0 if refund == (price < limit) else -0.25
        action = "refund" if refund else "refuse"
        time = float(n + 1) if dated else 0.0
        yield Lesson(str(n), "answer", "", (), f'{{"price": {price}}}', action, None, weight, time)


@pytest.mark.parametrize(("dated", "expected"), [(True, "refund"), (False, "refuse")])
def test_when_a_rule_changes_newer_episodes_count_more(dated: bool, expected: str) -> None:
    past = list(refunds(50, range(200), dated=dated))
    after = list(refunds(120, range(200, 260), dated=dated))
    rule = learn([*past, *after], calibrated=False)
    now = rule.situation("answer", "", (), '{"price": 90}')
    assert rule.rank(now, ["refund", "refuse"]).ranked()[0][0] == expected


def test_a_memory_too_large_is_learnt_from_its_newest_episodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old, new = list(refunds(50, range(200))), list(refunds(120, range(200, 600)))
    whole = gather(new, vocabulary_of(new), Candidates(("refund", "refuse")))
    monkeypatch.setattr("ldm.reason.relevance.FEATURES", len(whole.features) // 2)
    monkeypatch.setattr("ldm.reason.relevance.FEW", 100)
    rule = learn([*old, *new], calibrated=False)
    now = rule.situation("answer", "", (), '{"price": 90}')
    assert rule.rank(now, ["refund", "refuse"]).ranked()[0][0] == "refund"
    episodes = Counter(one.episode for one in [*old, *new])
    times = {one.episode: one.time for one in [*old, *new]}
    assert newest(episodes, times, 400) == {one.episode for one in new}
    undated = newest(episodes, {}, 400)
    assert (len(undated), undated) == (400, newest(episodes, {}, 400))
    assert newest({"a": 9}, {}, 3) == {"a"}


def test_nothing_is_done_in_the_same_sight_for_ever() -> None:
    again = [
        Lesson(str(n), "rest", "", (("a room", "wait"),) * n, "a room", "wait", ("wait", "leave"))
        for n in (0, 1)
        for _ in range(30)
    ]
    rule = learn(again, calibrated=False)
    firsts = []
    for times in range(5):
        now = rule.situation("rest", "", (("a room", "wait"),) * times, "a room")
        firsts.append(rule.rank(now, ["wait", "leave"]).ranked()[0][0])
    assert firsts == ["wait"] * 3 + ["leave"] * 2


def test_as_long_as_nothing_changes_old_episodes_count_as_new_ones() -> None:
    dated, undated = (list(refunds(50, range(200), dated=one)) for one in (True, False))
    assert learn(dated, calibrated=False).weights.tobytes() == (
        learn(undated, calibrated=False).weights.tobytes()
    )
