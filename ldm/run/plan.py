"""Plan optimisations (AutoPlan): plans for kinds of task, from attempts at training tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from ldm import records
from ldm.agents.autoplan import AutoPlanAgent, optimiser
from ldm.agents.autoplan.optimiser import ITERATIONS, Collector, Item, published_settings
from ldm.agents.autoplan.plans import ALL, Experience, Iteration, PlanFile, path_of, write
from ldm.config import OptimisePlan, Section, written
from ldm.envs import EnvironmentBase, load_env
from ldm.envs.metadata import published_options
from ldm.episode import Environment
from ldm.errors import LdmError
from ldm.explore import evaluated_leak_keys
from ldm.llm.models import listed
from ldm.records import writing
from ldm.run import engine, plan_scores
from ldm.run.builders import AttemptBuilder, build_environment, roles
from ldm.run.engine import Experiment, Member, Session, checked_again, protocol
from ldm.run.estimate import cost_lines
from ldm.run.grid import check_repeats, say_limits, sweep_values
from ldm.run.runtime import Playing, Runtime
from ldm.run.selection import even, select, training_split, with_data
from ldm.runs import Run
from ldm.text import short
from ldm.types import Card, Task, Usage

#: In place of a kind: one plan for each kind of the split.
EACH = "each"


@dataclass(frozen=True, slots=True)
class PlanGrid:
    """Multiply an optimisation of plans.

    kinds: of task, one plan each; "each" alone for every kind of the split, "all" for one plan for
    tasks of all kinds; () for the spec's own. repeats: independent runs with the seeds that follow
    the spec's. sweep: "plan.NAME=A,B,C", a setting of the optimisation and its values.
    """

    kinds: tuple[str, ...] = ()
    repeats: int = 1
    sweep: str | None = None

    def __post_init__(self) -> None:
        check_repeats(self.repeats)

    def specs(self, spec: OptimisePlan, kinds: Callable[[], Sequence[str]]) -> list[OptimisePlan]:
        """Return a spec per setting, repeat and kind, in this order. kinds: those of the split.

        Plans that are compared go into folders of their own below `spec.out`.
        """
        named = tuple(kinds()) if self.kinds == (EACH,) else self.kinds or (spec.kind,)
        name, values = sweep_values(self.sweep) if self.sweep else ("", [""])
        result = []
        for value in values:
            name = name.removeprefix("plan.")
            variant = f"{name}={value}" if name else ""
            plan = spec.plan.with_options(**({name: value} if name else {}))
            for repeat in range(1, self.repeats + 1):
                folder = Path(spec.out, variant, f"repeat-{repeat}" if self.repeats > 1 else "")
                one = replace(
                    spec,
                    out=str(folder),
                    plan=plan,
                    seed=spec.seed + repeat - 1,
                    variant=variant,
                    repeat=repeat,
                )
                result += [replace(one, kind=kind) for kind in named]
        return result


@dataclass(frozen=True, slots=True)
class OptimisedPlan:
    """Hold the outcome of an optimisation: the plan's file, its content, and the run."""

    path: Path
    plan: PlanFile
    run: Run
    spec: OptimisePlan


@dataclass(frozen=True, slots=True)
class OptimisedPlans:
    """Hold the outcomes of several optimisations. scores: of their plans, if evaluated."""

    plans: tuple[OptimisedPlan, ...]
    scores: plan_scores.PlanScores | None = None


def optimize_plan(spec: OptimisePlan, *, runtime: Runtime | None = None) -> OptimisedPlan:
    """Optimise a plan for a kind of task, and write it below `spec.out`.

    spec.split: "" takes the environment's first training split.
    Raises LdmError if a name, an option or data does not fit or no model is named, and
    Interrupted or RunStopped, after which `ldm autoplan --resume RUN` continues.
    """
    return optimize_plans(spec, runtime=runtime).plans[0]


def optimize_plans(
    spec: OptimisePlan,
    grid: PlanGrid | None = None,
    *,
    evaluation: plan_scores.PlanEvaluation | None = None,
    runtime: Runtime | None = None,
) -> OptimisedPlans:
    """Optimise plans for several kinds of task, with several settings, repeatedly; see `PlanGrid`.

    evaluation: of the plans on further tasks, or None.
    Raises the errors of `optimize_plan` and `evaluate`.
    """
    runtime = runtime or Runtime()
    return prepare(spec, grid or PlanGrid(), evaluation, runtime).play()


@dataclass(frozen=True)
class Optimisation(Experiment[OptimisePlan, OptimisedPlan, OptimisedPlans]):
    """Optimise plans. evaluation: of the final plans, or None."""

    evaluation: plan_scores.PlanEvaluation | None = None

    builder = AttemptBuilder
    worker = Collector
    record = Experience
    file = ITERATIONS

    def items(self, member: Member[OptimisePlan], session: Session) -> optimiser.Optimisation:
        """Return the attempts to make, which depend on earlier ones."""
        count = member.spec.typed("plan").iterations
        return optimiser.Optimisation(session.setup(), member.tasks, count)

    def turns(
        self, items: optimiser.Optimisation, done: Mapping[int, Experience]
    ) -> Iterator[Mapping[int, Item]]:
        return items.turns(done)

    @contextmanager
    def showing(
        self, member: Member[OptimisePlan], session: Session, total: int
    ) -> Iterator[Callable[[Experience], None]]:
        spec = member.spec
        repeat = f"repeat {spec.repeat}" if spec.repeat > 1 else ""
        name = " ".join(filter(None, ("autoplan", spec.kind, spec.variant, repeat)))
        workers = min(session.workers, spec.typed("plan").batch)
        with self.runtime.play(Playing(name, total, workers, 0, session.paid)) as on_episode:
            yield lambda experience: on_episode(experience.result)

    def finished(self, run: Run) -> list[Experience] | None:
        path = run.directory / ITERATIONS
        if not path.is_file():
            return None
        return [e for iteration in records.read(path, Iteration) for e in iteration.experiences]

    def keep(
        self,
        member: Member[OptimisePlan],
        items: optimiser.Optimisation,
        known: Sequence[Experience],
    ) -> None:
        path = member.run.directory / ITERATIONS
        with writing(path):
            records.write(path, items.lines())

    def finish(
        self, member: Member[OptimisePlan], session: Session, known: Sequence[Experience]
    ) -> OptimisedPlan:
        return _written(member, records.read(member.run.directory / ITERATIONS, Iteration))

    def result(self, outcomes: Sequence[OptimisedPlan]) -> OptimisedPlans:
        plans, first = tuple(outcomes), self.members[0]
        if self.evaluation is None:
            return OptimisedPlans(plans)
        specs = [member.spec for member in self.members]
        scores = plan_scores.evaluate_plans(self.evaluation, specs, first.run, self.runtime)
        return OptimisedPlans(plans, scores)

    def estimate(self) -> Iterator[str]:
        """Make the first iteration of each optimisation but repeats; yield lines on all costs.

        All of them can be resumed.
        """
        attempts = sum(member.spec.typed("plan").attempts for member in self.members)
        usages: list[Usage] = []
        playing: list[Usage] = []
        for member in self.members:
            if member.spec.repeat == 1:
                first = self._first_iteration(member)
                share = _share(first.usage, len(first.experiences))
                usages += (one.result.usage + one.usage + share for one in first.experiences)
                playing += (one.result.usage for one in first.experiences)
        yield from cost_lines(usages, attempts, self.members[0].models, "attempts")
        yield "They were made without a plan, which later prompts hold; rewriting it is included."
        if self.evaluation is not None:
            count = plan_scores.episodes(self.evaluation, [member.spec for member in self.members])
            tokens = sum(one.tokens for one in playing)
            yield (
                f"The evaluation comes on top: {count} episodes, like these attempts without "
                f"their reflections about {count * tokens / max(1, len(playing)):,.0f} tokens."
            )
        yield f"Resume with `{self.resume_command}`; nothing is paid twice."

    def _first_iteration(self, member: Member[OptimisePlan]) -> Iteration:
        """Make the first iteration, the rewriting of the plan included."""
        path = member.run.directory / ITERATIONS
        if path.is_file():
            return records.read(path, Iteration)[0]
        with self.at_work(member) as session:
            first = optimiser.Optimisation(session.setup(), member.tasks, 1)
            session.map(Collector, first.turns, Experience)
        return first.iterations[0]


def prepare(
    spec: OptimisePlan,
    grid: PlanGrid,
    evaluation: plan_scores.PlanEvaluation | None,
    runtime: Runtime,
) -> Optimisation:
    """Choose the pools and write new runs, or nothing if something does not fit.

    Raises LdmError as `optimize_plans`.
    """
    models = spec.typed("models")
    called = models.of(roles(spec))
    spec = _resolved(spec, runtime)
    with closing(build_environment(spec.env, runtime.cache)) as env:
        specs = [_settled(one, env.card) for one in grid.specs(spec, lambda: _kinds(env, spec))]
        checked = _with_pools(specs, env, runtime)
    if evaluation is not None:
        sources = {task.leak_key for one in checked for task in one.tasks}
        evaluation = plan_scores.check(evaluation, specs, sources, runtime)
    if not models.replay:
        server = runtime.connection().display_url
        runtime.message(f"Models at {server}: {listed(called)}.")
    say_limits(specs, runtime)
    more: list[dict[str, object]] = [{} for _ in checked]
    if evaluation is not None:
        more[0] = {"evaluation": asdict(evaluation)}
    return Optimisation(
        engine.start(checked, _subject, runtime, more), runtime, evaluation=evaluation
    )


def resume(name: str, models: Section, runtime: Runtime) -> Optimisation:
    """Return a recorded optimisation with its companions, to be resumed.

    models: changes to the recorded options. Raises LdmError as `engine.resumed`.
    """
    members = engine.resumed(
        name, OptimisePlan, lambda one: checked_again(one, one.pool, runtime), models, runtime
    )
    evaluation = members[0].run.argument("evaluation", plan_scores.PlanEvaluation)
    return Optimisation(members, runtime, evaluation=evaluation)


def _share(usage: Usage, count: int) -> Usage:
    """Return a share of the usage, rounded up."""
    return Usage(*(-(-value // count) for value in asdict(usage).values()))


def _resolved(spec: OptimisePlan, runtime: Runtime) -> OptimisePlan:
    """Return the spec with its environment's options, its split and the full path of its folder."""
    published = published_options(spec.env.name, AutoPlanAgent.name)
    own = Section.read({"name": spec.env.name, **published, **spec.env.options})
    env = with_data(own, runtime)
    return replace(
        spec,
        env=env,
        split=training_split(env, spec.split, runtime, explore=False),
        out=str(Path(spec.out).expanduser().absolute()),
    )


def _settled(spec: OptimisePlan, card: Card) -> OptimisePlan:
    """Return the spec with the settings that were published for the environment.

    Raises LdmError if a setting does not fit.
    """
    plan = Section.read({**published_settings(card), **spec.plan.options})
    return replace(spec, plan=plan).settled("plan")


def _kinds(env: Environment, spec: OptimisePlan) -> list[str]:
    """Return the kinds of a split's tasks, in the order of the environment's card."""
    kinds = {task.kind for task in env.tasks(spec.split)}
    named = [kind for kind in env.card.kinds if kind in kinds]
    return [*named, *sorted(kinds.difference(named))]


def _with_pools(
    specs: Sequence[OptimisePlan], env: Environment, runtime: Runtime
) -> list[Member[OptimisePlan]]:
    """Return each spec with the tasks that its batches are drawn from."""
    messages: dict[str, None] = {}
    first = specs[0]
    used = evaluated_leak_keys(
        runtime.runs, first.env.name, env, partial(build_environment, cache=runtime.cache)
    )
    checked = []
    for spec in specs:
        tasks, remarks = _pool(spec, env, used)
        spec = replace(spec, pool=tuple(task.id for task in tasks))
        checked.append(Member(spec, tasks, protocol(env, spec.split, tasks)))
        messages |= dict.fromkeys(remarks)
    for message in messages:
        runtime.message(message)
    return checked


def _pool(
    spec: OptimisePlan, env: Environment, used: frozenset[str]
) -> tuple[tuple[Task, ...], list[str]]:
    """Return the tasks that batches are drawn from, of the kind and not used by an evaluation.

    Also return remarks for the user. A pool of all kinds is drawn regardless of kinds.
    """
    settings = spec.typed("plan")
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


def _subject(spec: OptimisePlan) -> tuple[str, ...]:
    """Return the beginning of a run's id."""
    repeat = f"repeat_{spec.repeat}" if spec.repeat > 1 else ""
    return "autoplan", short(spec.env.name), spec.kind, spec.variant, repeat


def _written(member: Member[OptimisePlan], lines: Sequence[Iteration]) -> OptimisedPlan:
    """Write the plan files. lines: of iterations.jsonl."""
    spec, manifest, tasks = member.spec, member.run.manifest, member.tasks
    *iterations, last = lines
    settings, env = spec.typed("plan"), load_env(spec.env.name)
    plan = PlanFile(
        env=tasks[0].env,
        kind=spec.kind,
        split=spec.split,
        plan=last.plan,
        pool=spec.pool,
        sources=tuple(sorted({task.leak_key for task in tasks})),
        models=manifest.models,
        settings={
            **{name: str(value) for name, value in asdict(settings).items()},
            **{f"env.{name}": written(value) for name, value in spec.env.given},
        },
        seed=spec.seed,
        run=manifest.id,
        iterations=tuple(iterations),
        solutions=settings.solution and env.solution is not EnvironmentBase.solution,
    )
    path = path_of(Path(spec.out), plan.env, plan.kind)
    with writing(Path(spec.out)):
        write(path, plan)
    return OptimisedPlan(path, plan, member.run, spec)
