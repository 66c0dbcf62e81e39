"""Plan optimisations (AutoPlan): plans for kinds of task, and the success of these plans.

AutoPlan, arXiv 2305.15064: Table 3 (each kind's last plan), Figure 3 (each iteration's, over five
runs) and Table 5 (t-tests between batch sizes).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ldm import records
from ldm.agents.autoplan import AutoPlanAgent, optimiser
from ldm.agents.autoplan.optimiser import Collector, Item, published_settings
from ldm.agents.autoplan.plans import ALL, Experience, Iteration, PlanFile, path_of, write
from ldm.config import Evaluate, OptimisePlan, Section, written
from ldm.envs import EnvironmentBase, load_env
from ldm.envs.metadata import published_options
from ldm.episode import Environment
from ldm.errors import LdmError
from ldm.records import writing
from ldm.run import engine, selection
from ldm.run import evaluate as evaluations
from ldm.run.builders import AttemptBuilder, build_environment
from ldm.run.engine import Experiment, Member, Session, checked_again, protocol
from ldm.run.evaluate import Evaluations
from ldm.run.grid import check_repeats, cost_lines, say_limits, sweep_values
from ldm.run.results import Report
from ldm.run.runtime import Runtime
from ldm.run.statistics import Spread, spread, t_test
from ldm.runs import Run, evaluated_leak_keys, list_runs
from ldm.text import short
from ldm.types import Card, Usage


@dataclass(frozen=True, slots=True)
class PlanEvaluation:
    """The evaluation of optimised plans.

    split: "" is the environment's. limit: maximum tasks, kinds evenly. curve: whether each
    iteration's plan is evaluated, X_0 included (Fig. 3), or the last alone (Table 3).
    tasks: their number; `check` sets it.
    """

    split: str = ""
    limit: int | None = None
    curve: bool = False
    tasks: int = 0

    def iterations(self, last: int) -> Sequence[int]:
        """Return the numbers i of the plans X_i to evaluate, given the last one."""
        return range(last + 1) if self.curve else (last,)


class PlanScore(NamedTuple):
    """The results of plans X_i of one run with one setting."""

    variant: str
    repeat: int
    iteration: int
    report: Report


class Comparison(NamedTuple):
    """The p-value of the t-test between two settings at an iteration; None if t is not defined."""

    first: str
    second: str
    iteration: int
    p_value: float | None


@dataclass(frozen=True)
class PlanScores:
    """The scores of plans by setting, iteration and repeat."""

    evaluation: PlanEvaluation
    scores: tuple[PlanScore, ...]

    @cached_property
    def spreads(self) -> dict[tuple[str, int, str], Spread]:
        """The success of all repeats by setting, iteration and kind, "" for all kinds together."""
        rates: defaultdict[tuple[str, int, str], list[float]] = defaultdict(list)
        for one in self.scores:
            summary = one.report.summary
            for kind, group in {"": summary.overall, **summary.by_kind}.items():
                if group.success_rate is not None:
                    rates[one.variant, one.iteration, kind].append(group.success_rate)
        return {place: spread(some) for place, some in rates.items()}

    @property
    def kinds(self) -> list[str]:
        return sorted({kind for _, _, kind in self.spreads if kind})

    def comparisons(self) -> list[Comparison]:
        """Return the t-tests between the first setting and each other (Table 5).

        X_0, the empty plan, is the same for all and left out.
        """
        first = self.scores[0].variant
        return [
            Comparison(first, second, iteration, t_test(base, figures))
            for (second, iteration, kind), figures in self.spreads.items()
            if iteration and not kind and second != first
            if (base := self.spreads.get((first, iteration, ""))) is not None
        ]

    def tables(self) -> Iterator[tuple[str, list[str], list[tuple[str, ...]]]]:
        """Yield title, columns and rows, one per setting, of each table.

        They are success by iteration (Fig. 3), and that of the last plans by kind (Table 3).
        """
        last = {one.variant: one.iteration for one in self.scores}
        iterations = sorted({one.iteration for one in self.scores})

        def row(variant: str, places: Iterable[tuple[int, str]]) -> tuple[str, ...]:
            cells = (_words(self.spreads.get((variant, *place))) for place in places)
            return variant or "–", *cells

        if len(iterations) > 1:
            columns = ["plans", *(f"iteration {number}" for number in iterations)]
            rows = [row(variant, ((i, "") for i in iterations)) for variant in last]
            yield "Success by iteration", columns, rows
        kinds = (*self.kinds, "")
        rows = [row(variant, ((i, kind) for kind in kinds)) for variant, i in last.items()]
        yield "Success of the last plans", ["plans", *self.kinds, "all"], rows

    def lines(self) -> Iterator[str]:
        """Yield remarks on the tables."""
        repeats = max(one.repeat for one in self.scores)
        if repeats > 1:
            yield (
                f"Mean ± standard deviation (n - 1) of {repeats} runs, each with a seed of its own."
            )
        for one in self.comparisons():
            who = f"{one.first} and {one.second}, iteration {one.iteration}"
            none = "no t-test, as there are fewer than two runs or neither varies."
            p = one.p_value
            yield f"{who}: {none if p is None else f'p = {p:.3f} (t-test, two-sided).'}"
        for directory in dict.fromkeys(str(one.report.directory) for one in self.scores):
            yield f"Files: {directory}"

    def as_json(self) -> dict[str, Any]:
        """Return JSON values; rates in [0, 1]."""
        return {
            "split": self.scores[0].report.split,
            "tasks": self.evaluation.tasks,
            "success": [
                {
                    "variant": variant,
                    "iteration": iteration,
                    **asdict(figures),
                    "by_kind": {
                        kind: asdict(self.spreads[variant, iteration, kind])
                        for kind in self.kinds
                        if (variant, iteration, kind) in self.spreads
                    },
                    "runs": [
                        str(one.report.directory)
                        for one in self.scores
                        if (one.variant, one.iteration) == (variant, iteration)
                    ],
                }
                for (variant, iteration, kind), figures in self.spreads.items()
                if not kind
            ],
            "t_tests": [one._asdict() for one in self.comparisons()],
        }


def _words(figures: Spread | None) -> str:
    if figures is None:
        return "–"
    if figures.deviation is None:
        return f"{100 * figures.mean:.1f} %"
    return f"{100 * figures.mean:.1f} ± {100 * figures.deviation:.1f} %"


#: Arguments of runs: of the first of an optimisation, the evaluation of its plans; of the first of
#: that evaluation, the optimisation's id.
EVALUATION, PLANS_OF = "evaluation", "plans_of"


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
    first = specs[0]
    split = selection.evaluation_split(first.env, evaluation.split, runtime)
    with closing(build_environment(first.env, runtime.cache)) as env:
        tasks = selection.select(env.tasks(split), kinds=_kinds_of(specs), limit=evaluation.limit)
    selection.check_leakage(
        sources, tasks, what="the plans, which are made from them", remedy="Evaluate another split."
    )
    return replace(evaluation, split=split, tasks=len(tasks))


def evaluate_plans(
    evaluation: PlanEvaluation, specs: Sequence[OptimisePlan], run: Run, runtime: Runtime
) -> PlanScores:
    """Evaluate the plans of finished optimisations, now or as recorded.

    run: the first of the optimisations, which the evaluation's first run names.
    Raises the errors of an evaluation; those that stop it name the command of the optimisation.
    """
    planned = _planned(evaluation, specs)
    distinct = list(dict.fromkeys(planned.values()))
    begun = _begun(run, specs[0].models, runtime)
    if begun is None:
        resolved = [evaluations.resolve(spec, runtime) for spec in distinct]
        begun = evaluations.prepare(resolved, runtime, {PLANS_OF: run.manifest.id})
    playing = replace(begun, resume_with=run.resume_command)
    reports = dict(zip(distinct, playing.play(), strict=True))
    scores = tuple(PlanScore(*place, reports[spec]) for place, spec in planned.items())
    return PlanScores(evaluation, scores)


def _begun(run: Run, models: Section, runtime: Runtime) -> Evaluations | None:
    """Return the evaluations that were started before, or None."""
    for other in list_runs(run.directory.parent):
        if other.manifest.arguments.get(PLANS_OF) == run.manifest.id:
            return Evaluations.resume(str(other.directory), models, runtime)
    return None


def _planned(
    evaluation: PlanEvaluation, specs: Sequence[OptimisePlan]
) -> dict[tuple[str, int, int], Evaluate]:
    """Return (setting, repeat, iteration) → the evaluation of these plans, of all kinds together.

    The empty plan X_0 is the same for all repeats, and evaluated once for equal options.
    """
    planned: dict[tuple[str, int, int], Evaluate] = {}
    empty: dict[object, Evaluate] = {}
    for spec in specs:
        settings = spec.typed("plan")
        options = settings.evaluated()
        for iteration in evaluation.iterations(settings.iterations):
            own = {"plans": spec.out, "iteration": str(iteration)}
            one = Evaluate(
                spec.env,
                evaluation.split,
                Section.read({"name": AutoPlanAgent.name, **options, **own}),
                kinds=_kinds_of(specs),
                limit=evaluation.limit,
                seed=specs[0].seed,
                models=specs[0].models,
            )
            if iteration == 0:
                one = empty.setdefault(tuple(options.items()), one)
            planned[spec.variant, spec.repeat, iteration] = one
    return planned


def _kinds_of(specs: Sequence[OptimisePlan]) -> tuple[str, ...]:
    """Return the kinds of task of the plans; () for all."""
    kinds = tuple(dict.fromkeys(spec.kind for spec in specs))
    return () if ALL in kinds else kinds


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
    scores: PlanScores | None = None


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
    evaluation: PlanEvaluation | None = None,
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
    """Optimise plans."""

    spec = OptimisePlan
    builder = AttemptBuilder
    worker = Collector
    record = Experience

    @classmethod
    def check(cls, spec: OptimisePlan, runtime: Runtime) -> Member[OptimisePlan]:
        return checked_again(spec, spec.pool, runtime)

    @property
    def evaluation(self) -> PlanEvaluation | None:
        """Return the evaluation of the final plans, or None."""
        return self.members[0].run.argument(EVALUATION, PlanEvaluation)

    def items(self, member: Member[OptimisePlan], session: Session) -> optimiser.Optimisation:
        """Return the attempts to make, which depend on earlier ones."""
        count = member.spec.typed("plan").iterations
        return optimiser.Optimisation(session.setup(), member.tasks, count)

    def turns(
        self, items: optimiser.Optimisation, done: Mapping[int, Experience]
    ) -> Iterator[Mapping[int, Item]]:
        return items.turns(done)

    def label(self, member: Member[OptimisePlan]) -> str:
        spec = member.spec
        repeat = f"repeat {spec.repeat}" if spec.repeat > 1 else ""
        return " ".join(filter(None, ("autoplan", spec.kind, spec.variant, repeat)))

    def finished(self, run: Run) -> list[Experience]:
        return [one for each in records.read(run.result, Iteration) for one in each.experiences]

    def keep(
        self,
        member: Member[OptimisePlan],
        items: optimiser.Optimisation,
        known: Sequence[Experience],
    ) -> None:
        with writing(member.run.result):
            records.write(member.run.result, items.lines())

    def finish(
        self, member: Member[OptimisePlan], session: Session, known: Sequence[Experience]
    ) -> OptimisedPlan:
        return _written(member, records.read(member.run.result, Iteration))

    def result(self, outcomes: Sequence[OptimisedPlan]) -> OptimisedPlans:
        plans, first = tuple(outcomes), self.members[0]
        if self.evaluation is None:
            return OptimisedPlans(plans)
        specs = [member.spec for member in self.members]
        scores = evaluate_plans(self.evaluation, specs, first.run, self.runtime)
        return OptimisedPlans(plans, scores)

    def costs(self) -> Iterator[str]:
        """Make the first iteration of each optimisation but repeats; yield lines on all costs."""
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
            plans = _planned(self.evaluation, [member.spec for member in self.members])
            count = self.evaluation.tasks * len(set(plans.values()))
            tokens = sum(one.tokens for one in playing)
            yield (
                f"The evaluation comes on top: {count} episodes, like these attempts without "
                f"their reflections about {count * tokens / max(1, len(playing)):,.0f} tokens."
            )

    def _first_iteration(self, member: Member[OptimisePlan]) -> Iteration:
        """Make the first iteration, the rewriting of the plan included."""
        if member.run.is_finished:
            return records.read(member.run.result, Iteration)[0]
        with self.at_work(member) as session:
            first = optimiser.Optimisation(session.setup(), member.tasks, 1)
            session.map(Collector, first.turns, Experience)
        return first.iterations[0]


def prepare(
    spec: OptimisePlan, grid: PlanGrid, evaluation: PlanEvaluation | None, runtime: Runtime
) -> Optimisation:
    """Choose the pools and write new runs, or nothing if something does not fit.

    Raises LdmError as `optimize_plans`.
    """
    spec.typed("models").roles()
    spec = _resolved(spec, runtime)
    with closing(build_environment(spec.env, runtime.cache)) as env:
        specs = [_settled(one, env.card) for one in grid.specs(spec, lambda: _kinds(env, spec))]
        used, remarks = evaluated_leak_keys(runtime.runs, spec.env.name), list[str]()
        checked = [_with_pool(one, env, used, remarks) for one in specs]
    for remark in remarks:
        runtime.once(remark)
    if evaluation is not None:
        sources = {task.leak_key for one in checked for task in one.tasks}
        evaluation = check(evaluation, specs, sources, runtime)
    say_limits(specs, runtime)
    if evaluation is not None:
        checked[0] = replace(checked[0], facts={EVALUATION: asdict(evaluation)})
    return Optimisation(engine.start(checked, _subject, runtime), runtime)


def _share(usage: Usage, count: int) -> Usage:
    """Return a share of the usage, rounded up."""
    return Usage(*(-(-value // count) for value in asdict(usage).values()))


def _resolved(spec: OptimisePlan, runtime: Runtime) -> OptimisePlan:
    """Return the spec with its environment's options, its split and the full path of its folder."""
    published = published_options(spec.env.name, AutoPlanAgent.name)
    own = Section.read({"name": spec.env.name, **published, **spec.env.options})
    env = selection.with_data(own, runtime)
    return replace(
        spec,
        env=env,
        split=selection.training_split(env, spec.split, runtime, explore=False),
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


def _with_pool(
    spec: OptimisePlan, env: Environment, used: frozenset[str], remarks: list[str]
) -> Member[OptimisePlan]:
    """Return a spec with the tasks that its batches are drawn from, of its kind.

    used: the tasks of evaluations, which are left out. remarks: receives those for the user. A pool
    of all kinds is drawn regardless of kinds.
    """
    settings = spec.typed("plan")
    all_kinds = spec.kind == ALL
    tasks = selection.select(env.tasks(spec.split), kinds=() if all_kinds else (spec.kind,))
    free = [task for task in tasks if task.leak_key not in used]
    what = "tasks" if all_kinds else f"{spec.kind} tasks"
    if left_out := len(tasks) - len(free):
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
    if size < len(free):
        drawn = selection.even([(task.id, "") for task in free], size, spec.seed)
        free = [free[place] for place in drawn]
    spec = replace(spec, pool=tuple(task.id for task in free))
    return Member(spec, tuple(free), protocol(env, spec.split, free))


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
