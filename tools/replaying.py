"""Whether an episode that was just made is the same when it is played again."""

from __future__ import annotations

import sys

from ldm.episode import Environment
from ldm.types import Trajectory


def replay(env: Environment, episode: Trajectory) -> None:
    """Play an episode again; exit if an answer differs."""
    answers = [env.reset(episode.task).observation]
    answers += [env.step(step.action).observation for step in episode.steps]
    if answers != [episode.opening, *(step.observation for step in episode.steps)]:
        sys.exit(f"A replay of {episode.task.id} differs.")
