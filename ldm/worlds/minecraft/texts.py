"""Observations: the answer to an action, and the state in short lines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ldm.worlds.minecraft.commands import Cell, Command, State
from ldm.worlds.minecraft.map import (
    Known,
    World,
    animals,
    cell_of,
    distance,
    grounds,
    nearest,
    nearest_tree,
    veins,
)
from ldm.worlds.minecraft.rules import MOBS, RAW, VEINS

NOTHING = "Nothing happens."
TIME_UP = "Time is up."

_COMPASS = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
#: Ground that observations list; earth and grass are nearly everywhere.
_GROUNDS = ("sand", "clay", "sugar cane", "gravel", "stone")
#: Distance at which a vein is in sight.
_NEAR = 5


def answer(command: Command, gained: int, *, broken: str = "") -> str:
    """Return the result of an action: the gain, the number to go, and the tool that broke."""
    text = _done(command, gained)
    return f"{text} Your {broken} broke." if broken else text


def _done(command: Command, gained: int) -> str:
    match command.verb:
        case "inventory":
            return "You look at what you have."
        case "equip":
            return f"You hold or wear {command.word}."
        case "explore":
            return f"You walk {command.word}."
        case "craft":
            return f"Made {gained} {command.word}."
    verb = "Killed" if command.verb == "kill" else "Got"
    left = command.count - gained
    if left <= 0:
        return f"{verb} {gained} {command.word}."
    return f"{verb} {gained or 'no'} {command.word}, {left} to go."


def opening(goal: str, limit: str) -> str:
    """Return the line with the task."""
    return f"Task: {goal} within {limit}."


def inventory(state: State) -> str:
    """Return the line with the held and the equipped items."""
    held = ", ".join(f"{count} {item}" for item, count in sorted(state.inventory.items()))
    worn = f" Equipped: {', '.join(state.worn)}." if state.worn else ""
    return f"Inventory: {held or 'nothing'}.{worn}"


def place(state: State, world: World) -> str:
    """Return the line with the place relative to the start, and the biome."""
    x, y, z = state.spot
    i, j = world.start
    where = ", ".join(_offset(x - i, z - j)) or "at the start"
    return f"Place: {where}, y {y}, {world.biome(cell_of(x, z))}."


def surroundings(state: State, world: World) -> tuple[str, str]:
    """Return the lines with the things in sight, and with other remembered things.

    Of things in sight, further remembered ones are not listed.
    """
    groups = [*_trees(state, world), *_animals(state), *_grounds(state, world)]
    groups += _veins(state)
    present = {group.name: _entry(group, state) for group in groups if group.now}
    remembered = [_entry(group, state) for group in groups if group.name not in present]
    return (
        f"You see: {'; '.join(present.values()) or 'nothing'}.",
        f"You remember: {'; '.join(remembered)}." if remembered else "",
    )


def heading(x: int, z: int) -> str:
    """Return the nearest of eight directions to a way of blocks east (x) and south (z)."""
    return _COMPASS[round(math.atan2(x, -z) / (math.pi / 4)) % 8]


@dataclass(frozen=True, slots=True)
class _Group:
    """Things of one name: how many, the nearest of them, and whether they are in sight now."""

    name: str
    count: int
    nearest: Known
    now: bool
    y: int | None = None


def _trees(state: State, world: World) -> Iterator[_Group]:
    for now, cells in _split(state):
        counts: Counter[str] = Counter()
        for cell in cells:
            counts.update(world.woods(cell))
        for name, gone in state.taken.items():
            if tree := world.tree(name):
                felled = gone >= tree.logs and cell_of(tree.x, tree.z) in cells
                counts[tree.wood] -= felled
        for wood in sorted(counts):
            nearest = nearest_tree({wood}, cells, state, world)
            if nearest is not None:
                yield _Group(f"{wood} tree", counts[wood], nearest, now)


def _animals(state: State) -> Iterator[_Group]:
    for mob in MOBS:
        known = list(animals(mob, state))
        for now in (True, False):
            part = [one for one in known if (one.tick == state.tick) == now]
            if near := nearest(part):
                yield _Group(mob, len(part), near, now)


def _grounds(state: State, world: World) -> Iterator[_Group]:
    for now, cells in _split(state):
        for thing in _GROUNDS:
            known = list(grounds(thing, cells, state, world))
            if near := nearest(known):
                yield _Group(thing, len(known), near, now)


def _veins(state: State) -> Iterator[_Group]:
    height = state.spot[1]
    for ore in VEINS:
        if deposits := veins(ore, state):
            first = deposits[0]
            far = distance(state.spot, first.spot)
            near = Known(far, first.spot[0], first.spot[2], first.tick)
            now = max(far, abs(height - first.spot[1])) <= _NEAR
            left = sum(vein.left for vein in deposits)
            yield _Group(RAW[ore].thing, left, near, now, first.spot[1])


def _split(state: State) -> Iterator[tuple[bool, dict[Cell, int]]]:
    """Yield the squares in sight, and then those seen before."""
    for now in (True, False):
        yield (
            now,
            {cell: tick for cell, tick in state.sightings.items() if (tick == state.tick) == now},
        )


def _entry(group: _Group, state: State) -> str:
    """Return a group in words, as "2 oak trees, nearest 14 north" or "1 cow, 45 south"."""
    x, _, z = state.spot
    near = group.nearest
    where = f"{round(near.distance)} {heading(near.x - x, near.z - z)}" if near.distance else "here"
    if group.y is not None:
        where += f", y {group.y}"
    if group.name in _GROUNDS:
        text = f"{group.name}, {where}"
    elif group.count == 1:
        text = f"1 {group.name}, {where}"
    else:
        text = f"{group.count} {_plural(group.name)}, nearest {where}"
    return text if group.now else f"{text}, {state.tick - near.tick} ticks ago"


def _plural(name: str) -> str:
    return f"{name}s" if name.endswith((" tree", "cow", "pig", "chicken")) else name


def _offset(east: int, south: int) -> Iterator[str]:
    if east:
        yield f"{abs(east)} {'east' if east > 0 else 'west'}"
    if south:
        yield f"{abs(south)} {'south' if south > 0 else 'north'}"
