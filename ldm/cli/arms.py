"""One evaluation as `ldm eval` plays it: with what, by how many, what it will cost, its report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ldm.cli import output
from ldm.cli.foretelling import SAMPLE, measured
from ldm.cli.models import ModelOptions, serving
from ldm.cli.wiring import Served, Wiring
from ldm.errors import Interrupted, LdmError, RunStopped, WorkerDied

if TYPE_CHECKING:
    from ldm.eval import EvaluationPlan, Report
    from ldm.runs import Run
    from ldm.types import EpisodeResult, Task, Usage

#: Tuples that are named, of those recalled only after refinement.
SHOWN = 5
#: What stops a run that can go on: it is kept.
STOPPED = (Interrupted, WorkerDied, RunStopped)


@dataclass(frozen=True, slots=True)
class Arm:
    """One run to play. fresh: made by this command, and to be removed if nothing comes of it."""

    plan: EvaluationPlan
    run: Run
    tasks: tuple[Task, ...]
    models: ModelOptions
    fresh: bool

    @property
    def calls_models(self) -> bool:
        return Wiring.of(self.plan).calls(self.models)

    def hands(self, workers: int | None) -> int:
        """How many tasks are played at a time: one a core, or as many as may be waited for."""
        usual = self.models.at_once if self.calls_models else cores()
        return usual if workers is None else max(1, workers)


def play_all(arms: Sequence[Arm], workers: int | None) -> list[tuple[EvaluationPlan, Report]]:
    """Play the runs one after the other; each one's plan and report.

    An error that stops one says how to go on with all of them. Where nothing has happened in any,
    those that this command made are removed.
    """
    played = []
    for arm in arms:
        try:
            played.append((arm.plan, _play(arm, workers)))
        except LdmError as error:
            # The first run knows the others; one of the others would be resumed by itself.
            whole = arms[0].run.resume_command
            error.remedy = error.remedy.replace(arm.run.resume_command, whole)
            if not isinstance(error, STOPPED):
                forget_all(arms)
            raise
    return played


def _play(arm: Arm, workers: int | None) -> Report:
    """Play all tasks of a run that are not recorded yet; its report."""
    from ldm.eval import evaluate

    counted: list[bool] = []

    def shown(result: EpisodeResult) -> None:
        if result.end != "error":
            counted.append(result.success)
        advance(f"success {100 * sum(counted) / max(1, len(counted)):.1f} %")

    hands = arm.hands(workers)
    shown_as = f"{short(label(arm.plan))} on {short(arm.plan.env)}"
    with output.progress(shown_as, len(arm.tasks)) as advance, _wired(arm) as (wiring, threads):
        results = evaluate(
            arm.run, wiring, arm.tasks, workers=hands, threads=threads, on_result=shown
        )
    return report(arm.plan, arm.run, results)


@contextmanager
def _wired(arm: Arm) -> Iterator[tuple[Wiring | Served, bool]]:
    """The wiring of an arm, and whether it works in threads: where it has models."""
    wiring = Wiring.of(arm.plan)
    if not arm.calls_models:
        yield wiring, False
        return
    with serving(arm.models, arm.run.directory, " in this run") as models:
        yield Served(wiring, models), True


def forget(run: Run, *, fresh: bool) -> None:
    """Remove a run that this command made (`fresh`), if nothing happened in it."""
    if fresh and untouched(run):
        run.remove()


def forget_all(arms: Sequence[Arm]) -> None:
    """As `forget`, for runs that name each other: all of them or none."""
    if all(arm.fresh and untouched(arm.run) for arm in arms):
        for arm in arms:
            arm.run.remove()


def untouched(run: Run) -> bool:
    """Whether nothing happened in a run and no call was paid."""
    from ldm.llm.recording import FILE

    return not run.begun and not (run.directory / FILE).exists()


def foretell_all(arms: Sequence[Arm], workers: int | None) -> None:
    """Play a few tasks of each run that calls a model, and say what all will cost.

    All runs can go on. Raises LdmError where none calls a model.
    """
    if not any(arm.calls_models for arm in arms):
        forget_all(arms)
        raise LdmError(f"The agent {arms[0].plan.agent} calls no model: it costs nothing.", "")
    for arm in arms:
        if not arm.calls_models:
            output.say(f"{label(arm.plan)} calls no model: it costs nothing.", error=False)
            continue
        try:
            usages = _sampled(arm, workers)
        except LdmError as error:
            if not isinstance(error, STOPPED):
                forget_all(arms)
            raise
        if len(arms) > 1:
            output.say(f"{label(arm.plan)}:", error=False)
        for line in measured(usages, len(arm.tasks), arm.models, "tasks"):
            output.say(line, error=False)
    whole = arms[0].run.resume_command
    output.say(f"Go on with `{whole}`; nothing is paid twice.", error=False)


def _sampled(arm: Arm, workers: int | None) -> list[Usage]:
    """What a few tasks of a run cost, once played."""
    from ldm.eval import sample, select

    chosen = select(arm.tasks, limit=min(SAMPLE, len(arm.tasks)))
    with _wired(arm) as (wiring, threads):
        hands = arm.hands(workers)
        results = sample(arm.run, wiring, arm.tasks, chosen, workers=hands, threads=threads)
    return [result.usage for result in results]


def report(plan: EvaluationPlan, run: Run, results: Sequence[EpisodeResult]) -> Report:
    """What is shown of finished results."""
    from ldm.eval import Report, summarize

    return Report(
        env=plan.env,
        split=plan.split,
        label=label(plan),
        sees_reward=Wiring.of(plan).agent_class().sees_reward,
        directory=run.directory,
        summary=summarize(results, seed=plan.seed),
        results=tuple(results),
    )


def say_refined(arms: Sequence[Arm], *, error: bool) -> None:
    """What of the newest generation's own tuples was recalled, where others stand beside it."""
    from ldm.eval import refined_recalls
    from ldm.memory import inspect

    newest = max(arms, key=lambda arm: arm.plan.generation or 0)
    oldest = min(arm.plan.generation or 0 for arm in arms)
    if not newest.plan.memory_digest or (newest.plan.generation or 0) == oldest:
        return
    env = newest.tasks[0].env
    rows = inspect(newest.plan.memory, env, newest.plan.generation).rows
    added = {row.tuple.id: row.tuple for row in rows if row.tuple.generation > oldest}
    found = refined_recalls(newest.run, frozenset(added))
    output.say(
        f"Of the {len(added)} tuples that came after generation {oldest}, {len(found.counts)} were "
        f"recalled, in {found.steps} of {found.all_steps} steps of {found.tasks} tasks.",
        error=error,
    )
    for tuple_id, count in found.counts[:SHOWN]:
        seen = " ".join(added[tuple_id].observation.split())[:100]
        output.say(
            f"  {count:>4} times: {added[tuple_id].goal} | {seen} -> {added[tuple_id].action}",
            error=error,
        )


def told_apart(reports: Sequence[tuple[EvaluationPlan, Report]]) -> list[Report]:
    """Reports whose labels name the memory generation, where it is not the same in all of them."""
    numbers = {plan.generation for plan, _ in reports if plan.memory_digest}
    return [
        replace(one, label=f"{one.label} generation {plan.generation}")
        if len(numbers) > 1 and plan.memory_digest
        else one
        for plan, one in reports
    ]


def label(plan: EvaluationPlan) -> str:
    """The agent, and whether it is a control, for tables."""
    control = dict(plan.agent_options).get("control")
    return f"{plan.agent} control={control}" if control else plan.agent


def short(name: str) -> str:
    """A name without its module, for ids and progress bars."""
    return name.rpartition(":")[2]


def cores() -> int:
    """Processor cores that this process may use."""
    import joblib

    return int(joblib.cpu_count())
