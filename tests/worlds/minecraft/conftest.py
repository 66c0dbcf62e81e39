"""Environments in which tests play, and TextCraft's recipes to compare with."""

from collections.abc import Callable
from typing import Any

import pytest

from ldm.types import TimeStep
from ldm.worlds.minecraft import Minecraft, MinecraftOptions
from tests.worlds.textcraft.conftest import book

__all__ = ["book"]

Start = Callable[..., Minecraft]


@pytest.fixture
def start() -> Start:
    """Return a function that starts a task: start("test/furnace/0", slice=150)."""

    def started(task_id: str, **options: Any) -> Minecraft:
        env = Minecraft(MinecraftOptions(**options))
        split = task_id.partition("/")[0]
        env.reset(next(task for task in env.tasks(split) if task.id == task_id))
        return env

    return started


def play(env: Minecraft, *actions: str) -> TimeStep:
    """Carry out actions, each until it says that nothing is to go; return the last answer."""
    for action in actions:
        now = env.step(action)
        while ", " in (first := now.observation.partition("\n")[0]) and "to go" in first:
            if now.done or "broke" in first:
                break
            verb, _, item = action.split(" ", 2)
            left = first.rsplit(", ", 1)[1].split()[0]
            now = env.step(f"{verb} {left} {item}")
    return now
