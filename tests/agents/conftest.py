"""What the tests of agents share."""

from collections.abc import Iterator

import pytest

from ldm.episode import Environment
from ldm.memory import FormationOptions, Memory, build
from ldm.reason.offline import OfflineReasoner
from tests.agents.loop_contract import SPLITS, open_env
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
    own: dict[str, type[Environment]] = {"toy": ToyEnv, "echo": EchoEnv}
    environments = {name: own[name]() if name in own else open_env(name) for name in SPLITS}
    yield environments
    for env in environments.values():
        env.close()
