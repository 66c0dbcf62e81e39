"""What the tests of agents share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ldm.envs import load_env
from ldm.episode import Environment
from ldm.memory import FormationOptions, Memory, build
from ldm.reason.offline import OfflineReasoner
from tests.agents.loop_contract import SPLITS
from tests.embedder import BagOfWords
from tests.toy import EchoEnv, ToyEnv, ToyOptions, expert_trajectories


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    """Twenty-four expert episodes of the training split, in two batches a kind."""
    place = str(tmp_path_factory.mktemp("memory"))
    episodes = expert_trajectories(options=ToyOptions(tasks=24))
    options = FormationOptions(batch_size=6)
    build(place, episodes, BagOfWords(), OfflineReasoner, options=options)
    return Memory.open(place, "toy", embedder=BagOfWords())


@pytest.fixture(scope="module")
def environments() -> Iterator[dict[str, Environment]]:
    """One of each, for all tests: a shop takes a while to open."""
    own: dict[str, Any] = {"toy": ToyEnv, "echo": EchoEnv}
    environments: dict[str, Environment] = {}
    for name in SPLITS:
        env_class: Any = own.get(name) or load_env(name)
        environments[name] = env_class(env_class.Options())
    yield environments
    for env in environments.values():
        env.close()
