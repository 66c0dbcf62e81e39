"""`ldm autoplan`: optimise plans for kinds of task, recorded and resumable, and evaluate them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from ldm.cli import output
from ldm.cli.completing import environments, kinds, splits
from ldm.cli.headings import PLAN, REPETITION, TASKS
from ldm.cli.options import (
    Calls,
    Data,
    EstimateFirst,
    LlmName,
    PlannerName,
    Recorded,
    Seed,
    as_given,
    expanded,
    listed_names,
    option_settings,
    refuse_with_resume,
)
from ldm.errors import LdmError
from ldm.options import sorted_settings
from ldm.run.specs import PlanSpec

if TYPE_CHECKING:
    from ldm.llm.models import ModelOptions
    from ldm.run.plan import Optimisation, OptimisedPlan, OptimisedPlans
    from ldm.run.plan_figures import PlanEvaluation, PlanScores
    from ldm.run.runtime import Runtime

DEFAULT_OUT = Path("plans")


@dataclass(frozen=True)
class Optimising:
    """How plans are optimised: fields of `ldm.agents.autoplan.settings.AutoPlanSettings`."""

    heading: ClassVar[str] = PLAN

    iterations: Annotated[int | None, typer.Option(help="Iterations (I). Default: 3.")] = None
    batch: Annotated[int | None, typer.Option(help="Tasks per batch (B). Default: 4.")] = None
    pool: Annotated[
        int | None,
        typer.Option(help="Tasks to draw batches from. Default: as published, or 24."),
    ] = None
    reflection: Annotated[
        Literal["summary", "full"] | None,
        typer.Option(help="Summary only, or also flaw and revision. Default: full."),
    ] = None
    steps: Annotated[
        int | None, typer.Option(help="Maximum steps per attempt. Default: as published, or 35.")
    ] = None


@dataclass(frozen=True)
class Subject:
    """What plans are for, and how they are optimised."""

    heading: ClassVar[str] = TASKS

    env: Annotated[
        str | None,
        typer.Option(
            help="Environment: a name or package.module:Class.", autocompletion=environments
        ),
    ] = None
    kind: Annotated[
        str | None,
        typer.Option(
            help="Task kind, e.g. heat, or heat,cool; each: a plan for every kind; "
            "all: one plan for all kinds.",
            autocompletion=kinds,
        ),
    ] = None
    split: Annotated[str | None, typer.Option(help="A training split.", autocompletion=splits)] = (
        None
    )
    options: Optimising = field(default_factory=Optimising)
    seed: Seed = None
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"Folder for the plan files; default {DEFAULT_OUT}.", rich_help_panel=PLAN
        ),
    ] = None
    assign: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Further setting, or env.NAME=VALUE; repeatable.",
            rich_help_panel=PLAN,
        ),
    ] = None
    data: Data = None


@dataclass(frozen=True)
class Repetition:
    """How often plans are optimised, with which settings, and on what they are evaluated."""

    heading: ClassVar[str] = REPETITION

    repeats: Annotated[
        int | None, typer.Option(min=1, help="Independent runs, each with the next seed.")
    ] = None
    sweep: Annotated[
        str | None,
        typer.Option(metavar="NAME=A,B,…", help="Optimise with each value of a setting."),
    ] = None
    evaluate: Annotated[
        str | None,
        typer.Option("--eval", metavar="SPLIT", help="Also evaluate the plans on this split."),
    ] = None
    curve: Annotated[
        bool,
        typer.Option(
            "--curve", help="With --eval: the plan of every iteration, not only the last."
        ),
    ] = False
    limit: Annotated[
        int | None, typer.Option(help="With --eval: maximum number of tasks, balanced over kinds.")
    ] = None

    def evaluation(self) -> PlanEvaluation | None:
        """Return on what plans are evaluated. Raises LdmError where options do not fit."""
        from ldm.run.plan_figures import PlanEvaluation

        if self.evaluate is None:
            if self.curve or self.limit is not None:
                raise LdmError("--curve and --limit are for --eval SPLIT.", "Name the split.")
            return None
        return PlanEvaluation(self.evaluate, self.limit, self.curve)


@dataclass(frozen=True)
class Execution(Recorded):
    """How the optimisation runs, and the models that agents call."""

    workers: Annotated[int | None, typer.Option(min=1, help="Attempts in parallel.")] = None
    llm: LlmName = None
    planner_llm: PlannerName = None
    calls: Calls = field(default_factory=Calls)
    estimate: EstimateFirst = False


@expanded
def autoplan(subject: Subject, repetition: Repetition, execution: Execution) -> None:
    """Optimise plans for kinds of task (AutoPlan), and save them with how they were made.

    Starting from an empty plan, each iteration attempts a batch of training tasks, reflects on
    every attempt and rewrites the plan. `ldm eval --agent autoplan --plans FOLDER` uses it; tasks
    of the pool can then not be evaluated. --planner-llm reflects and writes, --llm acts. With
    --eval the plans are evaluated at once, over all repeats; --curve shows success by iteration.
    --estimate runs the first iterations and prints what all will cost; continue with --resume.

    \b
    Examples:
      ldm autoplan --env alfworld --kind heat --iterations 3 --batch 4 --out plans/
      ldm autoplan --env alfworld --kind each --repeats 5 --eval valid_unseen --llm MODEL
      ldm autoplan --env alfworld --kind heat --sweep batch=2,4,8 --eval valid_unseen --curve
      ldm autoplan --env alfworld --kind heat --sweep reflection=full,summary --eval valid_seen
      ldm autoplan --env hotpotqa --kind all --split train_hard --estimate --llm MODEL
      ldm autoplan --resume runs/autoplan-alfworld-heat-20261121-101530-ab12
    """
    runtime = execution.runtime(execution.workers)
    models = execution.calls.options(
        llm=execution.llm,
        planner_llm=execution.planner_llm,
    )
    if execution.resume is not None:
        optimisation = _resumed(execution.resume, subject, repetition, models, runtime)
    else:
        optimisation = _prepared(subject, repetition, models, runtime)
    if execution.estimate:
        output.say_all(optimisation.estimate())
        return
    _show(optimisation.play(), as_json=execution.as_json)


def _prepared(
    subject: Subject, repetition: Repetition, models: ModelOptions, runtime: Runtime
) -> Optimisation:
    from ldm.run.plan import PlanGrid, prepare

    kinds = listed_names(subject.kind or "")
    if not subject.env or not kinds:
        raise LdmError("No environment or task kind is named.", "Name both: --env and --kind.")
    more, env_options = option_settings(subject.assign, subject.data)
    spec = PlanSpec(
        env=subject.env,
        split=subject.split or "",
        kind=kinds[0],
        out=str(subject.out or DEFAULT_OUT),
        env_options=env_options,
        options=sorted_settings({**dict(more), **as_given(**asdict(subject.options))}),
        seed=subject.seed or 0,
    )
    grid = PlanGrid(kinds, repetition.repeats or 1, repetition.sweep)
    return prepare(spec, grid, repetition.evaluation(), models, runtime)


def _resumed(
    name: str, subject: Subject, repetition: Repetition, models: ModelOptions, runtime: Runtime
) -> Optimisation:
    """Go on with a recorded optimisation. Raises LdmError where an option is given beside it."""
    from ldm.run.lifecycle import recorded_spec
    from ldm.run.plan import resume

    more, env_options = option_settings(subject.assign, subject.data)
    refuse_with_resume(
        env=subject.env,
        kind=subject.kind,
        split=subject.split,
        out=subject.out,
        seed=subject.seed,
        **{**dict(more), **as_given(**asdict(subject.options)), **dict(env_options)},
        repeats=repetition.repeats,
        sweep=repetition.sweep,
        eval=repetition.evaluate,
        curve=repetition.curve,
        limit=repetition.limit,
    )
    recorded = recorded_spec(name, PlanSpec, runtime.runs, trust=runtime.trust)
    return resume(*recorded, models, runtime)


def _show(result: OptimisedPlans, *, as_json: bool) -> None:
    alone = len(result.plans) == 1
    for one in result.plans if alone else ():
        _show_plan(one, error=as_json)
    if not alone:
        _show_plans(result.plans, error=as_json)
    if result.scores is not None:
        _show_scores(result.scores, error=as_json)
    if as_json:
        objects = [_as_json(one, alone=alone) for one in result.plans]
        if alone and result.scores is None:
            output.print_json(objects[0])
            return
        scores = None if result.scores is None else result.scores.as_json()
        output.print_json({"plans": objects, "evaluation": scores})


def _show_plan(result: OptimisedPlan, *, error: bool) -> None:
    """Print how one plan came about, and the plan."""
    plan = result.plan
    rows = [
        (
            number,
            len(one.experiences),
            f"{100 * one.success:.0f} %",
            f"{sum(e.result.env_steps for e in one.experiences) / len(one.experiences):.1f}",
            sum(e.result.invalid for e in one.experiences),
            sum(bool(e.result.error) for e in one.experiences),
            "kept" if one.kept else "rewritten",
        )
        for number, one in enumerate(plan.iterations, 1)
    ]
    columns = ("iteration", "attempts", "success", "steps", "invalid", "errors", "plan")
    output.print_table(f"A plan for {plan.kind} in {plan.env}", columns, rows, error=error)
    lines = (f"  {line}" for line in plan.plan.splitlines() or ["(empty)"])
    places = (f"Plan: {result.path}", f"Files: {result.run.directory}")
    output.say_all((*lines, *places), error=error)


def _show_plans(plans: tuple[OptimisedPlan, ...], *, error: bool) -> None:
    """Print a line a plan: its success on training tasks by iteration."""
    rows = [
        (
            one.plan.kind,
            one.spec.variant or "–",
            one.spec.repeat,
            ", ".join(f"{100 * iteration.success:.0f} %" for iteration in one.plan.iterations),
            sum(bool(e.result.error) for i in one.plan.iterations for e in i.experiences),
            one.path,
        )
        for one in plans
    ]
    columns = ("kind", "setting", "repeat", "success by iteration", "errors", "plan")
    output.print_table(f"Plans in {plans[0].plan.env}", columns, rows, error=error)
    output.say_all((f"Files: {one.run.directory}" for one in plans), error=error)


def _show_scores(scores: PlanScores, *, error: bool) -> None:
    """Print success by iteration and by kind, and the tests between settings."""
    evaluated = scores.evaluation
    output.say(f"Evaluated on {evaluated.tasks} tasks of {evaluated.split}.", error=error)
    if len(scores.iterations) > 1:
        output.print_table("Success by iteration", *scores.rows(), error=error)
    output.print_table("Success of the last plans", *scores.rows_by_kind(), error=error)
    output.say_all(scores.lines(), error=error)


def _as_json(result: OptimisedPlan, *, alone: bool) -> dict[str, Any]:
    plan, spec = result.plan, result.spec
    return {
        "env": plan.env,
        "kind": plan.kind,
        **({} if alone else {"variant": spec.variant, "repeat": spec.repeat}),
        "plan": plan.plan,
        "success": [one.success for one in plan.iterations],
        "file": str(result.path),
        "run": str(result.run.directory),
    }
