"""Replays of recorded episodes in an engine, to check that its answers are those recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ldm.episode import Environment
from ldm.types import Trajectory
from ldm.worlds.alfworld.environment import ALFWorld, ALFWorldOptions
from tools.alfworld.official_engine import OfficialEngine


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a replay departs: step 0 is the opening, step i the answer to the i-th action."""

    task_id: str
    step: int
    recorded: str
    replayed: str


def replay(env: Environment, trajectory: Trajectory) -> Iterator[Difference]:
    """Play a trajectory's actions again and yield every difference.

    Compared are the opening, every recorded observation ("" at the last step means that there is
    none), every action's validity, and whether the end is as it was.
    """
    task_id = trajectory.task.id
    time_step = env.reset(trajectory.task)
    if time_step.observation != trajectory.opening:
        yield Difference(task_id, 0, trajectory.opening, time_step.observation)
    actions = [step for step in trajectory.steps if step.action]
    score = time_step.reward
    for number, step in enumerate(actions, start=1):
        if time_step.done:
            yield Difference(task_id, number, step.action, "the task was done before")
            return
        time_step = env.step(env.localize(step.action))
        score += time_step.reward
        unrecorded = number == len(actions) and not step.observation
        if not unrecorded and time_step.observation != env.localize(step.observation):
            yield Difference(task_id, number, step.observation, time_step.observation)
        if time_step.valid != step.valid:
            yield Difference(task_id, number, f"valid: {step.valid}", f"valid: {time_step.valid}")
    if abs(score - trajectory.score) > 1e-9:
        yield Difference(task_id, len(actions), f"score {trajectory.score}", f"score {score}")


def world(options: ALFWorldOptions, *, official: bool) -> ALFWorld:
    """Return ALFWorld with our engine or the official one."""
    return ALFWorld(options, OfficialEngine() if official else None)  # type: ignore[arg-type]


def replay_official_games(
    options: ALFWorldOptions, trajectories: Sequence[Trajectory], *, official: bool = False
) -> list[Difference]:
    """Return the differences of all replays of official games, as one worker's share."""
    env = world(options, official=official)
    try:
        return [difference for trajectory in trajectories for difference in replay(env, trajectory)]
    finally:
        env.close()
