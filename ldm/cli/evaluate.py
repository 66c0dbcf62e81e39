"""`ldm eval` and `ldm compare`: agents on the tasks of a split, recorded and resumable."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from ldm.cli import output
from ldm.cli.completing import agents, environments, runs_below, splits
from ldm.cli.headings import AGENT, DECISIONS, MEMORY, TASKS
from ldm.cli.options import (
    AsJson,
    Assignments,
    BundledEmbedder,
    Calls,
    Decisions,
    EstimateFirst,
    Kinds,
    LlmName,
    Machines,
    MemoryDefault,
    PlannerName,
    PlannerUrl,
    ReasonerName,
    ReasonerUrl,
    Recorded,
    RunsFrom,
    Seed,
    TableFile,
    distinct,
    expanded,
    listed_ids,
    listed_names,
    option_settings,
)
from ldm.cli.results import check_output, show_reports, show_side_by_side, write_output
from ldm.errors import LdmError
from ldm.run.specs import DEFAULT_AGENT, DEFAULT_MEMORY, full_location

if TYPE_CHECKING:
    from ldm.llm.models import ModelOptions
    from ldm.run.evaluate import Evaluation
    from ldm.run.grid import Grid


@dataclass(frozen=True)
class Subject:
    """On which tasks agents are evaluated."""

    heading: ClassVar[str] = TASKS

    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Published table, or your own file; see `ldm presets list`."
        ),
    ] = None
    env: Annotated[
        str | None,
        typer.Option(
            help="Environment: a name or package.module:Class.", autocompletion=environments
        ),
    ] = None
    split: Annotated[
        str | None,
        typer.Option(help="Split; each environment has a default.", autocompletion=splits),
    ] = None
    limit: Annotated[
        int | None, typer.Option(help="Maximum number of tasks, balanced over kinds.")
    ] = None
    kinds: Kinds = None
    tasks: Annotated[
        str | None,
        typer.Option(
            help="Only these task ids: a,b or a file; or a published list of tasks, JSONL."
        ),
    ] = None
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Play the I-th of N parts; `ldm runs merge` joins them."),
    ] = None
    seed: Seed = None
    data: Annotated[
        Path | None,
        typer.Option(help="Data folder of the environment; default: its environment variable."),
    ] = None
    engine: Annotated[
        str | None, typer.Option(help="Engine of the environment, if it has several: `ldm envs`.")
    ] = None


@dataclass(frozen=True)
class Remembered:
    """From which memory agents recall, and what they never recall."""

    heading: ClassVar[str] = MEMORY

    memory: MemoryDefault = None
    generation: Annotated[
        str | None,
        typer.Option(help="Memory generation, or several to compare: 0,newest. Default: newest."),
    ] = None
    embedder: BundledEmbedder = None
    without_tuple: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Never recall this tuple of the memory; repeatable."),
    ] = None
    without_trajectory: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Never recall this trajectory's tuples; repeatable."),
    ] = None


@dataclass(frozen=True)
class Variations:
    """Which agents are evaluated, with which options, and against what."""

    heading: ClassVar[str] = AGENT

    agent: Annotated[
        str | None,
        typer.Option(
            help="Agent: a name or package.module:Class; several: A,B.", autocompletion=agents
        ),
    ] = None
    control: Annotated[
        Literal["random", "none"] | None,
        typer.Option(help="Also evaluate a control: random tuples, or none."),
    ] = None
    assign: Assignments = None
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=A,B,…",
            help="Evaluate with each value of an agent option, of env.NAME, or of llm.",
        ),
    ] = None
    repeat: Annotated[
        int,
        typer.Option(min=1, metavar="R", help="Play every task R times, each with the next seed."),
    ] = 1
    plans: Annotated[Path | None, typer.Option(help="Folder of plans made by `ldm autoplan`.")] = (
        None
    )
    decision: Annotated[
        Literal["pooled", "per-batch"] | None,
        typer.Option(
            help="One process over all batch memories, or one per batch. Default: pooled.",
            rich_help_panel=DECISIONS,
        ),
    ] = None
    decisions: Decisions = field(default_factory=Decisions)


@dataclass(frozen=True)
class Execution(Recorded):
    """How the evaluation runs, and the models that agents call."""

    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Tasks in parallel; default: cores, or --concurrency with a model."
        ),
    ] = None
    retry_errors: Annotated[
        bool,
        typer.Option("--retry-errors", help="With --resume: play again what ended in an error."),
    ] = False
    llm: LlmName = None
    planner_llm: PlannerName = None
    reasoner_llm: ReasonerName = None
    planner_base_url: PlannerUrl = None
    reasoner_base_url: ReasonerUrl = None
    calls: Calls = field(default_factory=Calls)
    estimate: EstimateFirst = False
    output: TableFile = None
    where: Machines = field(default_factory=Machines)

    def models(self) -> ModelOptions:
        """Return which models are called, and within which limits."""
        return self.calls.options(
            llm=self.llm,
            planner_llm=self.planner_llm,
            reasoner_llm=self.reasoner_llm,
            planner_base_url=self.planner_base_url,
            reasoner_base_url=self.reasoner_base_url,
        )


@dataclass(frozen=True)
class Request:
    """All that the command line says of an evaluation."""

    subject: Subject
    remembered: Remembered
    variations: Variations

    def values(self, env: str = "", *, fixed: bool = False) -> dict[str, Any]:
        """Return the fields of `EvaluationSpec` that were given.

        env: where --env is left out. fixed: whether the split stands elsewhere already.
        """
        from ldm.envs.metadata import published_list

        subject, remembered, more = self.subject, self.remembered, self.variations
        tasks, split = subject.tasks, subject.split
        published = published_list(subject.env or env, tasks, split)
        if published:
            tasks, split = None, split or (None if fixed else published[1])
        agent_options, env_options = option_settings(
            [*(more.assign or ()), *self._named()],
            subject.data,
            more.decisions,
            engine=subject.engine,
            tasks=published[0] if published else None,
        )
        values = {
            "env": subject.env,
            "split": split,
            "limit": subject.limit,
            "kinds": None if subject.kinds is None else listed_names(subject.kinds),
            "tasks": None if tasks is None else listed_ids(tasks),
            "shard": subject.shard,
            "seed": subject.seed,
            "memory": None if remembered.memory is None else full_location(remembered.memory),
            "generation": self.generations()[0],
            "embedder": remembered.embedder,
            "without_tuples": distinct(remembered.without_tuple),
            "without_trajectories": distinct(remembered.without_trajectory),
            "agent_options": agent_options or None,
            "env_options": env_options or None,
        }
        return {name: value for name, value in values.items() if value is not None}

    def fixed_values(self, env: str) -> dict[str, Any]:
        """Return what was given, where a recorded run or a preset has the environment `env`."""
        return self.values(env, fixed=True)

    def generations(self) -> list[int | None]:
        """Return the memory generations, the last one named first; None is the newest."""
        names = listed_names(self.remembered.generation or "newest") or ("newest",)
        for name in names:
            if name != "newest" and not name.isdecimal():
                raise LdmError(
                    f"{name!r} is not a generation.",
                    "Give numbers, or newest: --generation 0,newest.",
                )
        return [None if name == "newest" else int(name) for name in reversed(names)]

    def generation(self) -> dict[str, int | None]:
        """Return the generation as a field of `EvaluationSpec`, where --generation was given."""
        given = self.remembered.generation is not None
        return {"generation": self.generations()[0]} if given else {}

    def grid(self, agent: str = DEFAULT_AGENT) -> Grid:
        """Return what the evaluation is multiplied by. agent: where --agent is left out."""
        from ldm.run.grid import Grid

        return Grid(
            tuple(dict.fromkeys(listed_names(self.variations.agent or agent))),
            tuple(self.generations()[1:]),
            self.variations.control,
            self.variations.sweep,
            self.variations.repeat,
        )

    def _named(self) -> list[str]:
        """Return the agent options that have an option of their own, as assignments."""
        plans, decision = self.variations.plans, self.variations.decision
        named = [] if plans is None else [f"plans={plans}"]
        return named if decision is None else [*named, f"decision={decision}"]


@expanded
def evaluate(
    subject: Subject, remembered: Remembered, variations: Variations, execution: Execution
) -> None:
    """Evaluate an agent: success overall and by kind with 95 % intervals, recorded and resumable.

    Without --env, the agent is evaluated on every environment that has a memory. An agent that
    calls a model plays its tasks in threads, --workers of them (default: --concurrency). --estimate
    plays 6 of them, prints what all will cost, and stops; continue with --resume.

    \b
    Examples:
      ldm eval
      ldm eval --env alfworld --split valid_seen --agent ldm
      ldm eval --env alfworld --kinds heat,cool --limit 20 --control random
      ldm eval --env alfworld --agent ldm --k 7 --set env.dialect=put
      ldm eval --env alfworld --llm gpt-4o-mini --history summary
      ldm eval --env alfworld --generation 0,newest
      ldm eval --env alfworld --without-tuple ID --without-tuple OTHER
      ldm eval --env alfworld --agent react,plan_execute,ldm --llm MODEL --limit 6
      ldm eval --env textcraft --agent adapt --sweep d_max=1,2,3,4 --llm MODEL
      ldm eval --env textcraft --tasks adapt_test_200.jsonl --split stored_test
      ldm eval --env alfworld --agent react --llm MODEL --shard 1/3
      ldm eval --env alfworld --agent react --llm MODEL --repeat 3 --output results.csv
      ldm eval --preset adapt-table2 --llm MODEL --estimate
      ldm eval --resume runs/alfworld-valid_seen-ldm-20261121-101530-ab12
      ldm eval --env alfworld --agent my_agents:Chatty --llm gpt-4o-mini --max-usd 2 --estimate
    """
    if execution.retry_errors and execution.resume is None:
        raise LdmError("--retry-errors plays tasks of a recorded run.", "Name it with --resume.")
    check_output(execution.output)
    evaluations = _evaluations(Request(subject, remembered, variations), execution)
    if execution.estimate:
        output.say_all(line for one in evaluations for line in one.estimate())
        return
    finished = [one.play(retry_errors=execution.retry_errors) for one in evaluations]
    show_reports(finished, [one.presets for one in evaluations], execution.as_json)
    write_output([report for group in finished for report in group], execution.output)
    refined = (line for one in evaluations for line in one.refined_lines())
    output.say_all(refined, error=execution.as_json)


def _evaluations(request: Request, execution: Execution) -> list[Evaluation]:
    """Return what is to be played: a run to go on with, rows of presets, or new evaluations."""
    from ldm.run.evaluate import Named, prepare_each
    from ldm.run.reproducing import prepare_presets
    from ldm.run.resuming import resume_as_named

    subject, models = request.subject, execution.models()
    runtime = execution.runtime(execution.workers, execution.where)
    if execution.resume is not None:
        named = Named(subject.env, request.fixed_values, request.grid(agent=""))
        return [resume_as_named(execution.resume, named, subject.preset, models, runtime)]
    if subject.preset is not None:
        named = Named(
            subject.env,
            lambda env: {**request.fixed_values(env), **request.generation()},
            request.grid(agent=""),
        )
        return prepare_presets(subject.preset, named, models, runtime)
    values = {"memory": full_location(DEFAULT_MEMORY), **request.values()}
    return prepare_each(values, request.grid(), models, runtime)


@expanded
def compare(
    names: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Directories or ids.", autocompletion=runs_below),
    ],
    *,
    where: RunsFrom,
    output_file: TableFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare finished runs side by side, with the paired difference of the first to the others.

    Runs whose protocols differ are refused, and the difference is named.

    \b
    Examples:
      ldm compare runs/RUN runs/OTHER
      ldm compare runs/RUN runs/OTHER --output results.parquet
    """
    from ldm.run.evaluate import compare as compared
    from ldm.run.results import as_json as as_object

    check_output(output_file)
    reports = compared(names, folder=where.runs, trust=where.trust).reports
    show_side_by_side(reports, error=as_json)
    if as_json:
        output.print_json({"runs": [as_object(report) for report in reports]})
    write_output(reports, output_file)
