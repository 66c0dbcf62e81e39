"""AutoPlan's optimisation (Ouyang & Li, arXiv 2305.15064, §3.2): one plan for a kind of task.

X_0 is empty. In each iteration a batch of training tasks is attempted with X_i, each attempt is
reflected on (summary, flaw, revision), and the plan is rewritten to X_{i+1}.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from ldm.agents import Resources
from ldm.agents.autoplan import SAID, AutoPlanAgent
from ldm.agents.autoplan.plans import Experience, Iteration
from ldm.agents.autoplan.reflection import Attempt, reflect, rewritten
from ldm.agents.autoplan.settings import AutoPlanSettings
from ldm.episode import EnvironmentBase, run_episode
from ldm.errors import LdmError, RunStopped
from ldm.llm import LLM, ScopedLLM
from ldm.types import Task, Usage, stable_seed

ITERATIONS = "iterations.jsonl"


@dataclass(frozen=True, slots=True)
class AttemptSetup:
    """Hold the resources for attempts. llm: acts. planner: reflects and writes the plan."""

    env: EnvironmentBase
    llm: LLM
    planner: LLM
    settings: AutoPlanSettings
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """Describe an attempt to make."""

    index: int
    iteration: int
    task: Task
    plan: str


def draw(pool: Sequence[Task], settings: AutoPlanSettings, seed: int, iteration: int) -> list[Task]:
    """Return the batch of an iteration, which depends only on task ids, seed and number."""
    rng = random.Random(stable_seed("autoplan batch", seed, iteration))
    return rng.sample(sorted(pool, key=lambda task: task.id), settings.batch)


@dataclass
class Optimisation:
    """Hold the state of an optimisation: the plan X_i and the iterations so far.

    setup: for rewriting the plan. count: the number of iterations.
    """

    setup: AttemptSetup
    pool: tuple[Task, ...]
    count: int
    plan: str = ""
    iterations: list[Iteration] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of attempts."""
        return self.count * self.setup.settings.batch

    def turns(self, done: Mapping[int, Experience]) -> Iterator[Mapping[int, Item]]:
        """Yield each iteration's attempts with X_i (§3.2.1, §3.2.2), then rewrite it (§3.2.3).

        done: receives the experiences. Raise LdmError if all attempts of an iteration failed.
        """
        settings, seed = self.setup.settings, self.setup.seed
        with closing(self.setup.env):
            for number in range(self.count):
                tasks = draw(self.pool, settings, seed, number)
                places = range(number * len(tasks), (number + 1) * len(tasks))
                yield {
                    place: Item(place, number, task, self.plan)
                    for place, task in zip(places, tasks, strict=True)
                }
                batch = tuple(done[place] for place in places)
                _check(batch, number)
                self._rewrite(batch, number)

    def lines(self) -> list[Iteration]:
        """Return the lines of iterations.jsonl: the last holds X_I, and no experiences."""
        return [*self.iterations, Iteration(self.plan, ())]

    def _rewrite(self, batch: tuple[Experience, ...], number: int) -> None:
        """Rewrite the plan after a batch; keep it if the model gives none."""
        setup, spent = self.setup, list[Usage]()
        card = setup.env.card.bare()
        kinds = {task.kind for task in self.pool}
        about = card.kinds.get(kinds.pop(), "") if len(kinds) == 1 else ""
        llm = ScopedLLM(setup.planner, lambda: (setup.seed, number, "update"), spent.append)
        improved = rewritten(llm, card, about, self.plan, batch, setup.settings)
        done = Iteration(self.plan, batch, kept=not improved, usage=sum(spent, Usage()))
        self.iterations.append(done)
        self.plan = improved or self.plan


def _check(batch: Sequence[Experience], number: int) -> None:
    broken = [one for one in batch if one.result.error]
    if len(broken) == len(batch):
        raise LdmError(
            f"Every attempt of iteration {number + 1} failed: "
            f"{broken[0].result.error.strip().splitlines()[-1]}",
            "Fix that and start again.",
        )


class Collector:
    """Attempt tasks and reflect on them; the worker of an optimisation."""

    def __init__(self, setup: AttemptSetup) -> None:
        self._setup = setup

    def __call__(self, item: Item) -> Experience:
        setup = self._setup
        seed = stable_seed(setup.seed, "iteration", item.iteration)
        resources = Resources(llm=setup.llm, planner=setup.planner, seed=seed)
        agent = AutoPlanAgent(setup.settings.agent(item.plan), resources)
        result, trajectories = run_episode(setup.env, agent, item.task)
        if result.error or not trajectories:
            return Experience(item.index, result)
        (note,) = (note for note in result.notes if note.kind == SAID)
        spent: list[Usage] = []
        llm = ScopedLLM(setup.planner, lambda: (seed, item.task.id, "reflection"), spent.append)
        experience = Experience(item.index, result, trajectories[-1], tuple(note.data["said"]))
        try:
            attempt = Attempt(item.plan, trajectories[-1], self._solution(item.task))
            card = setup.env.card.bare()
            reflection = reflect(llm, card, attempt, setup.settings)
        except RunStopped:
            raise
        except Exception:  # one broken reflection must not lose the others
            return replace(experience, result=replace(result, error=traceback.format_exc()))
        return replace(experience, reflection=reflection, usage=sum(spent, Usage()))

    def _solution(self, task: Task) -> str:
        return self._setup.env.solution(task) if self._setup.settings.solution else ""

    def close(self) -> None:
        self._setup.env.close()
