"""The contents of the table: movable things, fixtures, and their places.

Lengths are in metres, angles in radians. Names, sizes and thresholds are those of Ravens and
CLIPort (Shridhar et al., 2022); the shapes are drawn here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

#: The part of the table that is used: least and greatest x and y.
WORKSPACE = ((0.25, 0.75), (-0.5, 0.5))
COLOURS = ("blue", "red", "green", "yellow", "brown", "gray", "cyan")
#: How high flat shapes and rings are.
FLAT = 0.02
#: The edge of a block.
BLOCK = 0.04
#: The least gap between outlines.
_GAP = 0.015
_ATTEMPTS = 2000
#: Side by side between two samples of an outline.
_SAMPLE = 0.005

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Pose:
    """The pose of a thing: its centre, and its turn about the vertical.

    upright: whether it lies flat, as it was laid out.
    """

    x: float
    y: float
    z: float = 0.0
    yaw: float = 0.0
    upright: bool = True

    def place(self, x: float, y: float, yaw: float = 0.0) -> Pose:
        """Return the pose that is (x, y, yaw) in the frame of this one, at the same height."""
        cos, sin = math.cos(self.yaw), math.sin(self.yaw)
        return Pose(self.x + cos * x - sin * y, self.y + sin * x + cos * y, self.z, self.yaw + yaw)

    def seen_from(self, frame: Pose) -> Point:
        """Return x and y in the frame of another pose."""
        x, y = self.x - frame.x, self.y - frame.y
        cos, sin = math.cos(frame.yaw), math.sin(frame.yaw)
        return cos * x + sin * y, cos * y - sin * x

    def distance(self, other: Pose) -> float:
        """Return the horizontal distance."""
        return math.hypot(self.x - other.x, self.y - other.y)


class Part(NamedTuple):
    """A convex part of an outline: a polygon, or a disc about the origin if it has a radius."""

    corners: tuple[Point, ...] = ()
    radius: float = 0.0

    def holds(self, x: float, y: float) -> bool:
        """Return whether a point lies in it."""
        if self.radius:
            return math.hypot(x, y) <= self.radius
        edges = zip(self.corners, (*self.corners[1:], self.corners[0]), strict=True)
        return all((bx - ax) * (y - ay) >= (by - ay) * (x - ax) for (ax, ay), (bx, by) in edges)


@dataclass(frozen=True, slots=True)
class Form:
    """The outline of a flat thing as convex parts.

    turn: the angle of its symmetry; 0 for any angle. radius: of the enclosing circle. samples:
    points evenly distributed in it.
    """

    name: str
    parts: tuple[Part, ...]
    turn: float
    radius: float = field(init=False, compare=False)
    samples: tuple[Point, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        reach = [math.hypot(*corner) for part in self.parts for corner in part.corners]
        radius = max([*reach, *(part.radius for part in self.parts)])
        steps = int(radius / _SAMPLE)
        grid = [_SAMPLE * (i + 0.5) for i in range(-steps - 1, steps + 1)]
        points = [(x, y) for x in grid for y in grid if any(p.holds(x, y) for p in self.parts)]
        object.__setattr__(self, "radius", radius)
        object.__setattr__(self, "samples", tuple(points))

    def off(self, yaw: float, target: float) -> float:
        """Return by how much a yaw differs from the wanted one, symmetry considered."""
        return abs(yaw - self.nearest(yaw, target))

    def nearest(self, yaw: float, target: float) -> float:
        """Return the yaw nearest to the present one that looks like the wanted one."""
        if not self.turn:
            return yaw
        return yaw - ((yaw - target + self.turn / 2) % self.turn - self.turn / 2)


def _box(x: float, y: float, half_x: float, half_y: float) -> Part:
    left, right, low, high = x - half_x, x + half_x, y - half_y, y + half_y
    return Part(((left, low), (right, low), (right, high), (left, high)))


def _regular(corners: int, radius: float) -> Part:
    angles = [2 * math.pi * i / corners + math.pi / 2 for i in range(corners)]
    return Part(tuple((radius * math.cos(a), radius * math.sin(a)) for a in angles))


def _whole(part: float) -> float:
    return 2 * math.pi / part


#: The shapes that kits and boxes are filled with.
SHAPES = (
    Form("letter L", (_box(-0.015, 0, 0.01, 0.03), _box(0.01, -0.02, 0.015, 0.01)), _whole(1)),
    Form("letter T", (_box(0, 0.02, 0.03, 0.01), _box(0, -0.01, 0.01, 0.02)), _whole(1)),
    Form(
        "plus",
        (_box(0, 0, 0.03, 0.01), _box(0, 0.02, 0.01, 0.01), _box(0, -0.02, 0.01, 0.01)),
        _whole(4),
    ),
    Form("triangle", (_regular(3, 0.034),), _whole(3)),
    Form("square", (_box(0, 0, 0.024, 0.024),), _whole(4)),
    Form("rectangle", (_box(0, 0, 0.03, 0.017),), _whole(2)),
    Form("pentagon", (_regular(5, 0.03),), _whole(5)),
    Form("hexagon", (_regular(6, 0.03),), _whole(6)),
    Form("diamond", (Part(((0.033, 0), (0, 0.021), (-0.033, 0), (0, -0.021))),), _whole(2)),
    Form("circle", (Part(radius=0.028),), 0.0),
)
CUBE = Form("block", (_box(0, 0, BLOCK / 2, BLOCK / 2),), _whole(4))


def ring(radius: float) -> Form:
    """Return a ring with this outer radius."""
    return Form("ring", (Part(radius=radius),), 0.0)


@dataclass(frozen=True, slots=True)
class Thing:
    """A movable thing. noun: its name after its colour."""

    colour: str
    noun: str
    form: Form
    height: float
    start: Pose

    @property
    def name(self) -> str:
        return f"{self.colour} {self.noun}"

    @property
    def half_width(self) -> float:
        return BLOCK / 2 if self.form is CUBE else self.form.radius


FixtureName = Literal["kit", "stand", "bowl", "box", "base"]


class Fixture(NamedTuple):
    """A thing that cannot be moved. colour: of a bowl."""

    name: FixtureName
    pose: Pose
    colour: str = ""


class Hole(NamedTuple):
    """A hole of a kit: the shape that fits, and its pose."""

    form: Form
    pose: Pose


class Scene(NamedTuple):
    """The things on the table at the start. holes: those of a kit."""

    things: tuple[Thing, ...]
    fixtures: tuple[Fixture, ...]
    holes: tuple[Hole, ...] = ()


#: The present poses of all things, in the order of `Scene.things`.
Poses = Sequence[Pose]


class Layout:
    """Places things on the table at random so that none overlaps another."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._taken: list[tuple[Pose, float]] = []

    def spot(self, radius: float, height: float = 0.0) -> Pose:
        """Return a free place for a thing of this radius, and mark it as taken.

        height: of its centre.
        """
        (left, right), (low, high) = WORKSPACE
        for _ in range(_ATTEMPTS):
            x = self._rng.uniform(left + radius, right - radius)
            y = self._rng.uniform(low + radius, high - radius)
            pose = Pose(x, y, height, self._rng.uniform(-math.pi, math.pi))
            if all(pose.distance(other) > radius + r + _GAP for other, r in self._taken):
                self._taken.append((pose, radius))
                return pose
        raise RuntimeError("the table is too full")  # no kind of task lays out so much

    def lay(self, colour: str, form: Form, noun: str = "", height: float = FLAT) -> Thing:
        """Return a new thing that lies on the table."""
        pose = self.spot(form.radius, height / 2)
        return Thing(colour, noun or form.name, form, height, pose)
