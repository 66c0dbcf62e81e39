"""The interface of a kind of task: its scene, texts, actions and score."""

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
        """Return the sentences on numbers, colours and shapes."""
        ...

    def whereabouts(self, scene: Scene, poses: Poses) -> list[str]:
        """Return the place of each thing, as "in the red bowl", in the order of the scene."""
        ...

    def commands(self, scene: Scene, poses: Poses) -> list[str]:
        """Return the possible actions that bring a thing to another place."""
        ...

    def understand(self, action: str, scene: Scene, poses: Poses) -> Move | Refusal:
        """Return the move of a normalized action, or why it is impossible."""
        ...

    def share(self, scene: Scene, poses: Poses) -> float:
        """Return the share of the targets that are met; 1 is success."""
        ...

    def goals(self) -> Iterator[str]:
        """Yield every action of all scenes of this kind."""
        ...
