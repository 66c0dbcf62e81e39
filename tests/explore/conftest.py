"""A shed that is explored: two episodes tell how, too little to find everything in time."""

from pathlib import Path

import pytest

from ldm.agents import Resources
from ldm.agents.ldm import LdmAgent, LdmOptions
from ldm.episode import run_episode
from ldm.memory import Memory, build
from ldm.reason.offline import OfflineReasoner
from ldm.types import Trajectory
from tests.embedder import BagOfWords
from tests.toy import ToyEnv, ToyOptions, expert_trajectories

KNOWN = 2
DEPTH = 10
SHED = ToyOptions(tasks=28, shelves=8)


def given() -> list[Trajectory]:
    return expert_trajectories(options=ToyOptions(tasks=KNOWN, shelves=8))


def opened(place: Path | str, generation: int | None = None) -> Memory:
    return Memory.open(str(place), "toy", embedder=BagOfWords(), generation=generation)


def solved(memory: Memory) -> int:
    """Return how many unseen tasks the memory solves."""
    agent = LdmAgent(LdmOptions(budget=DEPTH), Resources(memory, OfflineReasoner(BagOfWords())))
    env = ToyEnv(SHED)
    return sum(run_episode(env, agent, task)[0].success for task in env.tasks("test"))


@pytest.fixture(scope="package")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of two episodes; leave it as it is."""
    place = tmp_path_factory.mktemp("memory")
    build(str(place), given(), BagOfWords(), OfflineReasoner)
    return place
