"""Replaying recorded episodes in an engine: does it still say what was recorded?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ldm.envs.alfworld.environment import ALFWorld, ALFWorldOptions
from ldm.episode import Environment
from ldm.types import Trajectory


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a replay departs: step 0 is the opening, step i the answer to the i-th action."""

    task_id: str
    step: int
    recorded: str
    found: str


def replay(env: Environment, trajectory: Trajectory) -> Iterator[Difference]:
    """Play a trajectory's actions again and yield every difference.

    Compared are the opening, every recorded observation ("" at the last step means that none was),
    every action's validity, and whether the end is as it was.
    """
    name = trajectory.task.id
    now = env.reset(trajectory.task)
    if now.observation != trajectory.opening:
        yield Difference(name, 0, trajectory.opening, now.observation)
    acted = [step for step in trajectory.steps if step.action]
    score = now.reward
    for number, step in enumerate(acted, start=1):
        if now.done:
            yield Difference(name, number, step.action, "the task was done before")
            return
        now = env.step(env.localize(step.action))
        score += now.reward
        unrecorded = number == len(acted) and not step.observation
        if not unrecorded and now.observation != env.localize(step.observation):
            yield Difference(name, number, step.observation, now.observation)
        if now.valid != step.valid:
            yield Difference(name, number, f"valid: {step.valid}", f"valid: {now.valid}")
    if abs(score - trajectory.score) > 1e-9:
        yield Difference(name, len(acted), f"score {trajectory.score}", f"score {score}")


def replay_official_games(
    options: ALFWorldOptions, trajectories: Sequence[Trajectory]
) -> list[Difference]:
    """The differences of all replays of official games; one worker's share of them."""
    env = ALFWorld(options)
    try:
        return [difference for one in trajectories for difference in replay(env, one)]
    finally:
        env.close()
