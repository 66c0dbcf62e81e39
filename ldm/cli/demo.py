"""`ldm demo`: the README's demo, command by command, with what ships with the package."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ldm import registry
from ldm.cli import output
from ldm.envs import GROUP
from ldm.envs.metadata import metadata
from ldm.errors import LdmError
from ldm.memory import generations


def demo(
    context: typer.Context,
    env: Annotated[
        str, typer.Option(help="An environment that ships games; default: the first.")
    ] = "",
    folder: Annotated[Path, typer.Option(help="Where the demo's memory and runs go.")] = Path(
        ".ldm/demo"
    ),
    per_kind: Annotated[int, typer.Option(min=1, help="Recorded episodes of each task kind.")] = 1,
    limit: Annotated[
        int, typer.Option(min=1, help="Tasks to evaluate; goals to explore: 5/3 of it.")
    ] = 36,
) -> None:
    """Build a memory, refine it, and evaluate it before and after: a few minutes.

    Everything it needs ships with the package: no data, no language model. Each command is printed
    before it runs, so that it can be run again by itself.

    \b
    Examples:
      ldm demo
      ldm demo --limit 12
    """
    ldm = context.find_root().command
    for words in _commands(env or _first(), folder, per_kind, limit):
        output.say(f"\n$ {shlex.join(['ldm', *words])}")
        if status := ldm.main(words, prog_name="ldm", standalone_mode=False):
            raise typer.Exit(status)


def _commands(env: str, folder: Path, per_kind: int, limit: int) -> Iterator[list[str]]:
    shipped = metadata(env).shipped
    if shipped is None:
        raise LdmError(
            f"{env} ships no games to explore and evaluate.",
            f"Leave --env out for {_first()}; `ldm envs` lists the others.",
        )
    memory = ["--memory", str(folder / "memory")]
    places = [*memory, "--runs", str(folder / "runs")]
    drawn = ["--per-kind", str(per_kind), "--rebuild"]
    yield ["build-memory", "--env", env, *drawn, *memory]
    goals = ["--limit", str(limit * 5 // 3), "--rounds", "2"]
    yield ["refine", "--env", env, "--split", shipped.explore, *goals, *places]
    made = ",".join(str(one.number) for one in generations(str(folder / "memory"), env))
    evaluated = ["--limit", str(limit), "--agent", "ldm", "--generation", made]
    yield ["eval", "--env", env, "--split", shipped.test, *evaluated, *places]


def _first() -> str:
    return next(name for name in registry.names({}, GROUP) if metadata(name).shipped)
