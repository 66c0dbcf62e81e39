"""`ldm eval` and `ldm compare`: agents on the tasks of a split, and how their results are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ldm.cli import options, output
from ldm.config import AGENT, LIMITS, MEMORY, RUNNING, TASKS, Evaluate, Option, Section
from ldm.errors import LdmError
from ldm.policy import PolicyOptions
from ldm.run import evaluate as evaluations
from ldm.run import results
from ldm.run.evaluate import Evaluations
from ldm.run.grid import Grid
from ldm.run.results import Report
from ldm.run.runtime import DEFAULT_RUNS
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.run.presets import PresetRecord


@dataclass(frozen=True)
class Variations:
    """The variations of an evaluation: further generations, a control, a sweep, repeats."""

    preset: Annotated[
        str | None, Option("Published table, or your own file; see `ldm presets`.", TASKS)
    ] = None
    data: Annotated[Path | None, options.DATA] = None
    generations: Annotated[
        str | None,
        Option("Generation, or several to compare: 0,newest.", MEMORY, flags=("--generation",)),
    ] = None
    control: Annotated[
        Literal["random", "none"] | None,
        Option("Also evaluate a control: random tuples, or none.", AGENT),
    ] = None
    sweep: Annotated[
        str | None,
        Option("Evaluate with each value, as in agent.k=1,5.", AGENT, metavar="PATH=A,B"),
    ] = None
    repeats: Annotated[
        int,
        Option("Play every task so often, each with the next seed.", AGENT, flags=("--repeat",)),
    ] = 1
    retry_errors: Annotated[
        bool, Option("With --resume: play again what ended in an error.", RUNNING, rare=True)
    ] = False
    estimate: Annotated[
        bool, Option("Play a small sample, print what all will cost, and stop.", LIMITS)
    ] = False
    output: Annotated[
        Path | None, Option("Also write a row per episode to this .csv or .parquet.", RUNNING)
    ] = None

    def numbers(self) -> list[int | None]:
        """Return the memory generations, the last given one first; None is the newest."""
        names = options.listed_names(self.generations or "newest") or ("newest",)
        for name in names:
            if name != "newest" and not name.isdecimal():
                raise LdmError(
                    f"{name!r} is not a generation.",
                    "Give numbers, or newest: --generation 0,newest.",
                )
        return [None if name == "newest" else int(name) for name in reversed(names)]

    def grid(self, agents: tuple[str, ...]) -> Grid:
        """Return the variations as `Grid`."""
        more = tuple(self.numbers()[1:])
        return Grid(agents, more, self.control, self.sweep, self.repeats)


#: Short forms of the memory agent's options.
DECIDING = options.shorts(AGENT, PolicyOptions, "agent.k", "agent.wording")


@options.offers(Evaluate, Variations, DECIDING, options.Models, options.Recording)
def evaluate(**values: Any) -> None:
    """Evaluate an agent: success overall and by kind with 95 % intervals, recorded and resumable.

    Without --env, the agent is evaluated on every environment that has a memory. Options of the
    agent and the environment are --agent.NAME and --env.NAME: `ldm agents` and `ldm envs` list
    them. An agent that calls a model plays its tasks in threads.

    \b
    Examples:
      ldm eval
      ldm eval --env alfworld --split valid_seen --agent ldm --k 7
      ldm eval --env alfworld --kinds heat,cool --limit 20 --control random
      ldm eval --env alfworld --agent.decision per-batch --env.dialect put
      ldm eval --env alfworld --generation 0,newest
      ldm eval --env alfworld --agent react,plan_execute,ldm --llm MODEL --limit 6
      ldm eval --env textcraft --agent adapt --sweep agent.d_max=1,2,3,4 --llm MODEL
      ldm eval --env alfworld --agent react --llm MODEL --repeat 3 --output results.csv
      ldm eval --preset adapt-table2 --llm MODEL --estimate
      ldm eval --resume runs/alfworld-valid_seen-ldm-20261121-101530-ab12
      ldm eval --env alfworld --agent my_agents:Chatty --llm MODEL --max-usd 2
    """
    given = options.Given(evaluate, values)
    variations, recording = given.group(Variations), given.group(options.Recording)
    if variations.retry_errors and recording.resume is None:
        raise LdmError("--retry-errors plays tasks of a recorded run.", "Name it with --resume.")
    results.check_table(variations.output)
    prepared = _prepared(given, variations, recording)
    if variations.estimate:
        output.say_all(line for one in prepared for line in one.estimate())
        return
    finished = []
    for one in prepared:
        finished += [one.play(retry_errors=variations.retry_errors)]
    show_reports(finished, [one.presets for one in prepared], recording.as_json)
    write_output([report for group in finished for report in group], variations.output)


def _prepared(
    given: options.Given, variations: Variations, recording: options.Recording
) -> list[Evaluations]:
    """Return the evaluations to run: a recorded one, the rows of presets, or new ones."""
    runtime = recording.runtime()
    if recording.resume is not None:
        given.refuse_with_resume(Evaluate, Variations, ("retry_errors", "estimate", "output"))
        return [Evaluations.resume(recording.resume, given.model_changes(), runtime)]
    nested = given.of(Evaluate)
    agent = Section.read(nested.pop("agent", ""))
    agents = tuple(dict.fromkeys(options.listed_names(agent.name)))
    nested |= {"agent": agent.options} if agent.given else {}
    if variations.generations is not None:
        nested["generation"] = variations.numbers()[0]
    grid = variations.grid(agents)
    if variations.preset is not None:
        from ldm.run.reproducing import prepare_presets

        return prepare_presets(variations.preset, nested, grid, runtime)
    return evaluations.prepare_each(nested, grid, runtime)


def compare(
    names: options.RunNames,
    runs: options.RunsAt = DEFAULT_RUNS,
    trust: options.Trust = False,
    output_file: Annotated[
        Path | None,
        typer.Option("--output", help="Also write a row per episode to this .csv or .parquet."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare finished runs side by side, with the paired difference of the first to the others.

    Runs whose protocols differ are refused, and the difference is named.

    \b
    Examples:
      ldm compare runs/RUN runs/OTHER
      ldm compare runs/RUN runs/OTHER --output results.parquet
    """
    results.check_table(output_file)
    reports = evaluations.compare(names, folder=runs, trust=trust).reports
    show_tables(reports, error=as_json)
    if as_json:
        output.print_json({"runs": [results.as_json(report) for report in reports]})
    write_output(reports, output_file)


def show_reports(
    groups: Sequence[Sequence[Report]], published: Sequence[Sequence[PresetRecord]], as_json: bool
) -> None:
    """Print the reports of each evaluation, on standard output or as JSON.

    published: the preset records of each report's runs. Raises LdmError if no episode counts.
    """
    from ldm.run import presets

    for reports, records in zip(groups, published, strict=True):
        for one in reports:
            title = f"{one.label} on {one.env}, {one.split}"
            output.print_table(title, results.HEADINGS, results.rows(one), error=as_json)
            output.say_all(results.lines(one), error=as_json)
        show_tables(reports, records, error=as_json)
    if as_json:
        objects = [
            results.as_json_group(reports)
            | ({"preset": presets.as_json(reports, records)} if records else {})
            for reports, records in zip(groups, published, strict=True)
        ]
        output.print_json(objects[0] if len(objects) == 1 else {"runs": objects})
    if not any(r.summary.overall.finished_rate is not None for group in groups for r in group):
        raise LdmError("Every episode ended in an error.", "The first one is shown above.")


def show_tables(
    reports: Sequence[Report], records: Sequence[PresetRecord] = (), *, error: bool
) -> None:
    """Print the reports side by side and beside published rows, then what is to say of both.

    records: as in `show_reports`.
    """
    from ldm.run import presets

    remarks = list[str]()
    if len(reports) > 1:
        columns, table, remark = results.comparison(reports)
        output.print_table("Side by side", columns, table, error=error)
        remarks += [*filter(None, [remark]), *results.gains(reports)]
    if records:
        source = records[0].content.source
        output.print_table(f"Beside {source}", *presets.beside(reports, records), error=error)
        remarks += presets.remarks(records[0])
    output.say_all(remarks, error=error)


def write_output(reports: Sequence[Report], path: Path | None) -> None:
    """Write one row per episode to the file, if one is named, and report it."""
    if path is not None:
        output.say(f"{counted(results.write_table(reports, path), 'episode')} → {path}")
