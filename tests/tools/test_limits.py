"""Success within shorter limits, out of one run with a long one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ldm.errors import LdmError
from ldm.types import EpisodeResult, Reading, Step, Task, Trajectory, Usage
from ldm.worlds.minecraft.card import CARD
from tools.limits import rates, success_ticks


def played(name: str, kind: str, tick: int, won: bool = True) -> tuple[EpisodeResult, Trajectory]:
    task = Task(name, "minecraft", "parallel", "obtain 1 log", kind)
    observation = f"Got 1 log.\nTime: {tick} of 6000. Place: at the start, y 64, plains."
    trial = Trajectory(task, "", (Step("mine 1 log", observation),), float(won), won, "agent")
    result = EpisodeResult(task, "deps", 1, 0, "done", float(won), won, 1, 0, Usage(), 0.0)
    return result, trial


PLAYED = [played("a", "parallel2", 400), played("b", "parallel2", 1500)]
PLAYED.append(played("c", "parallel3", 6000, won=False))


def test_a_task_is_solved_within_every_limit_from_its_tick_on() -> None:
    ticks = success_ticks([trial for _, trial in PLAYED], CARD.reading)
    assert ticks == {"a": 400, "b": 1500}
    assert rates([result for result, _ in PLAYED], ticks, [300, 400, 1499, 1500]) == {
        "parallel2": [0.0, 50.0, 50.0, 100.0],
        "parallel3": [0.0, 0.0, 0.0, 0.0],
        "all": [0.0, pytest.approx(100 / 3), pytest.approx(100 / 3), pytest.approx(200 / 3)],
    }


def test_without_a_time_in_observations_there_are_no_limits() -> None:
    _, trial = PLAYED[0]
    with pytest.raises(LdmError, match="does not tell when"):
        success_ticks([trial], Reading())
    with pytest.raises(LdmError, match="does not tell when"):
        success_ticks([replace(trial, steps=())], CARD.reading)
