"""Two tiny environments for tests, in memory and without dependencies.

`ToyEnv` (`--env tests.toy:ToyEnv`): a shed with numbered shelves, fruit, a sink and a basket. It
lists admissible actions, can be forked, and has two kinds of task in two splits. `expert(task)`
solves it.

`EchoEnv` (`--env tests.toy:EchoEnv`): say words backwards. It lists no admissible actions, cannot
be forked and gives partial scores.

`Doing`: an agent that does what a test says.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from ldm.episode import Agent, EnvironmentBase, Episode
from ldm.errors import LdmError
from ldm.types import Card, Step, Task, TimeStep, Trajectory, stable_seed

SPLITS = ("train", "test")
KINDS = ("fetch", "wash")
FRUIT = ("apple", "pear", "plum", "fig", "lemon", "quince")
SHELVES = 3
CHANCES = 3
NOTHING = "Nothing happens."


@dataclass(frozen=True, slots=True)
class ToyOptions:
    tasks: Annotated[int, "Tasks of a split"] = 12
    shelves: Annotated[int, "Shelves to search"] = SHELVES
    delay: Annotated[float, "Seconds that a step takes"] = 0.0
    broken: Annotated[str, "Task whose first step raises an error"] = ""
    dialect: Annotated[str, "Part of the protocol and of nothing else"] = "plain"


@dataclass
class Doing(Agent):
    """An agent that does what a function does."""

    script: Callable[[Episode], None]
    steps: int = 10
    sees_reward: bool = False
    name = "doing"

    def budget(self, card: Card) -> int:
        return self.steps

    def solve(self, episode: Episode) -> None:
        self.script(episode)


class ToyEnv(EnvironmentBase):
    default_split = "test"
    train_splits = ("train",)
    Options = ToyOptions
    options: ToyOptions

    def __init__(self, options: ToyOptions | None = None) -> None:
        self.options = options or ToyOptions()
        self.closed = 0
        self.card = Card(
            name="toy",
            rules="Fruit lies on shelves. You hold one fruit at a time. The sink washes it.",
            actions=(
                "go to PLACE",
                "take FRUIT from SHELF",
                "wash FRUIT (at the sink)",
                "put FRUIT in basket",
            ),
            kinds={
                "fetch": "put a fruit in the basket",
                "wash": "put a washed fruit in the basket",
            },
        )
        self._task: Task | None = None
        self._layout: dict[str, list[str]] = {}
        self._place = ""
        self._held = ""
        self._washed = False
        self._done = True

    def protocol(self) -> Mapping[str, Any]:
        return {
            "environment": "toy",
            "version": 1,
            "shelves": self.options.shelves,
            "dialect": self.options.dialect,
        }

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in SPLITS:
            raise LdmError(f"toy has no split {split!r}.", f"Splits: {', '.join(SPLITS)}.")
        return [_task(split, number) for number in range(self.options.tasks)]

    def reset(self, task: Task) -> TimeStep:
        self._task = task
        self._layout = _layout(task, self.options.shelves)
        self._place, self._held, self._washed, self._done = "", "", False, False
        places = ", ".join([*self._layout, "sink"])
        return self._answer(f"You are in a shed. You see: {places}, and a basket.")

    def step(self, action: str) -> TimeStep:
        if self.options.delay:  # time.sleep(0) lets any other process have the processor
            time.sleep(self.options.delay)
        if self._task is None or self._done:
            raise RuntimeError("the environment needs a reset")
        if self._task.id == self.options.broken:
            raise RuntimeError("the shed has collapsed")
        if action not in self._admissible():
            return self._answer(NOTHING, valid=False)
        verb, *words = action.split()
        if verb == "go":
            self._place = action.removeprefix("go to ")
            on = self._layout.get(self._place)
            contents = "" if on is None else f" On it you see: {', '.join(on) or 'nothing'}."
            return self._answer(f"You are at {self._place}.{contents}")
        fruit = words[0]
        if verb == "take":
            self._layout[self._place].remove(fruit)
            self._held, self._washed = fruit, False
            return self._answer(f"You hold the {fruit}.")
        if verb == "wash":
            self._washed = True
            return self._answer(f"The {fruit} is clean.")
        won = self._wins()
        self._held = ""
        self._done = won
        return self._answer(f"The {fruit} is in the basket.", reward=float(won))

    def fork(self) -> ToyEnv:
        twin = copy.copy(self)
        twin._layout = {place: list(fruits) for place, fruits in self._layout.items()}
        twin.closed = 0
        return twin

    def close(self) -> None:
        self.closed += 1

    def _wins(self) -> bool:
        task = self._task
        return (
            task is not None
            and self._held == _target_of(task)
            and (task.kind == "fetch" or self._washed)
        )

    def _admissible(self) -> tuple[str, ...]:
        if self._done:
            return ()
        actions = [f"go to {place}" for place in [*self._layout, "sink"] if place != self._place]
        if self._held:
            actions.append(f"put {self._held} in basket")
            if self._place == "sink":
                actions.append(f"wash {self._held}")
        else:
            on = self._layout.get(self._place, [])
            actions += [f"take {fruit} from {self._place}" for fruit in on]
        return tuple(sorted(actions))

    def _answer(self, text: str, *, reward: float = 0.0, valid: bool = True) -> TimeStep:
        return TimeStep(text, reward, self._done, self._admissible(), valid)


def expert(task: Task, shelves: int = SHELVES) -> tuple[str, ...]:
    """Actions that solve `task`: search shelf by shelf, take, wash where asked, put."""
    target, plan = _target_of(task), []
    for shelf, fruit in _layout(task, shelves).items():
        plan.append(f"go to {shelf}")
        if target in fruit:
            plan.append(f"take {target} from {shelf}")
            break
    if task.kind == "wash":
        plan += ["go to sink", f"wash {target}"]
    return (*plan, f"put {target} in basket")


def record(
    env: ToyEnv | EchoEnv, task: Task, actions: Iterable[str], origin: Any = "expert"
) -> Trajectory:
    """The trajectory of `actions` in `env`, until the task ends."""
    now = env.reset(task)
    opening, steps = now.observation, []
    for action in actions:
        now = env.step(action)
        steps.append(Step(action, now.observation, now.reward, valid=now.valid))
        if now.done:
            break
    score = min(1.0, sum(step.reward for step in steps))
    return Trajectory(task, opening, tuple(steps), score, score == 1.0, origin)


def expert_trajectories(
    split: str = "train", options: ToyOptions | None = None
) -> list[Trajectory]:
    """The expert's trajectory of every task of a split."""
    env = ToyEnv(options)
    return [record(env, task, expert(task, env.options.shelves)) for task in env.tasks(split)]


def rescored(scores: Mapping[int, float]) -> list[Trajectory]:
    """The experts' episodes, some with another score, which is the reward of their last step."""
    episodes = expert_trajectories()
    for number, score in scores.items():
        one = episodes[number]
        steps = (*one.steps[:-1], replace(one.steps[-1], reward=score))
        episodes[number] = replace(one, score=score, success=score == 1, steps=steps)
    return episodes


def _task(split: str, number: int) -> Task:
    kind = KINDS[number % len(KINDS)]
    fruit = FRUIT[stable_seed("goal", split, number) % len(FRUIT)]
    goal = f"put {'a washed' if kind == 'wash' else 'the'} {fruit} in the basket"
    return Task(id=f"{split}/{kind}-{number}", env="toy", split=split, goal=goal, kind=kind)


def _target_of(task: Task) -> str:
    return next(fruit for fruit in FRUIT if fruit in task.goal)


def _layout(task: Task, shelves: int) -> dict[str, list[str]]:
    """Shelf → the fruit on it; every fruit lies somewhere."""
    generator = random.Random(stable_seed("layout", task.id))
    layout: dict[str, list[str]] = {f"shelf {n}": [] for n in range(1, shelves + 1)}
    for fruit in FRUIT:
        layout[generator.choice(sorted(layout))].append(fruit)
    return layout


@dataclass(frozen=True, slots=True)
class EchoOptions:
    tasks: Annotated[int, "Tasks of a split"] = 6
    words: Annotated[int, "Words that a task asks for"] = 2


class EchoEnv(EnvironmentBase):
    default_split = "test"
    train_splits = ("train",)
    Options = EchoOptions
    options: EchoOptions

    def __init__(self, options: EchoOptions | None = None) -> None:
        self.options = options or EchoOptions()
        self.card = Card(
            name="echo",
            rules="You are asked for words, one by one. The third wrong answer is the last.",
            actions=("say WORD", "stop"),
            kinds={"backwards": "say each word backwards"},
        )
        self._words: list[str] = []
        self._share = 0.0
        self._wrong = 0
        self._over = True

    def protocol(self) -> Mapping[str, Any]:
        return {"environment": "echo", "version": 1, "words": self.options.words}

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in SPLITS:
            raise LdmError(f"echo has no split {split!r}.", f"Splits: {', '.join(SPLITS)}.")
        return [
            Task(f"{split}/{n}", "echo", split, "say each word backwards", "backwards")
            for n in range(self.options.tasks)
        ]

    def reset(self, task: Task) -> TimeStep:
        generator = random.Random(stable_seed("echo", task.id))
        self._words = generator.sample(FRUIT, self.options.words)
        self._share, self._wrong, self._over = 1.0 / len(self._words), 0, False
        return TimeStep(f"The word is {self._words[0]}.")

    def step(self, action: str) -> TimeStep:
        if self._over:
            raise RuntimeError("the environment needs a reset")
        if action == "stop":
            self._over = True
            return TimeStep("Goodbye.", done=True)
        if not action.startswith("say "):
            return TimeStep("Pardon?", valid=False)
        if action.removeprefix("say ") != self._words[0][::-1]:
            self._wrong += 1
            self._over = self._wrong == CHANCES
            return TimeStep(f"No. The word is {self._words[0]}.", done=self._over)
        self._words.pop(0)
        self._over = not self._words
        text = "That was the last word." if self._over else f"Yes. The word is {self._words[0]}."
        return TimeStep(text, reward=self._share, done=self._over)

    def close(self) -> None:
        self._over = True
