"""One picture of a whole episode: what the camera saw after each step, side by side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldm.types import Trajectory
from ldm.worlds.tabletop.actions import Move, normal
from ldm.worlds.tabletop.kinds import KINDS
from ldm.worlds.tabletop.physics import World
from ldm.worlds.tabletop.scene import Scene

#: Pictures in a row, and white pixels between two.
_COLUMNS, _MARGIN = 3, 6
#: Rows of a picture that show the table.
_TABLE = slice(68, 356)


def episode_picture(scene: Scene, episode: Trajectory) -> NDArray[np.uint8]:
    """Return the opening and the state after each step of an exact episode, at half the size."""
    kind, world = KINDS[episode.task.kind], World(scene)
    state = world.start()
    pictures = [world.picture(state)]
    for step in episode.steps:
        move = kind.understand(normal(step.action), scene, state.poses)
        if isinstance(move, Move):
            state = world.carry(state, move.thing, move.target)
            pictures.append(world.picture(state))
    halves = [_framed(_half(picture[_TABLE])) for picture in pictures]
    halves += [np.full_like(halves[0], 255)] * (-len(halves) % _COLUMNS)
    rows = [np.hstack(halves[i : i + _COLUMNS]) for i in range(0, len(halves), _COLUMNS)]
    return np.vstack(rows)


def _half(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture at half its size, each pixel the mean of four."""
    height, width, _ = picture.shape
    blocks = picture.reshape(height // 2, 2, width // 2, 2, 3).astype(np.float64)
    mean: NDArray[np.float64] = blocks.mean(axis=(1, 3))
    return mean.round().astype(np.uint8)


def _framed(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    edges = ((_MARGIN, 0), (_MARGIN, 0), (0, 0))
    return np.pad(picture, edges, constant_values=255)
