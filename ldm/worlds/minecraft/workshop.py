"""The effects of actions: drops, crafting, smelting, equipping, and the time that each takes.

Drops are drawn by the world and the number of the draw. Durations are in ticks of a twentieth of a
second, each part rounded up; speeds, damage and intervals are the game's published values, hardness
and tools are its data.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

from ldm.types import stable_seed
from ldm.worlds.minecraft.commands import Command, State, Way, fuel_for
from ldm.worlds.minecraft.rules import FACTS, FURNACE, MOBS, Rules

#: Blocks walked in a second.
SPEED = 4.317
#: Ticks for climbing a level, between two blows that do not kill, and for putting a station down.
CLIMB, CHASE, PLACE = 12, 40, 5
#: A craft: each call, and each run of the recipe.
CALL, RUN = 20, 2
EQUIP = 5
#: Ticks of an impossible attempt under the rules of the paper.
VAIN = {"craft": 150, "smelt": 200}

#: Weapon → damage, and ticks between two blows; the hand is "".
_WEAPONS: dict[str, list[int]] = FACTS["weapons"]
#: Ticks between two blocks.
_PAUSE = 6


def walking(blocks: float) -> int:
    """Return the ticks of walking a distance."""
    return math.ceil(20 * blocks / SPEED)


def digging(block: str, tool: str, rules: Rules) -> int:
    """Return the ticks of digging a block with a tool, "" for the hand."""
    of = rules.blocks[block]
    harvests = not of.harvest or tool in of.harvest
    speed = rules.speeds.get((of.material, tool), 1.0) if harvests or not of.harvest else 1.0
    # One over the damage of a tick: how many ticks it takes.
    strokes = of.hardness * (30 if harvests else 100) / speed
    return 0 if strokes < 1 else math.ceil(round(strokes, 9)) + _PAUSE


def digger(block: str, state: State, rules: Rules) -> str:
    """Return the held tool that digs a block quickest, "" for the hand."""
    held = ["", *(tool for tool in sorted(rules.uses) if state.held(tool))]
    return min(held, key=lambda tool: (digging(block, tool, rules), tool))


def killing(mob: str, tool: str) -> tuple[int, int]:
    """Return the ticks of killing an animal, and the blows it takes."""
    damage, interval = _WEAPONS.get(tool, _WEAPONS[""])
    blows = -(-MOBS[mob].health // damage)
    return blows * interval + (blows - 1) * CHASE, blows


def weapon(mob: str, state: State) -> str:
    """Return the held tool that kills an animal quickest, "" for the hand."""
    held = ["", *(tool for tool in _WEAPONS if tool and state.held(tool))]
    return min(held, key=lambda tool: (killing(mob, tool)[0], tool))


def dig_up(item: str, state: State, rules: Rules, world: int) -> State:
    """Return the state after digging one unit of a raw item's source, which may yield others.

    Gravel is flint now and then, and most grass holds no seeds.
    """
    source = rules.sources[item]
    if source.block == "gravel":
        number, state = state.drawn("gravel")
        chance = rules.sources["flint"].chance
        return state.plus(
            "flint" if _rng(world, "gravel", number).random() < chance else "gravel", 1
        )
    if source.chance == 1 and source.least == source.most:
        return state.plus(item, source.least)
    number, state = state.drawn(item)
    rng = _rng(world, item, number)
    if rng.random() >= source.chance:
        return state
    return state.plus(item, rng.randint(source.least, source.most))


def slaughter(mob: str, state: State, world: int) -> State:
    """Return the state with the drops of a killed animal."""
    number, state = state.drawn(mob)
    rng = _rng(world, mob, number)
    for item, least, most in MOBS[mob].drops:
        state = state.plus(item, count) if (count := rng.randint(least, most)) else state
    return state


def _rng(world: int, what: str, number: int) -> random.Random:
    return random.Random(stable_seed("drops", world, what, number))


@dataclass(frozen=True, slots=True)
class Unit:
    """One indivisible piece of an action.

    gained: units of the action's item. broken: the tool that broke. failed: the attempt failed,
    which ends the action.
    """

    after: State
    gained: int = 0
    broken: str = ""
    failed: bool = False


def craft(command: Command, way: Way, state: State, rules: Rules, *, timed: bool) -> Unit:
    """Return the state after making at least the count of an item, in whole runs."""
    recipe = way.recipe
    if recipe is None:
        raise ValueError(f"no recipe for {command.word}")
    runs = -(-command.count // recipe.count)
    after, broken = state, ""
    if timed:
        after = put_down(way.tool, after)
        after = after.later(CALL + RUN * runs)
    for part, number in recipe.parts:
        after = after.plus(part, -number * runs)
    after = after.plus(recipe.item, recipe.count * runs)
    if timed:
        after, broken = pick_up(after, rules)
    return Unit(after, recipe.count * runs, broken)


def smelt(way: Way, state: State, rules: Rules, *, left: int, timed: bool) -> Unit:
    """Return the state after smelting one of `left` units; the furnace stays where it is."""
    after = put_down(FURNACE, state) if timed else state
    for fuel in fuel_for(way, 1, after, rules, reserve=left - 1):
        burns = dict(rules.fuels)[fuel]
        after = replace(after.plus(fuel, -1), burning=after.burning + burns)
    if rules.burns:
        after = replace(after, burning=after.burning - rules.smelt_ticks)
    after = after.plus(way.of, -1).plus(way.item, 1)
    return Unit(after.later(rules.smelt_ticks) if timed else after, 1)


def equip(way: Way, state: State, *, timed: bool) -> Unit:
    """Return the state with an item worn or in the hand."""
    worn = (*(item for item in state.worn if item != way.item), way.item)
    after = replace(state, worn=worn)
    return Unit(after.later(EQUIP) if timed else after, 1)


def put_down(station: str, state: State) -> State:
    """Return the state with a station in use; putting a new one down costs time."""
    if not station or state.standing == station:
        return state
    return replace(state.later(PLACE), standing=station)


def pick_up(state: State, rules: Rules) -> tuple[State, str]:
    """Return the state after digging up the station in use, and the tool that broke, if any."""
    if not state.standing:
        return state, ""
    tool = digger(state.standing, state, rules)
    # In the game, a furnace dug by hand is lost; an agent with one has, or had, a pickaxe.
    after = state.later(digging(state.standing, tool, rules))
    after = replace(after.used(tool, rules.uses.get(tool, 0)), standing="")
    return after, tool if tool and after.held(tool) < state.held(tool) else ""
