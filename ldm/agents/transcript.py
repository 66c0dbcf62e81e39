"""Trajectories and demonstrations as texts of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from ldm.agents.demonstrations import Division
from ldm.agents.replies import ACT, COMPLETED, FAILED, SEEN, THINK
from ldm.prompts import shortened
from ldm.types import Step, Trajectory


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
    texts = []
    for opening, group in groupby(trajectories, key=lambda one: one.opening):
        courses = [
            (one.task.goal, _course(one, width=width, thoughts=thoughts, judged=judged))
            for one in group
        ]
        texts.append(_in_one_place(_line(SEEN, opening, width), courses))
    return texts


def look_texts(trajectories: Sequence[Trajectory], *, width: int) -> list[str]:
    """Return demonstrations of looks that decide: task, observation, judgement and verdict.

    Consecutive ones with the same observation become one text, in which it stands once.
    """
    texts = []
    for opening, group in groupby(trajectories, key=lambda one: one.opening):
        verdicts = [
            (one.task.goal, [*_thoughts(one), COMPLETED if one.success else FAILED])
            for one in group
        ]
        texts.append(_in_one_place(_line(SEEN, opening, width), verdicts))
    return texts


def division_texts(divisions: Sequence[Division], *, detailed: bool, width: int) -> list[str]:
    """Return examples for planners: tasks, the initial scene, and a plan for each.

    Consecutive ones with the same scene become one text, in which it stands once.
    detailed: with the plans whose steps need no further division.
    """
    texts = []
    for opening, group in groupby(divisions, key=lambda one: without_goal(one.seen, one.task)):
        plans = [
            (one.task, [*_tried(one), one.detailed if detailed else one.plan]) for one in group
        ]
        texts.append(_in_one_place(_line(SEEN, opening, width), plans))
    return texts


def outlined(trajectory: Trajectory, plan: str, *, width: int) -> str:
    """Return a demonstration for planners: its task, the initial scene, and a plan for it.

    Without the scene a small model plans to use all that it sees (docs/lab, planning agents).
    """
    opening = transcript_text(
        without_goal(trajectory.opening, trajectory.task.goal), (), width=width
    )
    return f"Task: {trajectory.task.goal}\n{opening}\n{plan}"


def without_goal(opening: str, goal: str) -> str:
    """Return the opening without the lines that tell the goal, and without empty ones."""
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


def _in_one_place(opening: str, tasks: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return tasks, each followed by its lines, after one description of their place."""
    if len(tasks) == 1:
        ((task, lines),) = tasks
        return "\n".join([f"Task: {task}", opening, *lines])
    return "\n\n".join([opening, *("\n".join([f"Task: {task}", *lines]) for task, lines in tasks)])


def _course(trajectory: Trajectory, *, width: int, thoughts: bool, judged: bool) -> list[str]:
    """Return the steps of a demonstration, in labelled lines."""
    steps = trajectory.steps
    lines = _step_lines(steps, width=width, thoughts=thoughts)
    if steps and steps[-1].action and not steps[-1].observation.strip():
        lines.pop()
    if judged:
        lines.append(f"{ACT} {COMPLETED if trajectory.success else FAILED}")
    return lines


def _thoughts(trajectory: Trajectory) -> list[str]:
    return [step.thought for step in trajectory.steps if step.thought]


def _tried(division: Division) -> list[str]:
    return [f"Tried without success: {division.tried}"] if division.tried else []


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
