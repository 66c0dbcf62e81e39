"""`ldm eval` and `ldm compare`: agents on the tasks of a split, recorded and resumable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ldm.cli import output
from ldm.cli.environment import runtime as command_runtime
from ldm.cli.options import (
    AsJson,
    Assignments,
    BundledEmbedder,
    Calls,
    Decisions,
    EstimateFirst,
    Kinds,
    LlmName,
    MemoryDefault,
    PlannerName,
    ReasonerName,
    Resume,
    RunsAt,
    Seed,
    Trust,
    distinct,
    expanded,
    listed_ids,
    listed_names,
    option_settings,
)
from ldm.cli.results import show_reports, show_side_by_side
from ldm.errors import LdmError
from ldm.experiments.runtime import DEFAULT_RUNS
from ldm.experiments.specs import DEFAULT_AGENT, DEFAULT_MEMORY, EvaluationSpec, full_location

if TYPE_CHECKING:
    from ldm.experiments.evaluation import Evaluation
    from ldm.experiments.grid import Grid
    from ldm.experiments.runtime import Runtime
    from ldm.llm.models import ModelOptions


@dataclass(frozen=True)
class Subject:
    """What is evaluated, on which tasks."""

    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="A paper's table, or a file of yours; see `ldm presets list`."
        ),
    ] = None
    env: Annotated[
        str | None, typer.Option(help="Environment: a name or package.module:Class.")
    ] = None
    split: Annotated[str | None, typer.Option(help="Split; each environment has a default.")] = None
    agent: Annotated[
        str | None,
        typer.Option(help="Agent: a name or package.module:Class; several: A,B."),
    ] = None
    limit: Annotated[int | None, typer.Option(help="At most so many tasks, kinds evenly.")] = None
    kinds: Kinds = None
    tasks: Annotated[
        str | None,
        typer.Option(
            help="Only these task ids: a,b or a file; or a published list of tasks, JSONL."
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Tasks at a time; default: one a core, with a model --concurrency."
        ),
    ] = None
    seed: Seed = None
    control: Annotated[
        Literal["random", "none"] | None,
        typer.Option(help="Evaluate the agent with random tuples, or none, too."),
    ] = None
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
    """Options of the agent, with values to compare, and of the environment."""

    assign: Assignments = None
    sweep: Annotated[
        str | None,
        typer.Option(metavar="NAME=A,B,…", help="Evaluate with each value of an agent option."),
    ] = None
    plans: Annotated[
        Path | None, typer.Option(help="Folder with the plans of `ldm autoplan`, for autoplan.")
    ] = None
    decision: Annotated[
        Literal["pooled", "per-batch"] | None,
        typer.Option(help="One process over all batch memories, or one a batch. Default: pooled."),
    ] = None
    decisions: Decisions = field(default_factory=Decisions)
    data: Annotated[
        Path | None,
        typer.Option(help="The environment's data; default: the folder that its variable names."),
    ] = None
    engine: Annotated[
        str | None, typer.Option(help="The environment's engine, if it has several: `ldm envs`.")
    ] = None


@dataclass(frozen=True)
class Execution:
    """How the evaluation runs, the models that agents call, and what is printed."""

    as_json: AsJson = False
    runs: RunsAt = DEFAULT_RUNS
    resume: Resume = None
    retry_errors: Annotated[
        bool,
        typer.Option("--retry-errors", help="With --resume: play again what ended in an error."),
    ] = False
    trust: Trust = False
    llm: LlmName = None
    planner_llm: PlannerName = None
    reasoner_llm: ReasonerName = None
    calls: Calls = field(default_factory=Calls)
    estimate: EstimateFirst = False

    def models(self) -> ModelOptions:
        """Return which models are called, and within which limits."""
        return self.calls.options(
            llm=self.llm, planner_llm=self.planner_llm, reasoner_llm=self.reasoner_llm
        )


@dataclass(frozen=True)
class Request:
    """All that the command line says of an evaluation."""

    subject: Subject
    variations: Variations

    def values(self, env: str = "", *, fixed: bool = False) -> dict[str, Any]:
        """Return the fields of `EvaluationSpec` that were given.

        env: where --env is left out. fixed: whether the split stands elsewhere already.
        """
        subject, more = self.subject, self.variations
        tasks, split = subject.tasks, subject.split
        published = _published_list(subject.env or env, tasks, split)
        if published:
            tasks, split = None, split or (None if fixed else published[1])
        agent_options, env_options = option_settings(
            [*(more.assign or ()), *self._named()],
            more.data,
            more.decisions,
            engine=more.engine,
            tasks=published[0] if published else None,
        )
        values = {
            "env": subject.env,
            "split": split,
            "limit": subject.limit,
            "kinds": None if subject.kinds is None else listed_names(subject.kinds),
            "tasks": None if tasks is None else listed_ids(tasks),
            "seed": subject.seed,
            "memory": None if subject.memory is None else full_location(subject.memory),
            "generation": self.generations()[0],
            "embedder": subject.embedder,
            "without_tuples": distinct(subject.without_tuple),
            "without_trajectories": distinct(subject.without_trajectory),
            "agent_options": agent_options or None,
            "env_options": env_options or None,
        }
        return {name: value for name, value in values.items() if value is not None}

    def generations(self) -> list[int | None]:
        """Return the memory generations, the last one named first; None is the newest."""
        names = listed_names(self.subject.generation or "newest") or ("newest",)
        for name in names:
            if name != "newest" and not name.isdecimal():
                raise LdmError(
                    f"{name!r} is no generation.",
                    "Give numbers, or newest: --generation 0,newest.",
                )
        return [None if name == "newest" else int(name) for name in reversed(names)]

    def generation(self) -> dict[str, int | None]:
        """Return the generation as a field of `EvaluationSpec`, where --generation was given."""
        given = self.subject.generation is not None
        return {"generation": self.generations()[0]} if given else {}

    def grid(self, agent: str = DEFAULT_AGENT) -> Grid:
        """Return what the evaluation is multiplied by. agent: where --agent is left out."""
        from ldm.experiments.grid import Grid

        return Grid(
            tuple(dict.fromkeys(listed_names(self.subject.agent or agent))),
            tuple(self.generations()[1:]),
            self.subject.control,
            self.variations.sweep,
        )

    def _named(self) -> list[str]:
        """Return the agent options that have an option of their own, as assignments."""
        plans, decision = self.variations.plans, self.variations.decision
        named = [] if plans is None else [f"plans={plans}"]
        return named if decision is None else [*named, f"decision={decision}"]


@expanded
def evaluate(subject: Subject, variations: Variations, execution: Execution) -> None:
    """Evaluate an agent: success overall and by kind with 95 % intervals, recorded and resumable.

    Without --env, the agent is evaluated on every environment that has a memory. An agent that
    calls a model plays its tasks in threads, --workers of them (default: --concurrency). With
    --estimate it plays 6 of them, says what all will cost, and stops; --resume goes on.

    \b
    Examples:
      ldm eval
      ldm eval --env alfworld --split valid_seen --agent ldm
      ldm eval --env alfworld --kinds heat,cool --limit 20 --control random
      ldm eval --env alfworld --agent ldm --k 7 --set env.dialect=put
      ldm eval --env alfworld --llm gpt-4o-mini --candidates vote --history summary
      ldm eval --env alfworld --generation 0,newest
      ldm eval --env alfworld --without-tuple ID --without-tuple OTHER
      ldm eval --env alfworld --agent react,plan_execute,ldm --llm MODEL --limit 6
      ldm eval --env textcraft --agent adapt --sweep d_max=1,2,3,4 --llm MODEL
      ldm eval --env textcraft --tasks adapt_test_200.jsonl --split stored_test
      ldm eval --preset adapt-table2 --llm MODEL --estimate
      ldm eval --resume runs/alfworld-valid_seen-ldm-20261121-101530-ab12
      ldm eval --env alfworld --agent my_agents:Chatty --llm gpt-4o-mini --max-usd 2 --estimate
    """
    request = Request(subject, variations)
    runtime, models = (
        command_runtime(execution.runs, subject.workers, trust=execution.trust),
        execution.models(),
    )
    if execution.retry_errors and execution.resume is None:
        raise LdmError("--retry-errors plays tasks of a recorded run.", "Name it with --resume.")
    if execution.resume is not None:
        evaluations = [_resumed(execution.resume, request, models, runtime)]
    elif subject.preset is not None:
        evaluations = _of_presets(subject.preset, request, models, runtime)
    else:
        evaluations = _prepared(request, models, runtime)
    if execution.estimate:
        for line in (line for evaluation in evaluations for line in evaluation.estimate()):
            output.say(line, error=False)
        return
    again = execution.retry_errors
    finished = [evaluation.play(retry_errors=again) for evaluation in evaluations]
    show_reports(finished, [one.presets for one in evaluations], execution.as_json)
    for line in (line for evaluation in evaluations for line in evaluation.refined_lines()):
        output.say(line, error=execution.as_json)


def _prepared(request: Request, models: ModelOptions, runtime: Runtime) -> list[Evaluation]:
    """Start an evaluation in the environment asked for, or in every one that has a memory."""
    from ldm.envs import load_env
    from ldm.experiments.evaluation import prepare, remembered, resolve

    values, grid = request.values(), request.grid()
    values.setdefault("memory", full_location(DEFAULT_MEMORY))
    evaluations = []
    names = [values["env"]] if "env" in values else _playable(remembered(values["memory"]))
    for env in names:
        load_env(env)
        spec = resolve(EvaluationSpec(**{**values, "env": env}), runtime)
        evaluations.append(prepare(grid.specs(spec, runtime), models, runtime))
    return evaluations


def _of_presets(
    name: str, request: Request, models: ModelOptions, runtime: Runtime
) -> list[Evaluation]:
    """Start the evaluations of the presets that a name stands for, of the environment asked for."""
    from ldm.eval.presets import list_presets
    from ldm.experiments.lifecycle import discard
    from ldm.experiments.reproducing import plan, prepare_preset

    env = request.subject.env
    _import_named(env, listed_names(request.subject.agent or ""))
    chosen = list_presets(name)
    if len(chosen) > 1:
        chosen = tuple(one for one in chosen if env in (None, one.env)) or chosen
    planned = []
    for one in chosen:
        changes = {**request.values(one.env, fixed=True), **request.generation()}
        planned.append(plan(one, changes, request.grid(agent=""), runtime))
    evaluations: list[Evaluation] = []
    try:
        for each in planned:
            evaluations.append(prepare_preset(each, models, runtime))  # noqa: PERF401
    except LdmError:
        for evaluation in evaluations:
            discard(evaluation.members)
        raise
    return evaluations


def _playable(names: Sequence[str]) -> list[str]:
    """Return the environments that can be loaded; say which of a memory's cannot.

    Raises LdmError where none can.
    """
    from ldm.envs import load_env

    playable = []
    for name in names:
        try:
            load_env(name, recorded=True)
        except LdmError as error:
            if len(names) == 1:
                raise
            output.say(
                f"The memory of {name} is skipped. {error.message} Name its class with --env."
            )
        else:
            playable.append(name)
    if not playable:
        raise LdmError(
            f"None of the memory's environments is known: {', '.join(names)}.",
            "Name the class of one with --env module:Class.",
        )
    return playable


def _resumed(name: str, request: Request, models: ModelOptions, runtime: Runtime) -> Evaluation:
    """Go on with a recorded evaluation. Raises LdmError where an option contradicts it."""
    from ldm.experiments.evaluation import resume, with_digests
    from ldm.experiments.grid import fitting
    from ldm.experiments.lifecycle import recorded_spec
    from ldm.experiments.reproducing import check_resumed

    if request.variations.sweep is not None:
        raise LdmError(
            "--sweep cannot be added to a recorded run.", "Leave it out, or start a new run."
        )
    agents = listed_names(request.subject.agent or "")
    _import_named(request.subject.env, agents)
    run, spec = recorded_spec(name, EvaluationSpec, runtime.runs, trust=runtime.trust)
    values = request.values(spec.env, fixed=True)
    if "agent_options" in values:
        options = values["agent_options"]
        named = replace(spec, agent_options=fitting(options, spec) if len(agents) > 1 else options)
        values["agent_options"] = with_digests(named).agent_options
    _agree(spec, values, str(run.directory))
    evaluation = resume(run, spec, models, runtime)
    if request.subject.preset is not None:
        check_resumed(evaluation, request.subject.preset)
    if request.subject.control is not None and len(evaluation.members) == 1:
        raise LdmError(f"{run.directory} has no control.", "Leave out --control.")
    known = list(dict.fromkeys(member.spec.agent for member in evaluation.members))
    if set(agents) - set(known) or (len(agents) == 1 and agents[0] != spec.agent):
        raise LdmError(
            f"{run.directory} was started with agent {','.join(known)!r}, not "
            f"{','.join(agents)!r}.",
            "Leave the option out, or start a new run.",
        )
    return evaluation


def _import_named(env: str | None, agents: Sequence[str]) -> None:
    """Import the modules that the user names: a recorded run may then name them, too."""
    from ldm.agents import load_agent
    from ldm.envs import load_env

    if env and ":" in env:
        load_env(env)
    for agent in agents:
        if ":" in agent:
            load_agent(agent)


def _agree(spec: EvaluationSpec, values: dict[str, Any], run: str) -> None:
    """Raise LdmError where an option of the command line contradicts the recorded spec."""
    for option, value in values.items():
        recorded = getattr(spec, option)
        if option.endswith("_options"):  # those that are not named stay as they are
            recorded = tuple(pair for pair in recorded if pair[0] in dict(value))
        if recorded != value:
            raise LdmError(
                f"{run} was started with {option.replace('_', ' ')} {recorded!r}, not {value!r}.",
                "Leave the option out, or start a new run.",
            )


def _published_list(env: str, tasks: str | None, split: str | None) -> tuple[str, str] | None:
    """Return (file, split) where --tasks names a published list, JSONL; else None.

    Raises LdmError where `env` plays no such list, or where `split` is no split of it.
    """
    if tasks is None or not tasks.endswith(".jsonl"):
        return None
    from ldm.envs.metadata import metadata_of, registered

    splits = {name: metadata_of(one).stored_split for name, one in registered()[0].items()}
    playing = {name: stored for name, stored in splits.items() if stored}
    if env not in playing:
        raise LdmError(
            f"{tasks} is a published list of tasks, which {env or 'no environment named'} plays.",
            f"Use --env {' or '.join(playing)}; or name task ids: a,b or a text file.",
        )
    stored = playing[env]
    if split is not None and not split.startswith(stored):
        raise LdmError(
            f"{tasks} is a published list of tasks, but --split {split} is not played from it.",
            f"Leave --split out, or give {stored} or a split of {env} that begins so.",
        )
    return str(Path(tasks).expanduser().absolute()), stored


def compare(
    names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Directories or ids.")],
    runs: RunsAt = DEFAULT_RUNS,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Compare finished runs side by side, with the paired difference of the first to the others.

    Runs whose protocols differ are refused, and the difference is named.

    \b
    Example:
      ldm compare runs/RUN runs/OTHER
    """
    from ldm.eval import as_json as as_object
    from ldm.experiments.evaluation import compare as compared

    reports = compared(names, folder=runs, trust=trust).reports
    show_side_by_side(reports, error=as_json)
    if as_json:
        output.print_json({"runs": [as_object(report) for report in reports]})
