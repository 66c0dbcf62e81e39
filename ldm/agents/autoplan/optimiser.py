"""AutoPlan's optimisation (Ouyang & Li, arXiv 2305.15064, §3.2): one plan for a kind of task.

X_0 is empty. In each iteration a batch of training tasks is attempted with X_i, each attempt is
reflected on (summary, flaw, revision), and the plan is rewritten to X_{i+1}.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from ldm import records
from ldm.agents import Resources
from ldm.agents.autoplan import SAID, AutoPlanAgent, prompt_card
from ldm.agents.autoplan.plans import Experience, Iteration
from ldm.agents.autoplan.reflection import Attempt, reflect, rewritten
from ldm.agents.autoplan.settings import AutoPlanSettings
from ldm.episode import EnvironmentBase, run_episode
from ldm.errors import Interrupted, LdmError, RunStopped
from ldm.llm import LLM, ScopedLLM
from ldm.runs import Run, run_items, writing
from ldm.types import Task, Usage, stable_seed

ITERATIONS = "iterations.jsonl"


@dataclass(frozen=True, slots=True)
class AttemptSetup:
    """What attempts are made with. llm: acts. planner: reflects and writes the plan."""

    env: EnvironmentBase
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
        work = _Optimisation(run, factory, tuple(pool), settings, seed, workers, on_result)
        with closing(work):
            for _ in range(settings.iterations):
                work.iterate()
        with writing(path):
            # The last line holds X_I; it has no experiences.
            records.write(path, [*work.iterations, Iteration(work.plan, ())])
        run.discard_parts()
    return work.plan, work.iterations


def first_iteration(
    run: Run,
    factory: AttemptFactory,
    pool: Sequence[Task],
    settings: AutoPlanSettings,
    *,
    seed: int = 0,
    workers: int = 1,
) -> Iteration:
    """Return the first iteration alone, to tell what all will cost; `optimise` goes on from there.

    Raises what `optimise` raises.
    """
    path = run.directory / ITERATIONS
    with run.lock():
        if path.is_file():
            return records.read(path, Iteration)[0]
        work = _Optimisation(run, factory, tuple(pool), settings, seed, workers)
        with closing(work):
            work.iterate()
    return work.iterations[0]


@dataclass
class _Optimisation:
    """The state of an optimisation: the plan X_i, and how it came about so far."""

    run: Run
    factory: AttemptFactory
    pool: tuple[Task, ...]
    settings: AutoPlanSettings
    seed: int
    workers: int
    on_result: Callable[[Experience], None] = lambda _: None
    plan: str = ""
    iterations: list[Iteration] = field(default_factory=list)
    items: list[_Item] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._place = self.factory()

    def close(self) -> None:
        self._place.env.close()

    def iterate(self) -> None:
        """Collect a batch of experiences with X_i (§3.2.1, §3.2.2) and rewrite it (§3.2.3)."""
        number, begun = len(self.iterations), len(self.items)
        self.items += [
            _Item(begun + at, number, task, self.plan)
            for at, task in enumerate(draw(self.pool, self.settings, self.seed, number))
        ]
        experiences = run_items(
            self.run,
            _Collecting(self.factory, self.settings, self.seed),
            self.items,
            Experience,
            workers=self.workers,
            backend="threads",
            on_result=lambda one: self.on_result(one) if one.index >= begun else None,
        )
        batch = tuple(experiences[begun:])
        _check(batch, number)
        spent: list[Usage] = []
        improved = self._improved(batch, number, spent)
        done = Iteration(self.plan, batch, kept=not improved, usage=sum(spent, Usage()))
        self.iterations.append(done)
        self.plan = improved or self.plan

    def _improved(self, batch: Sequence[Experience], number: int, spent: list[Usage]) -> str:
        """Return the plan rewritten after a batch; "" where the model gave none."""
        card = prompt_card(self._place.env.card, self.settings.card)
        kinds = {task.kind for task in self.pool}
        about = card.kinds.get(kinds.pop(), "") if len(kinds) == 1 else ""
        llm = ScopedLLM(self._place.planner, lambda: (self.seed, number, "update"), spent.append)
        with _resumable(self.run):
            return rewritten(llm, card, about, self.plan, batch, self.settings)


@contextmanager
def _resumable(run: Run) -> Iterator[None]:
    """Let what stops the rewriting of a plan say how to go on, as `run_items` does."""
    go_on = f"Resume with `{run.resume_command}`."
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
            "Fix that and start again.",
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
        place = self._place
        seed = stable_seed(self._seed, "iteration", item.iteration)
        resources = Resources(llm=place.llm, planner=place.planner, seed=seed)
        agent = AutoPlanAgent(self._settings.agent(item.plan), resources)
        result, trajectories = run_episode(place.env, agent, item.task)
        if result.error or not trajectories:
            return Experience(item.index, result)
        (note,) = (note for note in result.notes if note.kind == SAID)
        spent: list[Usage] = []
        llm = ScopedLLM(place.planner, lambda: (seed, item.task.id, "reflection"), spent.append)
        experience = Experience(item.index, result, trajectories[-1], tuple(note.data["said"]))
        try:
            attempt = Attempt(item.plan, trajectories[-1], self._solution(item.task))
            card = prompt_card(place.env.card, self._settings.card)
            reflection = reflect(llm, card, attempt, self._settings)
        except RunStopped:
            raise
        except Exception:  # one broken reflection must not lose the others
            return replace(experience, result=replace(result, error=traceback.format_exc()))
        return replace(experience, reflection=reflection, usage=sum(spent, Usage()))

    def _solution(self, task: Task) -> str:
        return self._place.env.solution(task) if self._settings.solution else ""

    def close(self) -> None:
        self._place.env.close()
