"""Plan optimisations (AutoPlan): plans for kinds of task, from attempts at training tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ldm.errors import LdmError
from ldm.llm.estimate import cost_lines
from ldm.llm.models import ModelOptions, listed
from ldm.options import normalise, sorted_settings
from ldm.run.builders import OptimiserBuilder, build_environment, opener
from ldm.run.data import training_split, with_data
from ldm.run.grid import say_limits, sweep_values
from ldm.run.lifecycle import (
    Checked,
    Group,
    Recorded,
    checked_again,
    reopen,
    reopen_all,
    shared,
    short,
    start_all,
)
from ldm.run.plan_figures import PlanEvaluation, PlanScores
from ldm.run.plan_runs import (
    check,
    episodes,
    evaluate_plans,
    recorded_evaluation,
)
from ldm.run.runtime import Playing, Runtime
from ldm.run.specs import PlanSpec

if TYPE_CHECKING:
    from ldm.agents.autoplan.plans import Experience, Iteration, PlanFile
    from ldm.episode import Environment
    from ldm.runs import Run
    from ldm.types import Card, Task, Usage

T = TypeVar("T")

#: In place of a kind: every kind of the split, a plan each.
EACH = "each"


@dataclass(frozen=True, slots=True)
class PlanGrid:
    """What an optimisation of plans is multiplied by.

    kinds: of task, a plan each; "each" alone for every kind of the split, "all" for one plan for
    tasks of all kinds; () for the spec's own. repeats: independent runs with the seeds that follow
    the spec's. sweep: "NAME=A,B,C", a setting of the optimisation and its values.
    """

    kinds: tuple[str, ...] = ()
    repeats: int = 1
    sweep: str | None = None

    def __post_init__(self) -> None:
        normalise(self)
        if self.repeats < 1:
            raise LdmError(f"{self.repeats} repeats leave nothing to run.", "Use at least 1.")

    def specs(self, spec: PlanSpec, kinds: Callable[[], Sequence[str]]) -> list[PlanSpec]:
        """Return a spec a setting, repeat and kind, in this order. kinds: those of the split.

        Plans that are compared go into folders of their own below `spec.out`.
        """
        named = tuple(kinds()) if self.kinds == (EACH,) else self.kinds or (spec.kind,)
        name, values = sweep_values(self.sweep) if self.sweep else ("", [""])
        result = []
        for value in values:
            variant = f"{name}={value}" if name else ""
            options = {**dict(spec.options), **({name: value} if name else {})}
            for repeat in range(1, self.repeats + 1):
                folder = Path(spec.out, variant, f"repeat-{repeat}" if self.repeats > 1 else "")
                one = replace(
                    spec,
                    out=str(folder),
                    options=sorted_settings(options),
                    seed=spec.seed + repeat - 1,
                    variant=variant,
                    repeat=repeat,
                )
                result += [replace(one, kind=kind) for kind in named]
        return result


@dataclass(frozen=True, slots=True)
class OptimisedPlan:
    """What an optimisation came to: the plan's file, its content, and the run."""

    path: Path
    plan: PlanFile
    run: Run
    spec: PlanSpec


@dataclass(frozen=True, slots=True)
class OptimisedPlans:
    """What several optimisations came to. scores: of their plans, where they were evaluated."""

    plans: tuple[OptimisedPlan, ...]
    scores: PlanScores | None = None


def optimize_plan(
    spec: PlanSpec, *, models: ModelOptions, runtime: Runtime | None = None
) -> OptimisedPlan:
    """Optimise a plan for a kind of task, and write it below `spec.out`.

    spec.split: "" takes the environment's first training split.
    Raises LdmError where a name, an option or data does not fit or no model is named, and
    Interrupted or RunStopped, after which `ldm autoplan --resume RUN` goes on.
    """
    return optimize_plans(spec, models=models, runtime=runtime).plans[0]


def optimize_plans(
    spec: PlanSpec,
    grid: PlanGrid | None = None,
    *,
    evaluation: PlanEvaluation | None = None,
    models: ModelOptions,
    runtime: Runtime | None = None,
) -> OptimisedPlans:
    """Optimise plans for several kinds of task, with several settings, repeatedly; see `PlanGrid`.

    evaluation: on which tasks the plans are then evaluated, if at all.
    Raises what `optimize_plan` and `evaluate` raise.
    """
    runtime = runtime or Runtime()
    return prepare(spec, grid or PlanGrid(), evaluation, models, runtime).play()


@dataclass(frozen=True, slots=True)
class Optimisation(Group[PlanSpec]):
    """Recorded optimisations, to be carried out one after the other, and how they are evaluated."""

    evaluation: PlanEvaluation | None

    def play(self) -> OptimisedPlans:
        """Make all plans that are not made yet, and evaluate them.

        An error that stops one says how to go on with all of them. Where nothing has happened in
        any, those that are new are removed.
        """
        plans = tuple(self._carried_out(member, make_attempts) for member in self.members)
        if self.evaluation is None:
            return OptimisedPlans(plans)
        first, specs = self.members[0], [member.spec for member in self.members]
        scores = evaluate_plans(self.evaluation, specs, first.run, first.models, self.runtime)
        return OptimisedPlans(plans, scores)

    def estimate(self) -> Iterator[str]:
        """Make the first iteration of each optimisation but repeats; yield lines on what all costs.

        All of them can go on.
        """
        attempts = sum(member.spec.settings().attempts for member in self.members)
        usages: list[Usage] = []
        playing: list[Usage] = []
        for member in self.members:
            if member.spec.repeat == 1:
                first = self._carried_out(member, _first_iteration)
                share = _share(first.usage, len(first.experiences))
                usages += (one.result.usage + one.usage + share for one in first.experiences)
                playing += (one.result.usage for one in first.experiences)
        yield from cost_lines(usages, attempts, self.members[0].models, "attempts")
        yield "They were made without a plan, which later prompts hold; rewriting it is included."
        if self.evaluation is not None:
            count = episodes(self.evaluation, [member.spec for member in self.members])
            tokens = sum(one.prompt_tokens + one.completion_tokens for one in playing)
            yield (
                f"The evaluation comes on top: {count} episodes, like these attempts without "
                f"their reflections about {count * tokens / max(1, len(playing)):,.0f} tokens."
            )
        yield f"Resume with `{self.resume_command}`; nothing is paid twice."

    def _carried_out(
        self, member: Recorded[PlanSpec], work: Callable[[Recorded[PlanSpec], Runtime], T]
    ) -> T:
        with self.carrying_out(member):
            return work(member, self.runtime)


def prepare(
    spec: PlanSpec,
    grid: PlanGrid,
    evaluation: PlanEvaluation | None,
    models: ModelOptions,
    runtime: Runtime,
) -> Optimisation:
    """Write new runs, with their pools chosen: each names the next one as its companion.

    Nothing is written where something does not fit. Raises LdmError as `optimize_plans`.
    """
    called = models.of(spec.roles(models))
    spec = _resolved(spec, runtime)
    with closing(build_environment(spec.env, spec.env_options, runtime.cache)) as env:
        specs = [_settled(one, env.card) for one in grid.specs(spec, lambda: _kinds(env, spec))]
        checked = _with_pools(specs, env, runtime)
    if evaluation is not None:
        sources = {task.leak_key for one in checked for task in one.tasks}
        evaluation = check(evaluation, specs, sources, runtime)
    if not models.replay:
        places = "".join(f"; the {role} is at {url}" for role, url in models.elsewhere().items())
        server = runtime.connection().display_url
        runtime.message(f"Models at {server}: {listed(called)}{places}.")
    say_limits(specs, models, runtime)
    more: list[dict[str, Any]] = [{} for _ in checked]
    if evaluation is not None:
        more[0] = {"evaluation": asdict(evaluation)}
    members = start_all(checked, lambda spec: _subject(spec, grid), models, runtime, more)
    return Optimisation(members, runtime, evaluation)


def resume(run: Run, spec: PlanSpec, models: ModelOptions, runtime: Runtime) -> Optimisation:
    """Return a recorded optimisation, and those that were started with it, to go on with.

    models: changes to the recorded options. Raises LdmError as `lifecycle.reopen`.
    """

    def reopened(run: Run, spec: PlanSpec) -> Recorded[PlanSpec]:
        return reopen(run, spec, lambda one: checked_again(one, one.pool, runtime), models)

    return Optimisation(reopen_all(run, spec, reopened, runtime), runtime, recorded_evaluation(run))


def make_attempts(recorded: Recorded[PlanSpec], runtime: Runtime) -> OptimisedPlan:
    """Make the attempts that are not recorded yet, and write the plan."""
    from ldm.agents.autoplan.optimiser import optimise

    spec, settings = recorded.spec, recorded.spec.settings()
    workers = recorded.workers(runtime)

    def on_result(experience: Experience) -> None:
        on_episode(experience.result)

    with (
        shared(recorded, OptimiserBuilder, runtime) as builder,
        runtime.play(
            Playing(_label(spec), settings.attempts, min(workers, settings.batch), 0, builder.paid)
        ) as on_episode,
    ):
        text, iterations = optimise(
            recorded.run,
            builder,
            recorded.tasks,
            settings,
            seed=spec.seed,
            workers=workers,
            on_result=on_result,
        )
    return _written(recorded, text, iterations)


def _first_iteration(recorded: Recorded[PlanSpec], runtime: Runtime) -> Iteration:
    from ldm.agents.autoplan.optimiser import first_iteration

    spec = recorded.spec
    with shared(recorded, OptimiserBuilder, runtime) as builder:
        return first_iteration(
            recorded.run,
            builder,
            recorded.tasks,
            spec.settings(),
            seed=spec.seed,
            workers=recorded.workers(runtime),
        )


def _share(usage: Usage, count: int) -> Usage:
    """Return a share of what was used, rounded up."""
    from ldm.types import Usage

    return Usage(*(-(-value // count) for value in asdict(usage).values()))


def _resolved(spec: PlanSpec, runtime: Runtime) -> PlanSpec:
    """Return the spec with its environment's options, its split and the full path of its folder."""
    from ldm.agents.autoplan import AutoPlanAgent
    from ldm.envs.metadata import published_options

    published = published_options(spec.env, AutoPlanAgent.name)
    options = with_data(spec.env, sorted_settings({**published, **dict(spec.env_options)}), runtime)
    return replace(
        spec,
        split=training_split(spec.env, spec.split, options, runtime, explore=False),
        out=str(Path(spec.out).expanduser().absolute()),
        env_options=options,
    )


def _settled(spec: PlanSpec, card: Card) -> PlanSpec:
    """Return the spec with the settings that were published for the environment.

    Raises LdmError where a setting does not fit.
    """
    from ldm.agents.autoplan.settings import published_settings

    known = {name: str(value) for name, value in published_settings(card).items()}
    spec = replace(spec, options=sorted_settings({**known, **dict(spec.options)}))
    spec.settings()
    return spec


def _kinds(env: Environment, spec: PlanSpec) -> list[str]:
    """Return the kinds of a split's tasks, in the order of the environment's card."""
    kinds = {task.kind for task in env.tasks(spec.split)}
    named = [kind for kind in env.card.kinds if kind in kinds]
    return [*named, *sorted(kinds.difference(named))]


def _with_pools(
    specs: Sequence[PlanSpec], env: Environment, runtime: Runtime
) -> list[Checked[PlanSpec]]:
    """Return each spec with the tasks that its batches are drawn from."""
    from ldm.explore import evaluated_leak_keys
    from ldm.run.runner import protocol

    messages: dict[str, None] = {}
    first = specs[0]
    used = evaluated_leak_keys(runtime.runs, first.env, env, opener(first.env, runtime.cache))
    checked = []
    for spec in specs:
        tasks, remarks = _pool(spec, env, used)
        spec = replace(spec, pool=tuple(task.id for task in tasks))
        checked.append(Checked(spec, tasks, protocol(env, spec.split, tasks)))
        messages |= dict.fromkeys(remarks)
    for message in messages:
        runtime.message(message)
    return checked


def _pool(
    spec: PlanSpec, env: Environment, used: frozenset[str]
) -> tuple[tuple[Task, ...], list[str]]:
    """Return the tasks that batches are drawn from, of the kind and not used by an evaluation.

    Also return what to say of them. A pool of all kinds is drawn as they come.
    """
    from ldm.agents.autoplan.plans import ALL
    from ldm.run.selection import even, select

    settings = spec.settings()
    all_kinds = spec.kind == ALL
    tasks = select(env.tasks(spec.split), kinds=() if all_kinds else (spec.kind,))
    free = [task for task in tasks if task.leak_key not in used]
    what = "tasks" if all_kinds else f"{spec.kind} tasks"
    remarks = []
    if len(free) < len(tasks):
        left_out = len(tasks) - len(free)
        remarks.append(f"{left_out} {what} of {spec.split} were evaluated: left out.")
    if len(free) < settings.batch:
        raise LdmError(
            f"{spec.split} has {len(free)} {what} to learn from, fewer than a batch.",
            "Use a smaller --batch, or another --split.",
        )
    size = settings.pool or len(free)
    if len(free) < size:
        more = "" if all_kinds else f" of {spec.kind}"
        remarks.append(f"The pool has {len(free)} tasks: {spec.split} has no more{more}.")
    if size >= len(free):
        return tuple(free), remarks
    chosen = even([(task.id, "") for task in free], size, spec.seed)
    return tuple(free[place] for place in chosen), remarks


def _subject(spec: PlanSpec, grid: PlanGrid) -> tuple[str, ...]:
    """Return what the id of a run begins with."""
    repeat = f"repeat_{spec.repeat}" if grid.repeats > 1 else ""
    return ("autoplan", short(spec.env), spec.kind, spec.variant, repeat)


def _label(spec: PlanSpec) -> str:
    repeat = f"repeat {spec.repeat}" if spec.repeat > 1 else ""
    return " ".join(part for part in ("autoplan", spec.kind, spec.variant, repeat) if part)


def _written(
    recorded: Recorded[PlanSpec], text: str, iterations: Sequence[Iteration]
) -> OptimisedPlan:
    """Write the plan files."""
    from ldm.agents.autoplan.plans import PlanFile, write_all
    from ldm.envs import EnvironmentBase, load_env
    from ldm.runs import writing

    spec, manifest, tasks = recorded.spec, recorded.run.manifest, recorded.tasks
    settings, env = spec.settings(), load_env(spec.env)
    plan = PlanFile(
        env=tasks[0].env,
        kind=spec.kind,
        split=spec.split,
        plan=text,
        pool=spec.pool,
        sources=tuple(sorted({task.leak_key for task in tasks})),
        models=manifest.models,
        settings={
            **{name: str(value) for name, value in asdict(settings).items()},
            **{f"env.{name}": value for name, value in spec.env_options},
        },
        seed=spec.seed,
        run=manifest.id,
        iterations=tuple(iterations),
        solutions=settings.solution and env.solution is not EnvironmentBase.solution,
    )
    with writing(Path(spec.out)):
        path = write_all(Path(spec.out), plan)
    return OptimisedPlan(path, plan, recorded.run, spec)
