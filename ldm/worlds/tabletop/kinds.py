"""The five kinds of tasks (DEPS, Table 7), each with its scene, actions and score."""

from __future__ import annotations

import math
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import ClassVar

from ldm.worlds.tabletop import actions
from ldm.worlds.tabletop.actions import Move, Refusal, listing, normal, pattern, reachable
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


class Kind(ABC):
    """A kind of tasks.

    name: as CLIPort's, with underscores. instruction: DEPS, Table 7. forms: the patterns of its
    actions.
    """

    name: ClassVar[str]
    instruction: ClassVar[str]
    forms: ClassVar[tuple[re.Pattern[str], ...]]

    @abstractmethod
    def draw(self, rng: random.Random) -> Scene:
        """Draw a scene."""

    @abstractmethod
    def opening(self, scene: Scene) -> str:
        """Return in sentences what there is."""

    @abstractmethod
    def where(self, scene: Scene, poses: Poses, number: int) -> str:
        """Return where a thing is."""

    @abstractmethod
    def move(self, words: Mapping[str, str], scene: Scene, poses: Poses) -> Move | Refusal:
        """Return the move of an action's words, or why it is impossible."""

    @abstractmethod
    def share(self, scene: Scene, poses: Poses) -> float:
        """Return the share of the targets that are met, 1 for success."""

    @abstractmethod
    def goals(self) -> Iterator[str]:
        """Yield every action of all scenes."""

    def actions(self, scene: Scene) -> Iterable[str]:
        """Return the actions of a scene, possible or not, and perhaps those of other scenes."""
        return self.goals()

    def there(self, scene: Scene, poses: Poses, move: Move) -> bool:
        """Return whether a thing is already where a move would bring it."""
        return self.where(scene, poses, move.thing) == f"in {move.goal}"

    def whereabouts(self, scene: Scene, poses: Poses) -> list[str]:
        """Return where each thing is, in the order of the scene."""
        return [self.where(scene, poses, number) for number in range(len(poses))]

    def understand(self, action: str, scene: Scene, poses: Poses) -> Move | Refusal:
        """Return the move of a normalized action, or why it is impossible."""
        matches = (form.fullmatch(action) for form in self.forms)
        words = next((match.groupdict() for match in matches if match), None)
        return actions.NO_ACTION if words is None else self.move(words, scene, poses)

    def commands(self, scene: Scene, poses: Poses) -> list[str]:
        """Return the actions that bring a thing to another place."""
        moves = {one: self.understand(normal(one), scene, poses) for one in self.actions(scene)}
        return [
            action
            for action, move in moves.items()
            if isinstance(move, Move) and not self.there(scene, poses, move)
        ]


#: Radius of the rim and of the floor, height and thickness of a bowl.
BOWL_RIM, BOWL_FLOOR, BOWL_HEIGHT, BOWL_THICKNESS = 0.07, 0.045, 0.04, 0.004
#: A block whose centre is nearer to that of a bowl than this is in it (CLIPort).
IN_BOWL = 0.05
_BOWLS, _BLOCKS = (3, 4), (2, 4)


class Bowls(Kind):
    """CLIPort's put-block-in-bowl."""

    name = "put_block_in_bowl"
    instruction = "Match the blocks and the bowls."
    forms = (pattern("put the COLOR blocks in a BOWL bowl"),)

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
        bowls = actions.there_are("bowls", [bowl.colour for bowl in scene.fixtures])
        blocks = actions.there_are("blocks", [block.colour for block in scene.things])
        return f"{bowls} {blocks}"

    def where(self, scene: Scene, poses: Poses, number: int) -> str:
        bowl = self._bowl(scene, poses[number])
        return "on the table" if bowl is None else f"in the {bowl.colour} bowl"

    def move(self, words: Mapping[str, str], scene: Scene, poses: Poses) -> Move | Refusal:
        """Put a block into the middle of a bowl."""
        blocks = [block.colour for block in scene.things]
        bowls = {bowl.colour: bowl for bowl in scene.fixtures}
        if words["color"] not in blocks:
            return Refusal(f"There is no {words['color']} block here.")
        if words["bowl"] not in bowls:
            return Refusal(f"There is no {words['bowl']} bowl here.")
        number, bowl = blocks.index(words["color"]), bowls[words["bowl"]]
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


class Kits(Kind):
    """CLIPort's assembling-kits."""

    name = "assembling_kits"
    instruction = "Put the objects in the corresponding holes."
    forms = (pattern("put the COLOR SHAPE in the HOLE hole"),)

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
        objects = actions.there_are("objects", [f"a {thing.name}" for thing in scene.things])
        return f"There is a kit with {len(scene.holes)} holes: {holes}. {objects}"

    def where(self, scene: Scene, poses: Poses, number: int) -> str:
        hole = self._hole(scene, number)
        if self._fits(scene, poses, number):
            return f"in the {hole.form.name} hole"
        if poses[number].distance(hole.pose) < _BESIDE:
            return f"not quite in the {hole.form.name} hole"
        return "on the table"

    def move(self, words: Mapping[str, str], scene: Scene, poses: Poses) -> Move | Refusal:
        """Turn an object to its hole and put it there."""
        name = f"{words['color']} {words['shape']}"
        names = [thing.name.lower() for thing in scene.things]
        if name not in names:
            return Refusal(f"There is no {name} here.")
        number = names.index(name)
        thing, hole = scene.things[number], self._hole(scene, number)
        if words["hole"] not in [one.form.name.lower() for one in scene.holes]:
            return Refusal(f"The kit has no {words['hole']} hole.")
        if words["hole"] != thing.noun.lower():
            return Refusal(f"The {thing.name} does not fit the {words['hole']} hole.")
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


class Hanoi(Kind):
    """CLIPort's towers-of-hanoi."""

    name = "towers_of_hanoi"
    instruction = "Move the rings to the darker brown side."
    forms = (pattern("move the COLOR ring to the PLACE"),)

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

    def where(self, scene: Scene, poses: Poses, number: int) -> str:
        """Return the place of a ring, and the ring below it."""
        place = self._place(scene, poses[number])
        if place is None:
            return "beside the stand"
        stack = self._stack(scene, poses, place)
        below = stack[stack.index(number) - 1] if stack[0] != number else None
        on = "" if below is None else f"on the {scene.things[below].name} "
        askew = "" if self._straight(scene, poses[number]) else ", but not straight"
        return f"{on}on the {place}{askew}"

    def there(self, scene: Scene, poses: Poses, move: Move) -> bool:
        return self.where(scene, poses, move.thing).endswith(f"on {move.goal}")

    def move(self, words: Mapping[str, str], scene: Scene, poses: Poses) -> Move | Refusal:
        """Put a ring on a place, on the rings there, as the rules of the game allow."""
        colours = [thing.colour for thing in scene.things]
        if words["color"] not in colours:
            return Refusal(f"There is no {words['color']} ring here.")
        if words["place"] not in STAND:
            return Refusal(f"The stand has no place that is called the {words['place']}.")
        number, place = colours.index(words["color"]), words["place"]
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


class Packing(Kind):
    """CLIPort's packing-shapes."""

    name = "packing_shapes"
    instruction = "Pack the objects in the brown box."
    forms = (pattern("pack the NAME in the brown box"),)

    def draw(self, rng: random.Random) -> Scene:
        """Draw a box and shapes of distinct colours."""
        layout = Layout(rng)
        box = Fixture("box", layout.spot(math.hypot(*BOX) / 2 + BOX_THICKNESS))
        shapes = rng.sample(SHAPES, rng.randint(*_OBJECTS))
        return Scene(tuple(map(layout.lay, rng.sample(COLOURS, len(shapes)), shapes)), (box,))

    def opening(self, scene: Scene) -> str:
        """Name the objects."""
        objects = actions.there_are("objects", [f"a {thing.name}" for thing in scene.things])
        return f"There is a brown box. {objects}"

    def where(self, scene: Scene, poses: Poses, number: int) -> str:
        inside = self._inside(scene, scene.things[number], poses[number])
        partly = "partly outside the brown box" if inside else "on the table"
        return "in the brown box" if inside >= INSIDE else partly

    def move(self, words: Mapping[str, str], scene: Scene, poses: Poses) -> Move | Refusal:
        """Put an object into a free place of the box."""
        name = words["name"]
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


class Pyramid(Kind):
    """CLIPort's stack-block-pyramid."""

    name = "stack_block_pyramid"
    instruction = "Stack the blocks into a pyramid."
    forms = (
        pattern("put the COLOR block on the SHADE brown block"),
        pattern("put the COLOR block on the ONE and OTHER blocks"),
    )

    def draw(self, rng: random.Random) -> Scene:
        """Draw a base and six blocks."""
        layout = Layout(rng)
        base = Fixture("base", layout.spot(0.09))
        colours = rng.sample(_COLOURS, len(PLACES))
        return Scene(tuple(layout.lay(c, CUBE, height=BLOCK) for c in colours), (base,))

    def opening(self, scene: Scene) -> str:
        """Name the blocks of the base and those to stack."""
        base = listing([f"the {shade} brown block" for shade in BASE])
        blocks = actions.there_are("blocks", [block.colour for block in scene.things])
        return f"There is a base of three brown blocks side by side: {base}. {blocks}"

    def where(self, scene: Scene, poses: Poses, number: int) -> str:
        """Return the support of a block."""
        below = self._below(scene, poses, number)
        straight = any(self._at(scene, poses[number], place) for place in PLACES)
        askew = "" if straight or below == "the table" else ", but not straight"
        return f"on {below}{askew}"

    def there(self, scene: Scene, poses: Poses, move: Move) -> bool:
        return _together(move.target, poses[move.thing], IN_PLACE)

    def actions(self, scene: Scene) -> Iterable[str]:
        return self._actions([block.colour for block in scene.things])

    def move(self, words: Mapping[str, str], scene: Scene, poses: Poses) -> Move | Refusal:
        """Put a block on a brown block of the base or on two blocks side by side."""
        numbers = {block.colour: number for number, block in enumerate(scene.things)}
        shade = words.get("shade")
        colours = [colour for name, colour in words.items() if name != "shade"]
        if absent := [colour for colour in colours if colour not in numbers]:
            return Refusal(f"There is no {absent[0]} block here.")
        number, *below = (numbers[colour] for colour in colours)
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
        return self._actions(_COLOURS)

    def _actions(self, colours: Sequence[str]) -> Iterator[str]:
        """Yield each block with each brown one, and with each two others."""
        for block in colours:
            yield from (f"put the {block} block on the {shade} brown block" for shade in BASE)
            others = [colour for colour in colours if colour != block]
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


#: In the order of the paper.
KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (Kits(), Hanoi(), Bowls(), Packing(), Pyramid())
}
