"""What the tests of agents share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ldm.envs import load_env
from ldm.episode import Environment
from tests.agents.loop_contract import SPLITS
from tests.toy import EchoEnv, ToyEnv


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
