"""Refinement: what is explored, what is remembered of it, and what the memory is worth then."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldm.errors import BudgetSpent
from ldm.explore.refine import ExplorationSetup, ExploredGoal, Explorer, RefineOptions, Tree
from ldm.explore.tree import path_to
from ldm.memory import FormationOptions, Memory, build, extend, generations
from ldm.memory.index import Generation, IndexedTuple
from ldm.policy import Policy, PolicyOptions
from ldm.reason import Agreement, Process, State
from ldm.reason.offline import OfflineReasoner
from ldm.reason.relevance import Relevance
from ldm.types import Task
from tests.embedder import BagOfWords
from tests.explore.conftest import DEPTH, KNOWN, SHED, given, opened, solved
from tests.reason.scripted import Contrary
from tests.toy import EchoEnv, EchoOptions, ToyEnv, expert_trajectories, record


def explorer(
    memory: Memory, env: Any = None, reasoner: Any = None, index: Any = "embedding", **options: Any
) -> Explorer:
    reasoner = reasoner or OfflineReasoner(BagOfWords())
    policy = Policy(memory, reasoner, PolicyOptions(index=index))
    chosen = RefineOptions(**{"depth": DEPTH, **options})
    return Explorer(ExplorationSetup(env or ToyEnv(SHED), memory, reasoner, policy, chosen))


def new_goals() -> list[Task]:
    return list(ToyEnv(SHED).tasks("train"))[KNOWN:]


@pytest.fixture(scope="module")
def explored(place: Path) -> list[ExploredGoal]:
    work = explorer(opened(place))
    return [work((number, task)) for number, task in enumerate(new_goals())]


@pytest.fixture(scope="module")
def improved(explored: list[ExploredGoal]) -> list[tuple[Task, Tree]]:
    return [(one.task, tree) for one in explored for tree in one.trees if tree.improved]


class TestAGoal:
    def test_that_the_ground_process_solves_is_not_explored(
        self, explored: list[ExploredGoal]
    ) -> None:
        solved = [tree for one in explored for tree in one.trees if tree.ground.success]
        assert solved
        assert all(not tree.nodes and not tree.added and tree.best == -1 for tree in solved)

    def test_adds_the_steps_of_the_best_process_from_the_key_step_on(
        self, improved: list[tuple[Task, Tree]]
    ) -> None:
        assert len(improved) >= 5
        for task, tree in improved:
            path = path_to(tree.nodes, tree.nodes[tree.best])[1:]
            ground = [step.action for step in tree.ground.steps]
            shared = [step.action for step in tree.ground.steps[: tree.key]]
            assert [node.action for node in path[: tree.key]] == shared
            assert path[tree.key].action != ground[tree.key]
            tuples = [row.tuple for row in tree.added]
            assert [t.action for t in tuples] == [node.action for node in path[tree.key :]]
            assert [t.step for t in tuples] == list(range(tree.key, len(path)))
            assert {(t.goal, t.origin, t.generation, t.source) for t in tuples} == {
                (task.goal, "explored", 1, task.leak_key)
            }

    def test_computes_their_histories_from_the_whole_process(
        self, improved: list[tuple[Task, Tree]]
    ) -> None:
        for _, tree in improved:
            path = path_to(tree.nodes, tree.nodes[tree.best])
            for row in tree.added:
                actions = tuple(node.action for node in path[1 : row.tuple.step + 1])
                assert row.tuple.history.actions == actions

    def test_adds_them_to_the_batch_that_supplied_most_recalls(
        self, place: Path, tmp_path: Path
    ) -> None:
        options = FormationOptions(batch_size=1)
        build(str(tmp_path), given(), BagOfWords(), OfflineReasoner, options=options)
        work = explorer(opened(tmp_path))
        trees = [tree for task in new_goals()[:16] for tree in work.explore(task) if tree.improved]
        assert trees
        for tree in trees:
            counts = Counter[str]()
            for row in tree.added:
                now = State(row.tuple.goal, row.tuple.history, row.tuple.observation)
                recalls = work.setup.policy.recall(now, tree.batches)
                counts.update(recall.batch for recall in recalls)
            assert counts[tree.into] == max(counts.values())
            assert {row.batch for row in tree.added} == {tree.into}

    def test_that_fails_is_recorded_with_its_error_and_the_others_go_on(self, place: Path) -> None:
        broken, sound = new_goals()[:2]
        work = explorer(opened(place), ToyEnv(replace(SHED, broken=broken.id)))
        first, second = work((0, broken)), work((1, sound))
        assert "the shed has collapsed" in first.error
        assert (first.trees, first.added) == ((), ())
        assert not second.error

    def test_is_not_at_fault_where_the_run_was_stopped(self, place: Path) -> None:
        class Spent(OfflineReasoner):
            def taught(self, _: Any) -> Spent:
                return self

            def act(self, *_: Any) -> Any:
                raise BudgetSpent("All is spent.", "Resume.")

        work = explorer(opened(place), reasoner=Spent(BagOfWords()))
        with pytest.raises(BudgetSpent):
            work((0, new_goals()[0]))


class TestOptions:
    def test_per_batch_explores_and_enriches_each_batch_by_itself(self, tmp_path: Path) -> None:
        options = FormationOptions(batch_size=1)
        build(str(tmp_path), given(), BagOfWords(), OfflineReasoner, options=options)
        memory = opened(tmp_path)
        work = explorer(memory, decision="per-batch")
        for task in new_goals()[:8]:
            trees = work.explore(task)
            assert [tree.batches for tree in trees] == [(b,) for b in memory.batches_for(task.goal)]
            for tree in trees:
                assert {row.batch for row in tree.added} <= set(tree.batches)

    def test_without_the_concentration_test_more_is_branched_on(self, tmp_path: Path) -> None:
        goals = new_goals()[2:14]
        episodes = expert_trajectories(options=replace(SHED, tasks=2 * KNOWN))
        build(str(tmp_path), episodes, BagOfWords(), OfflineReasoner)

        def nodes(**options: Any) -> int:
            work = explorer(opened(tmp_path), **options)
            return sum(len(work.explore(task)[0].nodes) for task in goals)

        assert nodes(concentration=2.0) > nodes(concentration=0.1)


class TestTheExplorer:
    @pytest.mark.parametrize("name", ["tree", "best-first"])
    def test_can_be_chosen_and_repeats_itself(self, name: str, place: Path) -> None:
        goals = new_goals()[:6]
        first, again = (
            [explorer(opened(place), explorer=name).explore(goal) for goal in goals]
            for _ in range(2)
        )
        assert first == again
        assert any(tree.nodes for trees in first for tree in trees)

    @pytest.mark.slow
    def test_that_is_best_first_solves_more_than_the_tree(self, place: Path) -> None:
        def solved(**options: Any) -> int:
            work = explorer(opened(place), **options)
            trees = [tree for goal in new_goals() for tree in work.explore(goal)]
            return sum(tree.best_score >= 1 for tree in trees)

        assert solved(explorer="best-first", budget=300) > solved(explorer="tree")


class Cautious(OfflineReasoner):
    """A reasoner that agrees as it is told, and names a key step beyond the end."""

    agreed = Agreement("", 0.0, 0)

    def taught(self, relevance: Relevance) -> Cautious:
        taught = Cautious(BagOfWords(), relevance)
        taught.agreed = self.agreed
        return taught

    def agree(self, *_: Any, **__: Any) -> Agreement:
        return self.agreed

    def compare(self, best: Process, ground: Process) -> int:
        return 99


class TestPlacing:
    def added(self, place: Path, index: str) -> list[IndexedTuple]:
        work = explorer(opened(place), reasoner=Contrary(), index=index)
        return [row for task in new_goals() for tree in work.explore(task) for row in tree.added]

    @pytest.mark.slow
    def test_is_done_by_the_reasoner_where_it_classifies_states(self, place: Path) -> None:
        rows = self.added(place, "llm")
        assert rows
        types = {batch.id: batch.goal_types for batch in opened(place).batches}
        for row in rows:
            assert row.goal_type == len(types[row.batch]) - 1
            below = types[row.batch][row.goal_type].observation_types
            assert row.observation_type == len(below) - 1

    def test_is_done_by_the_nearest_type_otherwise(self, place: Path) -> None:
        rows = self.added(place, "embedding")
        for row in rows:
            (placed,) = opened(place).place(row.batch, [row.tuple])
            assert placed == row
        types = {batch.id: batch.goal_types for batch in opened(place).batches}
        last = [
            len(types[r.batch][r.goal_type].observation_types) - 1 == r.observation_type
            for r in rows
        ]
        assert not all(last)


class TestTheConcentrationTest:
    def branches(self, place: Path, share: float, recalls: int) -> int:
        reasoner = Cautious(BagOfWords())
        task = next(t for t in new_goals() if explorer(opened(place)).explore(t)[0].nodes)
        action = ToyEnv(SHED).reset(task).admissible
        assert action
        reasoner.agreed = Agreement(action[0], share, recalls)
        (tree,) = explorer(opened(place), reasoner=reasoner, depth=1).explore(task)
        return len(tree.nodes) - 1

    def test_takes_the_majority_alone_from_the_threshold_on(self, place: Path) -> None:
        assert self.branches(place, 0.8, 2) == 1
        assert self.branches(place, 0.79, 2) > 1

    def test_needs_two_recalls_that_agree(self, place: Path) -> None:
        assert self.branches(place, 1.0, 1) > 1

    def test_a_key_step_that_does_not_exist_is_the_last_one(self, place: Path) -> None:
        work = explorer(opened(place), reasoner=Cautious(BagOfWords()))
        trees = [tree for task in new_goals()[:16] for tree in work.explore(task) if tree.improved]
        assert trees
        assert all(tree.key == tree.nodes[tree.best].depth - 1 for tree in trees)
        assert all(len(tree.added) == 1 for tree in trees)


class TestTheNextGeneration:
    def made(self, place: Path, explored: list[ExploredGoal]) -> Generation:
        base = generations(str(place), "toy")[0]
        rows = [row for one in explored for row in one.added]
        tasks = [one.task.id for one in explored]
        settings = {"width": "4"}
        return extend(str(place), base, rows, BagOfWords(), tasks=tasks, settings=settings)

    @pytest.fixture
    def richer(self, tmp_path: Path, explored: list[ExploredGoal]) -> Path:
        build(str(tmp_path), given(), BagOfWords(), OfflineReasoner)
        self.made(tmp_path, explored)
        return tmp_path

    def test_solves_more_than_the_one_before(self, richer: Path) -> None:
        assert solved(opened(richer, 1)) > solved(opened(richer, 0))

    def test_knows_what_was_explored_for_it(
        self, richer: Path, explored: list[ExploredGoal]
    ) -> None:
        first, second = generations(str(richer), "toy")
        assert (first.origin, first.tasks) == ("formed", ())
        assert second.origin == "refined"
        assert second.tasks == tuple(sorted(one.task.id for one in explored))
        assert second.tuples == first.tuples + sum(len(one.added) for one in explored)

    def test_made_twice_is_there_once(self, richer: Path, explored: list[ExploredGoal]) -> None:
        before = generations(str(richer), "toy")
        again = self.made(richer, explored)
        assert (again, generations(str(richer), "toy")) == (before[1], before)

    def test_does_not_repeat_what_the_memory_holds(self, richer: Path) -> None:
        base = generations(str(richer), "toy")[1]
        rows = [*opened(richer).rows]
        created = extend(str(richer), base, rows, BagOfWords(), tasks=(), settings={})
        assert (created.number, created.tuples) == (2, base.tuples)
        assert [*opened(richer).rows] == rows


def test_an_environment_without_forks_and_without_admissible_actions_is_explored(
    tmp_path: Path,
) -> None:
    env = EchoEnv(EchoOptions(tasks=8))
    tasks = env.tasks("train")
    recorded = [record(env, task, actions_of(env, task)) for task in tasks[:2]]
    build(str(tmp_path), recorded, BagOfWords(), OfflineReasoner)
    memory = Memory.open(str(tmp_path), "echo", embedder=BagOfWords())
    work = explorer(memory, env, depth=4, concentration=2.0)
    explored = [work((number, task)) for number, task in enumerate(tasks[2:])]
    assert not [one.error for one in explored if one.error]
    assert all(tree.nodes for one in explored for tree in one.trees)


def actions_of(env: EchoEnv, task: Task) -> list[str]:
    """The right answers: each word backwards."""
    actions: list[str] = []
    now = env.reset(task)
    while not now.done:
        word = now.observation.rstrip(".").rsplit(" ", 1)[-1]
        actions.append(f"say {word[::-1]}")
        now = env.step(actions[-1])
    return actions
