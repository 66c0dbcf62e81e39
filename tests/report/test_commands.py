"""`ldm report` and `ldm runs show` as users meet them."""

from pathlib import Path

import pytest

from ldm import records
from ldm.types import EpisodeResult, Trajectory
from tests.cli.conftest import run
from tests.report.conftest import Recorded


@pytest.mark.slow
def test_runs_are_named_by_id_and_the_page_is_named(recorded: Recorded, tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    names = [recorded.earlier.name, recorded.control.name]
    command = ("report", *names, "-o", file, "--runs", recorded.earlier.parent)
    outcome = run(*command).done()
    assert outcome.out.startswith(f"Report: {file} (")
    assert file.read_text("utf-8").startswith("<!doctype html>")


def test_without_a_run_there_is_no_report(tmp_path: Path) -> None:
    outcome = run("report", "none", "-o", tmp_path / "r.html", "--runs", tmp_path)
    assert (outcome.code, "none is not a run" in outcome.err) == (1, True)
    assert not list(tmp_path.iterdir())


def trials(run: Path) -> list[Trajectory]:
    return records.read(run / "trajectories.jsonl", Trajectory)


class TestShow:
    def test_episodes_are_listed(self, recorded: Recorded) -> None:
        outcome = run("runs", "show", recorded.earlier)
        for result in records.read(recorded.earlier / "episodes.jsonl", EpisodeResult):
            assert result.task.id in outcome.out
        assert "solved" in outcome.out

    def test_an_episode_shows_recalled_tuples_as_text_and_the_vote(
        self, recorded: Recorded
    ) -> None:
        first = trials(recorded.earlier)[0]
        outcome = run("runs", "show", recorded.earlier, first.task.id).done()
        lines = outcome.out.splitlines()
        assert lines[:2] == [first.task.id, f"goal: {first.task.goal}"]
        for number, step in enumerate(first.steps):
            beginning = f"{number + 1:>3} {step.action}"
            assert any(line.partition("  (")[0] == beginning for line in lines)
        assert f"    the vote decided: {first.steps[0].action}" in outcome.out
        assert f"    recalled {len(first.steps[0].recalls)}, " in outcome.out
        assert "(expert, score 1.00)" in outcome.out
        assert first.steps[0].recalls[0][0] not in outcome.out

    @pytest.mark.parametrize(
        ("task", "complaint"),
        [("none of them", "No task matches"), ("test/", "6 tasks match"), ("", "")],
    )
    def test_a_task_has_to_be_told_apart(
        self, recorded: Recorded, task: str, complaint: str
    ) -> None:
        outcome = run("runs", "show", recorded.earlier, task)
        assert complaint in outcome.err
        assert outcome.code == bool(complaint)

    def test_a_trial_that_there_is_not(self, recorded: Recorded) -> None:
        task = trials(recorded.earlier)[0].task.id
        assert (
            "has no trial 2: it has 1"
            in run("runs", "show", recorded.earlier, task, "--trial", "2").err
        )
