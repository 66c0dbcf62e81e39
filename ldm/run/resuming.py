"""Resume recorded experiments of any kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldm.errors import LdmError
from ldm.llm.models import ModelOptions
from ldm.run import evaluate as evaluation
from ldm.run.engine import recorded_spec
from ldm.run.evaluate import Evaluation, Named, with_digests
from ldm.run.grid import fitting
from ldm.run.reproducing import check_resumed
from ldm.run.runtime import Runtime
from ldm.run.specs import EvaluationSpec, PlanSpec, RefinementSpec

if TYPE_CHECKING:
    from ldm.run.plan import OptimisedPlan, OptimisedPlans
    from ldm.run.refine import Refined
    from ldm.run.results import Report


def resume(
    run: str | Path, *, models: ModelOptions | None = None, runtime: Runtime | None = None
) -> tuple[Report, ...] | Refined | OptimisedPlan | OptimisedPlans:
    """Go on with a recorded experiment, and return the result of the function that started it.

    run: its directory, or its id below `runtime.runs`. models: changes to the recorded options.
    A single plan that is not evaluated is returned alone, whatever started it.
    Raises LdmError if there is no such run, or if something has changed since.
    """
    from ldm.run import plan as planning
    from ldm.run import refine as refinement
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


def resume_as_named(
    name: str, named: Named, preset: str | None, models: ModelOptions, runtime: Runtime
) -> Evaluation:
    """Return a recorded evaluation with its companions, to be carried on.

    preset: the name of the one that it has to be from. Raises LdmError as `resume`, and if a named
    option contradicts the record.
    """
    grid = named.grid
    if grid.sweep is not None:
        raise LdmError("--sweep cannot be added to a recorded run.", "Omit it, or start a new run.")
    if grid.repeats > 1:
        raise LdmError(
            "--repeat cannot be added to a recorded run.", "Omit it, or start a new run."
        )
    named.load()
    run, spec = recorded_spec(name, EvaluationSpec, runtime.runs, trust=runtime.trust)
    values = dict(named.changes(spec.env))
    if "agent_options" in values:
        options = values["agent_options"]
        changed = options if len(grid.agents) < 2 else fitting(options, spec)
        values["agent_options"] = with_digests(replace(spec, agent_options=changed)).agent_options
    _agree(spec, values, str(run.directory))
    resumed = evaluation.resume(run, spec, models, runtime)
    if preset is not None:
        check_resumed(resumed, preset)
    if grid.control is not None and len(resumed.members) == 1:
        raise LdmError(f"{run.directory} has no control.", "Leave out --control.")
    known = list(dict.fromkeys(member.spec.agent for member in resumed.members))
    if set(grid.agents) - set(known) or (len(grid.agents) == 1 and grid.agents[0] != spec.agent):
        raise LdmError(
            f"{run.directory} was started with agent {','.join(known)!r}, not "
            f"{','.join(grid.agents)!r}.",
            "Omit the option, or start a new run.",
        )
    return resumed


def _agree(spec: EvaluationSpec, values: dict[str, Any], run: str) -> None:
    """Raise LdmError if an option of the command line contradicts the recorded spec."""
    for option, value in values.items():
        recorded = getattr(spec, option)
        if option.endswith("_options"):  # those that are not named stay as they are
            recorded = tuple(pair for pair in recorded if pair[0] in dict(value))
        if recorded != value:
            raise LdmError(
                f"{run} was started with {option.replace('_', ' ')} {recorded!r}, not {value!r}.",
                "Omit the option, or start a new run.",
            )
