"""The evaluation of optimised plans: which of them, on which tasks, and its runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from ldm.errors import LdmError
from ldm.eval.plan_scores import PlanEvaluation, PlanScore, PlanScores
from ldm.experiments import evaluation as evaluations
from ldm.experiments.builders import build_environment
from ldm.experiments.data import evaluation_split
from ldm.experiments.lifecycle import recorded_spec
from ldm.experiments.runtime import Runtime
from ldm.experiments.specs import EvaluationSpec, PlanSpec
from ldm.llm.models import ModelOptions
from ldm.options import sorted_settings

if TYPE_CHECKING:
    from ldm.runs import Run

#: Beside the first run of an optimisation: the id of the first evaluation of its plans.
EVALUATED = "evaluated.json"


def check(
    evaluation: PlanEvaluation,
    specs: Sequence[PlanSpec],
    sources: AbstractSet[str],
    runtime: Runtime,
) -> PlanEvaluation:
    """Return the evaluation with its split and tasks settled, before anything is paid for.

    sources: of the tasks that plans will be made from.
    Raises LdmError where there is no such split or task, LeakageError where a task is a source.
    """
    from ldm.eval import check_leakage, select

    first = specs[0]
    split = evaluation_split(first.env, evaluation.split, first.env_options, runtime)
    with closing(build_environment(first.env, first.env_options, runtime.cache)) as env:
        tasks = select(env.tasks(split), kinds=_kinds(specs), limit=evaluation.limit)
    check_leakage(
        sources,
        tasks,
        what="the plans, which are made from them",
        remedy="Evaluate another split.",
    )
    return replace(evaluation, split=split, tasks=len(tasks))


def episodes(evaluation: PlanEvaluation, specs: Sequence[PlanSpec]) -> int:
    """Return how many tasks all plans together are evaluated on."""
    return evaluation.tasks * len(set(_planned(evaluation, specs).values()))


def recorded_evaluation(run: Run) -> PlanEvaluation | None:
    """Return how the plans of a recorded optimisation are evaluated; None where they are not."""
    from ldm import records
    from ldm.runs import MANIFEST

    recorded = run.manifest.arguments.get("evaluation")
    if recorded is None:
        return None
    text = json.dumps(recorded)
    return records.loads(text, PlanEvaluation, file=str(run.directory / MANIFEST))


def evaluate_plans(
    evaluation: PlanEvaluation,
    specs: Sequence[PlanSpec],
    run: Run,
    models: ModelOptions,
    runtime: Runtime,
) -> PlanScores:
    """Evaluate the plans of finished optimisations, now or as recorded.

    run: the first of the optimisations, which remembers the evaluation's runs.
    Raises what an evaluation raises; what stops it says how to go on with the optimisation.
    """
    planned = _planned(evaluation, specs)
    distinct = list(dict.fromkeys(planned.values()))
    playing = _begun(run, models, runtime) or _begin(distinct, run, models, runtime)
    try:
        reports = dict(zip(distinct, playing.play(), strict=True))
    except LdmError as error:
        error.remedy = error.remedy.replace(playing.resume_command, run.resume_command)
        raise
    scores = tuple(PlanScore(*place, reports[spec]) for place, spec in planned.items())
    return PlanScores(evaluation, scores)


def _begin(
    specs: Sequence[EvaluationSpec], run: Run, models: ModelOptions, runtime: Runtime
) -> evaluations.Evaluation:
    """Start the evaluations, and remember the first of their runs."""
    from ldm import records
    from ldm.runs import writing

    resolved = [evaluations.resolve(spec, runtime) for spec in specs]
    begun = evaluations.prepare(resolved, models, runtime)
    path = run.directory / EVALUATED
    with writing(path), records.replacing(path) as file:
        file.write(json.dumps({"run": begun.members[0].run.manifest.id}) + "\n")
    return begun


def _begun(run: Run, models: ModelOptions, runtime: Runtime) -> evaluations.Evaluation | None:
    """Return the evaluations that were started before; None where there are none."""
    from ldm import untrusted

    path = run.directory / EVALUATED
    if not path.is_file():
        return None
    content = untrusted.json_file(path)
    name = str(content.get("run", "")) if isinstance(content, dict) else ""
    directory = run.directory.parent / name
    if not name or not directory.is_dir():  # nothing came of it, and it was removed
        return None
    recorded = recorded_spec(str(directory), EvaluationSpec, runtime.runs, trust=runtime.trust)
    return evaluations.resume(*recorded, models, runtime)


def _planned(
    evaluation: PlanEvaluation, specs: Sequence[PlanSpec]
) -> dict[tuple[str, int, int], EvaluationSpec]:
    """Return (setting, repeat, iteration) → the evaluation of these plans, of all kinds together.

    The empty plan X_0 is the same for all repeats, and evaluated once for what is shown alike.
    """
    from ldm.agents.autoplan import AutoPlanAgent

    planned: dict[tuple[str, int, int], EvaluationSpec] = {}
    empty: dict[object, EvaluationSpec] = {}
    folders: dict[tuple[str, int], PlanSpec] = {}
    for spec in specs:
        folders.setdefault((spec.variant, spec.repeat), spec)
    for spec in folders.values():
        options = spec.settings().evaluated()
        for iteration in evaluation.iterations(spec.settings().iterations):
            one = EvaluationSpec(
                spec.env,
                evaluation.split,
                AutoPlanAgent.name,
                env_options=spec.env_options,
                agent_options=sorted_settings(
                    {**options, "plans": spec.out, "iteration": str(iteration)}
                ),
                kinds=_kinds(specs),
                limit=evaluation.limit,
                seed=specs[0].seed,
            )
            if iteration == 0:
                one = empty.setdefault(tuple(options.items()), one)
            planned[spec.variant, spec.repeat, iteration] = one
    return planned


def _kinds(specs: Sequence[PlanSpec]) -> tuple[str, ...]:
    """Return the kinds of task that there are plans for; () for all."""
    from ldm.agents.autoplan.plans import ALL

    kinds = tuple(dict.fromkeys(spec.kind for spec in specs))
    return () if ALL in kinds else kinds
