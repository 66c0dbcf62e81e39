"""Recorded expert episodes replay observation by observation: in the fast engine all of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from ldm import records
from ldm.envs import formats
from ldm.types import Trajectory
from ldm.worlds.alfworld import ALFWorld, ALFWorldOptions
from ldm.worlds.alfworld.data import check
from tests.conftest import CHECKOUT
from tools.alfworld.replay import replay, replay_official_games


@pytest.fixture(scope="module")
def recorded(shared_data: Path) -> list[Trajectory]:
    file = shared_data / "alfworld" / "replay_episodes.jsonl"
    entries = formats.read(file, "alfworld-conversations")
    episodes = [one for one in entries if isinstance(one, Trajectory)]
    assert len(episodes) == 180
    return episodes


@pytest.mark.slow
def test_real_episodes_replay(shared_data: Path, recorded: list[Trajectory]) -> None:
    options = ALFWorldOptions(data=str(shared_data / "alfworld"))
    assert replay_official_games(options, recorded) == []


@pytest.mark.official
def test_they_do_in_the_official_engine(shared_data: Path, recorded: list[Trajectory]) -> None:
    options = ALFWorldOptions(data=str(shared_data / "alfworld"))
    assert replay_official_games(options, recorded[::45], official=True) == []


@pytest.mark.slow
def test_all_real_games_are_read(shared_data: Path) -> None:
    report = check(shared_data / "alfworld")
    assert report.problems == ()
    counts = {split: sum(kinds.values()) for split, kinds in report.splits.items()}
    assert counts == {"train": 180, "valid_seen": 140}


def test_a_replay_tells_where_it_departs() -> None:
    episodes = CHECKOUT / "data/trajectories/alfworld/demo_train.jsonl"
    (episode, *_) = records.read(episodes, Trajectory)
    first, *rest = episode.steps
    env = ALFWorld()
    other_opening = replace(episode, opening="A shed.")
    other_step = replace(episode, steps=(replace(first, observation="Dark.", valid=False), *rest))
    cut = replace(episode, steps=episode.steps[:-1])
    longer = replace(episode, steps=(*episode.steps, episode.steps[0]))
    assert [d.step for d in replay(env, other_opening)] == [0]
    departures = [(d.step, d.recorded) for d in replay(env, other_step)]
    assert departures == [(1, "Dark."), (1, "valid: False")]
    assert [d.recorded for d in replay(env, cut)] == ["score 1.0"]
    assert [d.replayed for d in replay(env, longer)] == ["the task was done before"]
    env.close()
