"""A world of rooms and doors for tests of exploration, and a policy that is told what to think."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldm.episode import EnvironmentBase
from ldm.errors import ForkUnsupported
from ldm.explore.tree import Position, TreeNode, path_to
from ldm.reason import Answer
from ldm.types import Card, Proposal, Task, TimeStep

#: Room → door → (room behind it, reward, confidence that this is the way).
Doors = Mapping[str, Mapping[str, tuple[str, float, float]]]
TASK = Task("train/maze", "maze", "train", "find the treasure", "find")


@dataclass(frozen=True, slots=True)
class MazeOptions:
    """forks: whether the environment can be copied. drifts: from the n-th reset on it differs."""

    forks: bool = True
    drifts: int = 0


class Maze(EnvironmentBase):
    """Rooms without doors end the task, but for a cellar, from which nothing leads on."""

    default_split = "test"
    train_splits = ("train",)
    Options = MazeOptions
    options: MazeOptions

    def __init__(self, doors: Doors, options: MazeOptions | None = None) -> None:
        self.doors = doors
        self.options = options or MazeOptions()
        self.card = Card(name="maze", rules="Doors lead on.", actions=("DOOR",))
        self.room = "start"
        self.resets = 0
        self.steps = [0]  # shared by all copies
        self.closed = [0]

    def protocol(self) -> Mapping[str, Any]:
        return {"environment": "maze", "version": 1}

    def tasks(self, split: str) -> Sequence[Task]:
        return (TASK,)

    def reset(self, task: Task) -> TimeStep:
        self.room = "start"
        self.resets += 1
        return self._answer(0.0)

    def step(self, action: str) -> TimeStep:
        self.steps[0] += 1
        passage = self.doors.get(self.room, {}).get(action)
        if passage is None:
            return self._answer(0.0, valid=False)
        self.room, reward, _ = passage
        return self._answer(reward)

    def fork(self) -> Maze:
        if not self.options.forks:
            raise ForkUnsupported("This maze cannot be copied.", "Replay the way.")
        return copy.copy(self)

    def close(self) -> None:
        self.closed[0] += 1

    def _answer(self, reward: float, *, valid: bool = True) -> TimeStep:
        doors = tuple(self.doors.get(self.room, ()))
        drifted = 0 < self.options.drifts <= self.resets
        text = f"You are in {self.room}." + (" The light flickers." if drifted else "")
        done = not doors and self.room != "cellar"
        return TimeStep(text, reward, done, doors, valid)


@dataclass
class Told:
    """Decides as the doors' confidences say; `extra` proposals by room are no doors at all."""

    doors: Doors
    extra: Mapping[str, tuple[Proposal, ...]]
    proposals: int = 5

    def __call__(self, position: Position) -> Answer:
        room = position.now.observation.removeprefix("You are in ").partition(".")[0]
        doors = self.doors.get(room, {})
        proposals = [Proposal(door, confidence) for door, (_, _, confidence) in doors.items()]
        proposals = [*self.extra.get(room, ()), *proposals]
        ranked = sorted(proposals, key=lambda p: -p.confidence)[: self.proposals]
        return Answer(tuple(ranked))


def way(nodes: tuple[TreeNode, ...], leaf: TreeNode) -> list[str]:
    """Return the actions that lead to a leaf."""
    return [node.action for node in path_to(nodes, leaf)[1:]]


#: The best way begins with the least likely of four doors; the likely ones lead to small rewards.
UNLIKELY: Doors = {
    "start": {
        "red": ("hall", 0.0, 0.5),
        "blue": ("yard", 0.0, 0.25),
        "green": ("shed", 0.0, 0.15),
        "grey": ("tunnel", 0.0, 0.1),
    },
    "hall": {"on": ("hall end", 0.2, 1.0)},
    "yard": {"on": ("yard end", 0.1, 1.0)},
    "shed": {"on": ("shed end", 0.0, 1.0)},
    "tunnel": {"on": ("vault", 0.0, 1.0)},
    "vault": {"open": ("treasure", 1.0, 1.0)},
}
