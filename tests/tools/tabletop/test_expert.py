import pytest

from ldm import records
from ldm.types import Trajectory
from ldm.worlds.tabletop import Tabletop, TabletopOptions
from ldm.worlds.tabletop.environment import game
from ldm.worlds.tabletop.kinds import KINDS
from tests.conftest import CHECKOUT
from tests.worlds.tabletop.conftest import PHYSICS
from tools.tabletop.expert import attempt, solve

EPISODES = CHECKOUT / "data" / "trajectories" / "tabletop" / "train.jsonl.gz"


@pytest.fixture(scope="module")
def shipped() -> list[Trajectory]:
    return records.read(EPISODES, Trajectory)


@PHYSICS
def test_the_expert_plays_the_shipped_episodes(shipped: list[Trajectory]) -> None:
    env = Tabletop()
    for episode in shipped[:4]:
        assert solve(env, episode.task) == episode


@PHYSICS
@pytest.mark.parametrize(
    "kind",
    [one if n == 0 else pytest.param(one, marks=pytest.mark.slow) for n, one in enumerate(KINDS)],
)
def test_it_puts_right_what_a_noisy_hand_did_wrong(kind: str) -> None:
    env = Tabletop(TabletopOptions("noisy"))
    episodes = [attempt(env, game("train", kind, number).task) for number in range(4)]
    assert max(len(one.steps) for one in episodes) > min(len(one.steps) for one in episodes)
    assert any(one.success for one in episodes)
