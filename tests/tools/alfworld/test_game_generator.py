import pytest

from ldm import records
from ldm.envs.alfworld import ALFWorld
from ldm.envs.alfworld.games import Game, own_games
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
