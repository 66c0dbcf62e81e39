"""Plan optimisations (AutoPlan): a plan for a kind of task, from attempts at training tasks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.errors import LdmError
from ldm.experiments.builders import OptimiserBuilder, build_environment, opener
from ldm.experiments.data import training_split, with_data
from ldm.experiments.lifecycle import Checked, Recorded, discarding, reopen, shared, short, start
from ldm.experiments.runtime import Runtime
from ldm.experiments.specs import PlanSpec
from ldm.llm.models import ModelOptions, listed
from ldm.options import sorted_settings

if TYPE_CHECKING:
    from ldm.agents.autoplan.plans import Experience, Iteration, PlanFile
    from ldm.episode import Environment
    from ldm.runs import Run
    from ldm.types import Task


@dataclass(frozen=True, slots=True)
class OptimisedPlan:
    """What an optimisation came to: the plan's file, its content, and the run."""

    path: Path
    plan: PlanFile
    run: Run


def optimize_plan(
    spec: PlanSpec, *, models: ModelOptions, runtime: Runtime | None = None
) -> OptimisedPlan:
    """Optimise a plan for a kind of task, and write it below `spec.out`.

    spec.split: "" takes the environment's first training split.
    Raises LdmError where a name, an option or data does not fit or no model is named, and
    Interrupted or RunStopped, after which `ldm autoplan --resume RUN` goes on.
    """
    runtime = runtime or Runtime()
    return make_attempts(prepare(spec, models, runtime), runtime)


def prepare(spec: PlanSpec, models: ModelOptions, runtime: Runtime) -> Recorded[PlanSpec]:
    """Write a new run, with its pool chosen. Nothing is written where something does not fit."""
    from ldm.agents.autoplan import AutoPlanAgent
    from ldm.envs.metadata import published_options
    from ldm.eval import protocol

    called = models.of(spec.roles(models))
    published = published_options(spec.env, AutoPlanAgent.name)
    options = with_data(spec.env, sorted_settings({**published, **dict(spec.env_options)}), runtime)
    spec = replace(
        spec,
        split=training_split(spec.env, spec.split, options, runtime, explore=False),
        out=str(Path(spec.out).expanduser().absolute()),
        env_options=options,
    )
    spec.settings()
    with closing(build_environment(spec.env, spec.env_options, runtime.cache)) as env:
        tasks = _pool(spec, env, runtime)
        spec = replace(spec, pool=tuple(task.id for task in tasks))
        checked = Checked(spec, tasks, protocol(env, spec.split, tasks))
    if not models.replay:
        runtime.message(f"Models at {runtime.connection().shown}: {listed(called)}.")
    return start(checked, ("autoplan", short(spec.env), spec.kind), models, runtime)


def resume(run: Run, spec: PlanSpec, models: ModelOptions, runtime: Runtime) -> Recorded[PlanSpec]:
    """Return a recorded optimisation, to go on with. models: changes to the recorded options.

    Raises LdmError as `lifecycle.reopen`.
    """
    return reopen(run, spec, lambda spec: _check(spec, runtime), models)


def make_attempts(recorded: Recorded[PlanSpec], runtime: Runtime) -> OptimisedPlan:
    """Make the attempts that are not recorded yet, and write the plan."""
    from ldm.agents.autoplan.optimiser import optimise

    spec, settings = recorded.spec, recorded.spec.settings()
    successes: list[bool] = []

    def on_result(experience: Experience) -> None:
        successes.append(experience.result.success)
        advance(f"success {sum(successes)} of {len(successes)}")

    with (
        discarding([recorded]),
        shared(recorded, OptimiserBuilder(spec, runtime.cache), runtime) as builder,
        runtime.progress(f"autoplan {spec.kind}", settings.iterations * settings.batch) as advance,
    ):
        text, iterations = optimise(
            recorded.run,
            builder,
            recorded.tasks,
            settings,
            seed=spec.seed,
            workers=recorded.workers(runtime),
            on_result=on_result,
        )
    return _written(recorded, text, iterations)


def _pool(spec: PlanSpec, env: Environment, runtime: Runtime) -> tuple[Task, ...]:
    """Return the tasks that batches are drawn from: of the kind, and not used by an evaluation."""
    from ldm.eval import select
    from ldm.explore import evaluated_leak_keys

    settings = spec.settings()
    tasks = select(env.tasks(spec.split), kinds=(spec.kind,))
    evaluated = evaluated_leak_keys(runtime.runs, spec.env, env, opener(spec.env, runtime.cache))
    free = [task for task in tasks if task.leak_key not in evaluated]
    if len(free) < len(tasks):
        left_out = len(tasks) - len(free)
        runtime.message(f"{left_out} {spec.kind} tasks of {spec.split} were evaluated: left out.")
    if len(free) < settings.batch:
        raise LdmError(
            f"{spec.split} has {len(free)} {spec.kind} tasks to learn from, fewer than a batch.",
            "Use a smaller --batch, or another --split.",
        )
    if len(free) < settings.pool:
        runtime.message(f"The pool has {len(free)} tasks: {spec.split} has no more of {spec.kind}.")
    return select(free, limit=settings.pool, seed=spec.seed)


def _check(spec: PlanSpec, runtime: Runtime) -> Checked[PlanSpec]:
    from ldm.eval import protocol, select

    with closing(build_environment(spec.env, spec.env_options, runtime.cache)) as env:
        tasks = select(env.tasks(spec.split), ids=spec.pool)
        return Checked(spec, tasks, protocol(env, spec.split, tasks))


def _written(
    recorded: Recorded[PlanSpec], text: str, iterations: Sequence[Iteration]
) -> OptimisedPlan:
    """Write the plan file."""
    from ldm.agents.autoplan.plans import PlanFile, path_of, write
    from ldm.runs import writing

    spec, manifest, tasks = recorded.spec, recorded.run.manifest, recorded.tasks
    plan = PlanFile(
        env=tasks[0].env,
        kind=spec.kind,
        split=spec.split,
        plan=text,
        pool=spec.pool,
        sources=tuple(sorted({task.leak_key for task in tasks})),
        models=manifest.models,
        settings={**dict(spec.options), **{f"env.{k}": v for k, v in spec.env_options}},
        seed=spec.seed,
        run=manifest.id,
        iterations=tuple(iterations),
    )
    path = path_of(Path(spec.out), plan.env, plan.kind)
    with writing(path):
        write(path, plan)
    return OptimisedPlan(path, plan, recorded.run)
