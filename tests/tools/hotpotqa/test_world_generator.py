"""Our own world of questions: what it asks, and that the shipped files are what it gives."""

import gzip
import json

import pytest

from ldm import records
from ldm.types import Trajectory
from ldm.worlds.hotpotqa import HotpotQA
from ldm.worlds.hotpotqa.library import OWN_DATA
from tests.conftest import CHECKOUT
from tools.hotpotqa.expert import solve
from tools.hotpotqa.world_generator import World, generate

EPISODES = CHECKOUT / "data/trajectories/hotpotqa/demo_train.jsonl.gz"


@pytest.fixture(scope="module")
def world() -> World:
    return generate()


def test_the_shipped_files_are_those_that_the_generator_makes(world: World) -> None:
    contents = {"wiki_articles": world.articles, **world.questions}
    for name, content in contents.items():
        assert json.loads(gzip.decompress((OWN_DATA / f"{name}.json.gz").read_bytes())) == content
    names = {path.name for path in OWN_DATA.iterdir()}
    assert names == {f"{name}.json.gz" for name in contents}


def test_the_shipped_episodes_are_the_experts(world: World) -> None:
    env = HotpotQA()
    for split, questions in world.questions.items():
        pairs = zip(env.tasks(split), questions, strict=True)
        episodes = [solve(env, task, entry, world.articles) for task, entry in pairs]
        assert all(episode.success and 3 <= len(episode.steps) <= 7 for episode in episodes)
        if split == "demo_train":
            assert episodes == records.read(EPISODES, Trajectory)
            actions = [step.action for episode in episodes for step in episode.steps]
            assert sum(action.startswith("lookup[") for action in actions) >= 10
            misses = [s for e in episodes for s in e.steps if s.observation.startswith("Could not")]
            assert len(misses) >= 10
