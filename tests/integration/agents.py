"""Agents for tests of `ldm eval`."""

from dataclasses import dataclass
from typing import Literal

from ldm.agents import Resources
from ldm.episode import Agent, Episode
from ldm.llm import Message, Sampling
from ldm.types import Card, stable_seed
from tests.toy import ToyEnv, expert


@dataclass(frozen=True, slots=True)
class AdeptOptions:
    """control: "none" gives up at once. trials: how often a task is tried."""

    control: Literal["", "random", "none"] = ""
    trials: int = 1


class Adept(Agent):
    """Knows the toy environment's expert by heart."""

    name = "adept"
    paper = "test"
    Options = AdeptOptions
    options: AdeptOptions

    def __init__(self, options: AdeptOptions, resources: Resources) -> None:
        super().__init__(options, resources)
        self._plans = {task.id: expert(task) for task in ToyEnv().tasks("test")}

    def budget(self, card: Card) -> int:
        return 20

    def solve(self, episode: Episode) -> None:
        plan = () if self.options.control else self._plans[episode.task_id]
        for _ in range(self.options.trials):
            with episode.trial():
                for action in plan:
                    episode.act(action)


class Mindful(Adept):
    """Needs a memory, which it opens and leaves alone."""

    needs = ("memory",)


@dataclass(frozen=True, slots=True)
class AskingOptions:
    """steps: of a trial. trials: of a task."""

    steps: int = 4
    trials: int = 2


@dataclass(frozen=True, slots=True)
class Choice:
    """What the planner is asked for."""

    reason: str
    number: int


class Asking(Agent):
    """Asks its planner once and its model before every action, warmly, and does what comes out."""

    name = "asking"
    needs = ("llm",)
    paper = "test"
    Options = AskingOptions
    options: AskingOptions

    def budget(self, card: Card) -> int:
        return self.options.steps

    def solve(self, episode: Episode) -> None:
        planner = self._resources.model(episode, "planner")
        plan = planner.complete([Message("user", f"Plan: {episode.goal}")], schema=Choice)
        llm = self._resources.model(episode)
        for _ in range(self.options.trials):
            with episode.trial() as now:
                while True:
                    prompt = f"{plan.text}\n{episode.goal}\n{now.observation}"
                    reply = llm.complete([Message("user", prompt)], sampling=Sampling(0.7))
                    actions = now.admissible or ("look",)
                    choice = stable_seed(reply.text) % len(actions)
                    now = episode.act(actions[choice], thought=reply.text)


class Quitter(Agent):
    """Looks at a task of any environment and gives up."""

    name = "quitter"
    paper = "test"
    Options = AdeptOptions
    options: AdeptOptions

    def budget(self, card: Card) -> int:
        return 1

    def solve(self, episode: Episode) -> None:
        with episode.trial():
            pass
