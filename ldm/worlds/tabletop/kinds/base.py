"""What every kind of task defines: its scene, its words, its actions and its score."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Protocol

from ldm.worlds.tabletop.actions import Move, Refusal
from ldm.worlds.tabletop.scene import Poses, Scene


class Kind(Protocol):
    """One kind of task.

    name: as CLIPort's, with underscores. instruction: DEPS, Table 7.
    """

    name: str
    instruction: str

    def draw(self, rng: random.Random) -> Scene:
        """Draw a scene."""
        ...

    def opening(self, scene: Scene) -> str:
        """Say what there is: numbers, colours, shapes."""
        ...

    def whereabouts(self, scene: Scene, poses: Poses) -> list[str]:
        """Return where each thing is, as "in the red bowl", in the order of the scene."""
        ...

    def commands(self, scene: Scene, poses: Poses) -> list[str]:
        """Return the actions that are possible and bring a thing to where it is not yet."""
        ...

    def understand(self, action: str, scene: Scene, poses: Poses) -> Move | Refusal:
        """Return what a normal action comes to."""
        ...

    def share(self, scene: Scene, poses: Poses) -> float:
        """Return the share of the targets that are met; 1 is success."""
        ...

    def goals(self) -> Iterator[str]:
        """Yield every action of all scenes of this kind."""
        ...
