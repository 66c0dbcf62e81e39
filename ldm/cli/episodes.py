"""`ldm runs show` and `ldm runs export`: episodes in the terminal, and as logs of other tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ldm.cli import output
from ldm.cli.options import AsJson, RunsAt, expanded
from ldm.errors import LdmError
from ldm.run.runtime import DEFAULT_RUNS
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.report.reading import ReadRun, RecordedEpisode

#: Rows of a table, unless all are asked for.
LISTED = 50
#: What "nothing is cut" comes to.
ALL = 10**9

RunName = Annotated[str, typer.Argument(metavar="RUN", help="Directory or id.")]


@dataclass(frozen=True)
class Display:
    """What is printed of a run."""

    trial: Annotated[
        int | None, typer.Option(min=1, help="Which trial; by default the one that counts.")
    ] = None
    tuples: Annotated[
        bool, typer.Option("--tuples", help="List recalled tuples: how often, with what outcome.")
    ] = False
    full: Annotated[bool, typer.Option("--full", help="Print long texts in full.")] = False
    as_json: AsJson = False
    runs: RunsAt = DEFAULT_RUNS


@expanded
def show(
    name: RunName,
    task: Annotated[
        str, typer.Argument(help="Task id or a part of it; without it, episodes are listed.")
    ] = "",
    display: Display = Display(),
) -> None:
    """Print an episode: what was thought and done, the recalled tuples as text, and how they voted.

    A recalled tuple that the action follows is marked with *. Long texts are cut.

    \b
    Examples:
      ldm runs show RUN
      ldm runs show RUN pick_heat_then_place
      ldm runs show RUN --tuples
    """
    from ldm.report.reading import read_run

    run = read_run(name, display.runs)
    episodes = run.episodes()
    if not episodes:
        raise LdmError(
            f"{run.run.directory} has no episodes.",
            "`ldm runs tree` prints the trees of a refinement, and `ldm report` shows them.",
        )
    chosen = [_one_of(episodes, task)] if task else episodes
    if display.tuples:
        _print_tuples(run, chosen, display)
    elif task:
        _print_episode(run, chosen[0], display)
    else:
        _print_list(run, episodes, display)


@dataclass(frozen=True)
class Target:
    """Where the log goes, and what it holds."""

    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file to write; for ATIF also a folder."),
    ] = None
    endpoint: Annotated[
        str | None,
        typer.Option(envvar="OTEL_EXPORTER_OTLP_ENDPOINT", help="For spans: the collector's URL."),
    ] = None
    content: Annotated[
        bool, typer.Option("--content", help="For spans: include texts of messages and actions.")
    ] = False
    runs: RunsAt = DEFAULT_RUNS


@expanded
def export(
    name: RunName,
    form: Annotated[
        Literal["inspect", "atif", "openai", "parquet", "otel"],
        typer.Option("--format", help="Output format; otel sends OpenTelemetry spans."),
    ],
    target: Target = Target(),
) -> None:
    """Write a run's episodes as logs of other tools; of each, the trial that counts.

    inspect: a log of Inspect. atif: Harbor's. openai: chat messages, for fine-tuning. parquet: a
    row a step. otel: OpenTelemetry spans by the conventions for generative AI, to a collector; it
    needs the extra otel.

    \b
    Examples:
      ldm runs export RUN --format inspect -o run.json
      ldm runs export RUN --format parquet -o run.parquet
      ldm runs export RUN --format otel --endpoint http://localhost:4317
    """
    from ldm.report.reading import read_run

    run = read_run(name, target.runs)
    if form == "otel":
        from ldm.report.telemetry import export_spans, otlp_exporter

        if target.endpoint is None:
            raise LdmError("No collector is named for the spans.", "Name it with --endpoint URL.")
        spans = export_spans(run, otlp_exporter(target.endpoint), content=target.content)
        output.say(f"{counted(spans, 'span')} → {target.endpoint}", error=False)
        return
    from ldm.report.exporting import export as write

    if target.out is None:
        raise LdmError("No output file is named.", "Name it with --out FILE.")
    count = write(run, target.out, form)
    output.say(f"{counted(count, 'episode')} → {target.out}", error=False)


def _print_tuples(run: ReadRun, episodes: Sequence[RecordedEpisode], display: Display) -> None:
    from ldm.report.reading import tuples_of
    from ldm.report.text import TUPLE_COLUMNS, tuple_uses

    uses = tuple_uses(episodes, tuples_of(run, episodes))
    if display.as_json:
        output.print_json({"tuples": [one.as_data() for one in uses]})
        return
    if not uses:
        output.say("Nothing was recalled.", error=False)
        return
    listed = uses if display.full else uses[:LISTED]
    output.print_table("Recalled tuples", TUPLE_COLUMNS, [one.as_row() for one in listed])
    _say_rest(len(uses) - len(listed))


def _print_list(run: ReadRun, episodes: Sequence[RecordedEpisode], display: Display) -> None:
    from ldm.records import plain
    from ldm.report.text import EPISODE_COLUMNS, episode_row

    if display.as_json:
        output.print_json({"episodes": [plain(one.result) for one in episodes]})
        return
    listed = episodes if display.full else episodes[:LISTED]
    rows = [episode_row(one) for one in listed]
    output.print_table(f"Episodes of {run.id}", EPISODE_COLUMNS, rows)
    _say_rest(len(episodes) - len(listed))


def _say_rest(count: int) -> None:
    if count > 0:
        output.say(f"… and {count} more (--full).", error=False)


def _print_episode(run: ReadRun, episode: RecordedEpisode, display: Display) -> None:
    from ldm.records import plain
    from ldm.report.reading import tuples_of
    from ldm.report.text import Bounds, episode_lines

    if display.trial is not None and display.trial > len(episode.trials):
        raise LdmError(
            f"{episode.result.task.id} has no trial {display.trial}: it has {len(episode.trials)}.",
            "Leave --trial out for the one that counts.",
        )
    if display.as_json:
        trials = [plain(trial) for trial in episode.trials]
        output.print_json({"result": plain(episode.result), "trials": trials})
        return
    bounds = Bounds(ALL, ALL, ALL) if display.full else Bounds()
    trial = None if display.trial is None else display.trial - 1
    output.say_all(episode_lines(episode, tuples_of(run, [episode]), bounds, trial))


def _one_of(episodes: Sequence[RecordedEpisode], name: str) -> RecordedEpisode:
    """Return the episode at the task with this id, or at the only one whose id contains it."""
    ids = [one.result.task.id for one in episodes]
    matches = [one for one in episodes if one.result.task.id == name] or [
        one for one in episodes if name in one.result.task.id
    ]
    if len(matches) != 1:
        which = f"{len(matches)} episodes match" if matches else "No episode matches"
        example = matches[0].result.task.id if matches else ids[0]
        raise LdmError(
            f"{which} {name!r} in this run.",
            f"For example {example}; `ldm runs show RUN` lists all.",
        )
    return matches[0]
