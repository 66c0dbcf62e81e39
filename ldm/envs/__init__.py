"""Environments: one folder each, and a line here; those of other packages are entry points."""

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
#: The card may also be an attribute of instances only.
CONTRACT = registry.Contract(
    (
        *("Options", "default_split", "train_splits"),
        *("protocol", "tasks", "reset", "step", "localize", "fork", "close"),
    ),
    "ldm.testing.EnvironmentContract",
)


class EnvironmentClass(Protocol):
    """The members of a registered environment class in addition to those of `Environment`.

    Options: a frozen dataclass of settings (`--set env.field=value`), picklable, all with defaults.
    default_split: the split that `ldm eval` uses by default.
    train_splits: those that `ldm refine` may explore; the first is the default.
    Optional: `paper` and `needs`, texts that `ldm envs` prints; `card`, if it does not depend on
    the options; `metadata`, which describes data, splits and packages
    (`ldm.envs.metadata.Metadata`).
    """

    default_split: ClassVar[str]
    train_splits: ClassVar[tuple[str, ...]]
    Options: ClassVar[type[Any]]

    def __call__(self, options: Any) -> Environment: ...


def load_env(name: str, *, recorded: bool = False) -> EnvironmentClass:
    """Return the environment class of a name: built in, an entry point, or module:Class.

    recorded: see `registry.load`.
    """
    env: EnvironmentClass = registry.load(
        name, ENVS, GROUP, "environment", contract=CONTRACT, recorded=recorded
    )
    return env


__all__ = ["ENVS", "GROUP", "EnvironmentClass", "load_env"]
