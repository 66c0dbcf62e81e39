"""`ldm report`: an entry point of the group `ldm.commands`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ldm.cli import output
from ldm.cli.options import RunNames, RunsAt, Trust
from ldm.run.runtime import DEFAULT_RUNS


def report(
    names: RunNames,
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
