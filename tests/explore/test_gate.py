"""The gate: what was learnt on training goals is played there before it joins the memory."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from ldm import records
from ldm.errors import ForkUnsupported
from ldm.explore.gate import (
    FOLDS,
    TOGETHER,
    WITH,
    Candidate,
    Candidates,
    Comparison,
    GateOptions,
    Played,
    Player,
    Verdict,
    collect,
    folds_of,
    judge,
    verdict_on,
)
from ldm.explore.refine import ExplorationSetup, ExploredGoal, Explorer, RefineOptions, Tree
from ldm.memory import FormationOptions, build, extend, generations
from ldm.memory.index import IndexedTuple
from ldm.policy import Policy, PolicyOptions
from ldm.reason import State
from ldm.reason.offline import OfflineReasoner
from ldm.reason.prompted import PromptedReasoner
from ldm.run.engine import Session
from ldm.runs import Manifest, Run, create
from ldm.types import History, Outcome, Task, Trajectory
from tests.embedder import BagOfWords
from tests.explore.conftest import DEPTH, KNOWN, SHED, opened, solved
from tests.reason.scripted import Reply, Scripted
from tests.toy import ToyEnv, expert_trajectories, record

ENV = ToyEnv(SHED)
PRACTICE = WITH.format("practice")
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
        memory = opened(self.place)
        env = (ToyEnv if self.forks else Uncopied)(replace(SHED, broken=self.broken))
        offline = OfflineReasoner(BagOfWords())
        options = PolicyOptions()
        if self.scripted:
            options = PolicyOptions(consult="unsure", certainty=1.0)
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
    suggested = re.findall(r"^\d+\. (.*) \(\d+ %", question, re.MULTILINE)
    actions = [{"action": action, "confidence": 0.5} for action in suggested]
    return {"choice": 1, "actions": actions or [{"action": "wait", "confidence": 1.0}]}


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
    with Session(run, builder).working() as session:
        return judge(session.stage, builder, explored, options, formation)


@pytest.fixture(scope="module")
def judged_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run in which all that was explored is judged; leave it as it is."""
    return create(tmp_path_factory.mktemp("judged"), ["refine"], Manifest("refine", {}, {}))


@pytest.fixture(scope="module")
def verdict(judged_run: Run, place: Path, explored: list[ExploredGoal]) -> Verdict:
    return judged(judged_run, place, explored)


def misleading(task: Task) -> Trajectory:
    """Return an episode of `task` that claims the full score for looking at shelf 1 forever."""
    steps = record(ToyEnv(SHED), task, ["go to shelf 1", "go to shelf 2"] * 6).steps
    last = replace(steps[-1], reward=1.0)
    opening = ToyEnv(SHED).reset(task).observation
    return Trajectory(task, opening, (*steps[:-1], last), 1.0, True, "agent")


def practice(candidates: Candidates) -> list[IndexedTuple]:
    return [row for one in candidates.chosen if one.sort == "practice" for row in one.rows]


class TestPractice:
    def test_is_every_solved_episode_of_goals_that_the_memory_does_not_hold(
        self, place: Path, explored: list[ExploredGoal]
    ) -> None:
        present = Builder(str(place))().memory.batches
        learnt = collect(Builder(str(place)), explored, FORMATION)
        best = [max(tree.ground.score, tree.best_score) for one in explored for tree in one.trees]
        tasks = {one.task.id for one, score in zip(explored, best, strict=True) if score >= 1}
        assert tasks
        assert {one.task.id for one in learnt.chosen if one.sort == "practice"} == tasks
        assert {batch.id for batch in learnt.batches} == {row.batch for row in practice(learnt)}
        assert not {b.id for b in learnt.batches} & {b.id for b in present}
        assert all(
            row.tuple.outcome == Outcome(1.0, 1.0)
            for row in practice(learnt)
            if row.tuple.origin == "agent"
        )

    def test_knows_how_much_more_it_earned_than_the_memory_alone(
        self, place: Path, explored: list[ExploredGoal]
    ) -> None:
        rows = practice(collect(Builder(str(place)), explored, FORMATION))
        grounds = {one.task.id: one.trees[0].ground.score for one in explored}
        assert {row.tuple.origin for row in rows} == {"agent", "explored"}
        for row in rows:
            assert row.tuple.outcome is not None
            assert row.tuple.outcome.advantage == pytest.approx(1 - grounds[row.tuple.task_id])

    def test_that_is_kept_makes_the_memory_solve_more(
        self, verdict: Verdict, place: Path, explored: list[ExploredGoal], tmp_path: Path
    ) -> None:
        assert any(one.sort == "practice" and not one.refused for one in verdict.comparisons)
        copy = str(shutil.copytree(place, tmp_path / "m"))
        (base,) = generations(copy, "toy")
        new: dict[str, Any] = {"batches": verdict.batches, "tasks": (), "settings": {}}
        extend(copy, base, verdict.rows, BagOfWords(), **new)
        before, after = opened(copy, 0), opened(copy, 1)
        assert solved(after) > solved(before)
        assert {batch.id for batch in after.batches} > {batch.id for batch in before.batches}
        assert not practice(collect(Builder(copy), explored, FORMATION))

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
        by_kind = {one.kind: one for one in verdict.comparisons}
        assert "goals of kind fetch lose" in by_kind["fetch"].refused
        assert set(by_kind["fetch"].goals) == {one.task.id for one in lies}
        assert {row.tuple.kind for row in verdict.rows} <= {"wash"}


@pytest.fixture
def unpractised(monkeypatch: pytest.MonkeyPatch) -> None:
    """No episode is practice."""
    monkeypatch.setattr("ldm.explore.gate.solution", lambda _: None)


class TestImprovements:
    @pytest.mark.usefixtures("unpractised")
    def test_are_judged_by_kind(self, run: Run, place: Path, explored: list[ExploredGoal]) -> None:
        verdict = judged(run, place, explored)
        kept = {one.kind for one in verdict.comparisons if not one.refused}
        assert {one.sort for one in verdict.comparisons} == {"improvement"}
        assert verdict.rows == tuple(
            row for one in explored if one.task.kind in kept for row in one.added
        )
        assert verdict.rows
        assert verdict.batches == ()

    def test_are_of_goals_without_practice(self, place: Path, explored: list[ExploredGoal]) -> None:
        """The tuples of a solution are the same, and can be in one cell only."""
        candidates = collect(Builder(str(place)), explored, FORMATION)
        by_sort: dict[str, set[str]] = {"practice": set(), "improvement": set()}
        for one in candidates.chosen:
            by_sort[one.sort].add(one.task.id)
        assert by_sort["practice"]
        assert not by_sort["practice"] & by_sort["improvement"]
        ids = [row.tuple.id for row in candidates.rows]
        assert len(set(ids)) == len(ids)


class TestAGoal:
    def test_is_played_without_what_came_from_it(
        self, place: Path, explored: list[ExploredGoal]
    ) -> None:
        candidates = collect(Builder(str(place)), explored, FORMATION)
        folds = folds_of([one.task for one in explored])
        player = Player(candidates, folds, Builder(str(place))())
        policies = [player.policy(fold) for fold in range(FOLDS)]
        assert len({id(policy) for policy in policies}) == FOLDS
        for one in explored:
            goal, seen = one.task.goal, ENV.reset(one.task).observation
            now = State(goal, History(), seen)
            policy = policies[folds[one.task.leak_key]]
            recalled = {recall.tuple.source for recall in policy.recall(now, policy.batches(goal))}
            assert one.task.leak_key not in recalled
            assert recalled & set(folds)

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
        assert any(copied.gains)
        assert replayed == copied

    @pytest.mark.usefixtures("unpractised")
    @pytest.mark.slow
    def test_with_one_tree_for_each_batch(self, run: Run, tmp_path: Path) -> None:
        episodes = expert_trajectories(options=replace(SHED, tasks=4))
        formation = FormationOptions(batch_size=1)
        build(str(tmp_path / "m"), episodes, BagOfWords(), OfflineReasoner, options=formation)
        builder = Builder(str(tmp_path / "m"), decision="per-batch")
        explored = self.work(builder, 8)
        assert {len(one.trees) for one in explored} == {2}
        verdict = judge_in(run, builder, explored, GateOptions(), formation)
        assert sum(verdict.gains) >= 0

    @pytest.mark.slow
    def test_with_a_model(self, run: Run, place: Path) -> None:
        builder = Builder(str(place), scripted=True)
        explored = self.work(builder, 6)
        assert not any(one.error for one in explored)
        verdict = judge_in(run, builder, explored, GateOptions())
        assert len(verdict.before) == 6
        assert {one.sort for one in verdict.comparisons} >= {"practice"}
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
        candidates = collect(Builder(str(place)), explored, FORMATION)
        assert verdict.batches == candidates.batches
        assert [row.cell for row in verdict.rows] == [row.cell for row in candidates.rows]
        assert not list(run.directory.glob("gate_*"))

    def test_on_nothing_is_nothing(self, run: Run, place: Path) -> None:
        assert judged(run, place, []) == Verdict()


def played(scores: Sequence[float], steps: Sequence[int] = ()) -> tuple[Played, ...]:
    steps = steps or [10] * len(scores)
    return tuple(
        Played(number, f"goal {number}", score, count)
        for number, (score, count) in enumerate(zip(scores, steps, strict=True))
    )


@pytest.mark.parametrize(
    ("gains", "steps", "refused"),
    [
        ((0.0, 0.0, 0.0), (10, 10, 10), ""),
        ((0.0, 0.0, 1.0), (10, 10, 10), ""),
        ((-1.0,) + (0.0,) * 9, (10,) * 10, ""),  # one loss alone is one standard error
        ((-1.0,) * 3 + (0.0,) * 7, (10,) * 10, "goals of kind k lose 0.300 with its practice"),
        ((-0.5,), (10,), "goals of kind k lose 0.500 with its practice"),
        ((0.0, 0.0, 0.0), (9, 3, 8), ""),
        ((0.0, 0.0, 0.0), (11, 13, 12), "goals of kind k need 2.0 steps more with its practice"),
        ((0.0, 0.0, 0.0), (10, 10, 16), ""),
    ],
)
def test_what_lowers_scores_or_lengthens_episodes_is_refused(
    gains: tuple[float, ...], steps: tuple[int, ...], refused: str
) -> None:
    before, after = played([1.0] * len(gains)), played([1 + gain for gain in gains], steps)
    assert Comparison("practice", "k", (), before, after).judged().refused == refused


def test_nothing_is_kept_if_all_goals_together_lose(explored: list[ExploredGoal]) -> None:
    """One loss of each of two kinds may be chance, both together still lower the scores."""
    candidates = Candidates(tuple(Candidate(one.task, "practice", ()) for one in explored[:2]))
    names = [f"goal {number}" for number in range(8)]
    kinds = {name: ("fetch", "wash")[number % 2] for number, name in enumerate(names)}

    def play(_: str, known: Candidates) -> tuple[Played, ...]:
        lost = 2 if known.chosen else 0
        return played([0.0] * lost + [1.0] * (8 - lost))

    verdict = verdict_on(candidates, kinds, play)
    assert {one.kind for one in verdict.comparisons} == {"fetch", "wash"}
    assert not any(verdict.gains)
    assert {one.refused for one in verdict.comparisons} == {TOGETHER}


def test_what_one_kind_loses_by_stays_if_all_goals_do_best_with_it(
    explored: list[ExploredGoal],
) -> None:
    candidates = Candidates(tuple(Candidate(one.task, "practice", ()) for one in explored[:2]))
    names = [f"goal {number}" for number in range(20)]
    kinds = {name: ("fetch", "wash")[number // 10] for number, name in enumerate(names)}

    def play(_: str, known: Candidates) -> tuple[Played, ...]:
        fetch, wash = {0: (8, 2), 1: (8, 1), 2: (4, 9)}[len(known.chosen)]
        return played([1.0] * fetch + [0.0] * (10 - fetch) + [1.0] * wash + [0.0] * (10 - wash))

    verdict = verdict_on(candidates, kinds, play)
    assert [one.judged().refused != "" for one in verdict.comparisons] == [True, False]
    assert not any(one.refused for one in verdict.comparisons)
    assert sum(verdict.gains) == 3
