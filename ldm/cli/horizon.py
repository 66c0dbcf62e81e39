"""`ldm horizon`: train the model by which a selector predicts how long goals take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ldm.cli import output
from ldm.cli.options import AsJson, Seed, expanded, option_settings
from ldm.errors import LdmError


@dataclass(frozen=True)
class Training:
    """What a model is trained in, and where it goes."""

    env: Annotated[str, typer.Option(help="Environment: a name or package.module:Class.")]
    out: Annotated[Path, typer.Option(help="Output file, e.g. horizon.npz.")]
    worlds: Annotated[int, typer.Option(min=1, help="Number of training worlds.")] = 400
    split: Annotated[
        str | None, typer.Option(help="A training split. Default: the environment's last.")
    ] = None
    seed: Seed = None
    assign: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="env.NAME=VALUE", help="Option of the environment."),
    ] = None


@expanded
def horizon(training: Training, as_json: AsJson = False) -> None:
    """Train a horizon model, for `ldm eval --agent deps --agent.horizon FILE`.

    Goals are pursued at random in worlds of a training split, to learn from observations how long
    each takes. It is for environments with a controller that pursues goals.

    \b
    ldm horizon --env minecraft --worlds 400 --out horizon.npz
    """
    from ldm.run.horizons import HorizonSpec, train_horizon

    others, env_options = option_settings(training.assign, None)
    if others:
        raise LdmError(
            f"{others[0][0]} is not an option of an environment.", "Write --set env.NAME=VALUE."
        )
    spec = HorizonSpec(
        training.env, training.worlds, training.split, env_options, training.seed or 0
    )
    with output.progress("Training", training.worlds) as advance:
        trained = train_horizon(spec, training.out, lambda worlds: advance())
    size = training.out.stat().st_size
    if as_json:
        output.print_json(
            {
                "file": str(training.out),
                "bytes": size,
                "worlds": trained.worlds,
                "rows": trained.rows,
                "error": trained.error,
                "baseline": trained.baseline,
            }
        )
        return
    output.say(
        f"{training.out}: {size} bytes, from {trained.rows} rows of {trained.worlds} worlds.\n"
        f"In worlds that it has not seen, its μ is off by {trained.error:.2f}, "
        f"that of the mean of each item by {trained.baseline:.2f}.",
        error=False,
    )
