"""The oracle's skills: walk to known things, else search; dig down for stone and ores.

Each call does one unit: a stretch of search, a block or animal, a level or an advance below the
ground. The next unit depends on the state alone, never on where an action was interrupted.
"""

from __future__ import annotations

import random
from dataclasses import replace

from ldm.types import stable_seed
from ldm.worlds.minecraft import sight, ticks
from ldm.worlds.minecraft.commands import DIRECTIONS
from ldm.worlds.minecraft.drops import dig_up, slaughter
from ldm.worlds.minecraft.map import COVER, World, cell_of
from ldm.worlds.minecraft.rules import Rules
from ldm.worlds.minecraft.sources import VEINS
from ldm.worlds.minecraft.state import FoundVein, Spot, State
from ldm.worlds.minecraft.workshop import Unit

#: Blocks of a stretch of search, and how many of them go in one direction.
STRETCH, STRAIGHT = 32, 4
#: Rock that digging lays bare: a level of a shaft, an advance of a tunnel, a block of a quarry.
SHAFT, TUNNEL, QUARRY = 12, 20, 6
#: Below the ground one goes back to a vein this far off without climbing to the surface.
_BACK = 64
#: Blocks walked from one block of ground to the next.
_APART = {"sugar cane": 4.0, "stone": 0.5}
_STEPS = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}


class Skills:
    """Units of gathering in a world. stated: whether only a named tool is used."""

    def __init__(self, rules: Rules, world: World, *, stated: bool) -> None:
        self._rules, self._world, self._stated = rules, world, stated
        self._sums: dict[str, list[float]] = {}

    def mine(self, items: tuple[str, ...], tool: str, state: State) -> Unit:
        """Return one unit towards any of the items, which have one source or are kinds of wood."""
        source = self._rules.sources[items[0]]
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
        """Return one unit towards killing an animal."""
        near = sight.nearest(sight.animals(mob, state))
        if near is None or self._below(state):
            return self.search(state)
        after = self._walk(state, near.x, near.z)
        if near.name not in after.animals:
            return Unit(after)  # it has gone
        x, z, _ = after.animals[near.name]
        after = self._walk(after, x, z)
        weapon = tool or ("" if self._stated else ticks.weapon(mob, after))
        time, blows = ticks.killing(mob, weapon)
        rest = {name: place for name, place in after.animals.items() if name != near.name}
        after = replace(after.later(time), animals=rest, taken={**after.taken, near.name: 1})
        after = slaughter(mob, after, self._world.seed)
        for _ in range(blows):
            after = (
                after.used(weapon, self._rules.uses.get(weapon, 0)) if after.held(weapon) else after
            )
        return self._with_sight(Unit(after, 1, _broken(weapon, state, after)))

    def search(self, state: State) -> Unit:
        """Return a stretch of search; below the ground, the way up."""
        if self._below(state):
            return Unit(self._up(state))
        direction = self._heading(state.legs // STRAIGHT)
        after = self.explore(direction, state).after
        return Unit(replace(after, legs=state.legs + 1))

    def explore(self, direction: str, state: State) -> Unit:
        """Return a stretch in a direction, on the surface."""
        state = self._up(state) if self._below(state) else state
        x, _, z = state.spot
        east, south = _STEPS[direction]
        return Unit(self._walk(state, x + STRETCH * east, z + STRETCH * south), 1)

    def _tree(self, items: tuple[str, ...], tool: str, state: State) -> Unit:
        form = items[0].rpartition("_")[2]
        woods = {item.rpartition("_")[0] or item for item in items}
        near = sight.nearest_tree(
            None if "log" in woods else woods, state.sightings, state, self._world
        )
        if near is None or self._below(state):
            return self.search(state)
        after = self._walk(state, near.x, near.z)
        wood = sight.wood_of(near, self._world)
        leaves = form == "leaves"
        block = f"{wood}_leaves" if leaves else f"{wood}_log"
        item = block if block in self._rules.sources else "log"
        after, broken = self._dig(block, self._with(tool, block, after), after)
        if not leaves:
            gone = after.taken.get(near.name, 0) + 1
            after = replace(after, taken={**after.taken, near.name: gone})
        return self._with_sight(Unit(after.plus(item, 1), 1, broken))

    def _ground(self, item: str, tool: str, state: State) -> Unit:
        source = self._rules.sources[item]
        near = sight.nearest(sight.grounds(source.thing, state.sightings, state, self._world))
        if near is None or self._below(state):
            return self.search(state)
        if near.distance:
            return Unit(self._walk(state, near.x, near.z))
        after = state.later(ticks.walking(_APART.get(source.thing, 1.0)))
        after, broken = self._dig(source.block, self._with(tool, source.block, after), after)
        return self._with_sight(Unit(dig_up(item, after, self._rules, self._world.seed), 1, broken))

    def _rock(self, tool: str, state: State) -> Unit:
        """Return a block of stone: of a quarry below the earth, or of a mountain."""
        x, y, z = state.spot
        if self._bare(x, z) and not self._below(state):
            after = state.later(ticks.walking(_APART["stone"]))
            after, broken = self._stone(tool, after, 0)
            return self._with_sight(Unit(after, 1, broken))
        if y > self._world.surface(x, z) - COVER and not self._bare(x, z):
            return self._shaft(tool, state)
        after, broken = self._stone(tool, state, QUARRY)
        return Unit(after, 1, broken)

    def _vein(self, ore: str, tool: str, state: State) -> Unit:
        """Return a block of a vein that was found, or a level or advance in search of one."""
        x, y, z = state.spot
        if veins := sight.veins(ore, state):
            vein = veins[0]
            if (unit := self._towards(vein.spot, tool, state)) is not None:
                return unit
            after, broken = self._dig(self._rules.sources[ore].block, tool, state)
            rest = tuple(
                replace(one, left=one.left - 1) if one == vein else one for one in after.veins
            )
            after = replace(after, veins=tuple(one for one in rest if one.left))
            return Unit(dig_up(ore, after, self._rules, self._world.seed), 1, broken)
        if y > VEINS[ore].depth:
            return self._shaft(tool, state)
        after, broken = self._stone(tool, state, TUNNEL)
        if not broken:
            after, broken = self._stone(tool, after, 0)
        east, south = _STEPS[DIRECTIONS[stable_seed(self._world.seed, "tunnel") % 4]]
        return Unit(replace(after, spot=(x + east, y, z + south)), 1, broken)

    def _towards(self, goal: Spot, tool: str, state: State) -> Unit | None:
        """Return a unit on the way to a vein, or None at the vein."""
        x, y, z = state.spot
        if state.spot == goal:
            return None
        if (x, z) == (goal[0], goal[2]):
            if y > goal[1]:
                return self._shaft(tool, state)
            return Unit(replace(state.later(ticks.CLIMB * (goal[1] - y)), spot=goal))
        if self._below(state):
            far = sight.distance(state.spot, goal)
            if far > _BACK:
                return Unit(self._up(state))
            return Unit(replace(state.later(ticks.walking(far)), spot=(goal[0], y, goal[2])))
        return Unit(self._walk(state, goal[0], goal[2]))

    def _shaft(self, tool: str, state: State) -> Unit:
        """Return the state one level deeper."""
        x, y, z = state.spot
        surface = self._world.surface(x, z)
        cover = "" if self._bare(x, z) else self._world.ground(cell_of(x, z)).surface
        if cover and y > surface - COVER:
            spade = "" if self._stated else ticks.digger(cover, state, self._rules)
            after, broken = self._dig(cover, spade, state)
            after = after.plus(cover, 1)
        else:
            after, broken = self._stone(tool, state, SHAFT)
        return Unit(replace(after, spot=(x, y - 1, z)), 1, broken)

    def _stone(self, tool: str, state: State, area: int) -> tuple[State, str]:
        """Return the state after digging a block of stone, with the veins behind it."""
        after, broken = self._dig("stone", tool, state)
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
                rng = random.Random(stable_seed("vein", self._world.seed, ore, number))
                left = rng.randint(vein.least, vein.most)
                veins = (*veins, FoundVein(ore, state.spot, left, state.tick))
                discovered[ore] = number + 1
        return replace(state, hazards=hazards, finds=discovered, veins=veins)

    def _sum(self, ore: str, number: int) -> float:
        """Return the hazard at which vein `number` is found: the sum of `number` + 1 draws."""
        sums = self._sums.setdefault(ore, [])
        while len(sums) <= number:
            rng = random.Random(stable_seed("ore", self._world.seed, ore, len(sums)))
            sums.append((sums[-1] if sums else 0.0) + rng.expovariate(1))
        return sums[number]

    def _dig(self, block: str, tool: str, state: State) -> tuple[State, str]:
        """Return the state after digging a block, and the tool that broke, if any."""
        after = state.later(ticks.digging(block, tool, self._rules))
        after = after.used(tool, self._rules.uses.get(tool, 0))
        return after, _broken(tool, state, after)

    def _with(self, tool: str, block: str, state: State) -> str:
        """Return the tool to dig with: the named one, else the best."""
        if tool or self._stated:
            return tool
        return ticks.digger(block, state, self._rules)

    def _walk(self, state: State, x: int, z: int) -> State:
        """Return the state after walking somewhere on the surface, and looking round there."""
        here, _, there = state.spot
        far = sight.distance((here, 0, there), (x, 0, z))
        spot = x, self._world.surface(x, z), z
        return sight.look(replace(state.later(ticks.walking(far)), spot=spot), self._world)

    def _up(self, state: State) -> State:
        x, y, z = state.spot
        top = self._world.surface(x, z)
        after = replace(state.later(ticks.CLIMB * (top - y)), spot=(x, top, z))
        return sight.look(after, self._world)

    def _with_sight(self, unit: Unit) -> Unit:
        return replace(unit, after=sight.look(unit.after, self._world))

    def _below(self, state: State) -> bool:
        x, y, z = state.spot
        return y < self._world.surface(x, z)

    def _bare(self, x: int, z: int) -> bool:
        return "stone" in self._world.ground(cell_of(x, z)).grounds

    def _heading(self, number: int) -> str:
        """Return the direction of a part of the search; it never turns back at once."""
        before = ""
        for count in range(number + 1):
            left = [one for one in DIRECTIONS if not before or _OPPOSITE[one] != before]
            before = left[stable_seed(self._world.seed, "heading", count) % len(left)]
        return before


_OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}


def _broken(tool: str, before: State, after: State) -> str:
    return tool if tool and after.held(tool) < before.held(tool) else ""
