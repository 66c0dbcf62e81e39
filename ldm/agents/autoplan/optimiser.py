"""AutoPlan's optimisation (Ouyang & Li, arXiv 2305.15064, §3.2): one plan for a kind of task.

X_0 is empty. In each iteration a batch of training tasks is attempted with X_i, each attempt is
reflected on (summary, flaw, revision: `reflect`), and the plan is rewritten to X_{i+1}
(`rewritten`).
"""

from __future__ import annotations

import random
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from ldm.agents import Resources
from ldm.agents.autoplan import SAID, AutoPlanAgent, AutoPlanOptions
from ldm.agents.autoplan.plans import Experience, Iteration, Reflection
from ldm.agents.loop import View, ask
from ldm.episode import EnvironmentBase, run_episode
from ldm.errors import LdmError, RunStopped
from ldm.llm import LLM, Message, Sampling, ScopedLLM
from ldm.prompts import render, shortened
from ldm.text import last_line
from ldm.types import Amount, Card, Mass, Positive, Task, Trajectory, Usage, stable_seed

#: Training tasks that batches are drawn from if the environment's card has no published number.
POOL = 24


@dataclass(frozen=True, slots=True)
class AutoPlanSettings:
    """Options of an optimisation.

    iterations: I (§3.2.3; the first three in §4.5). batch: B (§3.2.1; 4 in §4.2). pool: §4.1.
    reflection: "summary" is the ablation (§4.5, Fig. 3b), "full" is §3.2.2. solution: the authors'
    code shows it for questions; §3.2.2 names only the reward. top_p: nucleus sampling (§4.2, which
    states no temperature).
    """

    iterations: Annotated[Positive, "Times that the plan is rewritten"] = 3
    batch: Annotated[Positive, "Tasks attempted in an iteration"] = 4
    pool: Annotated[
        Positive | None, "Training tasks that batches come from; none: as published"
    ] = None
    reflection: Annotated[
        Literal["summary", "full"], "Summary alone, or also flaw and revision"
    ] = "full"
    solution: Annotated[bool, "Show reflections the solution if the environment tells it"] = True
    steps: Annotated[Positive | None, "Steps of an attempt; none: as published"] = None
    temperature: Annotated[Amount, "Sampling temperature of all replies"] = 1.0
    top_p: Annotated[Mass, "Probability mass of nucleus sampling"] = 0.9
    part: Annotated[Positive, "Maximum tokens of each part of a reflection"] = 160
    length: Annotated[Positive, "Maximum tokens of a plan"] = 400

    def __post_init__(self) -> None:
        if self.pool is not None and self.batch > self.pool:
            raise ValueError("a batch cannot be larger than the pool that it is drawn from")

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_p)

    @property
    def attempts(self) -> int:
        """The total number of attempts; repeated tasks count each time."""
        return self.iterations * self.batch

    def agent(self, plan: str | None = None) -> AutoPlanOptions:
        """Return the options of an agent that makes attempts with a plan."""
        return AutoPlanOptions(
            plan=plan, budget=self.steps, temperature=self.temperature, top_p=self.top_p
        )

    def evaluated(self) -> dict[str, str]:
        """Return the options of an agent that evaluates the plans: as in attempts, but greedy."""
        return {} if self.steps is None else {"budget": str(self.steps)}


def published_settings(card: Card) -> dict[str, int]:
    """Return the settings published for an environment."""
    published = AutoPlanAgent.published
    return {
        "pool": published(card, "pool", POOL),
        "steps": published(card, "budget", AutoPlanAgent.default_budget),
    }


#: Lines and characters of a plan that are kept: a rambling one would fill every prompt.
MOST_STEPS, LONGEST = 15, 2000

_TAG = re.compile(r"</?[a-z-]+>")
_LISTED = re.compile(r"\s*(?:\*\*)?(?:step\s*)?\d+\s*[.):]|\s*[-*•]\s+\S", re.IGNORECASE)


def reflect(
    llm: LLM, card: Card, plan: str, tried: Trajectory, solution: str, settings: AutoPlanSettings
) -> Reflection:
    """Return the model's view of an attempt: a summary and, fully, the plan's flaw and revision.

    solution: the actions that solve the task, "" if they are not shown.
    Summary and flaw are asked for independently, each after the attempt and its reward (Eq. 6, 7);
    the revision after the request for the flaw and the model's reply to it (Eq. 8).
    Raise the errors of a model call.
    """
    view = View(0, AutoPlanOptions().observation)

    def reply(part: Literal["summary", "flaw"], follow: Sequence[Message] = ()) -> str:
        """Return the reply to a question on the attempt, or to the messages that follow it."""
        nonlocal view  # once shortened, it stays short

        def prompt(view: View) -> list[Message]:
            first = render(
                "agents/autoplan/reflect",
                card=card,
                plan=plan,
                task=tried.task.goal,
                transcript=view.transcript(tried.opening, tried.steps),
                success=tried.success,
                steps=len(tried.steps),
                solution=solution,
                part=part,
            )
            return [*first, *follow]

        completion, view = ask(
            llm,
            prompt,
            view,
            len(tried.steps),
            sampling=settings.sampling,
            max_tokens=settings.part,
        )
        return shortened(completion.text.strip(), LONGEST)

    summary = reply("summary")
    if settings.reflection == "summary":
        return Reflection(summary)
    flaw = reply("flaw")
    follow = (Message("assistant", flaw or "…"), *render("agents/autoplan/revision"))
    return Reflection(summary, flaw, reply("flaw", follow))


def rewritten(
    llm: LLM,
    card: Card,
    about: str,
    plan: str,
    batch: Sequence[Experience],
    settings: AutoPlanSettings,
) -> str:
    """Return the plan rewritten after a batch (Eq. 9); "" if the model gave none, or half of one.

    about: the aim of tasks of the plan's kind, "" if there is more than one kind.
    """
    whole = [one for one in batch if one.trajectory is not None and not one.result.error]

    def prompt(view: View) -> list[Message]:
        given = {"card": card, "plan": plan, "about": about}
        return render("agents/autoplan/update", attempts=whole, width=view.width, **given)

    completion, _ = ask(
        llm, prompt, View(0, LONGEST), 0, sampling=settings.sampling, max_tokens=settings.length
    )
    return "" if completion.cut else cleaned(completion.text)


def cleaned(text: str) -> str:
    """Return the plan in a reply: its list without the text around it, "" if it is empty.

    A reply without a list is taken as it is.
    """
    lines = [line.rstrip() for line in re.sub(r"```\w*", "", text).splitlines()]
    lines = [line for line in lines if line and not _TAG.fullmatch(line.strip())]
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
                placed = zip(places, tasks, strict=True)
                yield {at: Item(at, number, task, self.plan) for at, task in placed}
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
            f"Every attempt of iteration {number + 1} failed: {last_line(broken[0].result.error)}",
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
            solution = setup.env.solution(item.task) if setup.settings.solution else ""
            card = setup.env.card.bare()
            tried = trajectories[-1]
            reflection = reflect(llm, card, item.plan, tried, solution, setup.settings)
        except RunStopped:
            raise
        except Exception:  # one broken reflection must not lose the others
            return replace(experience, result=replace(result, error=traceback.format_exc()))
        return replace(experience, reflection=reflection, usage=sum(spent, Usage()))

    def close(self) -> None:
        self._setup.env.close()
