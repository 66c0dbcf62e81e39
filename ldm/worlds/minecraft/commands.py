"""The state of an episode, which every step replaces, and the actions possible in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from ldm.worlds.minecraft.rules import FURNACE, MOBS, TABLE, Recipe, Rules

#: A place in blocks: east, height, south.
Spot = tuple[int, int, int]
#: The corner of a square of 16 by 16 blocks, in squares.
Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FoundVein:
    """A vein that digging has exposed: its place, the blocks left, and when it was found."""

    ore: str
    spot: Spot
    left: int
    tick: int


@dataclass(frozen=True, slots=True)
class State:
    """Everything that changes in an episode. Its mappings are never modified, only replaced.

    tick: twentieths of a second since the start. actions: the number carried out. spot: the agent's
    place. inventory: item → the number held. worn: equipped items, the latest last.
    wear: tool → uses of the current one. sightings: square → when it was last in sight.
    animals: animal → where and when it was last seen. veins: those found. taken: tree or animal →
    units gone. hazards: ore → expected number of veins in the rock dug. finds: ore → veins found.
    legs: stretches walked in search. draws: kind of random draw → how often. owed: skill → (ticks
    tried for the present unit, units that come with it). burning: ticks of fire left in the
    furnace. standing: the station in use, or "". paid: targets that were rewarded.
    """

    tick: int = 0
    actions: int = 0
    spot: Spot = (0, 64, 0)
    inventory: Mapping[str, int] = field(default_factory=dict)
    worn: tuple[str, ...] = ()
    wear: Mapping[str, int] = field(default_factory=dict)
    sightings: Mapping[Cell, int] = field(default_factory=dict)
    animals: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    veins: tuple[FoundVein, ...] = ()
    taken: Mapping[str, int] = field(default_factory=dict)
    hazards: Mapping[str, float] = field(default_factory=dict)
    finds: Mapping[str, int] = field(default_factory=dict)
    legs: int = 0
    draws: Mapping[str, int] = field(default_factory=dict)
    owed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    burning: int = 0
    standing: str = ""
    paid: frozenset[str] = frozenset()

    def held(self, *items: str) -> int:
        """Return how many of the items are held together."""
        return sum(self.inventory.get(item, 0) for item in items)

    def plus(self, item: str, count: int) -> State:
        """Return the state with `count` more of an item, or fewer if it is negative."""
        if number := self.inventory.get(item, 0) + count:
            return replace(self, inventory={**self.inventory, item: number})
        rest = {name: n for name, n in self.inventory.items() if name != item}
        worn = tuple(name for name in self.worn if name != item)
        return replace(self, inventory=rest, worn=worn)

    def later(self, ticks: int) -> State:
        return replace(self, tick=self.tick + ticks)

    def drawn(self, what: str) -> tuple[int, State]:
        """Return the number of a draw, from 0, and the state after it."""
        number = self.draws.get(what, 0)
        return number, replace(self, draws={**self.draws, what: number + 1})

    def used(self, tool: str, lasts: int) -> State:
        """Return the state after one use of a tool ("" for the hand), which may have broken it."""
        if not tool:
            return self
        wear = self.wear.get(tool, 0) + 1
        if wear < lasts:
            return replace(self, wear={**self.wear, tool: wear})
        rest = {name: n for name, n in self.wear.items() if name != tool}
        return replace(self, wear=rest).plus(tool, -1)


Verb = Literal["mine", "kill", "craft", "smelt", "equip", "explore", "inventory"]
Tools = Literal["held", "stated"]
DIRECTIONS = ("north", "east", "south", "west")
#: The most that one action asks for: a stack.
MOST = 64

_COUNTED = re.compile(r"(mine|kill|craft|smelt)\s+([0-9]{1,4})\s+(.+?)(?:\s+with\s+(.+))?")
_EQUIP = re.compile(r"equip\s+(.+)")
_EXPLORE = re.compile(r"explore\s+(\w+)")
_KINDS = ("pickaxe", "axe", "shovel", "hoe", "sword")
_PLURAL = {"cows": "cow", "pigs": "pig", "chickens": "chicken"}


@dataclass(frozen=True, slots=True)
class Command:
    """A parsed action.

    word: its object as written. items: the items of the word (`Rules.members`), the mob for `kill`,
    the direction for `explore`. tool: the words after "with", or "".
    """

    verb: Verb
    word: str = ""
    items: tuple[str, ...] = ()
    count: int = 1
    tool: str = ""


class Refusal(NamedTuple):
    """The reason why an action is impossible. material: only ingredients or a station lack."""

    reason: str
    material: bool = False


class Way(NamedTuple):
    """The tool, recipe and ingredient with which a command is carried out."""

    tool: str = ""
    item: str = ""
    recipe: Recipe | None = None
    of: str = ""


def parse(action: str, rules: Rules) -> Command | Refusal:
    """Return the command of an action, or why it is not one."""
    text = " ".join(action.strip().lower().split())
    if text == "inventory":
        return Command("inventory")
    if match := _EXPLORE.fullmatch(text):
        direction = match.group(1)
        if direction not in DIRECTIONS:
            return Refusal(f"There is no direction {direction!r}.")
        return Command("explore", direction, (direction,))
    if match := _EQUIP.fullmatch(text):
        items = rules.members(match.group(1))
        return Command("equip", _name(match.group(1)), items) if items else _unknown(match.group(1))
    if match := _COUNTED.fullmatch(text):
        return _counted(match, rules)
    return Refusal("That is not an action.")


def way(command: Command, state: State, rules: Rules, tools: Tools) -> Way | Refusal:
    """Return the way to carry out a command in a state, or the reason why it is impossible."""
    tool = _tool(command.tool, state, rules)
    if isinstance(tool, Refusal):
        return tool
    match command.verb:
        case "mine":
            return _mining(command, tool, state, rules, tools)
        case "kill":
            return Way(tool)
        case "craft":
            return _crafting(command, tool, state, rules, tools)
        case "smelt":
            return _smelting(command, tool, state, rules, tools)
        case "equip":
            held = [item for item in command.items if state.held(item)]
            return Way(item=held[0]) if held else Refusal(f"You have no {command.word}.")
    return Way()


def possible(state: State, rules: Rules, tools: Tools) -> Iterator[str]:
    """Yield the possible actions of a state, gathering one unit at a time."""
    if "log" not in rules.sources:
        yield "mine 1 log"  # of the nearest wood
    for item in sorted(rules.sources):
        needed = rules.fit[item]
        held = [tool for tool in needed if state.held(tool)]
        if not needed or (held and tools == "held"):
            yield f"mine 1 {item}"
        elif held:
            yield f"mine 1 {item} with {held[0]}"
    yield from (f"kill 1 {mob}" for mob in MOBS)
    stated = tools == "stated"
    table = state.held(TABLE) > 0
    for item, recipes in rules.recipes.items():
        recipe = next((r for r in recipes if (table or not r.table) and _has(r, state)), None)
        if recipe:
            station = f" with {TABLE}" if recipe.table and stated else ""
            yield f"craft {recipe.count} {item}{station}"
    if state.held(FURNACE):
        for item in rules.smelting:
            if isinstance(_smelter(item, 1, state, rules), Way):
                yield f"smelt 1 {item}" + (f" with {FURNACE}" if stated else "")
    yield from (f"equip {item}" for item in sorted(state.inventory) if _wearable(item, rules))
    yield from (f"explore {direction}" for direction in DIRECTIONS)
    yield "inventory"


def fuel_for(
    way: Way, count: int, state: State, rules: Rules, *, reserve: int = 0
) -> Iterator[str]:
    """Yield the units of fuel that smelting `count` of an item burns, in their order.

    Fewer are yielded if the held fuel does not suffice. The product is not burnt, nor are the first
    `count + reserve` of the ingredient.
    """
    missing = count * rules.smelt_ticks - state.burning if rules.burns else 0
    for fuel, ticks in rules.fuels:
        units = state.held(fuel) - (count + reserve if fuel == way.of else 0)
        while missing > 0 and units > 0 and fuel != way.item:
            yield fuel
            missing, units = missing - ticks, units - 1


def _counted(match: re.Match[str], rules: Rules) -> Command | Refusal:
    verb, digits, words, tool = match.groups()
    count = int(digits)
    if not 1 <= count <= MOST:
        return Refusal(f"The count is from 1 to {MOST}.")
    if verb == "kill":
        mob = _PLURAL.get(words, words)
        if mob not in MOBS:
            return Refusal(f"There is no animal {words!r}.")
        return Command("kill", mob, (mob,), count, _name(tool or ""))
    items = rules.members(words)
    if not items:
        return _unknown(words)
    if verb == "mine":
        items = tuple(item for item in items if item in rules.sources)
        if not items:
            return Refusal(f"{_name(words)} cannot be mined.")
    elif verb == "craft" and not any(item in rules.recipes for item in items):
        return Refusal(f"{_name(words)} cannot be crafted.")
    elif verb == "smelt" and not any(item in rules.smelting for item in items):
        return Refusal(f"{_name(words)} cannot be smelted.")
    return Command(verb, _name(words), items, count, _name(tool or ""))  # type: ignore[arg-type]


def _mining(command: Command, tool: str, state: State, rules: Rules, tools: Tools) -> Way | Refusal:
    needed = rules.fit[command.items[0]]
    if not needed:
        return Way(tool)
    if tool:
        fits = tool in needed
        return Way(tool) if fits else Refusal(f"{tool} does not mine {command.word}.")
    held = [name for name in needed if state.held(name)] if tools == "held" else []
    if held:
        return Way(held[-1])
    return Refusal(f"To mine {command.word} takes {needed[0]} or better." if len(needed) > 1
                   else f"To mine {command.word} takes {needed[0]}.")  # fmt: skip


def _crafting(
    command: Command, station: str, state: State, rules: Rules, tools: Tools
) -> Way | Refusal:
    """Return the recipe to use: the first whose parts are held; of kinds the one held most."""
    able: list[tuple[bool, int, int, Recipe]] = []
    lacking: list[str] = []
    for place, item in enumerate(command.items):
        for recipe in rules.recipes.get(item, ()):
            runs = -(-command.count // recipe.count)
            if reason := _lacking(recipe, runs, state):
                lacking.append(reason)
            else:
                own = item == command.word
                most = max(state.held(part) for part, _ in recipe.parts)
                able.append((not own, -most, place, recipe))
    if not able:
        return Refusal(lacking[0], material=True)
    *_, recipe = min(able, key=lambda one: one[:3])
    if recipe.table and not (state.held(TABLE) if tools == "held" else station == TABLE):
        return Refusal(f"To craft {command.word} takes a crafting_table.", material=True)
    return Way(TABLE if recipe.table else "", recipe.item, recipe)


def _smelting(
    command: Command, station: str, state: State, rules: Rules, tools: Tools
) -> Way | Refusal:
    if not (state.held(FURNACE) if tools == "held" else station == FURNACE):
        return Refusal(f"To smelt {command.word} takes a furnace.", material=True)
    item = next(item for item in command.items if item in rules.smelting)
    return _smelter(item, command.count, state, rules)


def _smelter(item: str, count: int, state: State, rules: Rules) -> Way | Refusal:
    """Return the ingredient to smelt an item from, or a refusal if it or fuel is missing."""
    parts = [part for part in rules.smelting[item] if state.held(part) >= count]
    if not parts:
        return Refusal(f"To smelt {count} {item} takes {count} {rules.smelting[item][0]}.", True)
    way = Way(FURNACE, item, of=max(parts, key=state.held))
    burns = dict(rules.fuels)
    fire = state.burning + sum(burns[fuel] for fuel in fuel_for(way, count, state, rules))
    if rules.burns and fire < count * rules.smelt_ticks:
        return Refusal(f"To smelt {count} {item} takes more fuel.", material=True)
    return way


def _tool(word: str, state: State, rules: Rules) -> str | Refusal:
    """Return the held tool or station named after "with", or "" if none is named."""
    if not word or word in ("hand", "hands", "null", "none"):
        return ""
    if word in _KINDS:
        held = [tool for tool in rules.uses if tool.endswith(f"_{word}") and state.held(tool)]
        return max(held, key=rules.uses.__getitem__) if held else Refusal(f"You have no {word}.")
    items = rules.members(word)
    if not items:
        return _unknown(word)
    tool = next((item for item in items if state.held(item)), None)
    return Refusal(f"You have no {word}.") if tool is None else tool


def _has(recipe: Recipe, state: State) -> bool:
    """Return whether the parts of one run are held."""
    held = state.inventory
    return all(part in held and held[part] >= number for part, number in recipe.parts)


def _lacking(recipe: Recipe, runs: int, state: State) -> str:
    """Return the missing parts of some runs in words, or "" if none is missing."""
    needed = ((part, number * runs) for part, number in recipe.parts)
    missing = " and ".join(
        f"{number} {part}" for part, number in needed if state.held(part) < number
    )
    return missing and f"To craft {recipe.count * runs} {recipe.item} takes {missing}."


def _wearable(item: str, rules: Rules) -> bool:
    armour = ("_helmet", "_chestplate", "_leggings", "_boots", "shield")
    return item in rules.uses or item.endswith(armour)


def _unknown(words: str) -> Refusal:
    return Refusal(f"There is no item {_name(words)!r}.")


def _name(words: str) -> str:
    return words.removeprefix("minecraft:").replace(" ", "_")
