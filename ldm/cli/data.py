"""`ldm data`: check the published data of an environment, or download them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ldm.cli import output
from ldm.cli.options import AsJson
from ldm.errors import LdmError
from ldm.text import counted, short

if TYPE_CHECKING:
    from ldm.envs.metadata import DataReport, DataSource

SHOWN = 20

data_app = typer.Typer(help="Check or download the published data of an environment.")


def _names() -> list[str]:
    """Return the registered environments, for shell completion."""
    from ldm import registry
    from ldm.envs import ENVS, GROUP

    return list(registry.names(ENVS, GROUP))


Env = Annotated[
    str,
    typer.Argument(
        metavar="ENV",
        help="An environment with data: `ldm envs` lists them.",
        autocompletion=_names,
    ),
]


@data_app.command("check")
def check(
    env: Env,
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PATH]",
            help="Data folder or file; default: the environment variable of the environment.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count what the data folder holds, and name the files, products or tasks that are damaged.

    \b
    Examples:
      ldm data check alfworld ~/.cache/alfworld
      ldm data check webshop ~/.cache/webshop
      ldm data check textcraft adapt_test_200.jsonl
      ldm data check alfworld --json > report.json
    """
    source = _source(env)
    report = source.check(path or _folder_of_variable(env, source))
    if as_json:
        output.print_json(report.as_json())
    else:
        _print_report(report)
    if report.problems:
        raise typer.Exit(1)


@data_app.command("get")
def get(
    env: Env,
    to: Annotated[
        Path | None,
        typer.Option(help="Target folder; default: the environment variable, else ~/.cache/ENV."),
    ] = None,
    size: Annotated[
        str,
        typer.Option(help="Size of the data, where there is a choice; see `ldm envs`."),
    ] = "",
    url: Annotated[
        str, typer.Option(help="Other URL of the archive, or of a folder with several files.")
    ] = "",
    sha256: Annotated[
        str, typer.Option(help="Expected checksum; for several files a comma-separated list.")
    ] = "",
) -> None:
    """Download the official data of an environment and check them; interrupted, it resumes.

    Where no checksum is published, the checksum of the download is printed for comparison, and
    counts are verified.

    \b
    Examples:
      ldm data get alfworld
      ldm data get webshop --size all --to /data/webshop
      ldm data get alfworld --url http://mirror.example/games.zip --sha256 5df7…
    """
    source = _source(env)
    if size and size not in source.sizes:
        choice = ", ".join(
            f"{name} ({holds})" if holds else name for name, holds in source.choices.items()
        )
        remedy = f"choose from {choice}" if choice else "leave it out"
        raise typer.BadParameter(f"{env} has no size {size!r}: {remedy}.", param_hint="--size")
    named = os.environ.get(source.variable)
    destination = to or (Path(named) if named else Path.home() / ".cache" / short(env))
    with output.stages() as progress:
        downloads = source.fetch(destination, size=size, url=url, sha256=sha256, progress=progress)
    for one in downloads:
        compared = "as expected" if one.compared else "not compared: no --sha256 was given"
        output.say(
            " ".join(filter(None, ("SHA-256", one.sha256, one.file, f"({compared})"))), error=False
        )
    report = source.check(destination)
    _print_report(report)
    if source.variable and not to and not named:
        output.say(f"Use them with: export {source.variable}={destination}", error=False)
    if report.problems:
        raise typer.Exit(1)


def _source(env: str) -> DataSource:
    """Return the data of an environment; LdmError where it offers none."""
    from ldm.envs.metadata import metadata

    source = metadata(env).data
    if source is None:
        raise LdmError(
            f"The environment {env} has no data to check or to fetch.",
            "`ldm envs` says what each environment needs.",
        )
    return source


def _folder_of_variable(env: str, source: DataSource) -> Path | None:
    """Return the folder that the variable names, None where the data need none.

    Raises LdmError where they need one and the variable is not set.
    """
    if not source.variable:
        return None
    folder = os.environ.get(source.variable)
    if not folder:
        raise LdmError(
            f"No path is given, and {source.variable} is not set.",
            f"Name the folder that holds {source.holds}: ldm data check {env} PATH.",
        )
    return Path(folder)


def _print_report(report: DataReport) -> None:
    for line in report.lines():
        output.say(line, error=False)
    for problem in report.problems[:SHOWN]:
        output.say(f"  problem: {problem}", error=False)
    if len(report.problems) > SHOWN:
        output.say(
            f"  … and {len(report.problems) - SHOWN} more: see them all with --json", error=False
        )
    output.say(counted(len(report.problems), "problem"), error=False)
