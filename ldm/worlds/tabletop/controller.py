"""Controllers: how exactly the hand carries out an action."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Literal

from ldm.types import stable_seed
from ldm.worlds.tabletop.scene import Pose

Controller = Literal["exact", "noisy"]


def noisy_target(target: Pose, *, noise: float, miss: float, source: str, move: int) -> Pose | None:
    """Return the place at which a noisy hand puts a thing, or None if it misses the thing.

    noise: standard deviation in x and in y, in metres. miss: the probability of a missed pick.
    source, move: of the task, and how many moves came before; the draws depend on both.
    """
    rng = random.Random(stable_seed("tabletop controller", source, move))
    if rng.random() < miss:
        return None
    return replace(target, x=target.x + rng.gauss(0, noise), y=target.y + rng.gauss(0, noise))
