"""Where an environment's data come from, and which splits need none."""

from __future__ import annotations

from ldm.errors import LdmError
from ldm.options import Settings, sorted_settings
from ldm.run.runtime import Runtime


def with_data(env: str, options: Settings, runtime: Runtime) -> Settings:
    """Return the options of `env` with its data folder, where they lack it and it is known."""
    folder = None if "data" in dict(options) else runtime.data(env)
    return sorted_settings({**dict(options), **({"data": folder} if folder else {})})


def training_split(
    env: str, split: str, options: Settings, runtime: Runtime, *, explore: bool = True
) -> str:
    """Return the training split to use: the one asked for, or the environment's first.

    explore: of the splits that need no data, take the one for exploring; else the last.
    Raises LdmError where `split` is none of the environment's training splits.
    """
    from ldm.envs import load_env
    from ldm.envs.metadata import metadata

    known = load_env(env).train_splits
    if split and split not in known:
        raise LdmError(
            f"{split} is not a training split of {env}.", f"Use one of: {', '.join(known)}."
        )
    shipped = metadata(env).shipped
    if split or shipped is None or "data" in dict(options):
        return split or known[0]
    return _without_data(env, shipped.explore if explore else known[-1], runtime)


def evaluation_split(env: str, split: str, options: Settings, runtime: Runtime) -> str:
    """Return the split to evaluate: the one asked for, or the environment's default."""
    from ldm.envs import load_env
    from ldm.envs.metadata import metadata

    shipped = metadata(env).shipped
    if split or shipped is None or "data" in dict(options):
        return split or load_env(env).default_split
    return _without_data(env, shipped.test, runtime)


def _without_data(env: str, split: str, runtime: Runtime) -> str:
    """Return the shipped split, and say that it is used because no data are known."""
    from ldm.envs.metadata import metadata

    data = metadata(env).data
    variable = f" or ${data.variable}" if data else ""
    runtime.message(
        f"No {env} data configured (--data{variable}); using the bundled split {split}."
    )
    return split
