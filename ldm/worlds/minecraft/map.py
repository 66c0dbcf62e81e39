"""The world, a pure function of its seed, and the things in sight or remembered in it.

Nothing is stored: each square of 16 by 16 blocks is computed from the seed and kept at hand. The
shares of biomes, trees and herds are this world's own; the animals' weights are the game's.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from ldm.types import stable_seed
from ldm.worlds.minecraft.commands import Cell, FoundVein, Spot, State
from ldm.worlds.minecraft.rules import MOBS, table

#: Blocks of a side of a square, and of a region with one biome.
SIDE, REGION = 16, 128
SEA, PEAK = 64, 90
#: Blocks of earth or sand above the rock.
COVER = 4
#: How far an animal strays from its home, and the ticks after which it heads elsewhere.
STRAY, TURN = 8, 200
#: How near to the start herds are put there, and how many animals of a sort.
NEAR, HERD = 30, 4
_HERDS = 0.1
_SPAN = 2 * STRAY + 1


@dataclass(frozen=True, slots=True)
class Biome:
    """A kind of country.

    weight: its share. trees: how many a square has. woods: kind of wood → its share of them.
    surface: the block on top. grounds: things to gather there, apart from the surface.
    """

    weight: int
    trees: float
    woods: Mapping[str, float]
    surface: str = "dirt"
    grounds: tuple[str, ...] = ("dirt", "grass")
    herds: bool = True


BIOMES = table("biomes", Biome)


class Tree(NamedTuple):
    """A tree: its name, what it is, such as an oak tree, its place and its logs."""

    name: str
    thing: str
    x: int
    z: int
    logs: int


class Animal(NamedTuple):
    """An animal, its name with its sort, and its home."""

    name: str
    x: int
    z: int


class World:
    """The map of one seed.

    herded: whether animals of all sorts are near the start. remembered: whether an agent still
    knows what is out of sight. start: the first place of an episode.
    """

    def __init__(self, seed: int, *, start: str, herded: bool, remembered: bool = True) -> None:
        self.seed = seed
        self.remembered = remembered
        self._region, self._herd = cache(self._drawn), cache(self._living)
        self._turn, self.biome = cache(self._turned), cache(self._country)
        self.trees, self.animals = cache(self._grown), cache(self._around)
        self.start = self._middle(self._nearest_plains() if start == "plains" else (0, 0))
        self._given = tuple(self._near_the_start()) if herded else ()

    def _country(self, cell: Cell) -> str:
        """Return the biome of a square: that of the nearest centre of a region."""
        x, z = self._middle(cell)
        column, row = x // REGION, z // REGION
        near = (self._region((column + i, row + j)) for i in (-1, 0, 1) for j in (-1, 0, 1))
        return min(near, key=lambda r: (r[0] - x) ** 2 + (r[1] - z) ** 2)[2]

    def ground(self, cell: Cell) -> Biome:
        """Return the biome of a square with its properties."""
        return BIOMES[self.biome(cell)]

    def surface(self, x: int, z: int) -> int:
        """Return the height of the ground."""
        return PEAK if self.biome(cell_of(x, z)) == "mountains" else SEA

    def rock(self, x: int, z: int) -> int:
        """Return the height of the rock below the ground."""
        return self.surface(x, z) - COVER

    def _around(self, cell: Cell) -> tuple[Animal, ...]:
        """Return the animals that may be in sight from a square."""
        reach = range(-3, 4)
        herds = (self._herd((cell[0] + i, cell[1] + j)) for i in reach for j in reach)
        return (*self._given, *(one for herd in herds for one in herd))

    def position(self, animal: Animal, tick: int) -> tuple[int, int]:
        """Return the place of an animal, which strays round its home from one turn to the next."""
        turn, since = divmod(tick, TURN)
        (x0, z0), (x1, z1) = self._turn(animal.name, turn), self._turn(animal.name, turn + 1)
        share = since / TURN
        return (animal.x + round(x0 + (x1 - x0) * share), animal.z + round(z0 + (z1 - z0) * share))

    def _drawn(self, place: Cell) -> tuple[float, float, str]:
        """Return the centre of a region, and its biome."""
        rng = random.Random(stable_seed(self.seed, "region", *place))
        x, z = (REGION * (n + rng.random()) for n in place)
        weights = [biome.weight for biome in BIOMES.values()]
        return x, z, rng.choices(tuple(BIOMES), weights)[0]

    def _grown(self, cell: Cell) -> tuple[Tree, ...]:
        """Return the trees of a square."""
        biome, trees = self.ground(cell), list[Tree]()
        rng = random.Random(stable_seed(self.seed, "trees", *cell))
        number = int(biome.trees) + (rng.random() < biome.trees % 1)
        for count in range(number):
            (wood,) = rng.choices(tuple(biome.woods), tuple(biome.woods.values()))
            name, thing = f"{cell[0]},{cell[1]}#{count}", f"{wood} tree"
            trees.append(Tree(name, thing, *self._within(cell, rng), rng.randint(4, 6)))
        return tuple(trees)

    def _living(self, cell: Cell) -> tuple[Animal, ...]:
        """Return the herd of a square, () for none."""
        rng = random.Random(stable_seed(self.seed, "herd", *cell))
        if rng.random() >= _HERDS or not self.ground(cell).herds:
            return ()
        (mob,) = rng.choices(tuple(MOBS), [mob.weight for mob in MOBS.values()])
        return tuple(
            Animal(f"{cell[0]},{cell[1]}:{mob}{n}", *self._within(cell, rng)) for n in range(HERD)
        )

    def _near_the_start(self) -> Iterator[Animal]:
        for mob in MOBS:
            for number in range(HERD):
                rng = random.Random(stable_seed(self.seed, "given", mob, number))
                x, z = (place + rng.randint(-NEAR, NEAR) for place in self.start)
                yield Animal(f"start:{mob}{number}", x, z)

    def _within(self, cell: Cell, rng: random.Random) -> tuple[int, int]:
        x, z = (SIDE * n + rng.randrange(SIDE) for n in cell)
        return x, z

    def _turned(self, name: str, turn: int) -> tuple[int, int]:
        """Return where an animal is then, from its home."""
        # The most frequent draw of all: two digits of the seed itself, without a generator.
        east, south = divmod(stable_seed(self.seed, "turn", name, turn) % _SPAN**2, _SPAN)
        return east - STRAY, south - STRAY

    def _nearest_plains(self) -> Cell:
        for ring in range(200):
            cells = [
                (i, j)
                for i in range(-ring, ring + 1)
                for j in range(-ring, ring + 1)
                if max(abs(i), abs(j)) == ring and self.biome((i, j)) == "plains"
            ]
            if cells:
                return min(cells, key=lambda cell: (math.hypot(*cell), cell))
        return 0, 0  # no plains for 3,200 blocks: three in ten regions are

    def _middle(self, cell: Cell) -> tuple[int, int]:
        return cell[0] * SIDE + SIDE // 2, cell[1] * SIDE + SIDE // 2


def cell_of(x: int, z: int) -> Cell:
    """Return the square that a place lies in."""
    return x // SIDE, z // SIDE


#: The range of sight on the surface, in blocks; below it nothing is in sight.
SIGHT = 32
#: Beyond this distance of its home no animal is in sight.
_HOMES = SIGHT + 2 * STRAY
#: An animal that is not seen within this distance of its remembered place is gone.
_GONE = 16


class Known(NamedTuple):
    """A known thing; the least of several is the nearest.

    distance: on the map. name: of the tree or animal; "" for ground. x, z: its place. tick: when it
    was last seen. thing: what it is.
    """

    distance: float
    name: str
    x: int
    z: int
    tick: int
    thing: str


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


def trees(state: State, world: World) -> Iterator[Known]:
    """Yield the known trees with logs left."""
    x, _, z = state.spot
    for cell, tick in state.sightings.items():
        for tree in world.trees(cell):
            if tree.logs > state.taken.get(tree.name, 0):
                far = math.sqrt((tree.x - x) ** 2 + (tree.z - z) ** 2)
                yield Known(far, tree.name, tree.x, tree.z, tick, tree.thing)


def animals(state: State) -> Iterator[Known]:
    """Yield the known animals, where they were last seen."""
    x, _, z = state.spot
    for name, (i, j, tick) in state.animals.items():
        mob = name.rpartition(":")[2].rstrip("0123456789")
        yield Known(math.hypot(i - x, j - z), name, i, j, tick, mob)


def grounds(state: State, world: World) -> Iterator[Known]:
    """Yield the ground of each known square, by its middle; distance 0 within one."""
    x, _, z = state.spot
    here = cell_of(x, z)
    for cell, tick in state.sightings.items():
        i, j = cell[0] * SIDE + SIDE // 2, cell[1] * SIDE + SIDE // 2
        distance = 0.0 if cell == here else math.hypot(i - x, j - z)
        yield from (Known(distance, "", i, j, tick, one) for one in world.ground(cell).grounds)


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
