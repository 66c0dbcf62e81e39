"""Environments: one folder each, and a line here; those of other packages are entry points."""

from __future__ import annotations

from ldm import registry
from ldm.envs._base import ReplayedEnvironment
from ldm.episode import EnvironmentBase

ENVS = {
    "alfworld": "ldm.envs.alfworld:ALFWorld",
    "textcraft": "ldm.envs.textcraft:TextCraft",
    "webshop": "ldm.envs.webshop:WebShop",
}
GROUP = "ldm.envs"
CONTRACT = registry.Contract(EnvironmentBase, ("default_split",), "ldm.testing.EnvironmentContract")


def load_env(name: str, *, recorded: bool = False) -> type[EnvironmentBase]:
    """Return the environment class called `name`: built in, an entry point, or module:Class.

    recorded: see `registry.load`.
    """
    env: type[EnvironmentBase] = registry.load(
        name, ENVS, GROUP, "environment", contract=CONTRACT, recorded=recorded
    )
    return env


__all__ = ["ENVS", "GROUP", "EnvironmentBase", "ReplayedEnvironment", "load_env"]
