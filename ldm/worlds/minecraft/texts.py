"""Observations: the answer to an action, and the state in short lines."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ldm.types import by_key
from ldm.worlds.minecraft.commands import Command, State
from ldm.worlds.minecraft.map import Known, World, animals, cell_of, distance, grounds, trees, veins
from ldm.worlds.minecraft.rules import MOBS, RAW, VEINS, WOODS

NOTHING = "Nothing happens."
TIME_UP = "Time is up."

_COMPASS = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
#: Ground that observations list; earth and grass are nearly everywhere.
_GROUNDS = ("sand", "clay", "sugar cane", "gravel", "stone")
#: Things on the surface in their order in observations.
_THINGS = (*(f"{wood} tree" for wood in sorted(WOODS)), *MOBS, *_GROUNDS)
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
    things = (*trees(state, world), *animals(state), *grounds(state, world))
    groups = by_key(((one.thing, one.tick == state.tick), one) for one in things)
    visible, remembered = list[str](), list[str]()
    for thing in _THINGS:
        for now, entries in ((True, visible), (False, remembered)):
            known = groups.get((thing, now))
            if known and (now or (thing, True) not in groups):
                entries.append(_entry(min(known), len(known), state, now=now))
    for ore in VEINS:
        if deposits := veins(ore, state):
            (x, y, z), tick = deposits[0].spot, deposits[0].tick
            near = Known(distance(state.spot, (x, y, z)), "", x, z, tick, RAW[ore].thing)
            now = max(near.distance, abs(state.spot[1] - y)) <= _NEAR
            text = _entry(near, sum(vein.left for vein in deposits), state, now=now, y=f", y {y}")
            (visible if now else remembered).append(text)
    return (
        f"You see: {'; '.join(visible) or 'nothing'}.",
        f"You remember: {'; '.join(remembered)}." if remembered else "",
    )


def heading(x: int, z: int) -> str:
    """Return the nearest of eight directions to a way of blocks east (x) and south (z)."""
    return _COMPASS[round(math.atan2(x, -z) / (math.pi / 4)) % 8]


def _entry(near: Known, count: int, state: State, *, now: bool, y: str = "") -> str:
    """Return some things in words, as "2 oak trees, nearest 14 north" or "1 cow, 45 south"."""
    x, _, z = state.spot
    where = f"{round(near.distance)} {heading(near.x - x, near.z - z)}" if near.distance else "here"
    if near.thing in _GROUNDS:
        text = f"{near.thing}, {where}{y}"
    elif count == 1:
        text = f"1 {near.thing}, {where}{y}"
    else:
        text = f"{count} {_plural(near.thing)}, nearest {where}{y}"
    return text if now else f"{text}, {state.tick - near.tick} ticks ago"


def _plural(name: str) -> str:
    return f"{name}s" if name.endswith((" tree", "cow", "pig", "chicken")) else name


def _offset(east: int, south: int) -> Iterator[str]:
    if east:
        yield f"{abs(east)} {'east' if east > 0 else 'west'}"
    if south:
        yield f"{abs(south)} {'south' if south > 0 else 'north'}"
