"""The quality of optimised plans: success by iteration, over repeats, and between settings.

AutoPlan, arXiv 2305.15064: Table 3 (each kind's last plan), Figure 3 (each iteration's, over five
runs) and Table 5 (t-tests between batch sizes).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from ldm import records
from ldm.agents.autoplan import AutoPlanAgent
from ldm.agents.autoplan.plans import ALL
from ldm.config import Evaluate, OptimisePlan, Section
from ldm.records import writing
from ldm.run import evaluate as evaluations
from ldm.run.builders import build_environment
from ldm.run.results import Report
from ldm.run.runtime import Runtime
from ldm.run.selection import check_leakage, evaluation_split, select
from ldm.run.statistics import Spread, TTest, spread, t_test
from ldm.runs import Run
from ldm.text import read_json


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


@dataclass(frozen=True, slots=True)
class PlanScore:
    """The results of plans X_i of one run with one setting."""

    variant: str
    repeat: int
    iteration: int
    report: Report

    def rate(self, kind: str = "") -> float | None:
        """Return the success rate of all tasks or of a kind, or None if none was played."""
        summary = self.report.summary
        group = summary.by_kind.get(kind) if kind else summary.overall
        return None if group is None else group.success_rate


@dataclass(frozen=True, slots=True)
class Comparison:
    """The t-test between two settings at an iteration; None if t is not defined."""

    first: str
    second: str
    iteration: int
    test: TTest | None


#: AutoPlan's p-values by settings and kind, for iterations 1 to 3 (arXiv 2305.15064, Table 5).
TABLE_5 = {
    ("batch=2", "batch=4", "heat"): (0.44, 0.35, 0.013),
    ("batch=2", "batch=8", "heat"): (0.007, 0.110, 0.005),
}


@dataclass(frozen=True, slots=True)
class PlanScores:
    """The scores of plans by setting, iteration and repeat."""

    evaluation: PlanEvaluation
    scores: tuple[PlanScore, ...]

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys(score.variant for score in self.scores))

    @property
    def iterations(self) -> list[int]:
        return sorted({score.iteration for score in self.scores})

    @property
    def kinds(self) -> list[str]:
        return sorted({kind for one in self.scores for kind in one.report.summary.by_kind})

    def spread(self, variant: str, iteration: int, kind: str = "") -> Spread | None:
        """Return the success rates of all repeats, or None if nothing was played."""
        rates = [
            rate
            for one in self.scores
            if (one.variant, one.iteration) == (variant, iteration)
            and (rate := one.rate(kind)) is not None
        ]
        return spread(rates) if rates else None

    def comparisons(self) -> list[Comparison]:
        """Return the t-tests between the first setting and each other (Table 5).

        X_0, the empty plan, is the same for all and left out.
        """
        result = []
        first, *others = self.variants
        for second, iteration in product(others, self.iterations):
            pair = [self.spread(variant, iteration) for variant in (first, second)]
            if iteration and all(pair):
                test = t_test(*(one for one in pair if one is not None))
                result.append(Comparison(first, second, iteration, test))
        return result

    def rows(self) -> tuple[list[str], list[tuple[str, ...]]]:
        """Return columns and rows of success by iteration, one row per setting (Fig. 3)."""
        columns = ["plans", *(f"iteration {number}" for number in self.iterations)]
        return columns, [
            (variant or "–", *(_words(self.spread(variant, i)) for i in self.iterations))
            for variant in self.variants
        ]

    def rows_by_kind(self) -> tuple[list[str], list[tuple[str, ...]]]:
        """Return columns and rows of the last plans' success by kind (Table 3)."""
        columns = ["plans", *self.kinds, "all"]
        rows = []
        for variant in self.variants:
            last = max(one.iteration for one in self.scores if one.variant == variant)
            cells = (_words(self.spread(variant, last, kind)) for kind in (*self.kinds, ""))
            rows.append((variant or "–", *cells))
        return columns, rows

    def lines(self) -> Iterator[str]:
        """Yield remarks on the tables."""
        repeats = max(one.repeat for one in self.scores)
        if repeats > 1:
            yield (
                f"Mean ± standard deviation (n - 1) of {repeats} runs, each with a seed of its own."
            )
        for one in self.comparisons():
            who = f"{one.first} and {one.second}, iteration {one.iteration}"
            if one.test is None:
                yield f"{who}: no t-test, as there are fewer than two runs or neither varies."
            else:
                yield (
                    f"{who}: t = {one.test.statistic:.2f}, p = {one.test.p_value:.3f} "
                    f"(t-test, two-sided; Welch's p = {one.test.welch_p_value:.3f})."
                )
            published = TABLE_5.get((one.first, one.second, ",".join(self.kinds)), ())
            if one.iteration <= len(published):
                yield f"Published (Table 5): p = {published[one.iteration - 1]:g}."
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
                    **_data(self.spread(variant, iteration)),
                    "by_kind": {k: _data(self.spread(variant, iteration, k)) for k in self.kinds},
                    "runs": [
                        str(one.report.directory)
                        for one in self.scores
                        if (one.variant, one.iteration) == (variant, iteration)
                    ],
                }
                for variant, iteration in product(self.variants, self.iterations)
                if self.spread(variant, iteration) is not None
            ],
            "t_tests": [asdict(one) for one in self.comparisons()],
        }


def _words(figures: Spread | None) -> str:
    if figures is None:
        return "–"
    if figures.deviation is None:
        return f"{100 * figures.mean:.1f} %"
    return f"{100 * figures.mean:.1f} ± {100 * figures.deviation:.1f} %"


def _data(figures: Spread | None) -> dict[str, Any]:
    return {} if figures is None else asdict(figures)


#: In the first run of an optimisation: the id of the first evaluation of its plans.
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


def _begin(specs: Sequence[Evaluate], run: Run, runtime: Runtime) -> evaluations.Evaluations:
    """Start the evaluations, and remember the first of their runs."""
    resolved = [evaluations.resolve(spec, runtime) for spec in specs]
    begun = evaluations.prepare(resolved, runtime)
    path = run.directory / EVALUATED
    with writing(path), records.replacing(path) as file:
        file.write(json.dumps({"run": begun.members[0].run.manifest.id}) + "\n")
    return begun


def _begun(run: Run, models: Section, runtime: Runtime) -> evaluations.Evaluations | None:
    """Return the evaluations that were started before, or None."""
    path = run.directory / EVALUATED
    if not path.is_file():
        return None
    directory = run.directory.parent / str(read_json(path)["run"])
    if not directory.is_dir():  # it was removed without results
        return None
    return evaluations.resume(str(directory), models, runtime)


def _planned(
    evaluation: PlanEvaluation, specs: Sequence[OptimisePlan]
) -> dict[tuple[str, int, int], Evaluate]:
    """Return (setting, repeat, iteration) → the evaluation of these plans, of all kinds together.

    The empty plan X_0 is the same for all repeats, and evaluated once for equal options.
    """
    planned: dict[tuple[str, int, int], Evaluate] = {}
    empty: dict[object, Evaluate] = {}
    folders: dict[tuple[str, int], OptimisePlan] = {}
    for spec in specs:
        folders.setdefault((spec.variant, spec.repeat), spec)
    for spec in folders.values():
        settings = spec.typed("plan")
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
    kinds = tuple(dict.fromkeys(spec.kind for spec in specs))
    return () if ALL in kinds else kinds
