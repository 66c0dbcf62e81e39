"""The runner: every task once, whatever happens, and files that can be rebuilt."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ldm import records
from ldm.agents import Resources
from ldm.agents.random import RandomAgent, RandomOptions
from ldm.episode import Agent, Environment
from ldm.errors import LdmError
from ldm.run.runner import evaluate, finished, protocol
from ldm.runs import Manifest, Run, create
from ldm.types import EpisodeResult, Trajectory
from tests.toy import ToyEnv, ToyOptions


@dataclass(frozen=True, slots=True)
class ToyWiring:
    """The random agent in the toy environment; `broken` as in ToyOptions."""

    broken: str = ""
    budget: int = 20
    missing: bool = False

    def __call__(self) -> tuple[Environment, Agent]:
        if self.missing:
            raise LdmError("There is no memory.", "Build one.")
        agent = RandomAgent(RandomOptions(self.budget), Resources(seed=1))
        return ToyEnv(ToyOptions(broken=self.broken)), agent


TASKS = tuple(ToyEnv().tasks("test"))


def new_run(place: Path) -> Run:
    manifest = Manifest("eval", {}, protocol(ToyEnv(), "test", TASKS), seeds={"seed": 1})
    return create(place, ("toy",), manifest)


def without_time(results: list[EpisodeResult]) -> list[EpisodeResult]:
    return [replace(result, seconds=0.0) for result in results]


def test_results_and_trajectories_are_merged_in_task_order(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    results = evaluate(run, ToyWiring(), TASKS)
    assert [result.task for result in results] == list(TASKS)
    assert records.read(run.directory / "episodes.jsonl", EpisodeResult) == results
    trajectories = records.read(run.directory / "trajectories.jsonl", Trajectory)
    assert [trajectory.task for trajectory in trajectories] == list(TASKS)
    assert not run.parts.exists()


def test_one_and_two_workers_give_identical_files(tmp_path: Path) -> None:
    alone, both = new_run(tmp_path), new_run(tmp_path)
    first = evaluate(alone, ToyWiring(), TASKS, workers=1)
    second = evaluate(both, ToyWiring(), TASKS, workers=2)
    assert without_time(first) == without_time(second)
    assert (alone.directory / "trajectories.jsonl").read_bytes() == (
        both.directory / "trajectories.jsonl"
    ).read_bytes()


def test_a_broken_episode_is_recorded_and_loses_no_other(tmp_path: Path) -> None:
    results = evaluate(new_run(tmp_path), ToyWiring(broken=TASKS[2].id), TASKS)
    assert [result.end == "error" for result in results] == [n == 2 for n in range(len(TASKS))]
    assert "collapsed" in results[2].error


@dataclass(frozen=True, slots=True)
class MendedWiring:
    """As ToyWiring, with the third task broken until it is built a second time."""

    place: str

    def __call__(self) -> tuple[Environment, Agent]:
        path = Path(self.place) / "built"
        broken = "" if path.exists() else TASKS[2].id
        path.touch()
        return ToyWiring(broken)()


def test_a_broken_episode_is_played_again_after_the_others(tmp_path: Path) -> None:
    results = evaluate(new_run(tmp_path), MendedWiring(str(tmp_path)), TASKS)
    sound = evaluate(new_run(tmp_path), ToyWiring(), TASKS)
    assert without_time(results) == without_time(sound)


def test_broken_episodes_of_a_finished_run_are_played_again_when_asked(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    before = evaluate(run, ToyWiring(broken=TASKS[2].id), TASKS)
    assert evaluate(run, ToyWiring(), TASKS) == before
    heard: list[EpisodeResult] = []
    after = evaluate(run, ToyWiring(), TASKS, retry_errors=True, on_result=heard.append)
    assert [one == other for one, other in zip(before, after, strict=True)] == [
        n != 2 for n in range(len(TASKS))
    ]
    assert not after[2].error
    assert len(heard) == len(TASKS)
    undisturbed = new_run(tmp_path)
    evaluate(undisturbed, ToyWiring(), TASKS)
    trajectories = [r.directory / "trajectories.jsonl" for r in (run, undisturbed)]
    assert trajectories[0].read_bytes() == trajectories[1].read_bytes()
    assert finished(run)


def test_without_errors_there_is_nothing_to_play_again(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    before = evaluate(run, ToyWiring(), TASKS)
    assert evaluate(run, ToyWiring(missing=True), TASKS, retry_errors=True) == before


def test_the_budget_ends_every_episode(tmp_path: Path) -> None:
    results = evaluate(new_run(tmp_path), ToyWiring(budget=3), TASKS)
    assert all(result.env_steps <= 3 for result in results)
    assert any(result.end == "budget" for result in results)


def test_a_finished_run_is_read_and_not_played_again(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    results = evaluate(run, ToyWiring(), TASKS)
    reported: list[EpisodeResult] = []
    assert finished(run)
    assert evaluate(run, ToyWiring(missing=True), TASKS, on_result=reported.append) == results
    assert reported == results


def test_the_summary_is_derived_and_comes_back(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    evaluate(run, ToyWiring(), TASKS)
    path = run.directory / "summary.json"
    before = path.read_bytes()
    assert json.loads(before)["overall"]["episodes"] == len(TASKS)
    path.unlink()
    evaluate(run, ToyWiring(), TASKS)
    assert path.read_bytes() == before


def test_part_files_that_a_kill_left_after_the_merge_are_cleared_away(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    evaluate(run, ToyWiring(), TASKS)
    run.parts.mkdir()
    (run.parts / "left.jsonl").write_text("torn")
    evaluate(run, ToyWiring(), TASKS)
    assert not run.parts.exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_what_cannot_be_built_is_the_users_to_know(workers: int, tmp_path: Path) -> None:
    with pytest.raises(LdmError, match=r"no memory\. Build one\."):
        evaluate(new_run(tmp_path), ToyWiring(missing=True), TASKS, workers=workers)


def test_two_processes_cannot_play_the_same_run(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with run.lock(), pytest.raises(LdmError, match="is locked by process"):
        evaluate(run, ToyWiring(), TASKS)


def test_the_protocol_says_what_makes_scores_comparable() -> None:
    record = protocol(ToyEnv(ToyOptions(dialect="old")), "test", TASKS[:2])
    assert record["dialect"] == "old"
    assert record["split"] == "test"
    assert record["tasks"] == [TASKS[0].id, TASKS[1].id]
