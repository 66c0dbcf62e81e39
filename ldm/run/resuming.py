"""Resume a recorded experiment of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ldm.config import Evaluate, OptimisePlan, Refine, Section
from ldm.errors import LdmError
from ldm.run.evaluate import Evaluations
from ldm.run.plan import Optimisation, OptimisedPlan, OptimisedPlans
from ldm.run.refine import Refined, Refinement, rounds
from ldm.run.results import Report
from ldm.run.runtime import Runtime
from ldm.runs import open_run


def resume(
    run: str | Path, *, models: Mapping[str, Any] | None = None, runtime: Runtime | None = None
) -> tuple[Report, ...] | Refined | OptimisedPlan | OptimisedPlans:
    """Resume a recorded experiment, and return the result of the function that started it.

    run: its directory, or its id below `runtime.runs`. models: changes to the recorded options of
    `ModelOptions`, such as limits. A single plan that is not evaluated is returned alone.
    Raises LdmError for an unknown run, and if something has changed since.
    """
    runtime, changes, name = runtime or Runtime(), Section.read(models or {}), str(run)
    command = open_run(name, runtime.runs).manifest.command
    if command == Evaluate.command:
        return Evaluations.resume(name, changes, runtime).play()
    if command == Refine.command:
        *_, last = rounds(Refinement.resume(name, changes, runtime))
        return last
    if command == OptimisePlan.command:
        optimised = Optimisation.resume(name, changes, runtime).play()
        alone = len(optimised.plans) == 1 and optimised.scores is None
        return optimised.plans[0] if alone else optimised
    raise LdmError(f"Runs of the command {command} cannot be resumed.", "Upgrade ldm.")
