"""Environments: one folder each. Adding one is a module and a line here."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from ldm import registry
from ldm.episode import Environment

ENVS = {
    "alfworld": "ldm.envs.alfworld:ALFWorld",
    "textcraft": "ldm.envs.textcraft:TextCraft",
    "webshop": "ldm.envs.webshop:WebShop",
}
GROUP = "ldm.envs"


class EnvironmentClass(Protocol):
    """What a registered environment class offers beside `Environment` itself.

    Options: a frozen dataclass of settings (`--set env.field=value`), picklable, all with defaults.
    default_split: the split that `ldm eval` uses where none is named.
    train_splits: those that `ldm refine` may explore; the first where none is named.
    It may also say its `paper` and what it `needs`, in words, for `ldm envs`; have its `card` as an
    attribute of the class; and tell its data, splits and packages in `metadata`
    (`ldm.envs.metadata.Metadata`).
    """

    default_split: ClassVar[str]
    train_splits: ClassVar[tuple[str, ...]]
    Options: ClassVar[type[Any]]

    def __call__(self, options: Any) -> Environment: ...


def load_env(name: str) -> EnvironmentClass:
    """Return the environment class called `name`: built in, announced, or module:Class."""
    env: EnvironmentClass = registry.load(name, ENVS, GROUP, "environment")
    return env


__all__ = ["ENVS", "GROUP", "EnvironmentClass", "load_env"]
