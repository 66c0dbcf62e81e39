"""`ldm curve`: success of finished runs against a number in which they differ."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from ldm.cli import output
from ldm.cli.options import AsJson, RunsFrom, expanded


@dataclass(frozen=True)
class Drawing:
    """What is drawn of the runs, and where it is written."""

    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it to this .svg, .csv or .json.")
    ] = None
    over: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="An agent option, env.NAME, episodes, batches or generation of the memory. "
            "Default: what differs between the runs.",
        ),
    ] = ""
    measure: Annotated[
        Literal["success", "score"], typer.Option(help="Success rate, or mean score.")
    ] = "success"
    title: Annotated[str, typer.Option(help="Title of the picture.")] = ""


@expanded
def curve(
    names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Directories or ids.")],
    drawing: Drawing,
    recorded: RunsFrom,
    as_json: AsJson = False,
) -> None:
    """Plot success against the number in which finished evaluations differ, with 95 % intervals.

    The first run of several that one command started stands for all of them, and one of `ldm
    autoplan --eval SPLIT --curve` for the evaluations of its plans. Runs that differ in anything
    else become separate lines; repeats become one point.

    \b
    Examples:
      ldm curve RUN --output depth.svg
      ldm curve RUN OTHER THIRD --over episodes -o learning.csv
      ldm curve RUN --over batches --measure score
    """
    from ldm.run.curve_runs import curve as curve_of
    from ldm.run.curves import check_curve
    from ldm.run.results import number, percent, span

    if drawing.output is not None:
        check_curve(drawing.output)
    drawn = curve_of(
        names,
        over=drawing.over,
        measure=drawing.measure,
        title=drawing.title,
        folder=recorded.runs,
        trust=recorded.trust,
    )
    columns = ("line", drawn.over, drawn.measure, "95 % interval", "± of runs", "runs", "tasks")
    rows = [
        (
            point.series,
            f"{point.at:g}",
            percent(point.rate),
            span(point.interval),
            number(None if point.deviation is None else 100 * point.deviation),
            point.runs,
            point.tasks,
        )
        for point in drawn.points
    ]
    output.print_table(drawn.title, columns, rows, error=as_json)
    if as_json:
        output.print_json(drawn.as_json())
    if drawing.output is not None:
        drawn.write(drawing.output)
        output.say(f"Curve: {drawing.output}")
