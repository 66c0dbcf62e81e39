"""A scene as a model in MuJoCo's XML: shapes that collide, and shapes that only look."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ldm.worlds.tabletop.kinds import bowls, hanoi, kits, packing, pyramid
from ldm.worlds.tabletop.scene import CUBE, Fixture, Form, Part, Point, Pose, Scene, Thing

HAND = "hand"
#: Seconds of a simulated step.
TIMESTEP = 0.004
#: Pixels of a picture.
WIDTH, HEIGHT = 640, 360

_RGB = {
    "blue": "0.22 0.42 0.72",
    "red": "0.86 0.24 0.24",
    "green": "0.28 0.62 0.31",
    "yellow": "0.95 0.79 0.23",
    "brown": "0.55 0.36 0.22",
    "gray": "0.58 0.58 0.60",
    "cyan": "0.35 0.75 0.78",
}
_WOOD = {"lightest": "0.87 0.72 0.53", "middle": "0.65 0.46 0.29", "darkest": "0.36 0.23 0.13"}
_HOLE = "0.13 0.12 0.12"
#: Sides of round shapes.
_SIDES = 24
#: Thickness of boards that do not collide, and the height of marks above them.
_BOARD, _ABOVE = 0.006, 0.0006
_LOOKS = 'contype="0" conaffinity="0" group="1" mass="0"'
_HIDDEN = 'group="3"'
_ORIGIN = Pose(0, 0)
#: How much wider a hole is than its shape.
_ROOM = 1.12


def weld(thing: int) -> str:
    """Return the name of the weld that holds a thing."""
    return f"weld{thing}"


def model_of(scene: Scene) -> str:
    """Return the model of a scene."""
    meshes: list[str] = []
    fixtures = [line for fixture in scene.fixtures for line in _fixture(fixture, scene, meshes)]
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
            _VISUAL,
            "<asset>",
            _ASSETS,
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


_VISUAL = f"""<visual><global offwidth="{WIDTH}" offheight="{HEIGHT}"/>
<map shadowclip="0.9" shadowscale="0.6"/><quality shadowsize="4096" offsamples="8"/>
<headlight ambient="0.42 0.42 0.42" diffuse="0.18 0.18 0.18" specular="0 0 0"/></visual>"""
_ASSETS = """<texture type="skybox" builtin="flat" rgb1="0.62 0.67 0.73"
rgb2="0.62 0.67 0.73" width="8" height="48"/>
<material name="top" rgba="0.93 0.92 0.89 1" specular="0.05" shininess="0.1"/>"""
#: Only the table's top collides.
_TABLE = f"""<light pos="0.1 -0.5 1.5" dir="0.27 0.33 -0.9" directional="true"
diffuse="0.45 0.45 0.45" specular="0.1 0.1 0.1"/>
<camera name="front" fovy="36" pos="1.18 0 0.78" xyaxes="0 1 0 -0.736 0 0.677"/>
<geom name="table" type="plane" size="0.3 0.55 0.1" pos="0.5 0 0" {_HIDDEN}/>
<geom type="box" size="0.28 0.53 0.02" pos="0.5 0 -0.0201" material="top" {_LOOKS}/>"""


def _numbers(*values: float) -> str:
    return " ".join(f"{value:.9g}" for value in values)


def _geom(kind: str, size: Sequence[float], rgb: str, *, at: Pose, more: str = "") -> str:
    turn = f' euler="0 0 {at.yaw:.9g}"' if at.yaw else ""
    return (
        f'<geom type="{kind}" size="{_numbers(*size)}" pos="{_numbers(at.x, at.y, at.z)}"{turn} '
        f'rgba="{rgb} 1" {more}/>'
    )


def _mesh(name: str, rgb: str, *, at: Pose, more: str = "") -> str:
    place = f'pos="{_numbers(at.x, at.y, at.z)}" euler="0 0 {at.yaw:.9g}"'
    return f'<geom type="mesh" mesh="{name}" {place} rgba="{rgb} 1" {more}/>'


def _thing(number: int, thing: Thing, meshes: list[str]) -> Iterator[str]:
    """Yield the free body of a thing."""
    rgb, form, half = _RGB[thing.colour], thing.form, thing.height / 2
    place = f'pos="{_numbers(thing.start.x, thing.start.y, thing.start.z)}"'
    yield f'<body name="thing{number}" {place} euler="0 0 {thing.start.yaw:.9g}"><freejoint/>'
    if form.turn == 0:
        yield from _disc(form.radius, half)
        if form.hole:
            inner, outer = form.hole, form.radius
            profile = ((inner, -half), (outer, -half), (outer, half), (inner, half))
            meshes.append(_revolved(f"ring{number}", profile))
            yield _mesh(f"ring{number}", rgb, at=_ORIGIN, more=_LOOKS)
        else:
            yield from _parts(form, thing.height, rgb, meshes, more=_LOOKS)
    elif form is CUBE:
        yield _geom("box", (half, half, half), rgb, at=_ORIGIN)
    else:
        yield from _parts(form, thing.height, rgb, meshes)
    yield "</body>"


def _disc(radius: float, half: float) -> Iterator[str]:
    """Yield a star of two squares, which rests on others and on the table without jumping.

    MuJoCo's cylinders do jump there when they are let go, by up to four millimetres.
    """
    across = radius / math.sqrt(2)
    for turn in (0.0, math.pi / 4):
        yield _geom("box", (across, across, half), _HOLE, at=Pose(0, 0, 0, turn), more=_HIDDEN)


def _parts(
    form: Form, height: float, rgb: str, meshes: list[str], *, at: Pose = _ORIGIN, more: str = ""
) -> Iterator[str]:
    """Yield the geoms of a form."""
    for part in form.parts:
        if part.radius:
            yield _geom("cylinder", (part.radius, height / 2), rgb, at=at, more=more)
        else:
            mesh = f"part{len(meshes)}"
            meshes.append(_prism(mesh, part.corners, height))
            yield _mesh(mesh, rgb, at=at, more=more)


def _prism(name: str, corners: Sequence[Point], height: float) -> str:
    vertices = [(x, y, z) for z in (-height / 2, height / 2) for x, y in corners]
    return f'<mesh name="{name}" vertex="{_numbers(*[v for vertex in vertices for v in vertex])}"/>'


def _revolved(name: str, profile: Sequence[Point]) -> str:
    """Return the mesh of a closed profile (radius, height), counterclockwise, round the axis."""
    angles = [2 * math.pi * side / _SIDES for side in range(_SIDES)]
    vertices = [(r * math.cos(a), r * math.sin(a), z) for a in angles for r, z in profile]
    count, faces = len(profile), []
    for side in range(_SIDES):
        for edge in range(count):
            a, d = side * count + edge, side * count + (edge + 1) % count
            b, c = (x % len(vertices) for x in (a + count, d + count))
            faces += [(a, b, c), (a, c, d)]
    points = _numbers(*[v for vertex in vertices for v in vertex])
    corners = " ".join(str(v) for face in faces for v in face)
    return f'<mesh name="{name}" vertex="{points}" face="{corners}" inertia="shell"/>'


def _fixture(fixture: Fixture, scene: Scene, meshes: list[str]) -> Iterator[str]:
    match fixture.name:
        case "kit":
            yield from _kit(fixture.pose, scene, meshes)
        case "stand":
            yield from _stand(fixture.pose)
        case "bowl":
            yield from _bowl(fixture, meshes)
        case "box":
            yield from _case(fixture.pose)
        case "base":
            for shade, along in pyramid.BASE.items():
                half = (pyramid.BASE_HEIGHT / 2, 0.022)
                at = _raised(fixture.pose.place(0.0, along), half[0])
                yield _geom("box", (half[1], half[1], half[0]), _WOOD[shade], at=at)


def _raised(pose: Pose, height: float) -> Pose:
    return Pose(pose.x, pose.y, height, pose.yaw)


def _kit(pose: Pose, scene: Scene, meshes: list[str]) -> Iterator[str]:
    """Yield a board with dark holes; neither collides, so that objects sink into it."""
    half = (kits.SIZE[0] / 2, kits.SIZE[1] / 2, _BOARD / 2)
    yield _geom("box", half, _WOOD["lightest"], at=_raised(pose, _BOARD / 2), more=_LOOKS)
    for hole in scene.holes:
        at = _raised(hole.pose, _BOARD / 2 + _ABOVE)
        yield from _parts(_wider(hole.form), _BOARD, _HOLE, meshes, at=at, more=_LOOKS)


def _wider(form: Form) -> Form:
    parts = [
        Part(tuple((x * _ROOM, y * _ROOM) for x, y in part.corners), part.radius * _ROOM)
        for part in form.parts
    ]
    return Form(form.name, tuple(parts), form.turn)


def _stand(pose: Pose) -> Iterator[str]:
    """Yield a board in three browns with three rods, which do not collide."""
    length, width = hanoi.SIZE
    shades = zip(hanoi.PLACES.values(), _WOOD.values(), strict=True)
    for along, rgb in shades:
        half = (length / 6, width / 2, _BOARD / 2)
        at = _raised(pose.place(along, 0.0), _BOARD / 2)
        yield _geom("box", half, rgb, at=at, more=_LOOKS)
        yield _geom("cylinder", (0.01, 0.04), rgb, at=_raised(at, 0.04), more=_LOOKS)


def _bowl(fixture: Fixture, meshes: list[str]) -> Iterator[str]:
    """Yield a bowl that looks round and collides as a floor with a wall of boards."""
    thick, rgb, pose = bowls.THICKNESS, _RGB[fixture.colour], fixture.pose
    floor, rim, height = bowls.FLOOR, bowls.RIM, bowls.HEIGHT
    axis = 0.0001
    outside = ((axis, 0.0005), (floor + thick, 0.0005), (rim, height))
    inside = ((rim - thick, height), (floor, thick), (axis, thick))
    name = f"bowl{len(meshes)}"
    meshes.append(_revolved(name, (*outside, *inside)))
    yield _mesh(name, rgb, at=pose, more=_LOOKS)
    at = _raised(pose, thick / 2)
    yield _geom("cylinder", (floor + thick, thick / 2), rgb, at=at, more=_HIDDEN)
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
        yield f'<geom type="box" size="{_numbers(*half)}" pos="{place}" xyaxes="{axes}" {_HIDDEN}/>'


def _case(pose: Pose) -> Iterator[str]:
    """Yield the floor and the four walls of the box."""
    (length, width), height, thick = packing.SIZE, packing.HEIGHT, packing.THICKNESS
    rgb, half = _RGB["brown"], thick / 2
    outer = (length / 2 + thick, width / 2 + thick, half)
    yield _geom("box", outer, rgb, at=_raised(pose, half))
    for sign in (-1, 1):
        at = _raised(pose.place(sign * (length / 2 + half), 0.0), height / 2)
        yield _geom("box", (half, width / 2 + thick, height / 2), rgb, at=at)
        at = _raised(pose.place(0.0, sign * (width / 2 + half)), height / 2)
        yield _geom("box", (length / 2, half, height / 2), rgb, at=at)
