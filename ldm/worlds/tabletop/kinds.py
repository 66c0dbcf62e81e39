"""The five kinds of tasks (DEPS, Table 7), each with its scene, actions and score.

name: as CLIPort's, with underscores. instruction: DEPS, Table 7. `draw` draws a scene, `opening`
says in sentences what there is, `whereabouts` where each thing is, in the order of the scene.
`commands` lists the actions that bring a thing to another place; `understand` returns the move of
a normalized action, or why it is impossible. `share` is that of the targets that are met, 1 for
success. `goals` yields every action of all scenes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import combinations
from statistics import fmean

from ldm.worlds.tabletop.actions import NO_ACTION, Move, Refusal, listing, pattern, reachable
from ldm.worlds.tabletop.scene import (
    BLOCK,
    COLOURS,
    CUBE,
    FLAT,
    SHAPES,
    Fixture,
    Hole,
    Layout,
    Pose,
    Poses,
    Scene,
    Thing,
    ring,
)

#: Radius of the rim and of the floor, height and thickness of a bowl.
BOWL_RIM, BOWL_FLOOR, BOWL_HEIGHT, BOWL_THICKNESS = 0.07, 0.045, 0.04, 0.004
#: A block whose centre is nearer to that of a bowl than this is in it (CLIPort).
IN_BOWL = 0.05
_BOWLS, _BLOCKS = (3, 4), (2, 4)

_INTO_BOWL = pattern("put the COLOR blocks in a BOWL bowl")


class Bowls:
    """CLIPort's put-block-in-bowl."""

    name = "put_block_in_bowl"
    instruction = "Match the blocks and the bowls."

    def draw(self, rng: random.Random) -> Scene:
        """Draw bowls and blocks of distinct colours, with a pair and a block without a bowl."""
        bowls, blocks = rng.randint(*_BOWLS), rng.randint(*_BLOCKS)
        pairs = rng.randint(1, min(blocks - 1, bowls))
        colours = rng.sample(COLOURS, bowls + blocks - pairs)
        bowl_colours, block_colours = colours[:bowls], colours[bowls - pairs :]
        rng.shuffle(block_colours)
        rng.shuffle(bowl_colours)
        layout = Layout(rng)
        fixtures = tuple(Fixture("bowl", layout.spot(BOWL_RIM), colour) for colour in bowl_colours)
        things = tuple(layout.lay(c, CUBE, height=BLOCK) for c in block_colours)
        return Scene(things, fixtures)

    def opening(self, scene: Scene) -> str:
        """Name the colours of bowls and blocks."""
        bowls = listing([bowl.colour for bowl in scene.fixtures])
        blocks = listing([block.colour for block in scene.things])
        return (
            f"There are {len(scene.fixtures)} bowls: {bowls}. "
            f"There are {len(scene.things)} blocks: {blocks}."
        )

    def whereabouts(self, scene: Scene, poses: Poses) -> list[str]:
        """Return the bowl that each block is in."""
        bowls = [self._bowl(scene, pose) for pose in poses]
        return ["on the table" if b is None else f"in the {b.colour} bowl" for b in bowls]

    def commands(self, scene: Scene, poses: Poses) -> list[str]:
        """List each block with each bowl in which it is not."""
        return [
            f"put the {block.colour} blocks in a {bowl.colour} bowl"
            for number, block in enumerate(scene.things)
            for bowl in scene.fixtures
            if self._bowl(scene, poses[number]) is not bowl
            and reachable(scene, poses, number) is None
        ]

    def understand(self, action: str, scene: Scene, poses: Poses) -> Move | Refusal:
        """Put a block into the middle of a bowl."""
        match = _INTO_BOWL.fullmatch(action)
        if match is None:
            return NO_ACTION
        blocks = [block.colour for block in scene.things]
        bowls = {bowl.colour: bowl for bowl in scene.fixtures}
        if match["color"] not in blocks:
            return Refusal(f"There is no {match['color']} block here.")
        if match["bowl"] not in bowls:
            return Refusal(f"There is no {match['bowl']} bowl here.")
        number, bowl = blocks.index(match["color"]), bowls[match["bowl"]]
        target = Pose(bowl.pose.x, bowl.pose.y, BOWL_THICKNESS + BLOCK / 2, poses[number].yaw)
        return reachable(scene, poses, number) or Move(number, target, f"the {bowl.colour} bowl")

    def share(self, scene: Scene, poses: Poses) -> float:
        """Return the share of pairs met, less blocks in bowls of other colours."""
        colours = {bowl.colour for bowl in scene.fixtures}
        pairs = sum(block.colour in colours for block in scene.things)
        met = stray = 0
        for block, pose in zip(scene.things, poses, strict=True):
            bowl = self._bowl(scene, pose)
            met += bowl is not None and bowl.colour == block.colour
            stray += bowl is not None and bowl.colour != block.colour
        return max(0, met - stray) / pairs

    def goals(self) -> Iterator[str]:
        """Yield each colour of a block with each of a bowl."""
        for block in COLOURS:
            yield from (f"put the {block} blocks in a {bowl} bowl" for bowl in COLOURS)

    def _bowl(self, scene: Scene, pose: Pose) -> Fixture | None:
        """Return the bowl that a block is in."""
        return next((b for b in scene.fixtures if pose.distance(b.pose) <= IN_BOWL), None)


#: Edges of the kit, and the places of its holes (Ravens).
KIT = (0.28, 0.2)
_SPOTS = ((-0.09, 0.045), (0.0, 0.045), (0.09, 0.045), (-0.045, -0.045), (0.045, -0.045))
#: An object is in its hole within this distance and angle (Ravens).
IN_HOLE, ASKEW = 0.01, math.radians(15)
#: Within this distance it is beside its hole.
_BESIDE = 0.05

_INTO_HOLE = pattern("put the COLOR SHAPE in the HOLE hole")


class Kits:
    """CLIPort's assembling-kits."""

    name = "assembling_kits"
    instruction = "Put the objects in the corresponding holes."

    def draw(self, rng: random.Random) -> Scene:
        """Draw a kit with five holes, and an object for each."""
        layout = Layout(rng)
        kit = layout.spot(math.hypot(*KIT) / 2)
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
        match = _INTO_HOLE.fullmatch(action)
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
            and pose.distance(hole.pose) <= IN_HOLE
            and thing.form.off(pose.yaw, hole.pose.yaw) <= ASKEW
        )


#: Length of the stand, and its places along it (Ravens: 0.12 apart).
_LENGTH = 0.36
STAND = {"lighter brown side": -0.12, "middle of the stand": 0.0, "darker brown side": 0.12}
_DARK = "darker brown side"
#: A ring whose middle is nearer to a place than this is straight: its rod goes through the ring.
ON_ROD = 0.03
#: A ring that is nearer to a place than this is there, straight or not: half way to the next.
_THERE = 0.06
#: Largest first, as the rings lie on each other at the start.
_SIZES = ("large", "middle-sized", "small")
_RINGS = (ring(0.055), ring(0.045), ring(0.035))

_TO_STAND = pattern("move the COLOR ring to the PLACE")


class Hanoi:
    """CLIPort's towers-of-hanoi."""

    name = "towers_of_hanoi"
    instruction = "Move the rings to the darker brown side."

    def draw(self, rng: random.Random) -> Scene:
        """Draw a stand with three rings on its lighter brown side, largest below."""
        stand = Layout(rng).spot(_LENGTH / 2)
        colours = rng.sample([colour for colour in COLOURS if colour != "brown"], len(_RINGS))
        start = stand.place(STAND["lighter brown side"], 0.0)
        things = tuple(
            Thing(colour, "ring", form, FLAT, Pose(start.x, start.y, FLAT * (n + 0.5), start.yaw))
            for n, (colour, form) in enumerate(zip(colours, _RINGS, strict=True))
        )
        return Scene(things, (Fixture("stand", stand),))

    def opening(self, scene: Scene) -> str:
        """Name the places and the rings with their sizes."""
        rings = [f"{t.colour} ({size})" for t, size in zip(scene.things, _SIZES, strict=True)]
        places = listing([f"the {place}" for place in STAND])
        return f"There is a stand with three places: {places}. There are 3 rings: {listing(rings)}."

    def whereabouts(self, scene: Scene, poses: Poses) -> list[str]:
        """Return the place of each ring, and the ring below it."""
        places = []
        for number, pose in enumerate(poses):
            place = self._place(scene, pose)
            stack = [] if place is None else self._stack(scene, poses, place)
            below = stack[stack.index(number) - 1] if stack and stack[0] != number else None
            on = "" if below is None else f"on the {scene.things[below].name} "
            askew = "" if self._straight(scene, pose) else ", but not straight"
            places.append(f"{on}on the {place}{askew}" if place else "beside the stand")
        return places

    def commands(self, scene: Scene, poses: Poses) -> list[str]:
        """List the moves that the rules of the game allow."""
        return [
            f"move the {thing.name} to the {place}"
            for number, thing in enumerate(scene.things)
            for place in STAND
            if not (
                self._place(scene, poses[number]) == place and self._straight(scene, poses[number])
            )
            and self._against_rules(scene, poses, number, place) is None
        ]

    def understand(self, action: str, scene: Scene, poses: Poses) -> Move | Refusal:
        """Put a ring on a place, on the rings there."""
        match = _TO_STAND.fullmatch(action)
        if match is None:
            return NO_ACTION
        colours = [thing.colour for thing in scene.things]
        if match["color"] not in colours:
            return Refusal(f"There is no {match['color']} ring here.")
        if match["place"] not in STAND:
            return Refusal(f"The stand has no place that is called the {match['place']}.")
        number, place = colours.index(match["color"]), match["place"]
        refusal = self._against_rules(scene, poses, number, place)
        if refusal is not None:
            return refusal
        spot = scene.fixtures[0].pose.place(STAND[place], 0.0)
        height = sum(other != number for other in self._stack(scene, poses, place))
        target = Pose(spot.x, spot.y, FLAT * (height + 0.5), poses[number].yaw)
        return Move(number, target, f"the {place}")

    def share(self, scene: Scene, poses: Poses) -> float:
        """Return the share of rings that are done: on the darker side, as is every larger one."""
        stack = self._stack(scene, poses, _DARK)
        done = [
            stack[number : number + 1] == [number]
            and self._straight(scene, pose)
            and abs(pose.z - FLAT * (number + 0.5)) < FLAT / 4
            for number, pose in enumerate(poses)
        ]
        return fmean(all(done[: number + 1]) for number in range(len(done)))

    def goals(self) -> Iterator[str]:
        """Yield each colour with each place."""
        for colour in COLOURS:
            if colour != "brown":
                yield from (f"move the {colour} ring to the {place}" for place in STAND)

    def _place(self, scene: Scene, pose: Pose) -> str | None:
        stand = scene.fixtures[0].pose
        for place, along in STAND.items():
            if stand.place(along, 0.0).distance(pose) <= _THERE:
                return place
        return None

    def _straight(self, scene: Scene, pose: Pose) -> bool:
        stand = scene.fixtures[0].pose
        return any(stand.place(x, 0.0).distance(pose) <= ON_ROD for x in STAND.values())

    def _stack(self, scene: Scene, poses: Poses, place: str) -> list[int]:
        """Return the rings on a place, the lowest first."""
        there = [n for n, pose in enumerate(poses) if self._place(scene, pose) == place]
        return sorted(there, key=lambda number: poses[number].z)

    def _against_rules(self, scene: Scene, poses: Poses, number: int, place: str) -> Refusal | None:
        """Return which rule of the game a move breaks; a lower number is a larger ring."""
        ring_, home = scene.things[number], self._place(scene, poses[number])
        stack = [number] if home is None else self._stack(scene, poses, home)
        if stack[-1] != number:
            return Refusal(f"The {ring_.name} is under the {scene.things[stack[-1]].name}.")
        there = [other for other in self._stack(scene, poses, place) if other != number]
        if there and there[-1] > number:
            smaller = scene.things[there[-1]].name
            return Refusal(f"The {ring_.name} is larger than the {smaller} on the {place}.")
        return None


#: Inner edges, height and thickness of the box.
BOX, BOX_HEIGHT, BOX_THICKNESS = (0.26, 0.18), 0.04, 0.004
#: The share of an outline that must be in the box (Ravens: sampled points).
INSIDE = 0.99
#: Places for things, in the frame of the box.
_CELLS = tuple((x, y) for y in (0.045, -0.045) for x in (-0.085, 0.0, 0.085))
#: A cell is free if nothing is nearer to its middle than this.
_FREE = 0.06
_OBJECTS = (3, 5)

_INTO_BOX = pattern("pack the NAME in the brown box")


class Packing:
    """CLIPort's packing-shapes."""

    name = "packing_shapes"
    instruction = "Pack the objects in the brown box."

    def draw(self, rng: random.Random) -> Scene:
        """Draw a box and shapes of distinct colours."""
        layout = Layout(rng)
        box = Fixture("box", layout.spot(math.hypot(*BOX) / 2 + BOX_THICKNESS))
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
        match = _INTO_BOX.fullmatch(action)
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
        if pose.z > BOX_HEIGHT or pose.distance(box) > sum(BOX):
            return 0.0
        points = [pose.place(x, y).seen_from(box) for x, y in thing.form.samples]
        return fmean(abs(x) <= BOX[0] / 2 and abs(y) <= BOX[1] / 2 for x, y in points)

    def _room(self, scene: Scene, poses: Poses, number: int) -> Pose:
        """Return the first free cell of the box, or the one that is farthest from all things."""
        box, thing = scene.fixtures[0].pose, scene.things[number]
        others = [pose for other, pose in enumerate(poses) if other != number]
        yaw = thing.form.nearest(poses[number].yaw, box.yaw)
        cells = [box.place(x, y) for x, y in _CELLS]
        room = [min(cell.distance(other) for other in others) for cell in cells]
        best = next((n for n, far in enumerate(room) if far > _FREE), room.index(max(room)))
        return Pose(cells[best].x, cells[best].y, BOX_THICKNESS + FLAT / 2, yaw)


#: Height of the base's brown blocks, and where they are along it (Ravens: 0.05 apart).
BASE_HEIGHT = 0.01
BASE = {"lightest": -0.05, "middle": 0.0, "darkest": 0.05}
#: A block is in its place within this distance (Ravens).
IN_PLACE = 0.01
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
                if isinstance(move, Move) and not _together(move.target, poses[number], IN_PLACE):
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
        return _together(pose, target(scene, place), IN_PLACE, IN_PLACE)

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


Kind = Kits | Hanoi | Bowls | Packing | Pyramid

#: In the order of the paper.
KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (Kits(), Hanoi(), Bowls(), Packing(), Pyramid())
}
