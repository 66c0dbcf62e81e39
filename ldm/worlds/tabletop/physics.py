"""The simulation: MuJoCo moves the things of a scene, described in its XML.

A hand without an arm holds a thing by a weld, lifts it, turns it, carries it, lowers it until it
touches something, and lets go. The rest is up to the physics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldm.errors import LdmError
from ldm.worlds.tabletop import kinds
from ldm.worlds.tabletop.scene import CUBE, Fixture, Point, Pose, Scene, Thing

HAND = "hand"
#: Seconds of a simulated step.
TIMESTEP = 0.004
#: Sides of a bowl.
_SIDES = 24
#: Only the table's top collides.
_TABLE = '<geom name="table" type="plane" size="0.3 0.55 0.1" pos="0.5 0 0"/>'
_ORIGIN = Pose(0, 0)


def model_of(scene: Scene) -> str:
    """Return the model of a scene, with a weld for each thing in their order."""
    meshes: list[str] = []
    fixtures = [line for fixture in scene.fixtures for line in _fixture(fixture)]
    bodies = [line for n, thing in enumerate(scene.things) for line in _thing(n, thing, meshes)]
    welds = [
        f'<weld body1="{HAND}" body2="thing{n}" active="false" '
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
    return f'<mesh name="{name}" vertex="{_numbers(*chain.from_iterable(vertices))}"/>'


def _fixture(fixture: Fixture) -> Iterator[str]:
    """Yield the colliding parts of a fixture; things sink into kits and holes, and onto rods."""
    match fixture.name:
        case "bowl":
            yield from _bowl(fixture.pose)
        case "box":
            yield from _case(fixture.pose)
        case "base":
            for along in kinds.BASE.values():
                half = kinds.BASE_HEIGHT / 2
                at = _raised(fixture.pose.place(0.0, along), half)
                yield _geom("box", (0.022, 0.022, half), at)


def _raised(pose: Pose, height: float) -> Pose:
    return Pose(pose.x, pose.y, height, pose.yaw)


def _bowl(pose: Pose) -> Iterator[str]:
    """Yield a floor with a wall of boards."""
    floor, rim = kinds.BOWL_FLOOR, kinds.BOWL_RIM
    height, thick = kinds.BOWL_HEIGHT, kinds.BOWL_THICKNESS
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
    (length, width), height, thick = kinds.BOX, kinds.BOX_HEIGHT, kinds.BOX_THICKNESS
    half = thick / 2
    outer = (length / 2 + thick, width / 2 + thick, half)
    yield _geom("box", outer, _raised(pose, half))
    for sign in (-1, 1):
        at = _raised(pose.place(sign * (length / 2 + half), 0.0), height / 2)
        yield _geom("box", (half, width / 2 + thick, height / 2), at)
        at = _raised(pose.place(0.0, sign * (width / 2 + half)), height / 2)
        yield _geom("box", (length / 2, half, height / 2), at)


PACKAGE = "mujoco"
INSTALL = 'pip install "ldm-memory[tabletop]"'

#: Metres to which things are lifted.
_LIFTED = 0.3
#: Metres a second: carrying, and lowering over the last stretch.
_SPEED, _SLOW, _STRETCH = 1.0, 0.1, 0.02
#: Radians a second.
_TURNING = 6.0
#: Simulated steps until the weld rests, and until a released thing rests.
_HOLD, _REST = 25, 50
#: After a fall: the most times of _REST, until nothing is faster than this (m/s, rad/s).
_RESTS, _QUIET = 20, 0.02
#: Lowering stops this far above the target, so that nothing is pressed.
_CLEARANCE = 0.0005
#: A thing lies flat if its axis deviates by less than this (cosine).
_FLAT = math.cos(math.radians(10))

Vector = NDArray[np.float64]


class State(NamedTuple):
    """A state at rest. vector: all that the simulation needs, read-only. poses: of the things."""

    vector: Vector
    poses: tuple[Pose, ...]


def version() -> str:
    """Return the version of MuJoCo, on which the last digits of all poses depend.

    Raise LdmError if it is not installed.
    """
    return str(_mujoco().__version__)


class World:
    """The physics of one scene. The model never changes, so threads can share it."""

    def __init__(self, scene: Scene) -> None:
        """Compile the model. Raise LdmError if MuJoCo is not installed."""
        self._mujoco = _mujoco()
        self._scene = scene
        self._model = self._mujoco.MjModel.from_xml_string(model_of(scene))
        self._kind = self._mujoco.mjtState.mjSTATE_INTEGRATION
        self._size = self._mujoco.mj_stateSize(self._model, self._kind)
        self._hand = int(self._model.body(HAND).mocapid[0])
        self._geoms = [self._geoms_of(number) for number in range(len(scene.things))]

    def start(self) -> State:
        """Return the state in which everything rests as it was laid out."""
        data = self._mujoco.MjData(self._model)
        self._rest(data)
        return self._state(data)

    def carry(self, state: State, thing: int, target: Pose) -> State:
        """Return the state after the hand has put a thing at a place, or on things there."""
        data = self._mujoco.MjData(self._model)
        self._mujoco.mj_setState(self._model, data, state.vector, self._kind)
        held = data.qpos[7 * thing : 7 * thing + 7].copy()
        spot, turn = held[:3], held[3:]
        data.mocap_pos[self._hand], data.mocap_quat[self._hand] = spot, turn
        data.eq_active[thing] = 1
        upright = np.array([math.cos(target.yaw / 2), 0.0, 0.0, math.sin(target.yaw / 2)])
        above = np.array([target.x, target.y, _LIFTED])
        end = np.array([target.x, target.y, target.z + _CLEARANCE])
        slow = end + np.array([0.0, 0.0, _STRETCH])
        self._lead(data, _line(spot, np.array([spot[0], spot[1], _LIFTED]), turn, turn))
        self._lead(data, _line(data.mocap_pos[self._hand], above, turn, upright))
        self._lead(data, _line(above, slow, upright, upright), self._touches(thing))
        if not self._touches(thing)(data):
            self._lead(data, _line(slow, end, upright, upright, _SLOW), self._touches(thing))
            self._mujoco.mj_step(self._model, data, nstep=_HOLD)
        data.eq_active[thing] = 0
        self._rest(data)
        return self._state(data)

    def _geoms_of(self, thing: int) -> frozenset[int]:
        body = self._model.body(f"thing{thing}")
        first = int(body.geomadr[0])
        return frozenset(range(first, first + int(body.geomnum[0])))

    def _state(self, data: Any) -> State:
        vector = np.empty(self._size)
        self._mujoco.mj_getState(self._model, data, vector, self._kind)
        vector.flags.writeable = False
        rows = data.qpos.reshape(-1, 7).tolist()
        return State(vector, tuple(_pose(*row) for row in rows))

    def _lead(
        self,
        data: Any,
        way: Iterator[tuple[Vector, Vector]],
        until: Callable[[Any], bool] | None = None,
    ) -> None:
        """Lead the hand along a way, until a condition holds."""
        for position, turn in way:
            data.mocap_pos[self._hand], data.mocap_quat[self._hand] = position, turn
            self._mujoco.mj_step(self._model, data)
            if until is not None and until(data):
                return

    def _touches(self, thing: int) -> Callable[[Any], bool]:
        geoms = self._geoms[thing]

        def touches(data: Any) -> bool:
            pairs = data.contact.geom[: data.ncon].tolist()
            return any((one in geoms) != (other in geoms) for one, other in pairs)

        return touches

    def _rest(self, data: Any) -> None:
        """Simulate until everything has come to rest."""
        for _ in range(_RESTS):
            self._mujoco.mj_step(self._model, data, nstep=_REST)
            if np.abs(data.qvel).max() < _QUIET:
                break
        data.qvel[:] = 0.0


def _mujoco() -> ModuleType:
    if find_spec(PACKAGE) is None:
        raise LdmError(
            "The tabletop's physics, MuJoCo, is not installed.", f"Install it: {INSTALL}."
        )
    import mujoco

    return mujoco  # type: ignore[no-any-return]


def _pose(*row: float) -> Pose:
    x, y, z, w, i, j, k = row
    yaw = math.atan2(2 * (w * k + i * j), 1 - 2 * (j * j + k * k))
    return Pose(x, y, z, yaw, upright=1 - 2 * (i * i + j * j) > _FLAT)


def _line(
    start: Vector, end: Vector, turn: Vector, turned: Vector, speed: float = _SPEED
) -> Iterator[tuple[Vector, Vector]]:
    """Yield positions and turns from one to the other, slow at both ends."""
    start = start.copy()
    if turn @ turned < 0:
        turned = -turned  # the same turn, the short way round
    angle = math.acos(min(1.0, float(turn @ turned)))
    far = float(np.linalg.norm(end - start))
    steps = 1 + math.ceil(max(far / speed, 2 * angle / _TURNING) / TIMESTEP)
    for step in range(1, steps + 1):
        part = 0.5 - 0.5 * math.cos(math.pi * step / steps)
        mixed = turn + part * (turned - turn)
        if angle > 1e-6:
            mixed = math.sin((1 - part) * angle) * turn + math.sin(part * angle) * turned
        yield start + part * (end - start), mixed / np.linalg.norm(mixed)
