"""Where an environment's data come from, and which splits need none."""

from __future__ import annotations

from ldm.config import Section
from ldm.errors import LdmError
from ldm.run.runtime import Runtime


def with_data(env: Section, runtime: Runtime) -> Section:
    """Return the environment with its typed options, and with its data folder if that is known.

    Raises LdmError for an option that does not fit.
    """
    from ldm.envs import load_env

    folder = None if "data" in env.options else runtime.data(env.name)
    if folder:
        env = env.with_options(data=folder)
    return env.settled(load_env(env.name).Options, f"environment {env.name}")


def training_split(env: Section, split: str, runtime: Runtime, *, explore: bool = True) -> str:
    """Return the training split to use: the one asked for, or the environment's first.

    explore: of the splits that need no data, take the one for exploring; else the last.
    Raises LdmError if `split` is not a training split of the environment.
    """
    from ldm.envs import load_env
    from ldm.envs.metadata import metadata

    known = load_env(env.name).train_splits
    if split and split not in known:
        raise LdmError(
            f"{split} is not a training split of {env.name}.", f"Use one of: {', '.join(known)}."
        )
    shipped = metadata(env.name).shipped
    if split or shipped is None or "data" in env.options:
        return split or known[0]
    return _without_data(env.name, shipped.explore if explore else known[-1], runtime)


def evaluation_split(env: Section, split: str, runtime: Runtime) -> str:
    """Return the split to evaluate: the one asked for, or the environment's default."""
    from ldm.envs import load_env
    from ldm.envs.metadata import metadata

    shipped = metadata(env.name).shipped
    if split or shipped is None or "data" in env.options:
        return split or load_env(env.name).default_split
    return _without_data(env.name, shipped.test, runtime)


def _without_data(env: str, split: str, runtime: Runtime) -> str:
    """Return the shipped split, and say that it is used because no data are known."""
    from ldm.envs.metadata import metadata

    data = metadata(env).data
    variable = f" or ${data.variable}" if data else ""
    runtime.message(
        f"No {env} data configured (--data{variable}); using the bundled split {split}."
    )
    return split
