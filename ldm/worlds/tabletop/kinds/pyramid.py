"""Stack block pyramid: three blocks on the base, two on these, one on top."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations
from statistics import fmean

from ldm.worlds.tabletop.actions import NO_ACTION, Move, Refusal, listing, pattern, reachable
from ldm.worlds.tabletop.scene import BLOCK, COLOURS, CUBE, Fixture, Layout, Pose, Poses, Scene

#: Height of the base's brown blocks, and where they are along it (Ravens: 0.05 apart).
BASE_HEIGHT = 0.01
BASE = {"lightest": -0.05, "middle": 0.0, "darkest": 0.05}
#: A block is in its place within this distance (Ravens).
NEAR = 0.01
#: Along the base and level of the six places.
PLACES = (*((along, 0) for along in BASE.values()), (-0.025, 1), (0.025, 1), (0.0, 2))
_COLOURS = tuple(colour for colour in COLOURS if colour != "brown")
#: Two blocks whose middles are that far apart are side by side.
_SIDE_BY_SIDE = (0.035, 0.07)
#: A block that is nearer than this to where another one rests is on it; or in another's way.
_ON, _IN_THE_WAY = 0.03, 0.034

_ON_BASE = pattern("put the COLOR block on the SHADE brown block")
_ON_TWO = pattern("put the COLOR block on the ONE and OTHER blocks")


class Pyramid:
    """CLIPort's stack-block-pyramid."""

    name = "stack_block_pyramid"
    instruction = "Stack the blocks into a pyramid."

    def draw(self, rng: random.Random) -> Scene:
        """Draw a base and six blocks."""
        layout = Layout(rng)
        base = Fixture("base", layout.spot(0.09))
        colours = rng.sample(_COLOURS, len(PLACES))
        return Scene(tuple(layout.lay(c, CUBE, height=BLOCK) for c in colours), (base,))

    def opening(self, scene: Scene) -> str:
        """Name the blocks of the base and those to stack."""
        base = listing([f"the {shade} brown block" for shade in BASE])
        blocks = listing([block.colour for block in scene.things])
        return (
            f"There is a base of three brown blocks side by side: {base}. "
            f"There are {len(scene.things)} blocks: {blocks}."
        )

    def whereabouts(self, scene: Scene, poses: Poses) -> list[str]:
        """Return the support of each block."""
        places = []
        for number, pose in enumerate(poses):
            below = self._below(scene, poses, number)
            straight = any(self._at(scene, pose, place) for place in PLACES)
            askew = "" if straight or below == "the table" else ", but not straight"
            places.append(f"on {below}{askew}")
        return places

    def commands(self, scene: Scene, poses: Poses) -> list[str]:
        """List each free block with each other place that it can be put on."""
        colours = [block.colour for block in scene.things]
        places = [f"the {shade} brown block" for shade in BASE]
        places += [f"the {one} and {other} blocks" for one, other in combinations(colours, 2)]
        listed = []
        for number, block in enumerate(scene.things):
            for place in places:
                command = f"put the {block.name} on {place}"
                move = self.understand(command, scene, poses)
                if isinstance(move, Move) and not _together(move.target, poses[number], NEAR):
                    listed.append(command)
        return listed

    def understand(self, action: str, scene: Scene, poses: Poses) -> Move | Refusal:
        """Put a block on a brown block of the base or on two blocks side by side."""
        match = _ON_BASE.fullmatch(action) or _ON_TWO.fullmatch(action)
        if match is None:
            return NO_ACTION
        numbers = {block.colour: number for number, block in enumerate(scene.things)}
        words = match.groupdict()
        shade = words.pop("shade", None)
        if absent := [colour for colour in words.values() if colour not in numbers]:
            return Refusal(f"There is no {absent[0]} block here.")
        number, *below = (numbers[colour] for colour in words.values())
        if shade is not None:
            if shade not in BASE:
                return Refusal(f"The base has no {shade} brown block.")
            place = target(scene, (BASE[shade], 0))
            return self._put(scene, poses, number, place, f"the {shade} brown block")
        goal = f"the {words['one']} and {words['other']} blocks"
        one, other = (poses[support] for support in below)
        if number in below or not _side_by_side(one, other):
            return Refusal(f"{goal.capitalize()} are not side by side below a free place.")
        return self._put(scene, poses, number, _between(one, other), goal)

    def share(self, scene: Scene, poses: Poses) -> float:
        """Return the share of the six places that have a block."""
        return fmean(any(self._at(scene, pose, place) for pose in poses) for place in PLACES)

    def goals(self) -> Iterator[str]:
        """Yield each block with each brown one, and with each two others."""
        for block in _COLOURS:
            yield from (f"put the {block} block on the {shade} brown block" for shade in BASE)
            others = [colour for colour in _COLOURS if colour != block]
            for one, other in combinations(others, 2):
                yield f"put the {block} block on the {one} and {other} blocks"

    def _put(
        self, scene: Scene, poses: Poses, number: int, place: Pose, goal: str
    ) -> Move | Refusal:
        for other, pose in enumerate(poses):
            if other != number and _together(pose, place, _IN_THE_WAY):
                return Refusal(f"The {scene.things[other].name} is there already.")
        yaw = CUBE.nearest(poses[number].yaw, place.yaw)
        target = Pose(place.x, place.y, place.z, yaw)
        return reachable(scene, poses, number) or Move(number, target, goal)

    def _at(self, scene: Scene, pose: Pose, place: tuple[float, int]) -> bool:
        return _together(pose, target(scene, place), NEAR, NEAR)

    def _below(self, scene: Scene, poses: Poses, number: int) -> str:
        """Return the support of a block."""
        pose = poses[number]
        for shade, along in BASE.items():
            if _together(pose, target(scene, (along, 0)), _ON):
                return f"the {shade} brown block"
        below = [
            scene.things[other].colour
            for other, there in enumerate(poses)
            if 0.7 * BLOCK < pose.z - there.z < 1.3 * BLOCK and pose.distance(there) < BLOCK
        ]
        if below:
            return f"the {listing(below)} block{'s' * (len(below) > 1)}"
        return "the table"


def target(scene: Scene, place: tuple[float, int]) -> Pose:
    """Return the target of a block's centre."""
    along, level = place
    spot = scene.fixtures[0].pose.place(0.0, along)
    return Pose(spot.x, spot.y, BASE_HEIGHT + BLOCK * (level + 0.5), spot.yaw)


def _side_by_side(one: Pose, other: Pose) -> bool:
    near, far = _SIDE_BY_SIDE
    return near <= one.distance(other) <= far and abs(one.z - other.z) < BLOCK / 4


def _between(one: Pose, other: Pose) -> Pose:
    """Return the centre of a block on two others."""
    height = max(one.z, other.z) + BLOCK
    return Pose((one.x + other.x) / 2, (one.y + other.y) / 2, height, one.yaw)


def _together(one: Pose, other: Pose, across: float, along: float = BLOCK / 2) -> bool:
    """Return whether two poses are the same within a horizontal and a vertical distance."""
    return one.distance(other) <= across and abs(one.z - other.z) <= along
