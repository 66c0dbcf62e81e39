"""The state of an episode: one frozen value, which every step replaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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
        number = self.inventory.get(item, 0) + count
        rest = {name: n for name, n in self.inventory.items() if name != item}
        inventory = {**self.inventory, item: number} if number else rest
        if number:
            return replace(self, inventory=inventory)
        worn = tuple(name for name in self.worn if name != item)
        return replace(self, inventory=inventory, worn=worn)

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
