"""`ldm data`: check the published data of an environment, or download them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ldm.cli import output
from ldm.cli.options import AsJson
from ldm.errors import LdmError
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.envs.metadata import DataCheck, DataSource

#: Problems that are listed without --json.
SHOWN = 20


def data(
    env: Annotated[
        str, typer.Argument(metavar="ENV", help="An environment; `ldm envs` lists them.")
    ],
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PATH]", help="Folder or file to check; default: the environment's variable."
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Download the data into this folder.")
    ] = None,
    size: Annotated[
        str, typer.Option(help="Size of the download, if there is a choice; see `ldm envs`.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Count the data of an environment and list damaged files; with --to, download them first.

    An interrupted download is resumed. Each file is compared with its published SHA-256; if none is
    published, the SHA-256 is printed.

    \b
    Examples:
      ldm data alfworld ~/.cache/alfworld
      ldm data textcraft adapt_test_200.jsonl
      ldm data webshop --to ~/.cache/webshop --size all
    """
    source = _source(env)
    if to is not None:
        if path is not None:
            raise typer.BadParameter("name either a path to check or --to FOLDER, not both.")
        _download(env, source, to, size, quiet=as_json)
    report = source.check(to or path or _folder_of_variable(env, source))
    if as_json:
        output.print_json(report.as_json())
    else:
        _print_report(report)
        if to is not None and source.variable and not os.environ.get(source.variable):
            output.show(f"Use them with: export {source.variable}={to}")
    if report.problems:
        raise typer.Exit(1)


def _source(env: str) -> DataSource:
    from ldm.envs.metadata import metadata

    source = metadata(env).data
    if source is None:
        raise LdmError(
            f"The environment {env} has no data to check.",
            "`ldm envs` says what each environment needs.",
        )
    return source


def _download(env: str, source: DataSource, to: Path, size: str, *, quiet: bool) -> None:
    if size and size not in source.sizes:
        known = ", ".join(f"{name} ({holds})" for name, holds in source.sizes.items())
        remedy = f"choose from {known}" if known else "leave it out"
        raise typer.BadParameter(f"{env} has no size {size!r}: {remedy}.", param_hint="--size")
    with output.stages(quiet=quiet) as progress:
        downloads = source.fetch(to, size, progress)
    for file, digest in downloads:
        compared = "as published" if file.sha256 else "no checksum is published"
        output.say(f"{file.filename}: SHA-256 {digest} ({compared})", error=quiet)


def _folder_of_variable(env: str, source: DataSource) -> Path | None:
    """Return the folder that the environment variable names, or None if no folder is needed."""
    if not source.variable:
        return None
    folder = os.environ.get(source.variable)
    if not folder:
        raise LdmError(
            f"No path is given, and {source.variable} is not set.",
            f"Name the folder that holds {source.holds}, ldm data {env} PATH, or download it: "
            f"ldm data {env} --to FOLDER.",
        )
    return Path(folder)


def _print_report(report: DataCheck) -> None:
    for line in report.lines():
        output.show(line)
    for problem in report.problems[:SHOWN]:
        output.show(f"  problem: {problem}")
    if len(report.problems) > SHOWN:
        output.show(f"  … and {len(report.problems) - SHOWN} more: see them all with --json")
    output.show(counted(len(report.problems), "problem"))
