"""Crafting, smelting and equipping."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ldm.worlds.minecraft.commands import Command, Way, fuel_for
from ldm.worlds.minecraft.rules import FURNACE, Rules
from ldm.worlds.minecraft.state import State
from ldm.worlds.minecraft.ticks import CALL, EQUIP, PLACE, RUN, digger, digging


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
