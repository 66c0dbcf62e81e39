"""The toy environments keep the contract, so tests that use them stand on firm ground."""

from __future__ import annotations

from ldm.testing import EnvironmentContract


class TestToy(EnvironmentContract):
    name = "tests.toy:ToyEnv"
    split = "test"


class TestEcho(EnvironmentContract):
    name = "tests.toy:EchoEnv"
    split = "test"
    actions = ("say nonsense", "say gif")
    steps = 2
