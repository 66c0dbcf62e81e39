"""Play recorded episodes again, to learn which actions were possible at each step.

A recording holds the actions that were taken. To learn from it, they must be told apart from the
other possible actions, which only the environment knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from ldm.config import Section
from ldm.envs import load_env
from ldm.episode import EnvironmentBase
from ldm.errors import LdmError
from ldm.run.builders import build_environment
from ldm.types import Step, Task, Trajectory

#: A score differs from the recorded one from this on.
TOLERANCE = 1e-6


def with_possible(
    trajectories: Sequence[Trajectory],
    env: Section,
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Trajectory]:
    """Return the trajectories with the possible actions of their steps, where they can be known.

    env: the environment's class and options, which also choose the form of observations. An episode
    gets no possible actions if the environment has no such task or lists no actions, or if it does
    not take the same course again.
    """
    lacking = any(step.possible is None for one in trajectories for step in one.steps)
    if not (lacking or env.options):
        return list(trajectories)
    try:
        load_env(env.name, recorded=True)  # no code that only a file names is run
        world = build_environment(env)
    except Exception:  # of any kind: a recording is of use without its environment
        return list(trajectories)
    tasks: dict[str, Mapping[str, Task]] = {}
    known = []
    with closing(world):
        for done, one in enumerate(trajectories):
            known.append(_replayed(world, world.as_shown(one), tasks))
            on_progress("replay", done + 1, len(trajectories))
    return known


def _replayed(
    world: EnvironmentBase, one: Trajectory, tasks: dict[str, Mapping[str, Task]]
) -> Trajectory:
    """Return a trajectory with its possible actions, or as it is."""
    try:
        if (task := _task_of(one, world, tasks)) is None:
            return one
        now, steps, score = world.reset(task), list[Step](), 0.0
        for step in one.steps:
            if not step.action:
                steps.append(step)
                continue
            if now.done or step.action not in (now.admissible or ()):
                return one
            steps.append(replace(step, possible=tuple(dict.fromkeys(now.admissible or ()))))
            now = world.step(step.action)
            score += now.reward
        same = abs(score - one.score) < TOLERANCE
        return replace(one, steps=tuple(steps)) if same else one
    except (LdmError, OSError, ImportError, ValueError, KeyError):
        tasks.setdefault(one.task.split, {})
        return one


@dataclass(frozen=True, slots=True)
class Listed:
    """How many recorded actions were possible as an environment lists them, of how many.

    unknown: trajectories of tasks that the environment does not have. first: the first action that
    was not listed, with its place.
    """

    possible: int = 0
    steps: int = 0
    unknown: int = 0
    first: str = ""


def listed_in(trajectories: Iterable[Trajectory], env: Section) -> Listed:
    """Play recorded episodes again, and count the actions that were possible as listed."""
    tasks: dict[str, Mapping[str, Task]] = {}
    possible, steps, unknown, first = 0, 0, 0, ""
    with closing(build_environment(env)) as world:
        for one in trajectories:
            if (task := _task_of(one, world, tasks)) is None:
                unknown += 1
                continue
            now = world.reset(task)
            for number, step in enumerate(one.steps, 1):
                if step.action and not now.done:
                    is_listed = step.action in (now.admissible or ())
                    steps, possible = steps + 1, possible + is_listed
                    if not is_listed:
                        first = first or f"{task.id}, step {number}: {step.action}"
                    now = world.step(step.action)
    return Listed(possible, steps, unknown, first)


def _task_of(
    one: Trajectory, world: EnvironmentBase, tasks: dict[str, Mapping[str, Task]]
) -> Task | None:
    """Return the environment's task of a trajectory, if it has it. tasks: those read before."""
    split = one.task.split
    if split not in tasks:
        tasks[split] = {task.id: task for task in world.tasks(split)}
    return tasks[split].get(one.task.id)
