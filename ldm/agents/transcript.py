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
        """Return the next shorter view of a transcript of `steps` steps; None where there is none.

        Demonstrations go first, then the older half of the steps, then the length of observations.
        """
        if self.demonstrations:
            return replace(self, demonstrations=self.demonstrations - 1)
        if steps - self.skipped > 1:
            return replace(self, skipped=self.skipped + (steps - self.skipped + 1) // 2)
        if self.width > NARROWEST:
            return replace(self, width=max(NARROWEST, self.width // 2))
        return None


def transcript_text(
    opening: str, steps: Sequence[Step], *, width: int, thoughts: bool = True, skipped: int = 0
) -> str:
    """Return a process in lines with labels, as replies are asked for.

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


def example(trajectory: Trajectory, *, width: int, thoughts: bool) -> str:
    """Return a demonstration: its task and what was done, without what the last action answered."""
    text = transcript_text(trajectory.opening, trajectory.steps, width=width, thoughts=thoughts)
    if (
        trajectory.steps
        and trajectory.steps[-1].action
        and not trajectory.steps[-1].observation.strip()
    ):
        text = text.rpartition("\n")[0]
    return f"Task: {trajectory.task.goal}\n{text}"


def outlined(trajectory: Trajectory, plan: str, *, width: int) -> str:
    """Return a demonstration for planners: its task, what there was at first, and a plan for it.

    Without what there was a small model plans to use all that it sees (docs/lab, planning agents).
    """
    seen = transcript_text(without_goal(trajectory.opening, trajectory.task.goal), (), width=width)
    return f"Task: {trajectory.task.goal}\n{seen}\n{plan}"


def without_goal(opening: str, goal: str) -> str:
    """Return what was seen first without the lines that tell the goal, and without empty ones."""
    task = goal.casefold().rstrip(". ")
    lines = [line for line in opening.splitlines() if task not in line.casefold()]
    return "\n".join(line for line in lines if line.strip())


def localized(trajectory: Trajectory, localize: Callable[[str], str]) -> Trajectory:
    """Return a demonstration in the words of the present task (`Environment.localize`)."""
    steps = tuple(
        replace(step, action=localize(step.action), observation=localize(step.observation))
        for step in trajectory.steps
    )
    return replace(trajectory, opening=localize(trajectory.opening), steps=steps)


def ask(
    llm: LLM, prompt: Callable[[View], list[Message]], view: View, steps: int, **options: Any
) -> tuple[Completion, View]:
    """Return the reply to `prompt(view)`, or to a shorter view if there is no room, and the view.

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
