"""Scenes of each kind, and the environment where its physics is installed."""

from importlib.util import find_spec

import pytest

from ldm.worlds.tabletop import Tabletop
from ldm.worlds.tabletop.environment import Game, game
from ldm.worlds.tabletop.kinds import KINDS

PHYSICS = pytest.mark.skipif(
    find_spec("mujoco") is None, reason="the physics needs ldm-memory[tabletop]"
)


@pytest.fixture(scope="session", params=KINDS)
def each(request: pytest.FixtureRequest) -> Game:
    """A training scene of each kind."""
    return game("train", request.param, 0)


@pytest.fixture
def env() -> Tabletop:
    return Tabletop()
