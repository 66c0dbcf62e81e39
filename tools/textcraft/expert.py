"""An expert that crafts as a person would.

It reads the listing and works towards the goal, with empty hands, one craft after the other:
it provides the ingredients of a craft, the most elaborate first, fetches what is missing in one go,
crafts, uses what was left over, and looks at the inventory before the last step.
"""

from __future__ import annotations

import re
from collections import Counter

from ldm.errors import LdmError
from ldm.types import Step, Task, TimeStep, Trajectory
from ldm.worlds.textcraft.environment import TextCraft, words
from tools.textcraft.solver import choose, listed

_CRAFTED = re.compile(r"Crafted (\d+) ")


def solve(env: TextCraft, task: Task) -> Trajectory:
    """Return the expert's episode of a task. Raise LdmError where it does not succeed."""
    person = _Person(env, task)
    person.provide_for(task.source)
    person.do("inventory")
    person.craft(task.source)
    if not person.now.done:
        raise LdmError(
            f"The expert did not solve: {task.goal}", "Look for what differs in its recipes."
        )
    steps = tuple(person.steps)
    return Trajectory(task, person.opening, steps, person.now.reward, success=True, origin="expert")


class _Person:
    """The expert in one episode, with what it has done and holds."""

    def __init__(self, env: TextCraft, task: Task) -> None:
        self._env = env
        self.now: TimeStep = env.reset(task)
        self.opening = self.now.observation
        self.steps: list[Step] = []
        self._held: Counter[str] = Counter()
        self._choices = choose(task.source, listed(self.opening), env.book)

    def do(self, action: str) -> str:
        """Act and return the observation."""
        self.now = now = self._env.step(action)
        self.steps.append(Step(action, now.observation, now.reward, valid=now.valid))
        return now.observation

    def provide(self, item: str, count: int) -> None:
        """Make sure to hold at least so many of an item."""
        missing = count - self._held[item]
        if missing > 0 and item not in self._choices.recipes:
            self.do(f"get {missing} {words(item)}")
            self._held[item] += missing
        elif missing > 0:
            times = -(-missing // self._choices.recipes[item].count)
            self.provide_for(item, times)
            for _ in range(times):
                self.craft(item)

    def provide_for(self, item: str, times: int = 1) -> None:
        """Make sure to hold what crafting an item so many times takes."""
        # Items come before what they are made of, so that nothing provided is used up again.
        for amount in self._choices.ingredients(self._choices.recipes[item]):
            self.provide(amount.name, amount.count * times)

    def craft(self, item: str) -> None:
        """Craft an item once."""
        reply = self.do(self._choices.command(item))
        if match := _CRAFTED.match(reply):
            self._held[item] += int(match.group(1))
            for amount in self._choices.ingredients(self._choices.recipes[item]):
                self._held[amount.name] -= amount.count
