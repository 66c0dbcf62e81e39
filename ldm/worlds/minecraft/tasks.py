"""Tasks: the items of DEPS (arXiv 2302.01560, Tables 9 to 16), other items, several at once.

`tasks.json` beside this module lists them; `scripts/make_minecraft.py` writes it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from ldm.types import Task, stable_seed
from ldm.worlds.minecraft.rules import Rules
from ldm.worlds.minecraft.sources import FACTS

ENV = "minecraft"
TEST, TEST_WORLDS, PARALLEL, TRAIN, TRAIN_WORLDS = SPLITS = (
    "test", "test_worlds", "parallel", "train", "train_worlds",
)  # fmt: skip
TaskSet = Literal["measured69", "listed76"]
Start = Literal["plains", "any"]

#: Ticks by kind; without a map, a number of actions replaces them.
LIMITS: dict[str, int] = FACTS["limits"]
#: Goals from which combinations are drawn, and the worlds for each size of combination.
PARALLEL_GOALS = (("log", 3), ("wool", 1), ("beef", 1), ("porkchop", 1), ("chicken", 1))
PARALLEL_WORLDS = 100


@dataclass(frozen=True, slots=True)
class Target:
    """Items to hold: `count` of any of the items of a word."""

    word: str
    count: int
    items: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.count} {self.word}"


@dataclass(frozen=True, slots=True)
class Listed:
    """A task of the paper.

    word: its name of the item; targets: the corresponding items of 1.16. skills: the printed number
    of skills. measured: whether a success rate was published (Table 21).
    """

    number: int
    kind: str
    word: str
    targets: tuple[str, ...]
    skills: int
    measured: bool


@dataclass(frozen=True, slots=True)
class Game:
    """A task with its world.

    limit: ticks. start, mobs: the first place, and whether herds are put there.
    """

    task: Task
    targets: tuple[Target, ...]
    world: int
    limit: int
    start: Start | None = None
    mobs: bool | None = None


@cache
def listed_tasks() -> tuple[Listed, ...]:
    """Return the 76 tasks of the paper."""
    return tuple(Listed(n, k, w, tuple(t), s, m) for n, k, w, t, s, m in _data()["listed"])


@cache
def training_items() -> Mapping[str, tuple[str, int]]:
    """Return item → kind and number of the world of the other items, for memories.

    The world is the first of five in which the expert makes the item in time.
    """
    return {item: (kind, number) for item, kind, number in _data()["train"]}


def games(split: str, rules: Rules, task_set: TaskSet, worlds: int) -> Iterator[Game]:
    """Yield the games of one of SPLITS in their order."""
    if split == PARALLEL:
        number = PARALLEL_WORLDS * worlds
        yield from (_parallel(k, n, rules) for k in (2, 3, 4) for n in range(number))
        return
    if split == TRAIN:
        for item, (kind, number) in training_items().items():
            yield _single(split, item, (item,), kind, number, rules)
        return
    for listed in listed_tasks():
        if listed.measured or (task_set == "listed76" and split != TRAIN_WORLDS):
            for number in range(worlds):
                yield _single(split, listed.word, listed.targets, listed.kind, number, rules)


def _single(
    split: str, word: str, items: tuple[str, ...], kind: str, number: int, rules: Rules
) -> Game:
    group = "test" if split in (TEST, TEST_WORLDS) else split
    source = f"{word}@{group}/{number}" if split == TEST_WORLDS else word
    members = tuple(dict.fromkeys(name for item in items for name in rules.members(item)[:1]))
    target = Target(word, 1, members)
    return Game(
        Task(f"{split}/{word}/{number}", ENV, split, f"obtain {target}", kind, source),
        (target,),
        stable_seed(ENV, group, word, number),
        LIMITS["MT8"] if split == TRAIN else LIMITS[kind],
    )


def _parallel(goals: int, number: int, rules: Rules) -> Game:
    world = stable_seed(ENV, PARALLEL, goals, number)
    rng = random.Random(stable_seed("goals", world))
    places = sorted(rng.sample(range(len(PARALLEL_GOALS)), goals))
    targets = tuple(
        Target(word, count, rules.members(word))
        for word, count in (PARALLEL_GOALS[place] for place in places)
    )
    words = ", ".join(map(str, targets[:-1])) + f" and {targets[-1]}"
    kind = f"parallel{goals}"
    source = f"{'+'.join(target.word for target in targets)}@{goals}/{number}"
    task = Task(f"{PARALLEL}/{goals}/{number}", ENV, PARALLEL, f"obtain {words}", kind, source)
    return Game(task, targets, world, LIMITS[kind], start="any", mobs=False)


def _data() -> Any:
    text = resources.files("ldm.worlds.minecraft").joinpath("tasks.json").read_text("utf-8")
    return json.loads(text)
