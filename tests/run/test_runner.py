"""Evaluations: every task once, whatever happens, and files that can be rebuilt."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldm.config import Evaluate, Section
from ldm.errors import LdmError
from ldm.run import evaluate
from ldm.run.builders import PlayerBuilder
from ldm.run.engine import protocol
from ldm.run.evaluate import Evaluations
from ldm.run.results import Report
from ldm.run.runtime import OnEpisode, Playing, Runtime
from ldm.runs import Run
from ldm.types import EpisodeResult, Task, TimeStep
from tests.run.recorded import TOY
from tests.toy import ToyEnv, ToyOptions

SPEC = Evaluate(Section(TOY), "test", Section("random", (("budget", 20),)), seed=1)
TASKS = tuple(ToyEnv().tasks("test"))


def begun(place: Path, spec: Evaluate = SPEC, **runtime: Any) -> Evaluations:
    around = Runtime(place, **{"workers": 1, **runtime})
    return evaluate.prepare([evaluate.resolve(spec, around)], around)


def resumed(run: Run, **runtime: Any) -> Evaluations:
    around = Runtime(run.directory.parent, **{"workers": 1, "trust": True, **runtime})
    return evaluate.Evaluations.resume(str(run.directory), Section(), around)


def results(report: Report) -> list[EpisodeResult]:
    """Return the results without times."""
    return [replace(result, seconds=0.0) for result in report.results]


def content(evaluation: Evaluations) -> bytes:
    return (evaluation.members[0].run.directory / "trajectories.jsonl").read_bytes()


@contextmanager
def collapsing(task: Task, times: int) -> Iterator[None]:
    """Let the environment fail at a task so many times."""
    reset, left = ToyEnv.reset, [times]

    def failing(self: ToyEnv, started: Task) -> TimeStep:
        if started.id == task.id and left[0]:
            left[0] -= 1
            raise RuntimeError("the shed has collapsed")
        return reset(self, started)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ToyEnv, "reset", failing)
        yield


@contextmanager
def unbuildable() -> Iterator[None]:
    def refuse(*_: object) -> None:
        raise LdmError("Nothing is built.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlayerBuilder, "__call__", refuse)
        yield


def test_one_and_two_workers_give_identical_files(tmp_path: Path) -> None:
    alone, both = begun(tmp_path), begun(tmp_path, workers=2)
    assert results(alone.play()[0]) == results(both.play()[0])
    assert content(alone) == content(both)


def test_a_broken_episode_is_recorded_and_loses_no_other(tmp_path: Path) -> None:
    with collapsing(TASKS[2], times=9):
        (report,) = begun(tmp_path).play()
    assert [one.end == "error" for one in report.results] == [n == 2 for n in range(len(TASKS))]
    assert "collapsed" in report.results[2].error


def test_a_broken_episode_is_played_again_after_the_others(tmp_path: Path) -> None:
    with collapsing(TASKS[2], times=1):
        (mended,) = begun(tmp_path).play()
    assert results(mended) == results(begun(tmp_path).play()[0])


def test_broken_episodes_of_a_finished_run_are_played_again_when_asked(tmp_path: Path) -> None:
    evaluation, undisturbed = begun(tmp_path), begun(tmp_path)
    with collapsing(TASKS[2], times=9):
        (before,) = evaluation.play()
    run = evaluation.members[0].run
    assert resumed(run).play() == (before,)
    (after,) = resumed(run).play(retry_errors=True)
    assert [one == other for one, other in zip(before.results, after.results, strict=True)] == [
        n != 2 for n in range(len(TASKS))
    ]
    assert not after.results[2].error
    undisturbed.play()
    assert content(evaluation) == content(undisturbed)
    assert run.is_finished


def test_a_finished_run_is_read_and_not_played_again(tmp_path: Path) -> None:
    evaluation = begun(tmp_path)
    (report,) = evaluation.play()
    heard: list[EpisodeResult] = []

    @contextmanager
    def episodes(playing: Playing) -> Iterator[OnEpisode]:
        assert playing.recorded == playing.total == len(TASKS)
        yield heard.append

    with unbuildable():
        for retry_errors in (False, True):  # there are none
            heard.clear()
            again = resumed(evaluation.members[0].run, episodes=episodes)
            assert again.play(retry_errors=retry_errors) == (report,)
            assert heard == list(report.results)


def test_the_summary_is_derived_and_comes_back(tmp_path: Path) -> None:
    evaluation = begun(tmp_path)
    evaluation.play()
    path = evaluation.members[0].run.directory / "summary.json"
    before = path.read_bytes()
    assert json.loads(before)["overall"]["episodes"] == len(TASKS)
    path.unlink()
    resumed(evaluation.members[0].run).play()
    assert path.read_bytes() == before


def test_the_protocol_says_what_makes_scores_comparable() -> None:
    record = protocol(ToyEnv(ToyOptions(dialect="old")), "test", TASKS[:2])
    assert record["dialect"] == "old"
    assert record["split"] == "test"
    assert record["tasks"] == [TASKS[0].id, TASKS[1].id]
