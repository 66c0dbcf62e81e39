"""Assembling kits: five objects belong into the holes of their shapes."""

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
    Hole,
    Layout,
    Pose,
    Poses,
    Scene,
)

#: Edges of the kit, and the places of its holes (Ravens).
SIZE = (0.28, 0.2)
_SPOTS = ((-0.09, 0.045), (0.0, 0.045), (0.09, 0.045), (-0.045, -0.045), (0.045, -0.045))
#: An object is in its hole within this distance and angle (Ravens).
NEAR, ASKEW = 0.01, math.radians(15)
#: Within this distance it is beside its hole.
_BESIDE = 0.05

_FORM = pattern("put the COLOR SHAPE in the HOLE hole")


class Kits:
    """CLIPort's assembling-kits."""

    name = "assembling_kits"
    instruction = "Put the objects in the corresponding holes."

    def draw(self, rng: random.Random) -> Scene:
        """Draw a kit with five holes, and an object for each."""
        layout = Layout(rng)
        kit = layout.spot(math.hypot(*SIZE) / 2)
        shapes = rng.sample(SHAPES, len(_SPOTS))
        holes = tuple(
            Hole(shape, kit.place(x, y, rng.uniform(-math.pi, math.pi)))
            for shape, (x, y) in zip(shapes, _SPOTS, strict=True)
        )
        colours = rng.sample(COLOURS, len(shapes))
        rng.shuffle(shapes)
        things = tuple(map(layout.lay, colours, shapes))
        return Scene(things, (Fixture("kit", kit),), holes)

    def opening(self, scene: Scene) -> str:
        """Name the holes and the objects."""
        holes = listing([hole.form.name for hole in scene.holes])
        objects = listing([f"a {thing.name}" for thing in scene.things])
        return (
            f"There is a kit with {len(scene.holes)} holes: {holes}. "
            f"There are {len(scene.things)} objects: {objects}."
        )

    def whereabouts(self, scene: Scene, poses: Poses) -> list[str]:
        """Return whether each object is in its hole."""
        places = []
        for number, pose in enumerate(poses):
            hole = self._hole(scene, number)
            if self._fits(scene, poses, number):
                places.append(f"in the {hole.form.name} hole")
            elif pose.distance(hole.pose) < _BESIDE:
                places.append(f"not quite in the {hole.form.name} hole")
            else:
                places.append("on the table")
        return places

    def commands(self, scene: Scene, poses: Poses) -> list[str]:
        """List each object that is not in its hole with that hole."""
        return [
            f"put the {thing.name} in the {thing.noun} hole"
            for number, thing in enumerate(scene.things)
            if not self._fits(scene, poses, number) and reachable(scene, poses, number) is None
        ]

    def understand(self, action: str, scene: Scene, poses: Poses) -> Move | Refusal:
        """Turn an object to its hole and put it there."""
        match = _FORM.fullmatch(action)
        if match is None:
            return NO_ACTION
        name = f"{match['color']} {match['shape']}"
        names = [thing.name.lower() for thing in scene.things]
        if name not in names:
            return Refusal(f"There is no {name} here.")
        number = names.index(name)
        thing, hole = scene.things[number], self._hole(scene, number)
        if match["hole"] not in [one.form.name.lower() for one in scene.holes]:
            return Refusal(f"The kit has no {match['hole']} hole.")
        if match["hole"] != thing.noun.lower():
            return Refusal(f"The {thing.name} does not fit the {match['hole']} hole.")
        yaw = thing.form.nearest(poses[number].yaw, hole.pose.yaw)
        target = Pose(hole.pose.x, hole.pose.y, FLAT / 2, yaw)
        return reachable(scene, poses, number) or Move(number, target, f"the {thing.noun} hole")

    def share(self, scene: Scene, poses: Poses) -> float:
        """Return the share of objects that are in their holes."""
        return fmean(self._fits(scene, poses, number) for number in range(len(poses)))

    def goals(self) -> Iterator[str]:
        """Yield each shape in each colour."""
        for shape in SHAPES:
            for colour in COLOURS:
                yield f"put the {colour} {shape.name} in the {shape.name} hole"

    def _hole(self, scene: Scene, number: int) -> Hole:
        form = scene.things[number].form
        return next(hole for hole in scene.holes if hole.form is form)

    def _fits(self, scene: Scene, poses: Poses, number: int) -> bool:
        thing, hole, pose = scene.things[number], self._hole(scene, number), poses[number]
        return (
            pose.upright
            and pose.z < thing.height
            and pose.distance(hole.pose) <= NEAR
            and thing.form.off(pose.yaw, hole.pose.yaw) <= ASKEW
        )
