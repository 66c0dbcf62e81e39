"""AutoPlan's optimisation (Ouyang & Li, arXiv 2305.15064, §3): one plan for a kind of task.

X_0 is empty. In each iteration a batch of training tasks is attempted with X_i, each attempt is
reflected on (summary, flaw, revision), and the plan is rewritten to X_{i+1}.
"""

from __future__ import annotations

import random
import re
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from ldm import records
from ldm.agents import Resources
from ldm.agents.autoplan import BUDGET, SAID, AutoPlanAgent, AutoPlanOptions
from ldm.agents.autoplan.plans import Experience, Iteration, Reflection
from ldm.agents.transcript import View, ask, transcript_text
from ldm.episode import Environment, run_episode
from ldm.errors import Interrupted, LdmError, RunStopped
from ldm.llm import LLM, Message, ScopedLLM
from ldm.prompts import render, shortened
from ldm.runs import Run, run_items, writing
from ldm.types import Card, Task, Trajectory, Usage, stable_seed

ITERATIONS = "iterations.jsonl"
#: Lines and characters of a plan that are kept: one that rambles would fill every prompt.
MOST_STEPS, LONGEST = 15, 2000

_TAG = re.compile(r"</?[a-z-]+>")
_LISTED = re.compile(r"\s*(?:\*\*)?(?:step\s*)?\d+\s*[.):]|\s*[-*•]\s+\S", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AutoPlanSettings:
    """How a plan is optimised.

    iterations: I. batch: B, tasks an iteration. pool: training tasks that batches are drawn from.
    reflection: "summary" leaves out flaw and revision (the paper's Fig. 3). steps: of an attempt.
    temperature, top_p: of its replies. part: tokens of each part of a reflection at most.
    length: tokens of a plan at most.
    """

    iterations: int = 3
    batch: int = 4
    pool: int = 24
    reflection: Literal["summary", "full"] = "full"
    steps: int = BUDGET
    temperature: float = 1.0
    top_p: float = 0.9
    part: int = 160
    length: int = 400

    def __post_init__(self) -> None:
        for name in ("iterations", "batch", "pool", "steps", "part", "length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is 1 or more")
        if self.batch > self.pool:
            raise ValueError("a batch cannot be larger than the pool that it is drawn from")


@dataclass(frozen=True, slots=True)
class AttemptSetup:
    """What attempts are made with. llm: acts. planner: reflects and writes the plan."""

    env: Environment
    llm: LLM
    planner: LLM


class AttemptFactory(Hashable, Protocol):
    """Builds the set-up of attempts, in whichever thread needs it."""

    def __call__(self) -> AttemptSetup: ...


@dataclass(frozen=True, slots=True)
class _Item:
    index: int
    iteration: int
    task: Task
    plan: str


def draw(pool: Sequence[Task], settings: AutoPlanSettings, seed: int, iteration: int) -> list[Task]:
    """Return the batch of an iteration, which depends on task ids, seed and number alone."""
    rng = random.Random(stable_seed("autoplan batch", seed, iteration))
    return rng.sample(sorted(pool, key=lambda task: task.id), settings.batch)


def optimise(  # noqa: PLR0913 - named in every call
    run: Run,
    factory: AttemptFactory,
    pool: Sequence[Task],
    settings: AutoPlanSettings,
    *,
    seed: int = 0,
    workers: int = 1,
    on_result: Callable[[Experience], None] = lambda _: None,
) -> tuple[str, list[Iteration]]:
    """Return the plan X_I and how it came about, now or in an earlier attempt at the same run.

    on_result: called with every experience, recorded ones first.
    Raises LdmError where another process works on the run or every attempt of an iteration failed,
    Interrupted, RunStopped, and whatever LdmError the factory raises.
    """
    path = run.directory / ITERATIONS
    with run.lock():
        if path.is_file():
            *iterations, last = records.read(path, Iteration)
            for one in (e for iteration in iterations for e in iteration.experiences):
                on_result(one)
            return last.plan, iterations
        plan, iterations = "", []
        items: list[_Item] = []
        place = factory()
        try:
            for number in range(settings.iterations):
                begun = len(items)
                items += [
                    _Item(begun + at, number, task, plan)
                    for at, task in enumerate(draw(pool, settings, seed, number))
                ]
                experiences = run_items(
                    run,
                    _Collecting(factory, settings, seed),
                    items,
                    Experience,
                    workers=workers,
                    threads=True,
                    on_result=lambda one, new=begun: on_result(one) if one.index >= new else None,  # type: ignore[misc]
                )
                batch = tuple(experiences[begun:])
                _check(batch, number)
                with _resumable(run):
                    improved = _improved(place, plan, batch, settings, (seed, number))
                iterations.append(Iteration(plan, batch, kept=not improved))
                plan = improved or plan
        finally:
            place.env.close()
        with writing(path):
            # The last line holds X_I; it has no experiences.
            records.write(path, [*iterations, Iteration(plan, ())])
        run.discard_parts()
    return plan, iterations


@contextmanager
def _resumable(run: Run) -> Iterator[None]:
    """Let what stops the rewriting of a plan say how to go on, as `run_items` does."""
    go_on = f"Go on with `{run.resume_command}`."
    try:
        yield
    except KeyboardInterrupt as stop:
        raise Interrupted(
            f"Stopped: what was done is recorded in {run.directory}.", go_on
        ) from stop
    except RunStopped as error:
        message = f"{error.message} What was done is recorded in {run.directory}."
        raise type(error)(message, f"{error.remedy} {go_on}") from error


def _check(batch: Sequence[Experience], number: int) -> None:
    broken = [one for one in batch if one.result.error]
    if len(broken) == len(batch):
        raise LdmError(
            f"Every attempt of iteration {number + 1} failed: "
            f"{broken[0].result.error.strip().splitlines()[-1]}",
            "Mend that and start again.",
        )


@dataclass(frozen=True, slots=True)
class _Collecting:
    factory: AttemptFactory
    settings: AutoPlanSettings
    seed: int

    def __call__(self) -> _Collector:
        return _Collector(self.factory(), self.settings, self.seed)


class _Collector:
    """Attempts tasks and reflects on it; the worker of an optimisation."""

    def __init__(self, place: AttemptSetup, settings: AutoPlanSettings, seed: int) -> None:
        self._place = place
        self._settings = settings
        self._seed = seed

    def __call__(self, item: _Item) -> Experience:
        settings, place = self._settings, self._place
        options = AutoPlanOptions(
            plan=item.plan,
            budget=settings.steps,
            temperature=settings.temperature,
            top_p=settings.top_p,
        )
        seed = stable_seed(self._seed, "iteration", item.iteration)
        agent = AutoPlanAgent(options, Resources(llm=place.llm, planner=place.planner, seed=seed))
        result, trajectories = run_episode(place.env, agent, item.task)
        if result.error or not trajectories:
            return Experience(item.index, result)
        (note,) = (note for note in result.notes if note.kind == SAID)
        spent: list[Usage] = []
        llm = ScopedLLM(place.planner, lambda: (seed, item.task.id, "reflection"), spent.append)
        experience = Experience(item.index, result, trajectories[-1], tuple(note.data["said"]))
        try:
            reflection = reflect(llm, place.env.card, item.plan, trajectories[-1], settings)
        except RunStopped:
            raise
        except Exception:  # one broken reflection must not lose the others
            return replace(experience, result=replace(result, error=traceback.format_exc()))
        return replace(experience, reflection=reflection, usage=sum(spent, Usage()))

    def close(self) -> None:
        self._place.env.close()


def reflect(
    llm: LLM, card: Card, plan: str, attempt: Trajectory, settings: AutoPlanSettings
) -> Reflection:
    """Return the model's view of an attempt: a summary and, fully, the plan's flaw and revision.

    Raises what a model call raises.
    """
    view = View(0, AutoPlanOptions().observation)
    follow: list[Message] = []

    def prompt(view: View) -> list[Message]:
        transcript = transcript_text(
            attempt.opening, attempt.steps, width=view.width, skipped=view.skipped
        )
        first = render(
            "agents/autoplan/summary",
            card=card,
            plan=plan,
            task=attempt.task.goal,
            transcript=transcript,
            success=attempt.success,
            steps=len(attempt.steps),
        )
        return [*first, *follow]

    parts: list[str] = []
    for part in ("summary", "flaw", "revision")[: 1 if settings.reflection == "summary" else 3]:
        if parts:
            follow.append(Message("assistant", parts[-1] or "…"))
            follow += render(f"agents/autoplan/{part}")
        completion, view = ask(llm, prompt, view, len(attempt.steps), max_tokens=settings.part)
        parts.append(shortened(completion.text.strip(), LONGEST))
    return Reflection(*parts)


def _improved(
    place: AttemptSetup,
    plan: str,
    batch: Sequence[Experience],
    settings: AutoPlanSettings,
    scope: tuple[int, int],
) -> str:
    """Return the plan rewritten after a batch; "" where the model gave none."""
    whole = [one for one in batch if one.trajectory is not None and not one.result.error]
    card = place.env.card

    def prompt(view: View) -> list[Message]:
        attempts = [
            {"success": one.result.success, "text": shortened(_told(one), view.width)}
            for one in whole
        ]
        about = card.kinds.get(whole[0].result.task.kind, "")
        return render(
            "agents/autoplan/update", card=card, plan=plan, about=about, attempts=attempts
        )

    llm = ScopedLLM(place.planner, lambda: (*scope, "update"))
    completion, _ = ask(llm, prompt, View(0, LONGEST), 0, max_tokens=settings.length)
    return cleaned(completion.text)


def _told(one: Experience) -> str:
    """Return an attempt as the update shows it: the task and the reflection."""
    reflection = one.reflection
    parts = [
        f"Task: {one.result.task.goal}",
        f"What happened: {reflection.summary}",
        f"What was wrong: {reflection.flaw}" if reflection.flaw else "",
        f"What to change: {reflection.revision}" if reflection.revision else "",
    ]
    return "\n".join(part for part in parts if part)


def cleaned(text: str) -> str:
    """Return the plan in a reply: its list without what stands around it, "" where it is empty.

    A reply without a list is taken as it is.
    """
    lines = [
        line.rstrip()
        for line in re.sub(r"```\w*", "", text).splitlines()
        if line.strip() and not _TAG.fullmatch(line.strip())
    ]
    first = next((at for at, line in enumerate(lines) if _LISTED.match(line)), None)
    if first is not None:
        steps: list[str] = []
        for line in lines[first:]:
            if not _LISTED.match(line) and not line.startswith((" ", "\t")):
                break
            if line not in steps:
                steps.append(line)
        lines = steps[:MOST_STEPS]
    return shortened("\n".join(lines).strip(), LONGEST)
