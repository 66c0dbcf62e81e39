from dataclasses import replace

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


def test_an_expert_that_fails_says_so() -> None:
    env = ALFWorld()
    task = replace(env.tasks("demo_train")[0], goal="put a newspaper in safe.")
    with pytest.raises(LdmError, match="did not solve"):
        solve(env, task, seed=0)
    env.close()
