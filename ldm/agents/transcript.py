"""Trajectories in the words of a prompt, shortened where the model has no room for all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldm.agents.replies import ACT, SEEN, THINK
from ldm.errors import ContextTooLong
from ldm.llm import LLM, Completion, Message
from ldm.prompts import shortened
from ldm.types import Step, Trajectory

#: Characters of an observation below which nothing is left to shorten.
NARROWEST = 160


@dataclass(frozen=True, slots=True)
class View:
    """How much of what there is a prompt shows.

    demonstrations: so many of them. skipped: the oldest steps of the transcript that are left out.
    width: characters of an observation.
    """

    demonstrations: int
    width: int
    skipped: int = 0

    def shorter(self, steps: int) -> View | None:
        """The next shorter view of a transcript of `steps` steps; None where there is none.

        Demonstrations go first, then the older half of the steps, then the length of observations.
        """
        if self.demonstrations:
            return replace(self, demonstrations=self.demonstrations - 1)
        if steps - self.skipped > 1:
            return replace(self, skipped=self.skipped + (steps - self.skipped + 1) // 2)
        if self.width > NARROWEST:
            return replace(self, width=max(NARROWEST, self.width // 2))
        return None


def told(
    opening: str, steps: Sequence[Step], *, width: int, thoughts: bool = True, skipped: int = 0
) -> str:
    """A process in lines with labels, as replies are asked for.

    A line that goes on is indented, so that nothing within an observation looks like a step.
    """
    lines = [_line(SEEN, opening, width)]
    if skipped:
        lines.append(f"({skipped} earlier steps are left out here.)")
    for step in steps[skipped:]:
        if thoughts and step.thought:
            lines.append(_line(THINK, step.thought, width))
        if step.action:
            lines.append(_line(ACT, step.action, width))
            lines.append(_line(SEEN, step.observation, width))
    return "\n".join(lines)


def example(found: Trajectory, *, width: int, thoughts: bool) -> str:
    """A demonstration: its task and what was done, without what the last action answered."""
    text = told(found.opening, found.steps, width=width, thoughts=thoughts)
    if found.steps and found.steps[-1].action and not found.steps[-1].observation.strip():
        text = text.rpartition("\n")[0]
    return f"Task: {found.task.goal}\n{text}"


def outlined(found: Trajectory, plan: str, *, width: int) -> str:
    """A demonstration for planners: its task, what there was at first, and a plan for it.

    Without what there was a small model plans to use all that it sees (docs/lab, planning agents).
    """
    seen = told(without_goal(found.opening, found.task.goal), (), width=width)
    return f"Task: {found.task.goal}\n{seen}\n{plan}"


def without_goal(opening: str, goal: str) -> str:
    """What was seen first without the lines that tell the goal, and without empty ones."""
    said = goal.casefold().rstrip(". ")
    kept = [line for line in opening.splitlines() if said not in line.casefold()]
    return "\n".join(line for line in kept if line.strip())


def localized(found: Trajectory, localize: Callable[[str], str]) -> Trajectory:
    """A demonstration in the words of the present task (`Environment.localize`)."""
    steps = tuple(
        replace(step, action=localize(step.action), observation=localize(step.observation))
        for step in found.steps
    )
    return replace(found, opening=localize(found.opening), steps=steps)


def ask(
    llm: LLM, prompt: Callable[[View], list[Message]], view: View, steps: int, **options: Any
) -> tuple[Completion, View]:
    """The reply to `prompt(view)`, or to shorter ones where the model has no room; the view used.

    steps: how many the transcript has. options: of `LLM.complete`.
    Raises ContextTooLong where nothing is left to shorten, ModelError and RunStopped.
    """
    while True:
        try:
            return llm.complete(prompt(view), **options), view
        except ContextTooLong:
            smaller = view.shorter(steps)
            if smaller is None:
                raise
            view = smaller


def _line(label: str, text: str, width: int) -> str:
    lines = [line.strip() for line in text.splitlines()]
    return f"{label} " + shortened("\n  ".join(line for line in lines if line), width)
