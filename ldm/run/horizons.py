"""Train the horizon model of an environment, and write it to a file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.errors import LdmError
from ldm.options import Settings, normalise, sorted_settings
from ldm.run.builders import build_environment

if TYPE_CHECKING:
    from ldm.agents.deps.training import Trained

#: An environment's option for how many worlds a task has.
_WORLDS = "worlds"


@dataclass(frozen=True, slots=True)
class HorizonSpec:
    """Describe the training of a horizon model.

    worlds: how many. split: a training split; None is the environment's last. env_options: as
    written; where they do not say how many worlds a task has, and the environment has an option
    `worlds`, there are as many as are needed.
    """

    env: str
    worlds: int = 400
    split: str | None = None
    env_options: Settings = ()
    seed: int = 0

    def __post_init__(self) -> None:
        normalise(self)


def train_horizon(
    spec: HorizonSpec, out: Path, done: Callable[[int], None] = lambda worlds: None
) -> Trained:
    """Train a model and write it to `out`. done: told how many worlds are played.

    Raises LdmError if the environment has no controller or too few worlds, or if `out` cannot be
    written.
    """
    from ldm.agents.deps.training import check, train, worlds
    from ldm.envs import load_env

    env_class = load_env(spec.env)
    split = spec.split or next(reversed(tuple(env_class.train_splits)), "")
    options = dict(spec.env_options)
    with closing(build_environment(spec.env, spec.env_options)) as env:
        check(env.card)
        known = len(env.tasks(split)) if split in env_class.train_splits else 0
    makes_worlds = any(field.name == _WORLDS for field in fields(env_class.Options))
    if makes_worlds and _WORLDS not in options and 0 < known < spec.worlds:
        options[_WORLDS] = str(-(-spec.worlds // known))
    with closing(build_environment(spec.env, sorted_settings(options))) as env:
        trained = train(env, worlds(env, split, spec.worlds, spec.seed), spec.seed, done)
    try:
        trained.model.save(out)
    except OSError as error:
        raise LdmError(
            f"{out} cannot be written: {error.strerror}.", "Name another file with --out."
        ) from error
    return trained
