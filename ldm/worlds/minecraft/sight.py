"""Things in sight and remembered things, and the nearest of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from ldm.worlds.minecraft.map import SIDE, STRAY, Tree, World, cell_of
from ldm.worlds.minecraft.state import Cell, FoundVein, Spot, State

#: The range of sight on the surface, in blocks; below it nothing is in sight.
SIGHT = 32
#: Beyond this distance of its home no animal is in sight.
_HOMES = SIGHT + 2 * STRAY
#: An animal that is not seen within this distance of its remembered place is gone.
_GONE = 16


@dataclass(frozen=True, slots=True)
class Known:
    """A known thing: its distance on the map, its place, and when it was last seen.

    name: of the tree or animal; "" for ground.
    """

    distance: float
    x: int
    z: int
    tick: int
    name: str = ""


def nearest(known: Iterable[Known]) -> Known | None:
    """Return the nearest of some things, None without any."""
    return min(known, key=lambda one: (one.distance, one.name, one.x, one.z), default=None)


def look(state: State, world: World) -> State:
    """Return the state after looking around, which takes no time and is no use underground."""
    x, y, z = state.spot
    if y < world.surface(x, z):
        return state
    before = state.sightings if world.remembered else {}
    sightings = {**before, **dict.fromkeys(visible(x, z), state.tick)}
    animals: dict[str, tuple[int, int, int]] = {}
    for animal in world.animals(cell_of(x, z)):
        near = (animal.x - x) ** 2 + (animal.z - z) ** 2 <= _HOMES**2
        if near and animal.name not in state.taken:
            i, j = world.position(animal, state.tick)
            if (i - x) ** 2 + (j - z) ** 2 <= SIGHT**2:
                animals[animal.name] = i, j, state.tick
    for name, (i, j, tick) in state.animals.items() if world.remembered else ():
        if name not in animals and (i - x) ** 2 + (j - z) ** 2 > _GONE**2:
            animals[name] = i, j, tick
    return replace(state, sightings=sightings, animals=animals)


def visible(x: int, z: int) -> tuple[Cell, ...]:
    """Return the squares in sight, those whose middle is near enough."""
    column, row = cell_of(x, z)
    return tuple((column + i, row + j) for i, j in _near(x - column * SIDE, z - row * SIDE))


def nearest_tree(
    woods: Collection[str] | None, cells: Mapping[Cell, int], state: State, world: World
) -> Known | None:
    """Return the nearest tree in some squares of some kinds of wood (None: any) with logs left."""
    x, _, z = state.spot
    taken, middle = state.taken, SIDE // 2
    best: tuple[int, str, Tree, int] | None = None
    bound = math.inf
    for cell, tick in cells.items():
        if math.hypot(cell[0] * SIDE + middle - x, cell[1] * SIDE + middle - z) - SIDE > bound:
            continue
        for tree in world.trees(cell):
            far = (tree.x - x) ** 2 + (tree.z - z) ** 2
            if best is not None and (far, tree.name) >= best[:2]:
                continue
            if (woods is None or tree.wood in woods) and tree.logs > taken.get(tree.name, 0):
                best, bound = (far, tree.name, tree, tick), math.sqrt(far)
    if best is None:
        return None
    far, name, tree, tick = best
    return Known(math.sqrt(far), tree.x, tree.z, tick, name)


def wood_of(tree: Known, world: World) -> str:
    """Return the kind of wood of a known tree."""
    return next(one.wood for one in world.trees(cell_of(tree.x, tree.z)) if one.name == tree.name)


def animals(mob: str, state: State) -> Iterator[Known]:
    """Yield the known animals of a sort, where they were last seen."""
    x, _, z = state.spot
    for name, (i, j, tick) in state.animals.items():
        if name.rpartition(":")[2].rstrip("0123456789") == mob:
            yield Known(math.hypot(i - x, j - z), i, j, tick, name)


def grounds(thing: str, cells: Mapping[Cell, int], state: State, world: World) -> Iterator[Known]:
    """Yield the squares with some ground, by their middle; distance 0 within one."""
    x, _, z = state.spot
    here = cell_of(x, z)
    for cell, tick in cells.items():
        if thing in world.ground(cell).grounds:
            i, j = cell[0] * SIDE + SIDE // 2, cell[1] * SIDE + SIDE // 2
            distance = 0.0 if cell == here else math.hypot(i - x, j - z)
            yield Known(distance, i, j, tick)


def veins(ore: str, state: State) -> list[FoundVein]:
    """Return the veins of an ore that were found and are not used up, the nearest first."""
    veins = [vein for vein in state.veins if vein.ore == ore and vein.left]
    return sorted(veins, key=lambda vein: (distance(state.spot, vein.spot), vein.spot))


def distance(one: Spot, other: Spot) -> float:
    """Return the distance on the map, without heights."""
    return math.hypot(one[0] - other[0], one[2] - other[2])


@cache
def _near(x: int, z: int) -> tuple[Cell, ...]:
    """Return the squares in sight from a place within a square, relative to that square."""
    reach = range(-3, 4)
    middle = SIDE // 2
    return tuple(
        (i, j)
        for i in reach
        for j in reach
        if math.hypot(i * SIDE + middle - x, j * SIDE + middle - z) <= SIGHT
    )
