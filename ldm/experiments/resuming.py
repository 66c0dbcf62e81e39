"""Going on with recorded experiments, whatever they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ldm.errors import LdmError
from ldm.experiments import evaluation, planning, refinement
from ldm.experiments.lifecycle import recorded_spec
from ldm.experiments.planning import OptimisedPlan, OptimisedPlans
from ldm.experiments.refinement import Refined
from ldm.experiments.runtime import Runtime
from ldm.experiments.specs import EvaluationSpec, PlanSpec, RefinementSpec
from ldm.llm.models import ModelOptions

if TYPE_CHECKING:
    from ldm.eval import Report


def resume(
    run: str | Path, *, models: ModelOptions | None = None, runtime: Runtime | None = None
) -> tuple[Report, ...] | Refined | OptimisedPlan | OptimisedPlans:
    """Go on with a recorded experiment, and return what the one that started it would have.

    run: its directory, or its id below `runtime.runs`. models: changes to the recorded options.
    A single plan that is not evaluated is returned alone, whatever started it.
    Raises LdmError where there is no such run, or where something has changed since.
    """
    from ldm.runs import open_run

    runtime, models, name = runtime or Runtime(), models or ModelOptions(), str(run)
    command = open_run(name, runtime.runs).manifest.command
    if command == EvaluationSpec.command:
        recorded = recorded_spec(name, EvaluationSpec, runtime.runs, trust=runtime.trust)
        return evaluation.resume(*recorded, models, runtime).play()
    if command == RefinementSpec.command:
        explored = recorded_spec(name, RefinementSpec, runtime.runs, trust=runtime.trust)
        *_, last = refinement.rounds(refinement.resume(*explored, models, runtime), runtime)
        return last
    if command == PlanSpec.command:
        attempts = recorded_spec(name, PlanSpec, runtime.runs, trust=runtime.trust)
        optimised = planning.resume(*attempts, models, runtime).play()
        alone = len(optimised.plans) == 1 and optimised.scores is None
        return optimised.plans[0] if alone else optimised
    raise LdmError(f"Runs of the command {command} cannot be resumed.", "Upgrade ldm.")
