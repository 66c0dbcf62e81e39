"""Environments: the contract, and what they share; each is an entry point, ours in `ldm/worlds`."""

from __future__ import annotations

from ldm import registry
from ldm.envs._base import ReplayedEnvironment
from ldm.episode import EnvironmentBase

GROUP = "ldm.envs"
CONTRACT = registry.Contract(EnvironmentBase, ("default_split",), "ldm.testing.EnvironmentContract")


def load_env(name: str, *, recorded: bool = False) -> type[EnvironmentBase]:
    """Return the environment class called `name`: an entry point, or module:Class.

    recorded: see `registry.load`.
    """
    env: type[EnvironmentBase] = registry.load(
        name, {}, GROUP, "environment", contract=CONTRACT, recorded=recorded
    )
    return env


__all__ = ["GROUP", "EnvironmentBase", "ReplayedEnvironment", "load_env"]
