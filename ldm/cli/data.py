"""`ldm data`: check the published data of an environment, or fetch them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.envs.alfworld.data import Report
    from ldm.envs.download import Progress

VARIABLE = "ALFWORLD_DATA"
SHOWN = 20

data_app = typer.Typer(help="Check or fetch the published data of an environment.")


class DataName(StrEnum):
    """The environments whose data this command knows."""

    alfworld = "alfworld"


Env = Annotated[DataName, typer.Argument(metavar="ENV", help="alfworld")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@data_app.command("check")
def check(
    env: Env,
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[PATH]", help=f"The data folder; default: ${VARIABLE}."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count the games of every split and kind, and name the files that are damaged.

    \b
    Examples:
      ldm data check alfworld ~/.cache/alfworld
      ldm data check alfworld --json > report.json
    """
    from ldm.envs.alfworld import data

    report = data.check(path or _from_environment())
    if as_json:
        typer.echo(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        _print_report(report)
    if report.problems:
        raise typer.Exit(1)


@data_app.command("get")
def get(
    env: Env,
    to: Annotated[
        Path | None,
        typer.Option(
            help=f"Where json_2.1.1 will be; default: ${VARIABLE}, else ~/.cache/alfworld."
        ),
    ] = None,
    url: Annotated[str, typer.Option(help="Another archive, e.g. of a mirror.")] = "",
    sha256: Annotated[str, typer.Option(help="Refuse an archive with another checksum.")] = "",
) -> None:
    """Download the official release archive (36 MB) and unpack it; interrupted, it resumes.

    The release publishes no checksum: without --sha256 the one of what came is printed, for you to
    compare, and the archive's own check sums and the numbers of games are verified.

    \b
    Examples:
      ldm data get alfworld
      ldm data get alfworld --to /data/alfworld
      ldm data get alfworld --url http://mirror.example/games.zip --sha256 5df7…
    """
    from ldm.envs.alfworld import data

    named = os.environ.get(VARIABLE)
    destination = to or (Path(named) if named else Path.home() / ".cache" / "alfworld")
    with _progress_bar() as progress:
        digest = data.get(destination, url=url or data.URL, sha256=sha256, progress=progress)
    compared = "as expected" if sha256 else "not compared: no --sha256 was given"
    typer.echo(f"SHA-256 {digest} ({compared})")
    report = data.check(destination)
    _print_report(report)
    if not to and not named:
        typer.echo(f"Use them with: export {VARIABLE}={destination}")
    if report.problems:
        raise typer.Exit(1)


def _from_environment() -> Path:
    named = os.environ.get(VARIABLE)
    if not named:
        raise LdmError(
            f"No path is given, and {VARIABLE} is not set.",
            "Name the folder that holds json_2.1.1: ldm data check alfworld PATH.",
        )
    return Path(named)


def _print_report(report: Report) -> None:
    from ldm.envs.alfworld.data import PUBLISHED

    typer.echo(f"ALFWorld games in {report.root}")
    for split, kinds in report.counts.items():
        by_kind = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
        typer.echo(f"  {split}: {report.total(split)} of {PUBLISHED[split]} published ({by_kind})")
        for reason, count in report.skipped[split].items():
            typer.echo(f"    left out, as published: {count} ({reason})")
    for problem in report.problems[:SHOWN]:
        typer.echo(f"  problem: {problem}")
    if len(report.problems) > SHOWN:
        typer.echo(f"  … and {len(report.problems) - SHOWN} more: see them all with --json")
    typer.echo(f"{len(report.problems)} problem(s)")


@contextmanager
def _progress_bar() -> Iterator[Progress]:
    """Bars on standard error, one for each thing that is being done."""
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    with Bars(console=Console(stderr=True)) as bars:
        rows: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in rows:
                rows[what] = bars.add_task(what)
            bars.update(rows[what], completed=done, total=total or None)

        yield show
