"""What is seen while episodes are played, on a terminal and without one."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from ldm.cli import live, output
from ldm.cli.output import Heartbeat
from ldm.run.runtime import Playing
from ldm.types import EpisodeResult, Usage
from tests.cli.conftest import Run
from tests.run.test_statistics import result

TOY = ("--env", "tests.toy:ToyEnv", "--agent", "tests.integration.agents:Adept", "--workers", "1")
PAID = Playing("ldm on toy", 12, workers=4, usd=lambda: 0.0125)


def episode(number: int, success: bool = True, error: str = "") -> EpisodeResult:
    return replace(
        result(number, success, error=error), env_steps=4, usage=Usage(calls=2, prompt_tokens=700)
    )


def tally(playing: Playing, *results: EpisodeResult) -> live.Tally:
    counted = live.Tally(playing, started=0.0)
    for one in results:
        counted.add(one)
    return counted


class TestTheFigures:
    def test_are_success_with_its_interval_steps_tokens_and_money(self) -> None:
        counted = tally(PAID, episode(0), episode(1, success=False))
        assert counted.figures() == (
            "success 50.0 % (9–91), 4.0 steps/episode, 1400 tokens, 0.0125 USD"
        )

    def test_the_time_left_is_that_of_episodes_played_now(self) -> None:
        counted = tally(replace(PAID, recorded=1), *map(episode, range(3)))
        assert counted.left(now=10.0) == 10.0 / 2 * 9
        assert counted.progress(10.0) == "3 of 12 done, 4 running, about 45 s left"
        assert tally(PAID).left(10.0) is None
        assert tally(PAID, *map(episode, range(12))).running == 0


def terminal(file: io.StringIO) -> Console:
    return Console(file=file, force_terminal=True, width=80)


def test_a_terminal_sees_the_display(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setattr(output, "console", lambda *, error: terminal(file))
    with live.episodes(replace(PAID, total=2)) as on_episode:
        on_episode(episode(0))
        on_episode(episode(1))
    assert "2/2" in file.getvalue()
    assert "success 100.0 % (34–100)" in file.getvalue()
    assert capsys.readouterr() == ("", "")


def lines_of(playing: Playing, *results: EpisodeResult) -> list[str]:
    printed: list[str] = []
    with live.lines(playing, printed.append) as on_episode:
        for one in results:
            on_episode(one)
    return printed


class TestWithoutATerminal:
    def test_there_is_a_line_an_episode(self) -> None:
        first, second = lines_of(PAID, episode(7), episode(8, success=False))
        assert first.startswith("[ 1/12] 7 solved, 4 steps, 0.5 s | success 100.0 %")
        assert second.startswith("[ 2/12] 8 failed, 4 steps, 0.5 s | success 50.0 %")

    def test_what_was_recorded_before_is_one_line(self) -> None:
        first, second = lines_of(replace(PAID, recorded=3), *map(episode, range(4)))
        assert first.startswith("ldm on toy: 3 recorded before; success 100.0 %")
        assert second.startswith("[ 4/12] 3 solved")

    def test_silence_is_broken_with_how_far_the_work_is(self) -> None:
        printed: list[str] = []
        heart = Heartbeat(lambda now: f"at {now:.0f}", printed.append, silence=10.0)
        start = heart._last
        for seconds in (9, 10.5, 15, 21):
            heart.beat(start + seconds)
        assert len(printed) == 2
        heart.say("an episode")
        heart.beat(heart._last + 9)
        assert printed[2:] == ["an episode"]


def test_a_command_says_what_becomes_of_each_episode(run: Run, place: object) -> None:
    outcome = run("eval", *TOY, "--limit", "2")
    lines = [line for line in outcome.err.splitlines() if line.startswith("[")]
    assert [line.partition(" |")[0].split()[:3] for line in lines] == [
        ["[1/2]", "test/fetch-2", "solved,"],
        ["[2/2]", "test/wash-9", "solved,"],
    ]


@pytest.mark.parametrize("command", [lambda: ("eval", *TOY, "--limit", "2")])
def test_quiet_says_nothing_but_the_result(
    command: Callable[[], tuple[str, ...]], run: Run, place: object
) -> None:
    outcome = run(*command(), "--quiet")
    assert (outcome.code, outcome.err) == (0, "")
    assert "success" in outcome.out
    assert json.loads(run(*command(), "--quiet", "--json").out)["success_rate"] == 1.0
