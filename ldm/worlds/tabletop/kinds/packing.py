"""Packing shapes: all objects belong into the brown box."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from statistics import fmean

from ldm.worlds.tabletop.actions import NO_ACTION, Move, Refusal, listing, pattern, reachable
from ldm.worlds.tabletop.scene import (
    COLOURS,
    FLAT,
    SHAPES,
    Fixture,
    Layout,
    Pose,
    Poses,
    Scene,
    Thing,
)

#: Inner edges, height and thickness of the box.
SIZE, HEIGHT, THICKNESS = (0.26, 0.18), 0.04, 0.004
#: The share of an outline that must be in the box (Ravens: sampled points).
INSIDE = 0.99
#: Places for things, in the frame of the box.
_CELLS = tuple((x, y) for y in (0.045, -0.045) for x in (-0.085, 0.0, 0.085))
#: A cell is free if nothing is nearer to its middle than this.
_FREE = 0.06
_OBJECTS = (3, 5)

_FORM = pattern("pack the NAME in the brown box")


class Packing:
    """CLIPort's packing-shapes."""

    name = "packing_shapes"
    instruction = "Pack the objects in the brown box."

    def draw(self, rng: random.Random) -> Scene:
        """Draw a box and shapes of distinct colours."""
        layout = Layout(rng)
        box = Fixture("box", layout.spot(math.hypot(*SIZE) / 2 + THICKNESS))
        shapes = rng.sample(SHAPES, rng.randint(*_OBJECTS))
        return Scene(tuple(map(layout.lay, rng.sample(COLOURS, len(shapes)), shapes)), (box,))

    def opening(self, scene: Scene) -> str:
        """Name the objects."""
        objects = listing([f"a {thing.name}" for thing in scene.things])
        return f"There is a brown box. There are {len(scene.things)} objects: {objects}."

    def whereabouts(self, scene: Scene, poses: Poses) -> list[str]:
        """Return whether each object is in the box."""
        places = []
        for thing, pose in zip(scene.things, poses, strict=True):
            inside = self._inside(scene, thing, pose)
            partly = "partly outside the brown box" if inside else "on the table"
            places.append("in the brown box" if inside >= INSIDE else partly)
        return places

    def commands(self, scene: Scene, poses: Poses) -> list[str]:
        """List the objects that are not in the box."""
        return [
            f"pack the {thing.name} in the brown box"
            for number, thing in enumerate(scene.things)
            if self._inside(scene, thing, poses[number]) < INSIDE
            and reachable(scene, poses, number) is None
        ]

    def understand(self, action: str, scene: Scene, poses: Poses) -> Move | Refusal:
        """Put an object into a free place of the box."""
        match = _FORM.fullmatch(action)
        if match is None:
            return NO_ACTION
        name = match["name"]
        fitting = [
            number
            for number, thing in enumerate(scene.things)
            if name in (thing.name.lower(), thing.noun.lower())
        ]
        if not fitting:
            return Refusal(f"There is no {name} here.")
        (number,) = fitting  # no shape occurs twice
        target = self._room(scene, poses, number)
        return reachable(scene, poses, number) or Move(number, target, "the brown box")

    def share(self, scene: Scene, poses: Poses) -> float:
        """Return the share of objects in the box; 1 if 99 % of all outlines together are."""
        inside = [self._inside(scene, t, p) for t, p in zip(scene.things, poses, strict=True)]
        sizes = [len(thing.form.samples) for thing in scene.things]
        together = sum(map(lambda share, size: share * size, inside, sizes)) / sum(sizes)
        return 1.0 if together >= INSIDE else fmean(share >= INSIDE for share in inside)

    def goals(self) -> Iterator[str]:
        """Yield each shape in each colour."""
        for shape in SHAPES:
            yield from (f"pack the {colour} {shape.name} in the brown box" for colour in COLOURS)

    def _inside(self, scene: Scene, thing: Thing, pose: Pose) -> float:
        """Return the share of sampled points of a thing's outline that are in the box."""
        box = scene.fixtures[0].pose
        if pose.z > HEIGHT or pose.distance(box) > sum(SIZE):
            return 0.0
        points = [pose.place(x, y).seen_from(box) for x, y in thing.form.samples]
        return fmean(abs(x) <= SIZE[0] / 2 and abs(y) <= SIZE[1] / 2 for x, y in points)

    def _room(self, scene: Scene, poses: Poses, number: int) -> Pose:
        """Return the first free cell of the box, or the one that is farthest from all things."""
        box, thing = scene.fixtures[0].pose, scene.things[number]
        others = [pose for other, pose in enumerate(poses) if other != number]
        yaw = thing.form.nearest(poses[number].yaw, box.yaw)
        cells = [box.place(x, y) for x, y in _CELLS]
        room = [min(cell.distance(other) for other in others) for cell in cells]
        best = next((n for n, far in enumerate(room) if far > _FREE), room.index(max(room)))
        return Pose(cells[best].x, cells[best].y, THICKNESS + FLAT / 2, yaw)
