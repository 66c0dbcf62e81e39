"""No environment is registered without keeping the contract."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import tests.envs
from ldm.envs import ENVS
from ldm.testing import EnvironmentContract


@pytest.fixture(scope="module")
def tested() -> set[str]:
    """The environments that some test class holds to the contract."""
    for module in pkgutil.walk_packages(tests.envs.__path__, "tests.envs."):
        importlib.import_module(module.name)
    return {contract.name for contract in EnvironmentContract.__subclasses__()}


@pytest.mark.parametrize("name", ENVS)
def test_every_registered_environment_is_held_to_the_contract(name: str, tested: set[str]) -> None:
    assert name in tested
