"""Episodes of a help desk, and a memory of them that forms its batches in this process."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldm.errors import LdmError, MemoryLocked
from ldm.memory import folding
from ldm.memory.growing import GrowingMemory
from ldm.memory.recalls import Recalls
from ldm.types import Step, Task, Trajectory
from tests.embedder import BagOfWords


def episode(number: int, *, kind: str = "", score: float = 1.0, steps: int = 2) -> Trajectory:
    """A short episode, unlike all others by its number."""
    task = Task(f"ask/{number}", "desk", "train", f"answer question {number}", kind)
    moves = [Step(f"say {number} {i}", f"heard {number} {i}") for i in range(steps)]
    moves[-1] = replace(moves[-1], reward=score)
    return Trajectory(task, f"asked {number}", tuple(moves), score, score >= 1, "agent")


def opened(place: Path | str, **options: Any) -> GrowingMemory:
    """The memory of the desk, created if it is absent."""
    given: dict[str, Any] = {"embedder": BagOfWords(), "create": True, **options}
    return GrowingMemory.open(place, "desk", **given)


def reopened(memory: GrowingMemory) -> GrowingMemory:
    """The same memory, as another process opens it."""
    return opened(memory.location)


@pytest.fixture
def memory(place: Path) -> GrowingMemory:
    """A memory of the desk without any episode."""
    return opened(place)


def told(memory: GrowingMemory, goal: str, *steps: tuple[str, str], score: float = 1.0) -> str:
    """Record an episode; return its id."""
    running = memory.begin(goal)
    for seen, done in steps:
        running.step(seen, done)
    running.finish(score)
    return running.id


def shown(recalls: Recalls) -> list[tuple[str, float]]:
    """The actions and similarities of recalls."""
    return [(one.tuple.action, one.similarity) for one in recalls]


class Folded:
    """What the process that forms a batch did, done at once in this one."""

    def __init__(self, memory: GrowingMemory, least: int, patience: float) -> None:
        self.returncode, self._said = 0, ""
        try:
            folding.fold(*memory._order(least, patience))
        except LdmError as error:
            if patience or not isinstance(error, MemoryLocked):
                self.returncode, self._said = 1, f'["{error.message}", "{error.remedy}"]'

    def poll(self) -> int:
        return self.returncode

    def communicate(self, timeout: float = 0.0) -> tuple[str, str]:
        return "", self._said


def fold_here(memory: GrowingMemory, least: int = 1, patience: float = 0.0) -> None:
    """Form a batch in this process, in place of `GrowingMemory._start_folding`."""
    memory._folding[os.getpid()] = Folded(memory, least, patience)  # type: ignore[assignment]
