"""Credit for key steps: what earns more than its siblings, here and on goals like it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ldm.explore import ExploredGoal
from ldm.explore.candidates import improvements
from ldm.explore.confirmation import (
    SIBLINGS,
    Check,
    Checked,
    Confirmation,
    corresponding_step,
    likeness,
)
from ldm.explore.refine import Explorer
from ldm.explore.trials import Trials
from ldm.memory import tuples_of
from ldm.reason.offline import OfflineReasoner
from ldm.run.engine import working
from ldm.runs import Manifest, Run, create
from ldm.types import StateActionTuple, Step, Task, Trajectory
from tests.embedder import BagOfWords
from tests.explore.test_gate import KNOWN, SHED, Builder, place
from tests.toy import ToyEnv, expert_trajectories

__all__ = ["place"]


@pytest.fixture(scope="module")
def explored(place: Path) -> list[ExploredGoal]:
    work = Explorer(Builder(str(place), explorer="best-first")())
    tasks = ToyEnv(SHED).tasks("train")[KNOWN:]
    return [work((number, task)) for number, task in enumerate(tasks)]


@pytest.fixture
def trials(tmp_path: Path, place: Path) -> Iterator[Trials]:
    run: Run = create(tmp_path / "runs", ["refine"], Manifest("refine", {}, {}))
    with working(run, Builder(str(place))) as session:
        yield Trials(session.stage)


def checked(trajectory: str, score: float, *others: float) -> Checked:
    return Checked(0, "t", trajectory, "do", score, tuple(("else", other) for other in others))


class TestAKeyStep:
    OWN = Check(0, Task("t", "toy", "train", "g", "k"), key=None)  # type: ignore[arg-type]
    OTHER = replace(OWN, ground=Trajectory(OWN.task, "", (), 0.0, False, "agent"))

    def test_that_earns_more_than_a_sibling_and_does_no_harm_elsewhere_is_confirmed(self) -> None:
        results = [checked("a", 1.0, 0.2, 1.0), checked("a", 0.8, 0.5), checked("a", 0.4, 0.5)]
        one = Confirmation.of(zip([self.OWN, self.OTHER, self.OTHER], results, strict=True))
        assert (one.won, one.lost, one.siblings, one.outdone) == (2, 1, 2, 1)
        assert one.gain == pytest.approx(0.1)
        assert not one.refused

    def test_that_earns_no_more_than_any_sibling_is_luck(self) -> None:
        one = Confirmation.of([(self.OWN, checked("a", 0.5, 0.5, 0.7))])
        assert one.refused == "its key step earns no more than 2 other actions in its place"

    def test_that_does_harm_on_goals_like_its_own_is_luck(self) -> None:
        results = [checked("a", 1.0, 0.0), checked("a", 0.0, 0.5)]
        one = Confirmation.of(zip([self.OWN, self.OTHER], results, strict=True))
        assert one.refused == "its key step, taken on goals like it, loses 0.500"

    def test_of_which_nothing_is_known_is_not_refused(self) -> None:
        assert not Confirmation.of([(self.OWN, Checked(0, "t", "a"))]).refused
        assert not Confirmation.of([]).refused


class TestAnImprovement:
    def test_has_the_key_step_that_its_tree_names(self, explored: list[ExploredGoal]) -> None:
        ways = {way.trajectory: way for way in improvements(explored)}
        trees = [tree for one in explored for tree in one.trees if tree.added]
        assert trees
        for tree in trees:
            way = ways[tree.added[0].tuple.trajectory_id]
            assert way.key.step == tree.key
            assert way.rows == tree.added


class TestChecks:
    def test_on_the_own_goal_roll_out_the_key_action_and_its_siblings(
        self, trials: Trials, explored: list[ExploredGoal]
    ) -> None:
        ways = improvements(explored)
        checks = [Check(n, way.task, way.key) for n, way in enumerate(ways)]
        results = trials.results("gate_key_steps", checks, Checked)
        assert not any(one.error for one in results)
        for way, one in zip(ways, results, strict=True):
            if one.others:
                assert one.action == way.key.action
                assert len(one.others) <= SIBLINGS
                assert way.key.action not in dict(one.others)
        assert any(Confirmation.of([pair]).outdone for pair in zip(checks, results, strict=True))

    def test_on_another_goal_take_the_same_action_where_it_looked_most_alike(
        self, trials: Trials, explored: list[ExploredGoal]
    ) -> None:
        task = explored[0].task
        opening = ToyEnv(SHED).reset(task).observation
        steps = (Step("go to sink", "You are at sink."), Step("go to shelf 1", "You are there."))
        ground = Trajectory(task, opening, steps, 0.0, False, "agent")
        key = _tuple(opening.replace("shed", "barn"), "go to shelf 1")
        (one,) = trials.results("checks", [Check(0, task, key, ground)], Checked)
        assert not one.error
        assert one.action.startswith("go to shelf")
        assert one.others == (("go to sink", 0.0),)

    def test_that_would_do_what_was_done_say_nothing(
        self, trials: Trials, explored: list[ExploredGoal]
    ) -> None:
        task = explored[0].task
        opening = ToyEnv(SHED).reset(task).observation
        ground = Trajectory(task, opening, (Step("go to sink", ""),), 0.0, False, "agent")
        key = _tuple(opening, "go to sink")
        (one,) = trials.results("checks", [Check(0, task, key, ground)], Checked)
        assert (one.action, one.others) == ("", ())

    def test_that_fail_say_nothing_and_the_others_go_on(
        self, trials: Trials, explored: list[ExploredGoal]
    ) -> None:
        task = explored[0].task
        way = improvements(explored)[0]
        nowhere = Trajectory(task, "", (), 0.0, False, "agent")
        checks = [Check(0, task, way.key, nowhere), Check(1, way.task, way.key)]
        broken, sound = trials.results("checks", checks, Checked)
        assert "ValueError" in broken.error
        assert not sound.error


def test_the_corresponding_step_is_the_one_before_which_most_words_are_the_same() -> None:
    steps = (Step("open door", "The door is open."), Step("enter", "A room with a red lamp."))
    ground = Trajectory(TestAKeyStep.OWN.task, "A closed door.", steps, 0.0, False, "agent")
    assert corresponding_step(ground, "the door is open.") == 1
    assert corresponding_step(ground, "a closed gate") == 0


def test_likeness_is_the_share_of_common_words() -> None:
    assert likeness("a red hat", "A red coat") == pytest.approx(2 / 4)
    assert likeness("", "") == 0.0


def _tuple(observation: str, action: str) -> StateActionTuple:
    (episode,) = expert_trajectories(options=replace(SHED, tasks=1))
    first = tuples_of(episode, OfflineReasoner(BagOfWords()), 1)[0]
    return replace(first, observation=observation, action=action, source="elsewhere")
