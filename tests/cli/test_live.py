"""What is seen of episodes while they are played, on a terminal and without one, and in lists."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ldm.cli import output
from ldm.run.runtime import Playing
from ldm.runs import open_run
from ldm.types import EpisodeResult, Usage
from tests.cli.conftest import run
from tests.run.test_statistics import result

TOY = ("--env", "tests.toy:ToyEnv", "--agent", "tests.integration.agents:Adept", "--workers", "1")
PAID = Playing("ldm on toy", 12, usd=lambda: 0.0125)


def episode(number: int, success: bool = True, error: str = "") -> EpisodeResult:
    return replace(
        result(number, success, error=error), env_steps=4, usage=Usage(calls=2, prompt_tokens=700)
    )


def terminal(file: io.StringIO) -> Console:
    return Console(file=file, force_terminal=True, width=80)


def test_a_terminal_sees_the_display(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setattr(output, "console", lambda *, error: terminal(file))
    with output.episodes(replace(PAID, total=2)) as on_episode:
        on_episode(episode(0))
        on_episode(episode(1))
    assert "2/2" in file.getvalue()
    assert "success 100.0 % (34–100)" in file.getvalue()
    assert capsys.readouterr() == ("", "")


def lines_of(playing: Playing, capsys: pytest.CaptureFixture[str], count: int) -> list[str]:
    with output.episodes(playing) as on_episode:
        for number in range(count):
            on_episode(episode(number, success=number != 1))
    return capsys.readouterr().err.splitlines()


class TestWithoutATerminal:
    def test_there_is_a_line_an_episode(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert lines_of(PAID, capsys, 2) == [
            "[ 1/12] 0 solved, 4 steps, 0.5 s | "
            "success 100.0 % (21–100), 4.0 steps/episode, 700 tokens, 0.0125 USD",
            "[ 2/12] 1 failed, 4 steps, 0.5 s | "
            "success 50.0 % (9–91), 4.0 steps/episode, 1,400 tokens, 0.0125 USD",
        ]

    def test_what_was_recorded_before_is_one_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        first, second = lines_of(replace(PAID, recorded=3), capsys, 4)
        assert first.startswith("ldm on toy: 3 recorded before; success 66.7 %")
        assert second.startswith("[ 4/12] 3 solved")


def test_quiet_says_nothing_but_the_result(place: object) -> None:
    command = ("eval", *TOY, "--limit", "2", "--quiet")
    outcome = run(*command)
    assert (outcome.code, outcome.err) == (0, "")
    assert "success" in outcome.out
    assert json.loads(run(*command, "--json").out)["success_rate"] == 1.0


def test_of_stopped_and_running_ones_the_list_says_how_far_they_are(place: Path) -> None:
    played = run("eval", *TOY, "--limit", "3", "--json").done()
    directory = Path(json.loads(played.out)["run"])
    (directory / "episodes.jsonl").unlink()
    (directory / "parts").mkdir()
    (directory / "parts" / "a.jsonl").write_text('{"index":0,"x":1}\n{"index":2}\n{"ind')
    (entry,) = json.loads(run("runs", "list", "--json").out)["runs"]
    assert (entry["status"], entry["recorded"], entry["tasks"]) == ("stopped", 2, 3)
    with open_run(str(directory), place).lock():
        (entry,) = json.loads(run("runs", "list", "--json").out)["runs"]
        assert entry["status"] == "running"
