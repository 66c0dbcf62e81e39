"""Whole trajectories of a memory, nearest goal first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ldm.memory import IndexedTuple, Memory, build, tuples_of
from ldm.reason.offline import OfflineReasoner
from ldm.types import Trajectory
from tests.embedder import BagOfWords
from tests.toy import ToyEnv, expert_trajectories

RECORDED = {one.id: one for one in expert_trajectories()}
GOALS = {one.task.goal for one in RECORDED.values()}


@pytest.fixture(scope="module")
def memory(toy: Path) -> Memory:
    return Memory.open(str(toy), "toy", embedder=BagOfWords())


def forgetful(trajectory: Trajectory) -> Trajectory:
    """A trajectory without what the last action answered, which no tuple holds."""
    *others, last = trajectory.steps
    steps = [*others, replace(last, observation="")]
    return replace(trajectory, steps=tuple(replace(s, reward=0.0) for s in steps))


def practice(memory: Memory, trajectory: Trajectory) -> list[IndexedTuple]:
    """The tuples of a trajectory as a refinement places them."""
    tuples = tuples_of(trajectory, OfflineReasoner(BagOfWords()), 1)
    batch = next(b.id for b in memory.batches if b.kind == trajectory.task.kind)
    return list(memory.place(batch, tuples))


class TestNearest:
    def test_are_the_recorded_trajectories_whole(self, memory: Memory) -> None:
        for one in memory.whole_near("put the plum in the basket"):
            recorded = forgetful(RECORDED[one.id])
            assert replace(one.trajectory.task, source="") == recorded.task
            assert replace(one.trajectory, task=recorded.task) == recorded

    def test_there_is_one_for_each_goal_and_the_shortest(self, memory: Memory) -> None:
        near = [one.trajectory for one in memory.whole_near("put the fig in the basket")]
        assert len(near) == len(GOALS) < len(RECORDED)
        assert {one.task.goal for one in near} == GOALS
        for one in near:
            same = [o for o in RECORDED.values() if o.task.goal == one.task.goal]
            assert len(one.steps) == min(len(other.steps) for other in same)

    def test_does_not_depend_on_the_order_of_the_build(
        self, memory: Memory, tmp_path: Path
    ) -> None:
        build(str(tmp_path), expert_trajectories()[::-1], BagOfWords(), OfflineReasoner)
        other = Memory.open(str(tmp_path), "toy", embedder=BagOfWords())
        goal = "put a washed pear in the basket"
        assert list(other.whole_near(goal)) == list(memory.whole_near(goal))

    def test_what_is_hidden_in_part_is_not_shown(self, memory: Memory) -> None:
        goal = "put the fig in the basket"
        first = next(memory.whole_near(goal))
        a_tuple = next(r.tuple.id for r in memory.rows if r.tuple.trajectory_id == first.id)
        ids = [one.id for one in memory.without([a_tuple]).whole_near(goal)]
        assert first.id not in ids
        assert ids != []


class TestPractice:
    def test_joins_where_it_earned_everything(self, memory: Memory) -> None:
        task = ToyEnv().tasks("test")[0]
        goal = task.goal.replace("the", "one")
        task = replace(task, goal=goal)
        (expert,) = [one for one in expert_trajectories("test") if one.task.id == task.id]
        solved = replace(expert, task=task, origin="agent")
        more = memory.with_rows(practice(memory, solved))
        assert next(more.whole_near(goal)).trajectory.steps == forgetful(solved).steps
