"""Trajectories become tuples, and are cut into batches (LDM² §3.1–3.2)."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ldm.envs.metadata import BATCH_SIZE, batch_size
from ldm.memory import FormationOptions, build
from ldm.memory.formation import form_batch, plan_batches, tuples_of
from ldm.reason import PAST_OBSERVATION, Clustering
from ldm.reason.offline import OfflineReasoner
from ldm.types import Outcome, Step, Task, Trajectory
from tests.embedder import BagOfWords
from tests.toy import ToyOptions, expert_trajectories

REASONER = OfflineReasoner(BagOfWords())


def trajectory(number: int = 0, kind: str = "heat", steps: Sequence[Step] = ()) -> Trajectory:
    task = Task(f"train/{number}", "kitchen", "train", f"heat egg {number}", kind, source="game 1")
    steps = tuple(steps) or (Step("go to stove 1", "You see a stove."), Step("heat egg", "Done."))
    return Trajectory(task, "You are in a kitchen.", steps, 1.0, True, "human")


class TestTuples:
    def test_hold_the_observation_before_the_action(self) -> None:
        first, second = tuples_of(trajectory(), REASONER, 0)
        assert (first.observation, first.action) == ("You are in a kitchen.", "go to stove 1")
        assert (second.observation, second.action) == ("You see a stove.", "heat egg")
        assert first.history.past == ()
        assert second.history.past == (("You are in a kitchen.", "go to stove 1"),)

    def test_a_think_step_gives_none_and_leaves_no_trace(self) -> None:
        thought = Step("", "", thought="Where is the stove?")
        one, two = trajectory().steps
        with_thoughts = trajectory(steps=[thought, one, thought, two, thought])
        tuples = tuples_of(with_thoughts, REASONER, 0)
        plain = tuples_of(trajectory(), REASONER, 0)
        assert [replace(one, trajectory_id="") for one in tuples] == [
            replace(one, trajectory_id="") for one in plain
        ]

    def test_know_where_they_come_from(self) -> None:
        source = trajectory(3)
        second = tuples_of(source, REASONER, generation=2)[1]
        assert (second.env, second.split, second.task_id) == ("kitchen", "train", "train/3")
        assert (second.kind, second.source, second.origin) == ("heat", "game 1", "human")
        assert (second.trajectory_id, second.step, second.generation) == (source.id, 1, 2)


class TestHistory:
    def test_tells_what_the_reasoner_makes_of_the_past(self) -> None:
        steps = [Step("go to stove 1", "You see a stove."), Step("take egg 1", "You have it.")]
        history = tuples_of(trajectory(steps=steps), REASONER, 0)[1].history
        goal = "heat egg 0"
        assert history.past == (("You are in a kitchen.", "go to stove 1"),)
        notes = REASONER.notes(goal, history.past)
        assert (history.assessment, history.summary) == (notes.assessment, notes.summary)

    def test_shortens_long_observations(self) -> None:
        steps = [Step("click[x]", "page " * 1_000), Step("click[y]", "")]
        opening, *_ = tuples_of(trajectory(steps=[*steps, Step("click[z]", "")]), REASONER, 0)[2:]
        assert len(opening.history.past[1][0]) == PAST_OBSERVATION


class TestCutting:
    def test_batches_are_of_about_the_size_asked_for(self) -> None:
        for count in (1, 9, 10, 11, 21, 40):
            options = FormationOptions(batch_size=10)
            plans = plan_batches([trajectory(n) for n in range(count)], options)
            sizes = [*map(len, plans.values())]
            assert sum(sizes) == count
            assert len(sizes) == -(-count // 10)
            assert max(sizes) <= 10
            assert max(sizes) - min(sizes) <= 1

    def test_the_papers_sizes_are_the_defaults(self) -> None:
        assert FormationOptions().batch_size == BATCH_SIZE == 50
        assert batch_size("alfworld") == 50
        assert batch_size("webshop") == 100
        plans = plan_batches([trajectory(n) for n in range(200)], FormationOptions())
        assert [*plans] == ["heat-1", "heat-2", "heat-3", "heat-4"]

    def test_every_trajectory_is_in_one_batch_of_its_kind(self) -> None:
        trajectories = [trajectory(n, kind) for n in range(15) for kind in ("heat", "cool")]
        plans = plan_batches(trajectories, FormationOptions(batch_size=4))
        planned = [(one.id, name[:4]) for name, members in plans.items() for one in members]
        assert sorted(planned) == sorted((t.id, t.task.kind) for t in trajectories)

    def test_numbering_goes_on_behind_what_is_taken(self) -> None:
        trajectories = [trajectory(n) for n in range(6)]
        options = FormationOptions(batch_size=2)
        plans = plan_batches(trajectories, options, existing=["heat-1", "heat-3", "cool-2"])
        assert [*plans] == ["heat-2", "heat-4", "heat-5"]

    def test_no_two_batches_share_an_id_whatever_the_kinds_are_called(self) -> None:
        trajectories = [trajectory(n, kind) for n in range(4) for kind in ("", "mixed", "a", "a-1")]
        plans = plan_batches(trajectories, FormationOptions(batch_size=2))
        assert sum(map(len, plans.values())) == len(trajectories)


class Clusters(OfflineReasoner):
    """A reasoner with a given clustering of observations."""

    def __init__(self, clustering: Clustering) -> None:
        super().__init__(BagOfWords())
        self._clustering = clustering

    def cluster_observations(self, observations: Sequence[str]) -> Clustering:
        return self._clustering


class TestForming:
    def test_every_tuple_gets_a_cell_that_its_index_names(self) -> None:
        trajectories = expert_trajectories(options=ToyOptions(tasks=24))
        for name, members in plan_batches(trajectories, FormationOptions()).items():
            index, rows = form_batch(name, members, REASONER, 0)
            assert len(rows) == sum(len(t.steps) for t in members)
            for row in rows:
                below = index.goal_types[row.goal_type].observation_types
                assert below[row.observation_type]
                assert row.batch == index.id == name

    def test_equal_goals_share_a_type_and_equal_observations_within_it_too(self) -> None:
        trajectories = expert_trajectories(options=ToyOptions(tasks=24))
        for plan in plan_batches(trajectories, FormationOptions()).items():
            _, rows = form_batch(*plan, REASONER, 0)
            goals = {(r.tuple.goal, r.goal_type) for r in rows}
            assert len(goals) == len({goal for goal, _ in goals})
            cells = {(r.goal_type, r.tuple.observation, r.observation_type) for r in rows}
            assert len(cells) == len({cell[:2] for cell in cells})

    def test_there_are_several_types_where_there_is_variety(self) -> None:
        trajectories = expert_trajectories(options=ToyOptions(tasks=40))
        for plan in plan_batches(trajectories, FormationOptions()).items():
            index, _ = form_batch(*plan, REASONER, 0)
            assert len(index.goal_types) > 1

    def test_a_type_without_members_does_not_come_into_being(self) -> None:
        clusters = Clusters(Clustering(("a", "b", "c"), (2, 0)))
        index, rows = form_batch("heat-1", [trajectory()], clusters, 0)
        assert [g.observation_types for g in index.goal_types] == [("a", "c")]
        assert sorted(row.observation_type for row in rows) == [0, 1]


class TestOutcome:
    def test_is_the_score_where_rewards_were_not_recorded(self) -> None:
        failed = replace(trajectory(), score=0.5, success=False)
        assert [t.outcome for t in tuples_of(failed, REASONER, 0)] == [Outcome(0.5, 0.5)] * 2

    def test_is_what_was_earned_from_the_step_on(self) -> None:
        steps = (Step("a", "1", 0.25), Step("", ""), Step("b", "2", 0.5), Step("c", "3"))
        one = replace(trajectory(steps=steps), score=0.75)
        values = [t.outcome and t.outcome.value for t in tuples_of(one, REASONER, 0)]
        assert values == [0.75, 0.5, 0.0]

    def test_names_the_advantage_of_exploration(self) -> None:
        explored = tuples_of(trajectory(), REASONER, 1, 1, advantage=0.5)
        assert [t.outcome for t in explored] == [Outcome(1.0, 1.0, 0.5)]


@pytest.mark.slow
def test_its_work_grows_with_an_episode_s_length_and_not_with_its_square(tmp_path: Path) -> None:
    (base, *_) = expert_trajectories()

    def calls(length: int) -> int:
        """How many functions, Python's own included, are called to build the memory."""
        steps = (Step(f"go to desk {i}", f"You see a mug {i}. " * 5) for i in range(length))
        episode, count = replace(base, steps=tuple(steps)), 0

        def called(frame: object, event: str, arg: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(called)
        try:
            build(str(tmp_path / str(length)), [episode], BagOfWords(), OfflineReasoner)
        finally:
            sys.setprofile(before)
        return count

    calls(10)  # what is imported only now is called once
    first, second, third = calls(100), calls(200), calls(400)
    assert third - second < 2.7 * (second - first)  # linear is 2, the square 4
