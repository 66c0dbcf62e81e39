"""Trajectories and demonstrations as texts of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

from ldm.agents.demonstrations import Division
from ldm.agents.replies import ACT, COMPLETED, FAILED, SEEN, THINK
from ldm.prompts import shortened
from ldm.reason.excerpts import without_goal
from ldm.types import Step, Trajectory

E = TypeVar("E")


def transcript_text(
    opening: str, steps: Sequence[Step], *, width: int, thoughts: bool = True, skipped: int = 0
) -> str:
    """Return a process in labelled lines, the form in which replies are requested.

    Continuation lines are indented, so that no part of an observation looks like a step.
    """
    lines = [_line(SEEN, opening, width)]
    if skipped:
        lines.append(f"({skipped} earlier steps are left out here.)")
    return "\n".join([*lines, *_step_lines(steps[skipped:], width=width, thoughts=thoughts)])


def example_texts(
    trajectories: Sequence[Trajectory], *, width: int, thoughts: bool, judged: bool = False
) -> list[str]:
    """Return demonstrations: their tasks and steps, without the answer to the last action.

    Consecutive ones with the same opening become one text, in which it stands once.
    judged: each ends by saying whether its task was completed.
    """

    def course(one: Trajectory) -> tuple[str, list[str]]:
        return one.task.goal, _course(one, width=width, thoughts=thoughts, judged=judged)

    return _by_place(trajectories, lambda one: one.opening, course, width)


def look_texts(trajectories: Sequence[Trajectory], *, width: int) -> list[str]:
    """Return demonstrations of looks that decide: task, observation, judgement and verdict.

    Consecutive ones with the same observation become one text, in which it stands once.
    """

    def verdict(one: Trajectory) -> tuple[str, list[str]]:
        thoughts = [step.thought for step in one.steps if step.thought]
        return one.task.goal, [*thoughts, COMPLETED if one.success else FAILED]

    return _by_place(trajectories, lambda one: one.opening, verdict, width)


def division_texts(divisions: Sequence[Division], *, detailed: bool, width: int) -> list[str]:
    """Return examples for planners: tasks, the initial scene, and a plan for each.

    Consecutive ones with the same scene become one text, in which it stands once.
    detailed: with the plans whose steps need no further division.
    """

    def plan(one: Division) -> tuple[str, list[str]]:
        tried = [f"Tried without success: {one.tried}"] if one.tried else []
        return one.task, [*tried, one.detailed if detailed else one.plan]

    return _by_place(divisions, lambda one: without_goal(one.seen, one.task), plan, width)


def localized(trajectory: Trajectory, localize: Callable[[str], str]) -> Trajectory:
    """Return a demonstration in the words of the present task (`Environment.localize`)."""
    steps = tuple(
        replace(step, action=localize(step.action), observation=localize(step.observation))
        for step in trajectory.steps
    )
    return replace(trajectory, opening=localize(trajectory.opening), steps=steps)


def _by_place(
    examples: Sequence[E],
    place: Callable[[E], str],
    task: Callable[[E], tuple[str, list[str]]],
    width: int,
) -> list[str]:
    """Return the texts of examples, one for consecutive ones in the same place.

    place: describes where an example is. task: returns its task and the lines below it.
    """
    texts = []
    for observed, group in groupby(examples, key=place):
        opening = _line(SEEN, observed, width)
        (goal, lines), *others = map(task, group)
        if others:
            tasks = [[f"Task: {goal}", *lines] for goal, lines in [(goal, lines), *others]]
            texts.append("\n\n".join([opening, *map("\n".join, tasks)]))
        else:
            texts.append("\n".join([f"Task: {goal}", opening, *lines]))
    return texts


def _course(trajectory: Trajectory, *, width: int, thoughts: bool, judged: bool) -> list[str]:
    """Return the steps of a demonstration, in labelled lines."""
    steps = trajectory.steps
    lines = _step_lines(steps, width=width, thoughts=thoughts)
    if steps and steps[-1].action and not steps[-1].observation.strip():
        lines.pop()
    if judged:
        lines.append(f"{ACT} {COMPLETED if trajectory.success else FAILED}")
    return lines


def _step_lines(steps: Sequence[Step], *, width: int, thoughts: bool) -> list[str]:
    lines = []
    for step in steps:
        if thoughts and step.thought:
            lines.append(_line(THINK, step.thought, width))
        if step.action:
            lines.append(_line(ACT, step.action, width))
            lines.append(_line(SEEN, step.observation, width))
    return lines


def _line(label: str, text: str, width: int) -> str:
    lines = [line.strip() for line in text.splitlines()]
    return f"{label} " + shortened("\n  ".join(line for line in lines if line), width)
