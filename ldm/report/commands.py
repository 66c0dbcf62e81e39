"""`ldm report` and `ldm runs export`: entry points of the group `ldm.commands`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ldm.cli import output
from ldm.cli.options import RunsAt, Trust
from ldm.run.runtime import DEFAULT_RUNS
from ldm.text import counted

Names = Annotated[list[str], typer.Argument(metavar="RUN...", help="Directories or ids.")]


def report(
    names: Names,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file.")] = Path("report.html"),
    runs: RunsAt = DEFAULT_RUNS,
    trust: Trust = False,
) -> None:
    """Write one page on recorded runs.

    It shows tables, charts and every episode step by step, and needs no network and no other file.
    Evaluations, refinements and plan optimisations may be mixed; an unfinished run shows what is
    recorded so far.

    \b
    Examples:
      ldm report runs/RUN
      ldm report runs/RUN runs/OTHER -o report.html
    """
    from ldm.report.writing import write_report

    path = write_report(names, out, folder=runs, trust=trust)
    output.show(f"Report: {path} ({path.stat().st_size / 1e6:.1f} MB)")


def export(
    name: Annotated[str, typer.Argument(metavar="RUN", help="Directory or id.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file.")],
    runs: RunsAt = DEFAULT_RUNS,
) -> None:
    """Write episodes as chat messages, for fine-tuning: of each the trial that counts.

    \b
    Example:
      ldm runs export RUN -o run.jsonl
    """
    from ldm.report import exporting
    from ldm.run.reading import read_run

    count = exporting.export(read_run(name, runs), out)
    output.show(f"{counted(count, 'episode')} → {out}")
