from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from ldm import records
from ldm.envs.alfworld import ALFWorld
from ldm.envs.alfworld.games import Game, own_games
from ldm.errors import LdmError
from ldm.types import Trajectory
from tests.conftest import CHECKOUT
from tools.alfworld.expert import solve
from tools.alfworld.game_generator import generate

SEED = 2312_08402


@pytest.fixture(scope="module")
def games() -> list[Game]:
    return generate("demo_train", 20, seed=SEED)


def test_the_shipped_games_are_those_that_the_generator_makes(games: list[Game]) -> None:
    assert own_games("demo_train") == games
    assert own_games("demo_test") == generate("demo_test", 10, seed=SEED)
    packed = CHECKOUT / "ldm/envs/alfworld/demo/demo_train.jsonl.gz"
    assert packed.stat().st_size < 80_000
    assert own_games("demo_train") == sorted(games, key=lambda game: game.id)


def test_the_shipped_episodes_are_those_of_the_expert() -> None:
    shipped = records.read(CHECKOUT / "data/trajectories/alfworld/demo_train.jsonl", Trajectory)
    env = ALFWorld()
    for episode in shipped[::12]:
        assert solve(env, episode.task, seed=SEED) == episode
    env.close()


def test_the_expert_searches_rather_than_knows() -> None:
    """Some first visit is in vain, and closed places are opened before they are looked into."""
    shipped = records.read(CHECKOUT / "data/trajectories/alfworld/demo_train.jsonl", Trajectory)
    episodes = [[step.action.split()[0] for step in episode.steps] for episode in shipped]
    late = [verbs for verbs in episodes if "take" in verbs and verbs.index("take") > 1]
    assert len(late) > len(shipped) / 3
    assert any("open" in verbs for verbs in episodes)
    assert all(step.valid for episode in shipped for step in episode.steps)


def test_an_interrupted_recording_of_the_expert_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = str(CHECKOUT / "scripts" / "record_alfworld.py")
    for name, cut in (("whole.jsonl", False), ("cut.jsonl", True)):
        options = ("--out", str(tmp_path / name), "--split", "demo_train", "--per-kind", "2")
        monkeypatch.setattr("sys.argv", [script, *options])
        runpy.run_path(script, run_name="__main__")
        if cut:
            content = (tmp_path / name).read_bytes()
            (tmp_path / name).write_bytes(content[: len(content) // 2])
            runpy.run_path(script, run_name="__main__")
    assert (tmp_path / "cut.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    episodes = records.read(tmp_path / "cut.jsonl", Trajectory)
    assert [one.success for one in episodes] == [True] * 12


def test_an_expert_that_fails_says_so() -> None:
    env = ALFWorld()
    task = env.tasks("demo_train")[0]
    _, folder, trial = task.id.split("/")
    kind, _, none, target, number = folder.split("-")
    wrong = f"demo_train/{kind}-Newspaper-{none}-{target}-{number}/{trial}"
    games = env._own_games("demo_train")
    games[wrong] = replace(games[task.id], id=wrong)
    with pytest.raises(LdmError, match="found no newspaper"):
        solve(env, replace(task, id=wrong), seed=0)
    env.close()
