"""Controllers, which carry out one unit of an action at a time.

`Recipes` knows recipes and tools only. `Oracle` acts in a map and always succeeds. `Paper` succeeds
as often, and takes as long, as the controller of DEPS did (arXiv 2302.01560, Table 18).
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Literal

from ldm.types import stable_seed
from ldm.worlds.minecraft import sight, ticks, workshop
from ldm.worlds.minecraft.commands import Command, Way
from ldm.worlds.minecraft.drops import dig_up, slaughter
from ldm.worlds.minecraft.map import World
from ldm.worlds.minecraft.rules import FURNACE, Rules
from ldm.worlds.minecraft.skills import Skills
from ldm.worlds.minecraft.sources import FACTS, MOBS
from ldm.worlds.minecraft.state import State
from ldm.worlds.minecraft.workshop import Unit

ControllerName = Literal["oracle", "paper", "none"]


class Recipes:
    """No map and no time: everything raw is at hand, only recipes and tools count.

    As in MC-Textworld of DEPS (arXiv 2302.01560, §4.2), logs and animals are always there.
    """

    def __init__(self, rules: Rules, world: int) -> None:
        self._rules, self._world = rules, world

    def start(self, given: tuple[str, ...]) -> State:
        return State(inventory=dict.fromkeys(given, 1))

    def unit(self, command: Command, way: Way, state: State, left: int) -> Unit:
        rules = self._rules
        match command.verb:
            case "craft":
                return workshop.craft(command, way, state, rules, timed=False)
            case "smelt":
                return workshop.smelt(way, state, rules, left=left, timed=False)
            case "equip":
                return workshop.equip(way, state, timed=False)
            case "kill":
                return Unit(slaughter(command.items[0], state, self._world), 1)
            case "mine":
                item = min(command.items, key=lambda item: (not item.startswith("oak_"), item))
                source = rules.sources[item]
                if source.thing in MOBS:
                    after = slaughter(source.thing, state, self._world)
                else:
                    after = dig_up(item, state, rules, self._world)
                return Unit(after, after.held(item) - state.held(item))
        return Unit(state, 1)

    def finish(self, state: State) -> Unit:
        return Unit(state)


class Oracle:
    """A controller that always succeeds, in the time that an action takes.

    stated: whether only a named tool is used.
    """

    def __init__(self, rules: Rules, world: World, *, stated: bool) -> None:
        self.rules, self.world = rules, world
        self._skills = Skills(rules, world, stated=stated)

    def start(self, given: tuple[str, ...]) -> State:
        x, z = self.world.start
        state = State(spot=(x, self.world.surface(x, z), z), inventory=dict.fromkeys(given, 1))
        return sight.look(state, self.world)

    def unit(self, command: Command, way: Way, state: State, left: int) -> Unit:
        if state.standing and command.verb not in ("smelt", "inventory"):
            after, broken = workshop.pick_up(state, self.rules)
            return Unit(after, broken=broken)
        unit = self._unit(command, way, state, left)
        if unit.after.tick == state.tick:
            return unit
        return replace(unit, after=sight.look(unit.after, self.world))

    def finish(self, state: State) -> Unit:
        after, broken = workshop.pick_up(state, self.rules)
        if after.tick > state.tick:
            after = sight.look(after, self.world)
        return Unit(after, broken=broken)

    def _unit(self, command: Command, way: Way, state: State, left: int) -> Unit:
        match command.verb:
            case "mine":
                return self._skills.mine(command.items, way.tool, state)
            case "kill":
                unit = self._skills.kill(command.items[0], way.tool, state)
                return replace(unit, gained=len(unit.after.taken) - len(state.taken))
            case "craft":
                return workshop.craft(command, way, state, self.rules, timed=True)
            case "smelt":
                return workshop.smelt(way, state, self.rules, left=left, timed=True)
            case "equip":
                return workshop.equip(way, state, timed=True)
            case "explore":
                return self._skills.explore(command.items[0], state)
        return Unit(state, 1)


@dataclass(frozen=True, slots=True)
class Rate:
    """A row of Table 18: the success rate within a time, for a number of units at once."""

    success: float
    ticks: int
    units: int = 1

    def draw(self, *seed: object) -> int:
        """Return the ticks until success, drawn so that the rate holds within the row's ticks."""
        share = random.Random(stable_seed(*seed)).random()
        return math.ceil(self.ticks * math.log(1 - share) / math.log(1 - self.success))


#: Item or animal → its rows, of most units first.
RATES = {what: tuple(Rate(*row) for row in rows) for what, rows in FACTS["rates"].items()}
#: The rates of an attempt to craft with a table and to smelt; without a table all succeed.
CRAFT_AT_TABLE, SMELT = 0.9, 0.8
#: Ticks between two checks whether the skill has succeeded.
_TRIAL = 150


class Paper(Oracle):
    """An oracle that succeeds as rarely and as late as DEPS' controller did.

    A unit of gathering takes the time that is drawn for it, but never less than the oracle needs;
    an attempt to craft or smelt fails with a probability, uses nothing up, and costs time.
    """

    def unit(self, command: Command, way: Way, state: State, left: int) -> Unit:
        unit = super().unit(command, way, state, left)
        if command.verb in ("mine", "kill"):
            return self._gathered(command, unit, state, left)
        if unit.gained and command.verb == "craft" and way.tool:
            return self._attempt("craft", CRAFT_AT_TABLE, unit, state)
        if command.verb == "smelt" and state.standing != FURNACE:
            return self._attempt("smelt", SMELT, unit, state)
        return unit

    def _gathered(self, command: Command, unit: Unit, state: State, left: int) -> Unit:
        """Return the unit once its drawn time is over, or before that a stretch of trying."""
        what = self._skill(command, unit, state)
        spent, free = state.owed.get(command.items[0], (0, 0))
        time = unit.after.tick - state.tick
        if not unit.gained:
            return _owing(unit, command.items[0], spent + time, free)
        if free:
            return _owing(unit, command.items[0], 0, free - 1)
        rate = next(rate for rate in RATES[what] if rate.units <= left)
        number = state.draws.get(f"skill {what}", 0)
        missing = rate.draw("skill", self.world.seed, what, number) - spent - time
        if missing <= 0:
            _, after = unit.after.drawn(f"skill {what}")
            return _owing(replace(unit, after=after), command.items[0], 0, rate.units - 1)
        trial = min(missing, _TRIAL)
        after = sight.look(state.later(trial), self.world)
        return _owing(Unit(after), command.items[0], spent + trial, 0)

    def _skill(self, command: Command, unit: Unit, state: State) -> str:
        """Return the key of a unit's row: the animal, or the item that it yields."""
        item = command.items[0]
        if item in MOBS:
            return item
        thing = self.rules.sources[item].thing
        if thing in MOBS:
            return thing
        if item.endswith("leaves"):
            return "leaves"
        more = (one for one in command.items if unit.after.held(one) > state.held(one))
        return next(more, item)

    def _attempt(self, verb: str, rate: float, unit: Unit, state: State) -> Unit:
        number, drawn = state.drawn(f"attempt {verb}")
        seed = stable_seed("attempt", self.world.seed, verb, number)
        if random.Random(seed).random() < rate:
            draws = {**unit.after.draws, f"attempt {verb}": number + 1}
            return replace(unit, after=replace(unit.after, draws=draws))
        after = sight.look(drawn.later(ticks.VAIN[verb]), self.world)
        return Unit(after, failed=True)


def _owing(unit: Unit, what: str, spent: int, free: int) -> Unit:
    owed = {**unit.after.owed, what: (spent, free)}
    return replace(unit, after=replace(unit.after, owed=owed))


#: The controller of an environment: it begins an episode, carries out the next of the `left` units
#: of a command, and picks up the station of a finished one.
Controller = Recipes | Oracle
