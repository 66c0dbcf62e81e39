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
    opened: dict[str, Environment] = {}
    for name in SPLITS:
        found: Any = own.get(name) or load_env(name)
        opened[name] = found(found.Options())
    yield opened
    for env in opened.values():
        env.close()
