"""Where an environment's data come from, and which splits need none."""

from __future__ import annotations

from ldm.errors import LdmError
from ldm.experiments.options import Settings, sorted_settings
from ldm.experiments.runtime import Runtime


def with_data(env: str, options: Settings, runtime: Runtime) -> Settings:
    """Return the options of `env` with its data folder, where they lack it and it is known."""
    folder = None if "data" in dict(options) else runtime.data(env)
    return sorted_settings({**dict(options), **({"data": folder} if folder else {})})


def training_split(env: str, split: str, options: Settings, runtime: Runtime) -> str:
    """Return the training split to use: the one asked for, or the environment's first.

    Raises LdmError where `split` is none of the environment's training splits.
    """
    from ldm.envs import load_env

    known = load_env(env).train_splits
    if split and split not in known:
        raise LdmError(
            f"{split} is no training split of {env}.", f"Use one of: {', '.join(known)}."
        )
    return split or _without_data(env, options, "explore", runtime) or known[0]


def evaluation_split(env: str, split: str, options: Settings, runtime: Runtime) -> str:
    """Return the split to evaluate: the one asked for, or the environment's default."""
    from ldm.envs import load_env

    return split or _without_data(env, options, "test", runtime) or load_env(env).default_split


def _without_data(env: str, options: Settings, purpose: str, runtime: Runtime) -> str:
    """Return the shipped split for a purpose where `env` needs data and none are known, else ""."""
    from ldm.envs.metadata import metadata

    about = metadata(env)
    if about.shipped is None or "data" in dict(options):
        return ""
    split: str = getattr(about.shipped, purpose)
    variable = f" or ${about.data.variable}" if about.data else ""
    runtime.message(
        f"No data of {env} is known (--data{variable}): using the shipped split {split}."
    )
    return split
