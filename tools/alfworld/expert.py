"""Episodes of the agent `expert` for our own data."""

from __future__ import annotations

from dataclasses import replace

from ldm.agents import Resources
from ldm.episode import Environment, run_episode
from ldm.errors import LdmError
from ldm.types import Task, Trajectory
from ldm.worlds.alfworld_expert import ExpertAgent, ExpertOptions


def solve(env: Environment, task: Task, *, seed: int) -> Trajectory:
    """Return the expert's episode of a task. Raise LdmError where it fails."""
    agent = ExpertAgent(ExpertOptions(trials=1), Resources(seed=seed))
    result, trajectories = run_episode(env, agent, task)
    if not result.success:
        raise LdmError(
            f"The expert did not solve {task.id}. {result.error}".strip(),
            "Look for what differs in its household.",
        )
    return replace(trajectories[-1], origin="expert")
