"""A scene as a model in MuJoCo's XML."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ldm.worlds.tabletop.kinds import bowls, packing, pyramid
from ldm.worlds.tabletop.scene import CUBE, Fixture, Point, Pose, Scene, Thing

HAND = "hand"
#: Seconds of a simulated step.
TIMESTEP = 0.004
#: Sides of a bowl.
_SIDES = 24
#: Only the table's top collides.
_TABLE = '<geom name="table" type="plane" size="0.3 0.55 0.1" pos="0.5 0 0"/>'
_ORIGIN = Pose(0, 0)


def weld(thing: int) -> str:
    """Return the name of the weld that holds a thing."""
    return f"weld{thing}"


def model_of(scene: Scene) -> str:
    """Return the model of a scene."""
    meshes: list[str] = []
    fixtures = [line for fixture in scene.fixtures for line in _fixture(fixture)]
    bodies = [line for n, thing in enumerate(scene.things) for line in _thing(n, thing, meshes)]
    welds = [
        f'<weld name="{weld(n)}" body1="{HAND}" body2="thing{n}" active="false" '
        'relpose="0 0 0 1 0 0 0" solref="0.01 1"/>'
        for n in range(len(scene.things))
    ]
    return "\n".join(
        [
            f'<mujoco model="tabletop"><compiler angle="radian"/><size memory="4M"/>'
            f'<option timestep="{TIMESTEP}" integrator="implicitfast"/>',
            "<asset>",
            *meshes,
            "</asset><worldbody>",
            _TABLE,
            *fixtures,
            f'<body name="{HAND}" mocap="true" pos="0.5 0 0.5"/>',
            *bodies,
            "</worldbody><equality>",
            *welds,
            "</equality></mujoco>",
        ]
    )


def _numbers(*values: float) -> str:
    return " ".join(f"{value:.9g}" for value in values)


def _geom(kind: str, size: Sequence[float], at: Pose) -> str:
    turn = f' euler="0 0 {at.yaw:.9g}"' if at.yaw else ""
    return (
        f'<geom type="{kind}" size="{_numbers(*size)}" pos="{_numbers(at.x, at.y, at.z)}"{turn}/>'
    )


def _thing(number: int, thing: Thing, meshes: list[str]) -> Iterator[str]:
    """Yield the free body of a thing."""
    form, half = thing.form, thing.height / 2
    place = f'pos="{_numbers(thing.start.x, thing.start.y, thing.start.z)}"'
    yield f'<body name="thing{number}" {place} euler="0 0 {thing.start.yaw:.9g}"><freejoint/>'
    if form.turn == 0:
        yield from _disc(form.radius, half)
    elif form is CUBE:
        yield _geom("box", (half, half, half), _ORIGIN)
    else:
        for part in form.parts:
            mesh = f"part{len(meshes)}"
            meshes.append(_prism(mesh, part.corners, thing.height))
            yield f'<geom type="mesh" mesh="{mesh}"/>'
    yield "</body>"


def _disc(radius: float, half: float) -> Iterator[str]:
    """Yield a star of two squares, which rests on others and on the table without jumping.

    MuJoCo's cylinders do jump there when they are let go, by up to four millimetres.
    """
    across = radius / math.sqrt(2)
    for turn in (0.0, math.pi / 4):
        yield _geom("box", (across, across, half), Pose(0, 0, 0, turn))


def _prism(name: str, corners: Sequence[Point], height: float) -> str:
    vertices = [(x, y, z) for z in (-height / 2, height / 2) for x, y in corners]
    return f'<mesh name="{name}" vertex="{_numbers(*[v for vertex in vertices for v in vertex])}"/>'


def _fixture(fixture: Fixture) -> Iterator[str]:
    """Yield the colliding parts of a fixture; things sink into kits and holes, and onto rods."""
    match fixture.name:
        case "bowl":
            yield from _bowl(fixture.pose)
        case "box":
            yield from _case(fixture.pose)
        case "base":
            for along in pyramid.BASE.values():
                half = pyramid.BASE_HEIGHT / 2
                at = _raised(fixture.pose.place(0.0, along), half)
                yield _geom("box", (0.022, 0.022, half), at)


def _raised(pose: Pose, height: float) -> Pose:
    return Pose(pose.x, pose.y, height, pose.yaw)


def _bowl(pose: Pose) -> Iterator[str]:
    """Yield a floor with a wall of boards."""
    floor, rim, height, thick = bowls.FLOOR, bowls.RIM, bowls.HEIGHT, bowls.THICKNESS
    yield _geom("cylinder", (floor + thick, thick / 2), _raised(pose, thick / 2))
    slant = math.hypot(rim - floor - thick, height) / 2
    tilt = math.atan2(rim - floor - thick, height)
    middle = (rim + floor) / 2
    for side in range(_SIDES):
        angle = 2 * math.pi * side / _SIDES
        half = (thick / 2, rim * math.tan(math.pi / _SIDES), slant)
        place = _numbers(
            pose.x + middle * math.cos(angle), pose.y + middle * math.sin(angle), height / 2
        )
        # Turned about the vertical, and then outwards about the new y-axis.
        cos, sin = math.cos(tilt), math.sin(tilt)
        axes = _numbers(
            cos * math.cos(angle), cos * math.sin(angle), -sin, -math.sin(angle), math.cos(angle), 0
        )
        yield f'<geom type="box" size="{_numbers(*half)}" pos="{place}" xyaxes="{axes}"/>'


def _case(pose: Pose) -> Iterator[str]:
    """Yield the floor and the four walls of the box."""
    (length, width), height, thick = packing.SIZE, packing.HEIGHT, packing.THICKNESS
    half = thick / 2
    outer = (length / 2 + thick, width / 2 + thick, half)
    yield _geom("box", outer, _raised(pose, half))
    for sign in (-1, 1):
        at = _raised(pose.place(sign * (length / 2 + half), 0.0), height / 2)
        yield _geom("box", (half, width / 2 + thick, height / 2), at)
        at = _raised(pose.place(0.0, sign * (width / 2 + half)), height / 2)
        yield _geom("box", (length / 2, half, height / 2), at)
