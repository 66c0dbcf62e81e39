"""`ldm autoplan`: optimise a plan for a kind of task, recorded and resumable."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ldm.cli import output
from ldm.cli.environment import runtime as command_runtime
from ldm.cli.options import (
    AsJson,
    Calls,
    Data,
    LlmName,
    PlannerName,
    Resume,
    RunsAt,
    Seed,
    Trust,
    as_given,
    expanded,
    option_settings,
    refuse_with_resume,
)
from ldm.errors import LdmError
from ldm.experiments.runtime import DEFAULT_RUNS
from ldm.experiments.specs import PlanSpec
from ldm.options import sorted_settings

if TYPE_CHECKING:
    from ldm.experiments.planning import OptimisedPlan

DEFAULT_OUT = Path("plans")


@dataclass(frozen=True)
class Optimisation:
    """What the plan is for, and how it is optimised."""

    env: Annotated[
        str | None, typer.Option(help="Environment: a name or package.module:Class.")
    ] = None
    kind: Annotated[str | None, typer.Option(help="The task kind, e.g. heat.")] = None
    split: Annotated[str | None, typer.Option(help="A training split.")] = None
    iterations: Annotated[int | None, typer.Option(help="I, batches. Default: 3.")] = None
    batch: Annotated[int | None, typer.Option(help="B, tasks a batch. Default: 4.")] = None
    pool: Annotated[
        int | None, typer.Option(help="Tasks that batches are drawn from. Default: 24.")
    ] = None
    reflection: Annotated[
        Literal["summary", "full"] | None,
        typer.Option(help="Summary only, or flaw and revision, too. Default: full."),
    ] = None
    steps: Annotated[int | None, typer.Option(help="Steps of an attempt. Default: 35.")] = None
    seed: Seed = None
    out: Annotated[
        Path | None, typer.Option(help=f"Folder for the plan file; default {DEFAULT_OUT}.")
    ] = None
    assign: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Further setting; env.NAME=VALUE: environment."
        ),
    ] = None
    data: Data = None

    def options(self) -> dict[str, str]:
        """Return the options of AutoPlanSettings that have an option of their own, as given."""
        return as_given(
            iterations=self.iterations,
            batch=self.batch,
            pool=self.pool,
            reflection=self.reflection,
            steps=self.steps,
        )


@dataclass(frozen=True)
class Execution:
    """How the optimisation runs, and what it prints."""

    workers: Annotated[int | None, typer.Option(min=1, help="Attempts at a time.")] = None
    as_json: AsJson = False
    runs: RunsAt = DEFAULT_RUNS
    resume: Resume = None
    trust: Trust = False
    llm: LlmName = None
    planner_llm: PlannerName = None
    calls: Calls = field(default_factory=Calls)


@expanded
def autoplan(optimisation: Optimisation, execution: Execution) -> None:
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
    from ldm.experiments import planning
    from ldm.experiments.lifecycle import recorded_spec

    plan, runtime = (
        optimisation,
        command_runtime(execution.runs, execution.workers, trust=execution.trust),
    )
    models = execution.calls.options(llm=execution.llm, planner_llm=execution.planner_llm)
    more, env_options = option_settings(plan.assign, plan.data)
    options = {**dict(more), **plan.options()}
    recorded_options = {"env": plan.env, "kind": plan.kind, "split": plan.split, "out": plan.out}
    if execution.resume is not None:
        refuse_with_resume(**recorded_options, seed=plan.seed, **options, **dict(env_options))
        run, spec = recorded_spec(execution.resume, PlanSpec, runtime.runs, trust=execution.trust)
        recorded = planning.resume(run, spec, models, runtime)
    else:
        if not plan.env or not plan.kind:
            raise LdmError("A plan is for a kind of task.", "Name --env and --kind.")
        spec = PlanSpec(
            env=plan.env,
            split=plan.split or "",
            kind=plan.kind,
            out=str(plan.out or DEFAULT_OUT),
            env_options=env_options,
            options=sorted_settings(options),
            seed=plan.seed or 0,
        )
        recorded = planning.prepare(spec, models, runtime)
    _show(planning.make_attempts(recorded, runtime), as_json=execution.as_json)


def _show(result: OptimisedPlan, *, as_json: bool) -> None:
    plan = result.plan
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
        for number, one in enumerate(plan.iterations, 1)
    ]
    columns = ("iteration", "attempts", "success", "steps", "invalid", "errors", "plan")
    output.print_table(f"A plan for {plan.kind} in {plan.env}", columns, rows, error=as_json)
    for line in plan.plan.splitlines() or ["(empty)"]:
        output.say(f"  {line}", error=as_json)
    output.say(f"Plan: {result.path}", error=as_json)
    output.say(f"Files: {result.run.directory}", error=as_json)
    if as_json:
        output.print_json(
            {
                "env": plan.env,
                "kind": plan.kind,
                "plan": plan.plan,
                "success": [one.success for one in plan.iterations],
                "file": str(result.path),
                "run": str(result.run.directory),
            }
        )
