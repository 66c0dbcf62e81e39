"""The evaluation of optimised plans: which of them, on which tasks, and its runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.config import Evaluate, OptimisePlan, Section
from ldm.errors import LdmError
from ldm.run import evaluate as evaluations
from ldm.run.builders import build_environment, plan_settings
from ldm.run.data import evaluation_split
from ldm.run.engine import recorded_spec, together
from ldm.run.plan_figures import PlanEvaluation, PlanScore, PlanScores
from ldm.run.runtime import Runtime

if TYPE_CHECKING:
    from ldm.runs import Run

#: Beside the first run of an optimisation: the id of the first evaluation of its plans.
EVALUATED = "evaluated.json"


def check(
    evaluation: PlanEvaluation,
    specs: Sequence[OptimisePlan],
    sources: AbstractSet[str],
    runtime: Runtime,
) -> PlanEvaluation:
    """Return the evaluation with its split and tasks, before anything is paid for.

    sources: of the tasks that plans will be made from.
    Raises LdmError if there is no such split or task, LeakageError if a task is a source.
    """
    from ldm.run.selection import check_leakage, select

    first = specs[0]
    split = evaluation_split(first.env, evaluation.split, runtime)
    with closing(build_environment(first.env, runtime.cache)) as env:
        tasks = select(env.tasks(split), kinds=_kinds(specs), limit=evaluation.limit)
    check_leakage(
        sources, tasks, what="the plans, which are made from them", remedy="Evaluate another split."
    )
    return replace(evaluation, split=split, tasks=len(tasks))


def episodes(evaluation: PlanEvaluation, specs: Sequence[OptimisePlan]) -> int:
    """Return the number of episodes of the evaluation of all plans."""
    return evaluation.tasks * len(set(_planned(evaluation, specs).values()))


def recorded_evaluation(run: Run) -> PlanEvaluation | None:
    """Return how the plans of a recorded optimisation are evaluated, or None if they are not."""
    return run.argument("evaluation", PlanEvaluation)


def evaluate_plans(
    evaluation: PlanEvaluation, specs: Sequence[OptimisePlan], run: Run, runtime: Runtime
) -> PlanScores:
    """Evaluate the plans of finished optimisations, now or as recorded.

    run: the first of the optimisations, which remembers the evaluation's runs.
    Raises the errors of an evaluation; those that stop it name the command of the optimisation.
    """
    planned = _planned(evaluation, specs)
    distinct = list(dict.fromkeys(planned.values()))
    begun = _begun(run, specs[0].models, runtime) or _begin(distinct, run, runtime)
    playing = replace(begun, resume_with=run.resume_command)
    reports = dict(zip(distinct, playing.play(), strict=True))
    scores = tuple(PlanScore(*place, reports[spec]) for place, spec in planned.items())
    return PlanScores(evaluation, scores)


def _begin(specs: Sequence[Evaluate], run: Run, runtime: Runtime) -> evaluations.Evaluation:
    """Start the evaluations, and remember the first of their runs."""
    from ldm import records
    from ldm.runs import writing

    resolved = [evaluations.resolve(spec, runtime) for spec in specs]
    begun = evaluations.prepare(resolved, runtime)
    path = run.directory / EVALUATED
    with writing(path), records.replacing(path) as file:
        file.write(json.dumps({"run": begun.members[0].run.manifest.id}) + "\n")
    return begun


def _begun(run: Run, models: Section, runtime: Runtime) -> evaluations.Evaluation | None:
    """Return the evaluations that were started before, or None."""
    path = run.directory / EVALUATED
    if not path.is_file():
        return None
    name = _first_run(path)
    directory = run.directory.parent / name
    if not name or not directory.is_dir():  # it was removed without results
        return None
    return evaluations.resume(str(directory), models, runtime)


def evaluated_plans(
    name: str, folder: Path, *, trust: bool = False
) -> Iterator[tuple[str, Run, Evaluate]]:
    """Yield (setting, run, spec) of the evaluations of optimised plans, by setting and iteration.

    name: the first of the optimisations. The empty plan's evaluation is of every setting.
    Raises LdmError if the plans were not evaluated.
    """
    run, spec = recorded_spec(name, OptimisePlan, folder, trust=trust)
    evaluation, path = recorded_evaluation(run), run.directory / EVALUATED
    if evaluation is None or not path.is_file():
        raise LdmError(
            f"The plans of {run.directory} were not evaluated.",
            "Optimise with --eval SPLIT --curve, and name the first of its runs.",
        )
    optimised = together(run, spec, folder, trust=trust)
    first = recorded_spec(
        str(run.directory.parent / _first_run(path)), Evaluate, folder, trust=trust
    )
    played = {_plan(one): (member, one) for member, one in together(*first, folder, trust=trust)}
    for (variant, _, _), planned in _planned(evaluation, [one for _, one in optimised]).items():
        yield variant, *played[_plan(planned)]


def _plan(spec: Evaluate) -> tuple[str, str]:
    """Return the plan of an evaluation: the folder of its optimisation, and the iteration."""
    return spec.agent.text("plans"), spec.agent.text("iteration")


def _first_run(path: Path) -> str:
    from ldm.text import read_json

    content = read_json(path)
    return str(content.get("run", "")) if isinstance(content, dict) else ""


def _planned(
    evaluation: PlanEvaluation, specs: Sequence[OptimisePlan]
) -> dict[tuple[str, int, int], Evaluate]:
    """Return (setting, repeat, iteration) → the evaluation of these plans, of all kinds together.

    The empty plan X_0 is the same for all repeats, and evaluated once for equal options.
    """
    from ldm.agents.autoplan import AutoPlanAgent

    planned: dict[tuple[str, int, int], Evaluate] = {}
    empty: dict[object, Evaluate] = {}
    folders: dict[tuple[str, int], OptimisePlan] = {}
    for spec in specs:
        folders.setdefault((spec.variant, spec.repeat), spec)
    for spec in folders.values():
        settings = plan_settings(spec)
        options = settings.evaluated()
        for iteration in evaluation.iterations(settings.iterations):
            own = {"plans": spec.out, "iteration": str(iteration)}
            one = Evaluate(
                spec.env,
                evaluation.split,
                Section.read({"name": AutoPlanAgent.name, **options, **own}),
                kinds=_kinds(specs),
                limit=evaluation.limit,
                seed=specs[0].seed,
                models=specs[0].models,
            )
            if iteration == 0:
                one = empty.setdefault(tuple(options.items()), one)
            planned[spec.variant, spec.repeat, iteration] = one
    return planned


def _kinds(specs: Sequence[OptimisePlan]) -> tuple[str, ...]:
    """Return the kinds of task of the plans; () for all."""
    from ldm.agents.autoplan.plans import ALL

    kinds = tuple(dict.fromkeys(spec.kind for spec in specs))
    return () if ALL in kinds else kinds
