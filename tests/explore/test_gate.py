"""The gate: what was learnt on training goals is played there before it joins the memory."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import pytest

from ldm import records
from ldm.agents import Resources
from ldm.agents.ldm import LdmAgent, LdmOptions
from ldm.episode import run_episode
from ldm.errors import ForkUnsupported
from ldm.explore import (
    ExplorationSetup,
    ExploredGoal,
    GateOptions,
    RefineOptions,
    Tree,
    Verdict,
    judge,
)
from ldm.explore.candidates import Candidates, collect
from ldm.explore.gate import ALONE, PRACTICE
from ldm.explore.judgements import Comparison
from ldm.explore.refine import Explorer
from ldm.explore.trials import Played, Trials
from ldm.memory import FormationOptions, Memory, build, extend, generations
from ldm.policy import Policy, PolicyOptions
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import PromptedReasoner
from ldm.reason.voting import NEARBY
from ldm.run.engine import working
from ldm.runs import Manifest, Run, create
from ldm.types import FULL_OUTCOME, Task, Trajectory
from tests.embedder import BagOfWords
from tests.reason.scripted import Reply, Scripted
from tests.toy import ToyEnv, ToyOptions, expert_trajectories, record

SHED = ToyOptions(tasks=28, shelves=8)
KNOWN = 4
DEPTH = 12
FORMATION = FormationOptions()


class Uncopied(ToyEnv):
    """A shed that cannot be forked."""

    def fork(self) -> ToyEnv:
        raise ForkUnsupported("This shed cannot be copied.", "Replay the way.")


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds what goals are explored and judged with.

    scripted: whether a model decides, which always takes the first suggestion of the vote.
    """

    place: str
    broken: str = ""
    forks: bool = True
    decision: Literal["pooled", "per-batch"] = "pooled"
    explorer: Literal["tree", "best-first"] = "tree"
    scripted: bool = False

    def __call__(self) -> ExplorationSetup:
        memory = Memory.open(self.place, "toy", embedder=BagOfWords())
        env = (ToyEnv if self.forks else Uncopied)(replace(SHED, broken=self.broken))
        offline = OfflineReasoner(BagOfWords())
        options = PolicyOptions()
        if self.scripted:
            options = PolicyOptions(consult="unsure", certainty=1.0, consult_share=1.0)
        reasoner = (
            PromptedReasoner(Scripted(follow), env.card, offline, BagOfWords(), options.prompted())
            if self.scripted
            else offline
        )
        policy = Policy(memory, reasoner, options)
        chosen = RefineOptions(depth=DEPTH, decision=self.decision, explorer=self.explorer)
        return ExplorationSetup(env, memory, reasoner, policy, chosen)


def follow(question: str) -> Reply:
    """Take the first suggestion of the vote; name several actions with equal confidence."""
    if "Name its" in question:
        return {"sub_goals": ["find it", "put it there"]}
    notes = {"held": "", "complete": 0}
    suggested = re.findall(r"^\d+\. (.*) \(\d+ %", question, re.MULTILINE)
    actions = [{"action": action, "confidence": 0.5} for action in suggested]
    return {**notes, "choice": 1, "actions": actions or [{"action": "wait", "confidence": 1.0}]}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of four episodes; leave it as it is."""
    place = tmp_path_factory.mktemp("memory")
    build(
        str(place),
        expert_trajectories(options=replace(SHED, tasks=KNOWN)),
        BagOfWords(),
        OfflineReasoner,
    )
    return place


@pytest.fixture(scope="module")
def explored(place: Path) -> list[ExploredGoal]:
    work = Explorer(Builder(str(place))())
    tasks = ToyEnv(SHED).tasks("train")[KNOWN:]
    return [work((number, task)) for number, task in enumerate(tasks)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return create(tmp_path / "runs", ["refine"], Manifest("refine", {}, {}))


def judged(
    run: Run, place: Path, explored: Sequence[ExploredGoal], broken: str = "", **options: Any
) -> Verdict:
    builder = Builder(str(place), broken)
    return judge_in(run, builder, explored, GateOptions(**options))


def judge_in(
    run: Run,
    builder: Builder,
    explored: Sequence[ExploredGoal],
    options: GateOptions,
    formation: FormationOptions = FORMATION,
) -> Verdict:
    """Judge in a run, as the engine does."""
    with working(run, builder) as session:
        return judge(session.stage, builder, explored, options, formation)


@pytest.fixture(scope="module")
def judged_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run in which all that was explored is judged; leave it as it is."""
    return create(tmp_path_factory.mktemp("judged"), ["refine"], Manifest("refine", {}, {}))


@pytest.fixture(scope="module")
def verdict(judged_run: Run, place: Path, explored: list[ExploredGoal]) -> Verdict:
    return judged(judged_run, place, explored)


def solved(memory: Memory) -> int:
    """Return how many unseen tasks the memory solves."""
    agent = LdmAgent(LdmOptions(budget=DEPTH), Resources(memory, OfflineReasoner(BagOfWords())))
    env = ToyEnv(SHED)
    return sum(run_episode(env, agent, task)[0].success for task in env.tasks("test"))


def misleading(task: Task) -> Trajectory:
    """Return an episode of `task` that claims the full score for looking at shelf 1 forever."""
    steps = record(ToyEnv(SHED), task, ["go to shelf 1", "go to shelf 2"] * 6).steps
    last = replace(steps[-1], reward=1.0)
    opening = ToyEnv(SHED).reset(task).observation
    return Trajectory(task, opening, (*steps[:-1], last), 1.0, True, "agent")


class TestPractice:
    def test_is_every_solved_episode_of_goals_that_the_memory_does_not_hold(
        self, place: Path, explored: list[ExploredGoal]
    ) -> None:
        present = Builder(str(place))().memory.batches
        learnt = collect(Builder(str(place)), explored, FORMATION)
        best = [max(tree.ground.score, tree.best_score) for one in explored for tree in one.trees]
        tasks = {one.task.id for one, score in zip(explored, best, strict=True) if score >= 1}
        assert tasks
        assert {row.tuple.task_id for row in learnt.practice} == tasks
        assert {batch.id for batch in learnt.batches} == {row.batch for row in learnt.practice}
        assert not {b.id for b in learnt.batches} & {b.id for b in present}
        assert all(
            row.tuple.outcome == FULL_OUTCOME
            for row in learnt.practice
            if row.tuple.origin == "agent"
        )

    def test_knows_how_much_more_it_earned_than_the_memory_alone(
        self, place: Path, explored: list[ExploredGoal]
    ) -> None:
        learnt = collect(Builder(str(place)), explored, FORMATION)
        grounds = {one.task.id: one.trees[0].ground.score for one in explored}
        assert {row.tuple.origin for row in learnt.practice} == {"agent", "explored"}
        for row in learnt.practice:
            assert row.tuple.outcome is not None
            assert row.tuple.outcome.advantage == pytest.approx(1 - grounds[row.tuple.task_id])

    def test_is_confirmed_by_the_goals_that_gained_and_followed_it(
        self, verdict: Verdict, explored: list[ExploredGoal]
    ) -> None:
        counts = {
            row.tuple.trajectory_id: row.tuple.outcome.confirmed
            for row in verdict.rows
            if row.tuple.outcome is not None
        }
        assert any(counts.values())
        gained = sum(gain > 0 for gain in verdict.gains)
        assert max(counts.values()) <= max(gained, len(explored))

    def test_may_be_what_exploration_solved_alone(
        self, place: Path, explored: list[ExploredGoal]
    ) -> None:
        found = collect(Builder(str(place)), explored, FORMATION, solved=False)
        assert {row.tuple.origin for row in found.practice} == {"explored"}

    def test_that_is_kept_makes_the_memory_solve_more(
        self, verdict: Verdict, place: Path, explored: list[ExploredGoal], tmp_path: Path
    ) -> None:
        assert any(one.learnt == "practice" and one.chosen for one in verdict.comparisons)
        copy = str(shutil.copytree(place, tmp_path / "m"))
        (base,) = generations(copy, "toy")
        new: dict[str, Any] = {"batches": verdict.batches, "tasks": (), "settings": {}}
        extend(copy, base, verdict.rows, BagOfWords(), **new)
        before, after = (
            Memory.open(copy, "toy", embedder=BagOfWords(), generation=number) for number in (0, 1)
        )
        assert solved(after) > solved(before)
        assert {batch.id for batch in after.batches} > {batch.id for batch in before.batches}
        assert not collect(Builder(copy), explored, FORMATION).practice

    @pytest.mark.slow
    def test_that_lowers_the_score_of_its_kind_is_refused_and_says_so(
        self, run: Run, place: Path, explored: list[ExploredGoal]
    ) -> None:
        fetch = [one for one in explored if one.task.kind == "fetch"]
        lies = [
            replace(one, trees=(Tree(tree.batches, misleading(one.task)),))
            for one in fetch
            for tree in one.trees
        ]
        honest = [one for one in explored if one.task.kind == "wash"]
        verdict = judged(run, place, [*lies, *honest])
        by_kind = {c.kind: c for c in verdict.comparisons if c.learnt == "practice"}
        assert by_kind["fetch"].difference < 0
        assert not by_kind["fetch"].chosen
        assert {row.tuple.kind for row in verdict.rows} <= {"wash"}
        refused = [one for one in verdict.judgements if one.refused]
        assert {one.task for one in refused} >= {one.task.id for one in lies}
        assert "goals of kind fetch lose" in refused[0].refused

    def test_that_helps_no_other_goal_is_recalled_for_hardly_any_but_its_own(
        self, run: Run, place: Path, explored: list[ExploredGoal], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        by_goal = {one.task.goal: one for one in explored if one.task.kind == "fetch"}
        goals = sorted(by_goal)

        def claimed(goal: str, score: float) -> ExploredGoal:
            task = by_goal[goal].task
            ground = replace(misleading(task), score=score, success=score == 1)
            return ExploredGoal(0, task, (Tree(("",), ground),))

        lies = [claimed(goal, 1.0) for goal in goals[::2]]
        unsolved = [claimed(goal, 0.0) for goal in goals[1::2]]
        nearest = 0.97  # more than any two of these goals have in common
        monkeypatch.setattr("ldm.explore.gate.NEARBY", nearest)
        verdict = judged(run, place, [*lies, *unsolved])
        everywhere, nearby = (c for c in verdict.comparisons if c.learnt == "practice")
        assert everywhere.difference < 0
        assert not everywhere.chosen
        assert (nearby.reach, nearby.difference, nearby.chosen) == (nearest, 0.0, True)
        assert {row.tuple.task_id for row in verdict.rows} == {one.task.id for one in lies}
        assert {row.reach for row in verdict.rows} == {nearest}
        assert not any(one.refused for one in verdict.judgements)


@pytest.fixture
def unpractised(monkeypatch: pytest.MonkeyPatch) -> None:
    """No episode is practice, and any goal may recall an improvement."""
    monkeypatch.setattr("ldm.explore.candidates.solution", lambda _: None)
    monkeypatch.setattr("ldm.explore.gate.NEARBY", 0.0)


class TestImprovements:
    @pytest.mark.usefixtures("unpractised")
    def test_that_do_harm_are_refused_alone_before_they_are_tried_together(
        self, run: Run, place: Path, explored: list[ExploredGoal], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A tuple that takes the basket for empty misleads every goal near its own."""
        setup = Builder(str(place))()
        goal = next(one for one in explored if one.added)
        row = goal.added[0]
        misled = replace(row.tuple, action="go to shelf 1", trajectory_id="bad")
        trees = [tree for one in explored for tree in one.trees]
        seen = {step.observation for tree in trees for step in tree.ground.steps}
        tuples = [replace(misled, observation=text, step=n) for n, text in enumerate(seen)]
        bad = tuple(setup.memory.place(row.batch, tuples))
        tree = replace(goal.trees[0], added=bad)
        poisoned = [replace(one, trees=(tree,)) if one is goal else one for one in explored]
        monkeypatch.setattr("ldm.explore.gate.NEIGHBOURS", 8)
        verdict = judged(run, place, poisoned)
        judgement = next(one for one in verdict.judgements if one.task == goal.task.id)
        assert judgement.losses > 0
        assert "goals like it lose" in judgement.refused
        assert goal.task.id not in {row.tuple.task_id for row in verdict.rows}

    @pytest.mark.slow
    def test_are_for_nearly_identical_goals_and_say_who_confirmed_them(
        self, run: Run, place: Path, explored: list[ExploredGoal], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ldm.explore.candidates.solution", lambda _: None)
        verdict = judged(run, place, explored)
        (compared,) = verdict.comparisons
        assert (compared.learnt, compared.reach, compared.chosen) == ("improvement", NEARBY, True)
        assert verdict.rows
        assert {row.reach for row in verdict.rows} == {NEARBY}
        confirmed = {t: j.wins for j in verdict.judgements for t in j.trajectories}
        assert any(confirmed.values())
        for row in verdict.rows:
            assert row.tuple.outcome is not None
            assert row.tuple.outcome.confirmed == confirmed[row.tuple.trajectory_id]
            assert row.tuple.outcome.advantage > 0

    @pytest.mark.usefixtures("unpractised")
    @pytest.mark.slow
    def test_that_speak_everywhere_are_refused(
        self, run: Run, place: Path, explored: list[ExploredGoal]
    ) -> None:
        verdict = judged(run, place, explored[:8], max_part=0.001)
        assert "recalled in more than 0% of all steps" in {j.refused for j in verdict.judgements}

    @pytest.mark.usefixtures("unpractised")
    def test_that_speak_at_every_step_of_their_own_kind_are_of_use(
        self, run: Run, place: Path, explored: list[ExploredGoal]
    ) -> None:
        of_fetch = [one if one.task.kind == "fetch" else replace(one, trees=()) for one in explored]
        verdict = judged(run, place, of_fetch)
        assert verdict.rows
        assert not any("recalled in more than" in one.refused for one in verdict.judgements)

    def test_are_not_judged_where_the_same_way_is_kept_as_practice(self, verdict: Verdict) -> None:
        """Their tuples are the same, and can be in one cell only."""
        practised = {
            t for j in verdict.judgements if j.learnt == "practice" for t in j.trajectories
        }
        improved = {
            t for j in verdict.judgements if j.learnt == "improvement" for t in j.trajectories
        }
        refused = {t for j in verdict.judgements if j.refused for t in j.trajectories}
        assert not improved & (practised - refused)
        ids = [row.tuple.id for row in verdict.rows]
        assert len(set(ids)) == len(ids)
        assert {row.batch for row in verdict.rows} >= {batch.id for batch in verdict.batches}

    def test_whose_way_is_refused_as_practice_are_tried_without_that(
        self, run: Run, place: Path, explored: list[ExploredGoal], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else the whole way would be recalled, as its tuples are the same."""
        fetch = [one for one in explored if one.task.kind == "fetch"]
        claimed = [
            replace(one, trees=(replace(tree, ground=misleading(one.task)),))
            for one in fetch
            for tree in one.trees
            if not one.added
        ]
        better = [one for one in fetch if one.added]
        candidates: dict[str, Candidates] = {}
        results = Trials.results

        def recording(self: Trials, stage: str, *rest: Any) -> Any:
            candidates[stage] = self.candidates
            return results(self, stage, *rest)

        monkeypatch.setattr(Trials, "results", recording)
        verdict = judged(run, place, [*claimed, *better])
        assert not any(one.is_kept_practice for one in verdict.comparisons)
        ways = {row.tuple.trajectory_id for one in better for row in one.added}
        assert {row.tuple.trajectory_id for row in candidates[PRACTICE].practice} >= ways
        assert candidates[ALONE].practice == ()
        assert {one.trajectory for one in candidates[ALONE].improvements} == ways

    @pytest.mark.usefixtures("unpractised")
    @pytest.mark.slow
    def test_of_a_single_step_do_not_hide_behind_another_of_the_same_goal(
        self, run: Run, place: Path, explored: list[ExploredGoal]
    ) -> None:
        number, improved = next((i, one) for i, one in enumerate(explored) if one.added)
        (tree,) = improved.trees
        last = tree.added[-1]
        other = replace(last, tuple=replace(last.tuple, trajectory_id="other"))
        explored = list(explored)
        explored[number] = replace(improved, trees=(tree, replace(tree, added=(other,))))
        verdict = judged(run, place, explored)
        mine = {j.trajectories: j for j in verdict.judgements if j.task == improved.task.id}
        assert len(mine) == 2
        assert mine["other",].refused == "a single step, which ends the episode"
        assert mine[last.tuple.trajectory_id,].refused != mine["other",].refused


class TestAGoal:
    def test_is_played_without_what_came_from_it(
        self, judged_run: Run, verdict: Verdict, explored: list[ExploredGoal]
    ) -> None:
        own = {
            one.task.id: {
                r.tuple.trajectory_id for r in verdict.rows if r.tuple.task_id == one.task.id
            }
            for one in explored
        }
        played = records.read(judged_run.directory / f"{PRACTICE}.jsonl", Played)
        assert any(one.recalled for one in played)
        for one in played:
            assert not {trajectory for trajectory, _ in one.recalled} & own[one.task]

    @pytest.mark.slow
    def test_that_fails_counts_with_no_score_and_the_others_go_on(
        self, run: Run, place: Path, explored: list[ExploredGoal]
    ) -> None:
        judged(run, place, explored, broken=explored[0].task.id)
        played = records.read(run.directory / f"{PRACTICE}.jsonl", Played)
        failed = [one for one in played if one.error]
        assert {one.task for one in failed} == {explored[0].task.id}
        assert "the shed has collapsed" in failed[0].error
        assert any(one.score for one in played)


class TestTheGateWorks:
    def work(self, builder: Builder, goals: int) -> list[ExploredGoal]:
        work = Explorer(builder())
        tasks = ToyEnv(SHED).tasks("train")[KNOWN : KNOWN + goals]
        return [work((number, task)) for number, task in enumerate(tasks)]

    @pytest.mark.usefixtures("unpractised")
    @pytest.mark.slow
    def test_without_copies_of_the_environment_by_replay(
        self, run: Run, place: Path, explored: list[ExploredGoal], tmp_path: Path
    ) -> None:
        goals = explored[:12]
        copied = judge_in(run, Builder(str(place)), goals, GateOptions())
        other = create(tmp_path / "other", ["refine"], Manifest("refine", {}, {}))
        replayed = judge_in(other, Builder(str(place), forks=False), goals, GateOptions())
        assert any(one.wins for one in copied.judgements)
        assert replayed == copied

    @pytest.mark.usefixtures("unpractised")
    @pytest.mark.slow
    def test_with_one_tree_for_each_batch_whose_ways_are_judged_one_by_one(
        self, run: Run, tmp_path: Path
    ) -> None:
        episodes = expert_trajectories(options=replace(SHED, tasks=KNOWN))
        formation = FormationOptions(batch_size=1)
        build(str(tmp_path / "m"), episodes, BagOfWords(), OfflineReasoner, options=formation)
        builder = Builder(str(tmp_path / "m"), decision="per-batch")
        explored = self.work(builder, 8)
        ways = {
            row.tuple.trajectory_id for one in explored for tree in one.trees for row in tree.added
        }
        assert ways
        verdict = judge_in(run, builder, explored, GateOptions(), formation)
        assert sorted(j.trajectories for j in verdict.judgements) == sorted((w,) for w in ways)
        assert fmean(verdict.after) >= fmean(verdict.before)

    @pytest.mark.slow
    def test_with_a_model(self, run: Run, place: Path) -> None:
        builder = Builder(str(place), scripted=True)
        explored = self.work(builder, 6)
        assert not any(one.error for one in explored)
        verdict = judge_in(run, builder, explored, GateOptions())
        assert len(verdict.before) == 6
        assert {one.learnt for one in verdict.judgements} >= {"practice"}
        again = judge_in(run, builder, explored, GateOptions())
        assert again == verdict


class TestAVerdict:
    def test_is_no_worse_than_the_memory_before(
        self, verdict: Verdict, explored: list[ExploredGoal]
    ) -> None:
        assert len(verdict.gains) == len(explored)
        assert sum(verdict.gains) >= 0

    def test_is_read_from_the_run_where_it_was_played_before(
        self, judged_run: Run, verdict: Verdict, place: Path, explored: list[ExploredGoal]
    ) -> None:
        folder = judged_run.directory
        files = {path.name: path.read_bytes() for path in folder.glob("gate_*")}
        assert files
        # A broken environment would give other scores if anything were played again.
        assert judged(judged_run, place, explored, broken=explored[0].task.id) == verdict
        assert {path.name: path.read_bytes() for path in folder.glob("gate_*")} == files

    def test_without_a_gate_is_what_the_paper_adds(
        self, run: Run, place: Path, explored: list[ExploredGoal]
    ) -> None:
        verdict = judged(run, place, explored, gate="off")
        assert verdict.rows == tuple(row for one in explored for row in one.added)
        assert (verdict.batches, verdict.gains) == ((), ())
        assert not list(run.directory.glob("gate_*"))

    def test_of_an_open_gate_is_all_that_was_learnt(
        self, run: Run, place: Path, explored: list[ExploredGoal]
    ) -> None:
        verdict = judged(run, place, explored, gate="open")
        found = collect(Builder(str(place)), explored, FORMATION)
        assert verdict.batches == found.batches
        assert [row.cell for row in verdict.rows] == [row.cell for row in found.rows]
        assert not list(run.directory.glob("gate_*"))

    def test_on_nothing_is_nothing(self, run: Run, place: Path) -> None:
        assert judged(run, place, []) == Verdict(())


@pytest.mark.parametrize("max_part", [0.0, 1.1])
def test_impossible_options_are_refused(max_part: float) -> None:
    with pytest.raises(ValueError, match="max_part"):
        GateOptions(max_part=max_part)


@pytest.mark.parametrize(
    ("gains", "holds"),
    [
        ((0.0, 0.0, 0.0), False),  # nothing is known of other goals
        ((0.0, 0.0, 1.0), True),
        ((1.0, 1.0, 0.0, -1.0), False),  # +0.25, with a standard error of 0.48
        ((0.1, 0.1, 0.1, 0.1, -0.6), False),
        ((1.0,) * 5 + (0.0,) * 20 + (-1.0,), True),
        ((-0.1, 0.0), False),
    ],
)
def test_gains_have_to_exceed_their_standard_error(gains: tuple[float, ...], holds: bool) -> None:
    before = (0.5,) * len(gains)
    after = tuple(b + g for b, g in zip(before, gains, strict=True))
    assert Comparison("practice", "", 0.0, before, after, 1.0).holds is holds


def test_no_change_is_enough_where_hardly_any_other_goal_recalls_it() -> None:
    scores = (0.5, 0.5)
    assert Comparison("practice", "", 0.9, scores, scores, 1.0).holds
    assert not Comparison("practice", "", 0.8, scores, scores, 1.0).holds


def compared(kind: str, *gains: float, saved: tuple[int, ...] = ()) -> Comparison:
    before = (0.5,) * len(gains)
    after = tuple(b + g for b, g in zip(before, gains, strict=True))
    return Comparison("practice", kind, 0.0, before, after, 1.0, saved=saved)


@pytest.mark.parametrize(
    ("gains", "carried"),
    [
        ((0.0,) * 10, True),
        ((1.0, 0.0, -1.0) + (0.0,) * 7, True),
        ((-1.0,) + (0.0,) * 9, True),  # one loss alone is one standard error
        ((-1.0,) * 3 + (0.0,) * 7, False),
    ],
)
def test_a_kind_is_carried_by_the_others_unless_it_loses(
    gains: tuple[float, ...], carried: bool
) -> None:
    winning, small = compared("heat", *(1.0,) * 16, *(0.0,) * 4), compared("pick", *gains)
    assert not small.holds
    assert small.holds_among([winning, small]) is carried
    assert winning.holds_among([winning, small])
    losing = compared("cool", *(-0.5,) * 16, *(0.5,) * 4)
    assert not small.holds_among([losing, small])
    assert not small.holds_among([small])


@pytest.mark.parametrize(
    ("saved", "gains", "carried"),
    [
        ((9, 8, 0, 7, -1, 9), (0.0,) * 6, True),
        ((9, -8, 0, 7, -9, 9), (0.0,) * 6, False),  # as much as chance may save
        ((9, 8, 0, 7, -1, 9), (1.0, -1.0, 0.0, 0.0, 0.0, 0.0), True),
        ((9, 8, 0, 7, -1, 9), (-1.0, -1.0, -1.0, 0.0, 0.0, 0.0), False),
    ],
)
def test_shorter_ways_are_a_gain_where_no_score_is_lost(
    saved: tuple[int, ...], gains: tuple[float, ...], carried: bool
) -> None:
    shorter = compared("pick", *gains, saved=saved)
    assert not shorter.holds
    assert shorter.holds_among([shorter]) is carried
