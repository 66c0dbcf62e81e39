"""Controllers, which carry out one unit of an action at a time.

`Controller` knows recipes and tools only. `Oracle` acts in a map and always succeeds. `Paper`
succeeds as often, and takes as long, as the controller of DEPS did (arXiv 2302.01560, Table 18).

The oracle walks to known things, else searches, and digs down for stone and ores. Each call does
one unit: a stretch of search, a block or animal, a level or an advance below the ground. The next
unit depends on the state alone, never on where an action was interrupted.

Drops are drawn by the world and the number of the draw. Durations are in ticks of a twentieth of a
second, each part rounded up; speeds, damage and intervals are the game's published values, hardness
and tools are its data.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from ldm.types import stable_seed
from ldm.worlds.minecraft.commands import DIRECTIONS, Command, FoundVein, Spot, State, Way, fuel_for
from ldm.worlds.minecraft.map import World, animals, cell_of, distance, grounds, look, trees, veins
from ldm.worlds.minecraft.rules import FACTS, FURNACE, MOBS, VEINS, Rules

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
        flint = _rng(world, "gravel", number).random() < rules.sources["flint"].chance
        return state.plus("flint" if flint else "gravel", 1)
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
    after = put_down(way.tool, state).later(CALL + RUN * runs) if timed else state
    for part, number in recipe.parts:
        after = after.plus(part, -number * runs)
    after = after.plus(recipe.item, recipe.count * runs)
    made = pick_up(after, rules) if timed else Unit(after)
    return replace(made, gained=recipe.count * runs)


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


def pick_up(state: State, rules: Rules) -> Unit:
    """Return the state after digging up the station in use, if there is one."""
    if not state.standing:
        return Unit(state)
    # In the game, a furnace dug by hand is lost; an agent with one has, or had, a pickaxe.
    after, broken = dig(state.standing, digger(state.standing, state, rules), state, rules)
    return Unit(replace(after, standing=""), broken=broken)


def dig(block: str, tool: str, state: State, rules: Rules) -> tuple[State, str]:
    """Return the state after digging a block with a tool, and that tool if it broke."""
    after = state.later(digging(block, tool, rules)).used(tool, rules.uses.get(tool, 0))
    return after, _broken(tool, state, after)


def _broken(tool: str, before: State, after: State) -> str:
    return tool if tool and after.held(tool) < before.held(tool) else ""


#: Blocks of a stretch of search, and how many of them go in one direction.
STRETCH, STRAIGHT = 32, 4
#: Rock that digging lays bare: a level of a shaft, an advance of a tunnel, a block of a quarry.
SHAFT, TUNNEL, QUARRY = 12, 20, 6
#: Below the ground one goes back to a vein this far off without climbing to the surface.
_BACK = 64
#: Blocks walked from one block of ground to the next.
_APART = {"sugar cane": 4.0, "stone": 0.5}
_STEPS = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
_OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}


ControllerName = Literal["oracle", "paper", "none"]


class Controller:
    """No map and no time: everything raw is at hand, only recipes and tools count.

    As in MC-Textworld of DEPS (arXiv 2302.01560, §4.2), logs and animals are always there. It
    begins an episode, carries out the next of the `left` units of a command, and ends the action.
    """

    timed = False

    def __init__(self, rules: Rules, seed: int) -> None:
        self.rules, self.seed = rules, seed

    def start(self, given: tuple[str, ...]) -> State:
        return State(inventory=dict.fromkeys(given, 1))

    def unit(self, command: Command, way: Way, state: State, left: int) -> Unit:
        match command.verb:
            case "mine":
                return self.mine(command.items, way.tool, state)
            case "kill":
                return self.kill(command.items[0], way.tool, state)
            case "craft":
                return craft(command, way, state, self.rules, timed=self.timed)
            case "smelt":
                return smelt(way, state, self.rules, left=left, timed=self.timed)
            case "equip":
                return equip(way, state, timed=self.timed)
            case "explore":
                return self.explore(command.items[0], state)
        return Unit(state, 1)

    def mine(self, items: tuple[str, ...], tool: str, state: State) -> Unit:
        """Return one unit towards any of the items, which have one source or are kinds of wood."""
        item = min(items, key=lambda item: (not item.startswith("oak_"), item))
        source = self.rules.sources[item]
        if source.thing in MOBS:
            after = slaughter(source.thing, state, self.seed)
        else:
            after = dig_up(item, state, self.rules, self.seed)
        return Unit(after, after.held(item) - state.held(item))

    def kill(self, mob: str, tool: str, state: State) -> Unit:
        """Return one unit towards killing an animal."""
        return Unit(slaughter(mob, state, self.seed), 1)

    def explore(self, direction: str, state: State) -> Unit:
        """Return a stretch in a direction, on the surface."""
        return Unit(state, 1)

    def finish(self, state: State) -> Unit:
        return Unit(state)


class Oracle(Controller):
    """A controller that always succeeds, in the time that an action takes.

    stated: whether only a named tool is used.
    """

    timed = True

    def __init__(self, rules: Rules, world: World, *, stated: bool) -> None:
        super().__init__(rules, world.seed)
        self.world, self._stated = world, stated
        self._sums: dict[str, list[float]] = {}

    def start(self, given: tuple[str, ...]) -> State:
        x, z = self.world.start
        spot = (x, self.world.surface(x, z), z)
        return look(replace(super().start(given), spot=spot), self.world)

    def unit(self, command: Command, way: Way, state: State, left: int) -> Unit:
        if state.standing and command.verb not in ("smelt", "inventory"):
            return pick_up(state, self.rules)
        return self._looked(super().unit(command, way, state, left), state)

    def finish(self, state: State) -> Unit:
        return self._looked(pick_up(state, self.rules), state)

    def _looked(self, unit: Unit, before: State) -> Unit:
        """Return a unit with what is in sight after it, if it took time."""
        if unit.after.tick == before.tick:
            return unit
        return replace(unit, after=look(unit.after, self.world))

    def mine(self, items: tuple[str, ...], tool: str, state: State) -> Unit:
        source = self.rules.sources[items[0]]
        match source.where:
            case "tree":
                unit = self._tree(items, tool, state)
            case "animal":
                unit = self.kill(source.thing, tool, state)
            case "ground":
                unit = self._ground(items[0], tool, state)
            case "rock":
                unit = self._rock(tool, state)
            case "vein":
                unit = self._vein(items[0], tool, state)
        return replace(unit, gained=unit.after.held(*items) - state.held(*items))

    def kill(self, mob: str, tool: str, state: State) -> Unit:
        near = min((one for one in animals(state) if one.thing == mob), default=None)
        if near is None or self._below(state):
            return self.search(state)
        after = self._walk(state, near.x, near.z)
        if near.name not in after.animals:
            return Unit(after)  # it has gone
        x, z, _ = after.animals[near.name]
        after = self._walk(after, x, z)
        arm = tool or ("" if self._stated else weapon(mob, after))
        time, blows = killing(mob, arm)
        rest = {name: place for name, place in after.animals.items() if name != near.name}
        after = replace(after.later(time), animals=rest, taken={**after.taken, near.name: 1})
        after = slaughter(mob, after, self.seed)
        for _ in range(blows):
            after = after.used(arm, self.rules.uses.get(arm, 0)) if after.held(arm) else after
        return Unit(after, 1, _broken(arm, state, after))

    def search(self, state: State) -> Unit:
        """Return a stretch of search; below the ground, the way up."""
        if self._below(state):
            return Unit(self._up(state))
        direction = self._heading(state.legs // STRAIGHT)
        after = self.explore(direction, state).after
        return Unit(replace(after, legs=state.legs + 1))

    def explore(self, direction: str, state: State) -> Unit:
        state = self._up(state) if self._below(state) else state
        x, _, z = state.spot
        east, south = _STEPS[direction]
        return Unit(self._walk(state, x + STRETCH * east, z + STRETCH * south), 1)

    def _tree(self, items: tuple[str, ...], tool: str, state: State) -> Unit:
        form = items[0].rpartition("_")[2]
        woods = {item.rpartition("_")[0] or item for item in items}
        things = {f"{wood} tree" for wood in woods}
        known = trees(state, self.world)
        fitting = (one for one in known if "log" in woods or one.thing in things)
        near = min(fitting, default=None)
        if near is None or self._below(state):
            return self.search(state)
        after = self._walk(state, near.x, near.z)
        wood = near.thing.removesuffix(" tree")
        leaves = form == "leaves"
        block = f"{wood}_leaves" if leaves else f"{wood}_log"
        item = block if block in self.rules.sources else "log"
        after, broken = dig(block, self._with(tool, block, after), after, self.rules)
        if not leaves:
            gone = after.taken.get(near.name, 0) + 1
            after = replace(after, taken={**after.taken, near.name: gone})
        return Unit(after.plus(item, 1), 1, broken)

    def _ground(self, item: str, tool: str, state: State) -> Unit:
        source = self.rules.sources[item]
        known = grounds(state, self.world)
        near = min((one for one in known if one.thing == source.thing), default=None)
        if near is None or self._below(state):
            return self.search(state)
        if near.distance:
            return Unit(self._walk(state, near.x, near.z))
        after = state.later(walking(_APART.get(source.thing, 1.0)))
        after, broken = dig(source.block, self._with(tool, source.block, after), after, self.rules)
        return Unit(dig_up(item, after, self.rules, self.seed), 1, broken)

    def _rock(self, tool: str, state: State) -> Unit:
        """Return a block of stone: of a quarry below the earth, or of a mountain."""
        x, y, z = state.spot
        if self._bare(x, z) and not self._below(state):
            after = state.later(walking(_APART["stone"]))
            after, broken = self._stone(tool, after, 0)
            return Unit(after, 1, broken)
        if y > self.world.rock(x, z) and not self._bare(x, z):
            return self._shaft(tool, state)
        after, broken = self._stone(tool, state, QUARRY)
        return Unit(after, 1, broken)

    def _vein(self, ore: str, tool: str, state: State) -> Unit:
        """Return a block of a vein that was found, or a level or advance in search of one."""
        x, y, z = state.spot
        if near := veins(ore, state):
            vein = near[0]
            if (unit := self._towards(vein.spot, tool, state)) is not None:
                return unit
            after, broken = dig(self.rules.sources[ore].block, tool, state, self.rules)
            rest = tuple(
                replace(one, left=one.left - 1) if one == vein else one for one in after.veins
            )
            after = replace(after, veins=tuple(one for one in rest if one.left))
            return Unit(dig_up(ore, after, self.rules, self.seed), 1, broken)
        if y > VEINS[ore].depth:
            return self._shaft(tool, state)
        after, broken = self._stone(tool, state, TUNNEL)
        if not broken:
            after, broken = self._stone(tool, after, 0)
        east, south = _STEPS[DIRECTIONS[stable_seed(self.seed, "tunnel") % 4]]
        return Unit(replace(after, spot=(x + east, y, z + south)), 1, broken)

    def _towards(self, goal: Spot, tool: str, state: State) -> Unit | None:
        """Return a unit on the way to a vein, or None at the vein."""
        x, y, z = state.spot
        if state.spot == goal:
            return None
        if (x, z) == (goal[0], goal[2]):
            if y > goal[1]:
                return self._shaft(tool, state)
            return Unit(replace(state.later(CLIMB * (goal[1] - y)), spot=goal))
        if self._below(state):
            far = distance(state.spot, goal)
            if far > _BACK:
                return Unit(self._up(state))
            return Unit(replace(state.later(walking(far)), spot=(goal[0], y, goal[2])))
        return Unit(self._walk(state, goal[0], goal[2]))

    def _shaft(self, tool: str, state: State) -> Unit:
        """Return the state one level deeper."""
        x, y, z = state.spot
        cover = "" if self._bare(x, z) else self.world.ground(cell_of(x, z)).surface
        if cover and y > self.world.rock(x, z):
            spade = "" if self._stated else digger(cover, state, self.rules)
            after, broken = dig(cover, spade, state, self.rules)
            after = after.plus(cover, 1)
        else:
            after, broken = self._stone(tool, state, SHAFT)
        return Unit(replace(after, spot=(x, y - 1, z)), 1, broken)

    def _stone(self, tool: str, state: State, area: int) -> tuple[State, str]:
        """Return the state after digging a block of stone, with the veins behind it."""
        after, broken = dig("stone", tool, state, self.rules)
        return self._exposed(after.plus("cobblestone", 1), area), broken

    def _exposed(self, state: State, area: int) -> State:
        """Return the state after exposing an area of rock, with the veins in it."""
        if not area:
            return state
        y = state.spot[1]
        hazards, discovered, veins = dict(state.hazards), dict(state.finds), state.veins
        for ore, vein in VEINS.items():
            if y >= vein.top:
                continue
            hazards[ore] = hazards.get(ore, 0.0) + area * vein.density
            while hazards[ore] >= self._sum(ore, number := discovered.get(ore, 0)):
                rng = random.Random(stable_seed("vein", self.seed, ore, number))
                left = rng.randint(vein.least, vein.most)
                veins = (*veins, FoundVein(ore, state.spot, left, state.tick))
                discovered[ore] = number + 1
        return replace(state, hazards=hazards, finds=discovered, veins=veins)

    def _sum(self, ore: str, number: int) -> float:
        """Return the hazard at which vein `number` is found: the sum of `number` + 1 draws."""
        sums = self._sums.setdefault(ore, [])
        while len(sums) <= number:
            rng = random.Random(stable_seed("ore", self.seed, ore, len(sums)))
            sums.append((sums[-1] if sums else 0.0) + rng.expovariate(1))
        return sums[number]

    def _with(self, tool: str, block: str, state: State) -> str:
        """Return the tool to dig with: the named one, else the best."""
        if tool or self._stated:
            return tool
        return digger(block, state, self.rules)

    def _walk(self, state: State, x: int, z: int) -> State:
        """Return the state after walking somewhere on the surface, and looking round there."""
        here, _, there = state.spot
        far = distance((here, 0, there), (x, 0, z))
        spot = x, self.world.surface(x, z), z
        return look(replace(state.later(walking(far)), spot=spot), self.world)

    def _up(self, state: State) -> State:
        x, y, z = state.spot
        top = self.world.surface(x, z)
        after = replace(state.later(CLIMB * (top - y)), spot=(x, top, z))
        return look(after, self.world)

    def _below(self, state: State) -> bool:
        x, y, z = state.spot
        return y < self.world.surface(x, z)

    def _bare(self, x: int, z: int) -> bool:
        return "stone" in self.world.ground(cell_of(x, z)).grounds

    def _heading(self, number: int) -> str:
        """Return the direction of a part of the search; it never turns back at once."""
        before = ""
        for count in range(number + 1):
            left = [one for one in DIRECTIONS if not before or _OPPOSITE[one] != before]
            before = left[stable_seed(self.seed, "heading", count) % len(left)]
        return before


class Rate(NamedTuple):
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
        missing = rate.draw("skill", self.seed, what, number) - spent - time
        if missing <= 0:
            _, after = unit.after.drawn(f"skill {what}")
            return _owing(replace(unit, after=after), command.items[0], 0, rate.units - 1)
        trial = min(missing, _TRIAL)
        after = look(state.later(trial), self.world)
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
        seed = stable_seed("attempt", self.seed, verb, number)
        if random.Random(seed).random() < rate:
            draws = {**unit.after.draws, f"attempt {verb}": number + 1}
            return replace(unit, after=replace(unit.after, draws=draws))
        after = look(drawn.later(VAIN[verb]), self.world)
        return Unit(after, failed=True)


def _owing(unit: Unit, what: str, spent: int, free: int) -> Unit:
    owed = {**unit.after.owed, what: (spent, free)}
    return replace(unit, after=replace(unit.after, owed=owed))
