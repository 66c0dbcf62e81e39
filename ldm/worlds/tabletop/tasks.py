"""Tasks and splits. A scene depends on its kind and its number, and splits share no number."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ldm.envs._base import unknown_task
from ldm.types import Task, stable_hash, stable_seed
from ldm.worlds.tabletop.kinds import KINDS, Kind
from ldm.worlds.tabletop.scene import Pose, Scene

ENV = "tabletop"
TRAIN, TEST, TEST100 = "train", "test", "test100"
#: The numbers of each split: 40 of a kind to learn from; five seeds as in DEPS; 20.
SPLITS = {TRAIN: range(40), TEST: range(1000, 1005), TEST100: range(2000, 2020)}
_SEED = 2302_01560


@dataclass(frozen=True, slots=True)
class Game:
    """A task with its kind and its scene."""

    task: Task
    kind: Kind
    scene: Scene


def games(split: str) -> list[Game]:
    """Return the games of one of SPLITS: each number in all kinds, then the next number."""
    return [game(split, kind, number) for number in SPLITS[split] for kind in KINDS]


def game(split: str, kind: str, number: int) -> Game:
    """Return the game of a kind with any number, also one that no split lists."""
    rules = KINDS[kind]
    source = f"{kind}:{number}"
    task = Task(f"{split}/{kind}/{number}", ENV, split, rules.instruction, kind, source)
    return Game(task, rules, rules.draw(random.Random(stable_seed(ENV, _SEED, kind, number))))


def game_of(task: Task) -> Game:
    """Return the game of a task; raise LdmError if it is not this environment's."""
    kind, _, number = task.source.rpartition(":")
    if kind in KINDS and number.isdecimal() and len(number) < 10:
        played = game(task.split, kind, int(number))
        if played.task == task:
            return played
    raise unknown_task("Tabletop", task)


def digest(listed: list[Game]) -> str:
    """Return a hash of the tasks of a split and their initial poses."""
    return stable_hash(
        [
            [one.task.id, one.kind.opening(one.scene), *map(_place, _poses(one.scene))]
            for one in listed
        ]
    )


def _poses(scene: Scene) -> list[Pose]:
    return [
        *(thing.start for thing in scene.things),
        *(fixture.pose for fixture in scene.fixtures),
        *(hole.pose for hole in scene.holes),
    ]


def _place(pose: Pose) -> list[float]:
    """Return a pose as JSON values, to the micrometre: the last digits may differ by machine."""
    return [round(value, 6) for value in (pose.x, pose.y, pose.z, pose.yaw)]
