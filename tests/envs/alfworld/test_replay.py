"""Recorded expert episodes replay in the real engine, observation by observation.

LDM_REPLAY_EPISODES says how many (40; all 180: scripts/replay_alfworld.py).
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from joblib import Parallel, delayed

from ldm import records
from ldm.envs.alfworld import ALFWorld
from ldm.envs.alfworld.conversations import parse
from ldm.envs.alfworld.data import check
from ldm.envs.alfworld.games import KINDS
from ldm.envs.alfworld.replay import Difference, replay, replay_official
from ldm.types import Trajectory
from tests.conftest import CHECKOUT

WORKERS = 2


@pytest.fixture(scope="session")
def recorded(shared_data: Path) -> list[Trajectory]:
    """The sample: as many of each kind as there is room for."""
    file = shared_data / "alfworld" / "replay_episodes.jsonl"
    lines = enumerate(file.read_text().splitlines(), start=1)
    parsed = [parse(json.loads(line), str(file), number) for number, line in lines]
    episodes = [one for one in parsed if isinstance(one, Trajectory)]
    assert len(episodes) == len(parsed) == 180
    by_kind = [[one for one in episodes if one.task.kind == kind] for kind in KINDS.values()]
    mixed = [one for round_ in zip(*by_kind, strict=True) for one in round_]
    return mixed[: int(os.environ.get("LDM_REPLAY_EPISODES", "40"))]


@pytest.fixture(scope="session")
def differences(shared_data: Path, recorded: list[Trajectory]) -> list[Difference]:
    shares = [recorded[i::WORKERS] for i in range(WORKERS)]
    data = str(shared_data / "alfworld")
    found = Parallel(n_jobs=WORKERS)(delayed(replay_official)(data, share) for share in shares)
    return [difference for share in found for difference in share]


def test_real_episodes_replay_with_every_observation_equal_and_end_in_success(
    differences: list[Difference], recorded: list[Trajectory]
) -> None:
    assert differences == []
    assert len(recorded) >= min(40, int(os.environ.get("LDM_REPLAY_EPISODES", "40")))


def test_all_real_games_are_read(shared_data: Path) -> None:
    report = check(shared_data / "alfworld")
    assert report.problems == ()
    assert report.total("train") == 180
    assert report.total("valid_seen") == 140


def test_a_replay_tells_where_it_departs() -> None:
    episodes = CHECKOUT / "data/trajectories/alfworld/demo_train.jsonl"
    (told, *_) = records.read(episodes, Trajectory)
    first, *rest = told.steps
    env = ALFWorld()
    other_opening = replace(told, opening="A shed.")
    other_step = replace(told, steps=(replace(first, observation="Dark.", valid=False), *rest))
    cut = replace(told, steps=told.steps[:-1])
    longer = replace(told, steps=(*told.steps, told.steps[0]))
    assert [d.step for d in replay(env, other_opening)] == [0]
    assert [(d.step, d.recorded) for d in replay(env, other_step)] == [
        (1, "Dark."),
        (1, "valid: False"),
    ]
    assert [d.recorded for d in replay(env, cut)] == ["score 1.0"]
    assert [d.found for d in replay(env, longer)] == ["the task was done before"]
    env.close()
