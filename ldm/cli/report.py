"""`ldm report` and `ldm view`: one page on recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ldm.cli import output
from ldm.cli.options import RunsFrom, expanded

Names = Annotated[list[str], typer.Argument(metavar="RUN...", help="Directories or ids.")]
Prompts = Annotated[
    bool,
    typer.Option("--prompts/--no-prompts", help="Whether to include the prompts of models."),
]


@expanded
def report(
    names: Names,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file.")] = Path("report.html"),
    prompts: Prompts = True,
    where: RunsFrom,
) -> None:
    """Write one page on recorded runs: tables, charts, and every episode step by step.

    It needs no network and no other file. Evaluations, refinements and plan optimisations may be
    mixed; an unfinished run shows what is recorded so far.

    \b
    Examples:
      ldm report runs/RUN -o report.html
      ldm report runs/RUN runs/OTHER
    """
    from ldm.report import write_report

    path = write_report(names, out, folder=where.runs, trust=where.trust, prompts=prompts)
    output.say(f"Report: {path} ({path.stat().st_size / 1e6:.1f} MB)", error=False)


@expanded
def view(
    names: Names,
    *,
    opens: Annotated[
        bool, typer.Option("--open/--no-open", help="Whether to open it in the browser.")
    ] = True,
    where: RunsFrom,
) -> None:
    """Build the report on runs, in the directory of the first, and open it in the browser.

    \b
    Examples:
      ldm view runs/RUN
      ldm view runs/RUN --no-open
    """
    import webbrowser

    from ldm.report import FILE, write_report
    from ldm.runs import open_run

    path = write_report(
        names, open_run(names[0], where.runs).directory / FILE, folder=where.runs, trust=where.trust
    )
    output.say(f"Report: {path}", error=False)
    if opens and not webbrowser.open(path.resolve().as_uri()):
        output.say("No browser could be opened: open that file in one.")
