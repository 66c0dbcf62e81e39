"""`ldm autoplan`: optimise plans for kinds of task, recorded and resumable, and evaluate them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ldm.agents.autoplan.optimiser import AutoPlanSettings
from ldm.cli import output
from ldm.cli.options import DATA, Given, Models, Recording, listed_names, offers, shorts
from ldm.config import LIMITS, PLAN, OptimisePlan, Option, load
from ldm.errors import LdmError
from ldm.run import plan as plans
from ldm.run.plan import OptimisedPlan, OptimisedPlans, PlanEvaluation


@dataclass(frozen=True)
class Repetition:
    """The repeats and settings of optimisations, and the evaluation of their plans."""

    data: Annotated[Path | None, DATA] = None
    repeats: Annotated[
        int, Option("Independent runs, each with the next seed.", PLAN, flags=("--repeat",))
    ] = 1
    sweep: Annotated[
        str | None,
        Option("Optimise with each value, as in plan.batch=2,4.", PLAN, metavar="PATH=A,B"),
    ] = None
    evaluate: Annotated[
        str | None,
        Option("Also evaluate the plans on this split.", PLAN, flags=("--eval",), metavar="SPLIT"),
    ] = None
    curve: Annotated[
        bool, Option("With --eval: the plan of every iteration, not only the last.", PLAN)
    ] = False
    limit: Annotated[
        int | None, Option("With --eval: number of tasks, balanced over kinds.", PLAN)
    ] = None
    estimate: Annotated[
        bool, Option("Run the first iterations, print what all will cost, and stop.", LIMITS)
    ] = False

    def evaluation(self) -> PlanEvaluation | None:
        """Return the evaluation of the plans. Raises LdmError for options that do not fit."""
        if self.evaluate is None:
            if self.curve or self.limit is not None:
                raise LdmError("--curve and --limit are for --eval SPLIT.", "Name the split.")
            return None
        return PlanEvaluation(self.evaluate, self.limit, self.curve)


#: Short forms of the optimisation's settings.
SETTINGS = shorts(PLAN, AutoPlanSettings, "plan.iterations", "plan.batch")


@offers(OptimisePlan, Repetition, SETTINGS, Models, Recording)
def autoplan(**values: Any) -> None:
    """Optimise plans for kinds of task (AutoPlan), and save them with how they were made.

    Starting from an empty plan, each iteration attempts a batch of training tasks, reflects on
    every attempt and rewrites the plan. `ldm eval --agent autoplan --agent.plans FOLDER` uses it;
    tasks of the pool can then not be evaluated. --planner-llm reflects and writes, --llm acts. With
    --eval the plans are evaluated at once, over all repeats; --curve shows success by iteration.

    \b
    Examples:
      ldm autoplan --env alfworld --kind heat --iterations 3 --batch 4 --out plans/
      ldm autoplan --env alfworld --kind each --repeat 5 --eval valid_unseen --llm MODEL
      ldm autoplan --env alfworld --kind heat --sweep plan.batch=2,4,8 --eval valid_unseen --curve
      ldm autoplan --env hotpotqa --kind all --split train_hard --estimate --llm MODEL
      ldm autoplan --resume runs/autoplan-alfworld-heat-20261121-101530-ab12
    """
    given = Given(autoplan, values)
    repetition, recording = given.group(Repetition), given.group(Recording)
    optimisation = _prepared(given, repetition, recording)
    if repetition.estimate:
        output.say_all(optimisation.estimate())
        return
    _show(optimisation.play(), as_json=recording.as_json)


def _prepared(given: Given, repetition: Repetition, recording: Recording) -> plans.Optimisation:
    """Return the optimisations to carry out: recorded ones, or new ones."""
    runtime = recording.runtime()
    if recording.resume is not None:
        given.refuse_with_resume(OptimisePlan, Repetition, ("estimate",))
        return plans.Optimisation.resume(recording.resume, given.model_changes(), runtime)
    spec = load(OptimisePlan, given.of(OptimisePlan))
    kinds = listed_names(spec.kind)
    if not spec.env.name or not kinds:
        raise LdmError("No environment or task kind is named.", "Name both: --env and --kind.")
    grid = plans.PlanGrid(kinds, repetition.repeats, repetition.sweep)
    return plans.prepare(spec, grid, repetition.evaluation(), runtime)


def _show(result: OptimisedPlans, *, as_json: bool) -> None:
    alone = len(result.plans) == 1
    _show_plans(result.plans, error=as_json)
    if (scores := result.scores) is not None:
        evaluated = f"Evaluated on {scores.evaluation.tasks} tasks of {scores.evaluation.split}."
        output.say(evaluated, error=as_json)
        for title, columns, rows in scores.tables():
            output.print_table(title, columns, rows, error=as_json)
        output.say_all(scores.lines(), error=as_json)
    if as_json:
        objects = [_as_json(one, alone=alone) for one in result.plans]
        if alone and scores is None:
            output.print_json(objects[0])
            return
        evaluation = None if scores is None else scores.as_json()
        output.print_json({"plans": objects, "evaluation": evaluation})


def _show_plans(plans: Sequence[OptimisedPlan], *, error: bool) -> None:
    """Print the history of each plan, and the text of a single one."""
    rows, places = list[tuple[object, ...]](), list[str]()
    for one in plans:
        setting = one.plan.kind, one.spec.variant or "–", one.spec.repeat
        for number, each in enumerate(one.plan.iterations, 1):
            attempts = [experience.result for experience in each.experiences]
            steps = sum(attempt.env_steps for attempt in attempts) / len(attempts)
            figures = len(attempts), f"{100 * each.success:.0f} %", f"{steps:.1f}"
            invalid = sum(attempt.invalid for attempt in attempts)
            errors = sum(bool(attempt.error) for attempt in attempts)
            fate = "kept" if each.kept else "rewritten"
            rows.append((*setting, number, *figures, invalid, errors, fate))
        places += [f"Plan: {one.path}", f"Files: {one.run.directory}"]
    which = ("kind", "setting", "repeat", "iteration")
    columns = (*which, "attempts", "success", "steps", "invalid", "errors", "plan")
    output.print_table(f"Plans in {plans[0].plan.env}", columns, rows, error=error)
    lines = plans[0].plan.plan.splitlines() or ["(empty)"] if len(plans) == 1 else []
    output.say_all([*(f"  {line}" for line in lines), *places], error=error)


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
