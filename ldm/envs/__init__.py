"""Environments: one folder each. Adding one is a module and a line here."""

from __future__ import annotations

from ldm import registry
from ldm.episode import EnvironmentBase

ENVS = {
    "alfworld": "ldm.envs.alfworld:ALFWorld",
    "hotpotqa": "ldm.worlds.hotpotqa:HotpotQA",
    "minecraft": "ldm.worlds.minecraft:Minecraft",
    "tabletop": "ldm.worlds.tabletop:Tabletop",
    "textcraft": "ldm.envs.textcraft:TextCraft",
    "webshop": "ldm.envs.webshop:WebShop",
}
GROUP = "ldm.envs"
CONTRACT = registry.Contract(EnvironmentBase, ("default_split",), "ldm.testing.EnvironmentContract")


def load_env(name: str, *, recorded: bool = False) -> type[EnvironmentBase]:
    """Return the environment class called `name`: built in, an entry point, or module:Class.

    recorded: the name comes from a file, see `registry.load`.
    """
    env: type[EnvironmentBase] = registry.load(
        name, ENVS, GROUP, "environment", contract=CONTRACT, recorded=recorded
    )
    return env


__all__ = ["ENVS", "GROUP", "EnvironmentBase", "load_env"]
