"""`ldm autoplan`: optimise a plan for a kind of task, recorded and resumable."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from ldm.cli import output
from ldm.cli.arms import STOPPED, forget, short
from ldm.cli.choices import said, with_data, without_data
from ldm.cli.models import (
    CacheAt,
    Concurrency,
    LlmName,
    MaxCalls,
    MaxTokens,
    MaxUsd,
    ModelOptions,
    Models,
    PlannerName,
    PricesAt,
    ReplayOf,
    Timeout,
    connection,
    listed,
    serving,
)
from ldm.cli.wiring import DEFAULT_RUNS, Settings, build_environment, override, settings
from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.agents.autoplan.plans import Experience, Iteration, PlanFile
    from ldm.episode import Environment
    from ldm.explore.autoplan import AutoPlanSettings, Workplace
    from ldm.runs import Run
    from ldm.types import Task

DEFAULT_OUT = Path("plans")
#: What the paper plays ALFWorld with, unless --set env.feedback says otherwise.
FEEDBACK = {"alfworld": {"feedback": "fine"}}


@dataclass(frozen=True, slots=True)
class OptimisationPlan:
    """What an optimisation is determined by; run.json holds it, so that it can be resumed.

    pool: ids of the tasks that batches are drawn from. options: (field, value) of
    AutoPlanSettings; env_options: (field, value as written) of the environment's Options.
    out: the folder of the plan file.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    env: str
    split: str
    kind: str
    out: str
    pool: tuple[str, ...] = field(default=(), repr=False)
    env_options: Settings = ()
    options: Settings = ()
    seed: int = 0

    def environment(self) -> Environment:
        """The environment, for its tasks and protocol, or to be played."""
        return build_environment(self.env, self.env_options)

    def settings(self) -> AutoPlanSettings:
        """How the plan is optimised. Raises LdmError where an option does not fit."""
        from ldm.explore.autoplan import AutoPlanSettings

        found: AutoPlanSettings = override(AutoPlanSettings, dict(self.options), "optimisation")
        return found


@dataclass(frozen=True)
class _Served:
    """Builds workplaces with the models of this process."""

    plan: OptimisationPlan
    models: Models

    def __call__(self) -> Workplace:
        from ldm.explore.autoplan import Workplace

        llm, planner = self.models.get("llm"), self.models.get("planner")
        return Workplace(self.plan.environment(), llm, planner)


def autoplan(  # noqa: PLR0913, PLR0917 - one parameter an option
    env: Annotated[
        str | None, typer.Option(help="Environment: a name or package.module:Class.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="The task kind, e.g. heat.")] = None,
    split: Annotated[str | None, typer.Option(help="A training split.")] = None,
    iterations: Annotated[int | None, typer.Option(help="I, batches. Default: 3.")] = None,
    batch: Annotated[int | None, typer.Option(help="B, tasks a batch. Default: 4.")] = None,
    pool: Annotated[
        int | None, typer.Option(help="Tasks that batches are drawn from. Default: 24.")
    ] = None,
    reflection: Annotated[
        Literal["summary", "full"] | None,
        typer.Option(help="Summary only, or flaw and revision, too. Default: full."),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of an attempt. Default: 35.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything drawn at random.")] = None,
    out: Annotated[
        Path | None, typer.Option(help=f"Folder for the plan file; default {DEFAULT_OUT}.")
    ] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Further setting; env.NAME=VALUE: environment."
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The environment's data.")] = None,
    workers: Annotated[int | None, typer.Option(help="Attempts at a time.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    runs: Annotated[Path, typer.Option(help="Folder in which runs are recorded.")] = DEFAULT_RUNS,
    resume: Annotated[
        str | None, typer.Option(help="Go on with this run (directory or id).")
    ] = None,
    llm: LlmName = None,
    planner_llm: PlannerName = None,
    cache: CacheAt = None,
    replay: ReplayOf = None,
    concurrency: Concurrency = None,
    max_usd: MaxUsd = None,
    max_tokens: MaxTokens = None,
    max_calls: MaxCalls = None,
    prices: PricesAt = None,
    timeout: Timeout = None,
) -> None:
    """Optimise a plan for a kind of task (AutoPlan), and save it with how it came about.

    From an empty plan on, each iteration attempts a batch of training tasks, reflects on every
    attempt and rewrites the plan. `ldm eval --agent autoplan --plans FOLDER` uses it; tasks of the
    pool may then not be evaluated. --planner-llm reflects and writes, --llm acts.

    \b
    Examples:
      ldm autoplan --env alfworld --kind heat --iterations 3 --batch 4 --out plans/
      ldm autoplan --env alfworld --kind heat --reflection summary --out plans-summary/
      ldm autoplan --resume runs/autoplan-alfworld-heat-20261121-101530-ab12
    """
    chosen, env_options = settings(assign or [])
    if data is not None:
        env_options["data"] = str(data.expanduser().absolute())
    named = {
        "iterations": iterations,
        "batch": batch,
        "pool": pool,
        "reflection": reflection,
        "steps": steps,
    }
    options = {**chosen, **said(**named)}
    given = {"env": env, "kind": kind, "split": split, "out": out, "seed": seed}
    models = ModelOptions.given(
        llm=llm,
        planner_llm=planner_llm,
        cache=cache,
        replay=replay,
        concurrency=concurrency,
        max_usd=max_usd,
        max_tokens=max_tokens,
        max_calls=max_calls,
        prices=prices,
        timeout=timeout,
    )
    if resume is not None:
        asked = [name for name, value in given.items() if value is not None]
        plan, run, tasks, models = _resumed(resume, runs, [*asked, *options, *env_options], models)
    else:
        plan, run, tasks = _prepared(given, options, env_options, models, runs)
    found, history = _optimise(plan, run, tasks, models, workers, fresh=resume is None)
    _save(plan, run, tasks, (found, history), as_json=as_json)


def _prepared(
    given: Mapping[str, Any],
    options: Mapping[str, str],
    env_options: Mapping[str, str],
    models: ModelOptions,
    runs: Path,
) -> tuple[OptimisationPlan, Run, tuple[Task, ...]]:
    """A new run with its pool chosen. Nothing is written where something does not fit."""
    from ldm.envs import load_env
    from ldm.runs import create

    name, kind = given["env"], given["kind"]
    if not name or not kind:
        raise LdmError("A plan is for a kind of task.", "Name --env and --kind.")
    roles = models.roles()
    full = with_data(name, {**FEEDBACK.get(name, {}), **env_options})
    known = load_env(name).train_splits
    split = given["split"] or known[0]
    if split not in known:
        raise LdmError(
            f"{split} is no training split of {name}.", f"Learn from one of: {', '.join(known)}."
        )
    if not given["split"] and (shipped := without_data(name, full)):
        split = known[-1]
        output.say(f"{shipped.why}: using the shipped split {split}.")
    plan = OptimisationPlan(
        env=name,
        split=split,
        kind=kind,
        out=str((given["out"] or DEFAULT_OUT).expanduser().absolute()),
        env_options=tuple(sorted(full.items())),
        options=tuple(sorted(options.items())),
        seed=given["seed"] or 0,
    )
    plan.settings()
    env = plan.environment()
    try:
        tasks = _pool(plan, env, runs)
        plan = replace(plan, pool=tuple(task.id for task in tasks))
        manifest = _manifest(plan, env, tasks, models)
    finally:
        env.close()
    if not models.replay:
        output.say(f"Models at {connection().shown}: {listed(roles)}.")
    return plan, create(runs, ("autoplan", short(name), kind), manifest), tasks


def _pool(plan: OptimisationPlan, env: Environment, runs: Path) -> tuple[Task, ...]:
    """The tasks that batches are drawn from: of the kind, and not used by an evaluation."""
    from ldm.eval import select
    from ldm.explore import evaluated_leak_keys

    wanted = plan.settings()
    everything = select(env.tasks(plan.split), kinds=(plan.kind,))
    used = evaluated_leak_keys(
        runs, plan.env, env, lambda options: build_environment(plan.env, options)
    )
    free = [task for task in everything if task.leak_key not in used]
    if len(free) < len(everything):
        left_out = len(everything) - len(free)
        output.say(f"{left_out} {plan.kind} tasks of {plan.split} were evaluated: left out.")
    if len(free) < wanted.batch:
        raise LdmError(
            f"{plan.split} has {len(free)} {plan.kind} tasks to learn from, fewer than a batch.",
            "Use a smaller --batch, or another --split.",
        )
    if len(free) < wanted.pool:
        output.say(f"The pool has {len(free)} tasks: {plan.split} has no more of {plan.kind}.")
    return select(free, limit=wanted.pool, seed=plan.seed)


def _manifest(
    plan: OptimisationPlan, env: Environment, tasks: Sequence[Task], models: ModelOptions
) -> Any:
    from ldm import prompts, records
    from ldm.eval import protocol
    from ldm.runs import Manifest

    roles = models.roles()
    names = models.named({"llm": roles["llm"], "planner": roles["planner"]})
    used = {name: d for name, d in prompts.digests().items() if name.startswith("agents/autoplan")}
    return Manifest(
        command="autoplan",
        arguments={
            "plan": json.loads(records.dumps(plan)),
            "models": asdict(models),
        },
        protocol=protocol(env, plan.split, tasks),
        models=names,
        seeds={"seed": plan.seed},
        prompts=used,
    )


def _resumed(
    name: str, runs: Path, asked: Sequence[str], models: ModelOptions
) -> tuple[OptimisationPlan, Run, tuple[Task, ...], ModelOptions]:
    """A recorded run, after making sure that it would be the same optimisation."""
    from ldm import records
    from ldm.eval import protocol, select
    from ldm.runs import MANIFEST, differences, open_run

    run = open_run(name, runs)
    arguments = run.manifest.arguments
    if run.manifest.command != "autoplan":
        raise LdmError(f"{run.directory} optimises no plan.", f"Use `{run.resume_command}`.")
    if asked:
        raise LdmError(
            f"--resume goes on with the recorded options, and {asked[0]} is given.",
            "Leave it out, or start a new run.",
        )
    file = run.directory / MANIFEST
    plan = records.loads(json.dumps(arguments.get("plan", {})), OptimisationPlan, file=str(file))
    recorded = ModelOptions.recorded(arguments.get("models", {}), file)
    models = recorded.resumed(models, str(run.directory))
    env = plan.environment()
    try:
        tasks = select(env.tasks(plan.split), ids=plan.pool)
        changed = differences(run.manifest.protocol, protocol(env, plan.split, tasks))
    finally:
        env.close()
    if changed:
        raise LdmError(
            f"{run.directory} cannot be resumed, because something has changed: {changed[0]}.",
            "Start a new run.",
        )
    return plan, run, tasks, models


def _optimise(
    plan: OptimisationPlan,
    run: Run,
    tasks: tuple[Task, ...],
    options: ModelOptions,
    workers: int | None,
    *,
    fresh: bool,
) -> tuple[str, list[Iteration]]:
    from ldm.explore.autoplan import optimise

    wanted = plan.settings()
    outcomes: list[bool] = []

    def shown(one: Experience) -> None:
        outcomes.append(one.result.success)
        advance(f"success {sum(outcomes)} of {len(outcomes)}")

    try:
        total = wanted.iterations * wanted.batch
        with (
            serving(options, run.directory, " in this run") as models,
            output.progress(f"autoplan {plan.kind}", total) as advance,
        ):
            return optimise(
                run,
                _Served(plan, models),
                tasks,
                wanted,
                seed=plan.seed,
                workers=max(1, workers or options.at_once),
                on_result=shown,
            )
    except STOPPED:
        raise
    except LdmError:
        forget(run, fresh=fresh)
        raise


def _save(
    plan: OptimisationPlan,
    run: Run,
    tasks: Sequence[Task],
    found: tuple[str, list[Iteration]],
    *,
    as_json: bool,
) -> None:
    from ldm.agents.autoplan.plans import PlanFile, path_of, write
    from ldm.runs import writing

    text, history = found
    made = PlanFile(
        env=tasks[0].env,
        kind=plan.kind,
        split=plan.split,
        plan=text,
        pool=plan.pool,
        sources=tuple(sorted({task.leak_key for task in tasks})),
        models=run.manifest.models,
        settings={**dict(plan.options), **{f"env.{k}": v for k, v in plan.env_options}},
        seed=plan.seed,
        run=run.manifest.id,
        iterations=tuple(history),
    )
    path = path_of(Path(plan.out), made.env, made.kind)
    with writing(path):
        write(path, made)
    _show(made, path, run, as_json=as_json)


def _show(made: PlanFile, path: Path, run: Run, *, as_json: bool) -> None:
    rows = [
        (
            str(number),
            str(len(one.experiences)),
            f"{100 * one.success:.0f} %",
            f"{sum(e.result.env_steps for e in one.experiences) / len(one.experiences):.1f}",
            str(sum(e.result.invalid for e in one.experiences)),
            str(sum(bool(e.result.error) for e in one.experiences)),
            "kept" if one.kept else "rewritten",
        )
        for number, one in enumerate(made.iterations, 1)
    ]
    columns = ("iteration", "attempts", "success", "steps", "invalid", "errors", "plan")
    output.print_table(f"A plan for {made.kind} in {made.env}", columns, rows, error=as_json)
    for line in made.plan.splitlines() or ["(empty)"]:
        output.say(f"  {line}", error=as_json)
    output.say(f"Plan: {path}", error=as_json)
    output.say(f"Files: {run.directory}", error=as_json)
    if as_json:
        output.print_json(
            {
                "env": made.env,
                "kind": made.kind,
                "plan": made.plan,
                "success": [one.success for one in made.iterations],
                "file": str(path),
                "run": str(run.directory),
            }
        )
