"""A workshop in text with a controller of its own, for tests of planners: mine, craft, equip.

An action of `mine` gets one piece and says how many are to go; `searches` says after how many
actions a thing is come upon first. What is made needs its materials and its tool.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldm.episode import EnvironmentBase
from ldm.types import Card, Reading, Task, TimeStep

TICKS = 100
#: Item → (how many one run makes, materials, tool).
RECIPES: Mapping[str, tuple[int, Mapping[str, int], str]] = {
    "planks": (4, {"log": 1}, ""),
    "stick": (4, {"planks": 2}, ""),
    "crafting_table": (1, {"planks": 4}, ""),
    "wooden_pickaxe": (1, {"planks": 3, "stick": 2}, "crafting_table"),
    "stone_sword": (1, {"cobblestone": 2, "stick": 1}, "crafting_table"),
}
#: Item → the tool that it takes.
RAW = {"log": "", "wool": "", "cobblestone": "wooden_pickaxe"}

CARD = Card(
    name="workshop",
    rules="Things are mined or crafted. Crafting uses materials up.",
    actions=(
        "mine COUNT ITEM, mine COUNT ITEM with TOOL: get more of a raw item",
        "craft COUNT ITEM, craft COUNT ITEM with TOOL: make an item",
        "equip ITEM: wear it",
    ),
    kinds={"make": "make an item"},
    goals=(
        *(f"mine 1 {item}" for item in RAW),
        *(f"craft 1 {item}" for item in RECIPES),
        "equip wooden_pickaxe",
    ),
    reading=Reading(
        done=r"^(?:Got|Made) \d+ \w+\.$|^You wear",
        going=r"^Got \d+ \w+, (?P<left>\d+) to go",
        held=r"^Inventory: (.*)\.$",
        clock=r"^Time: (\d+) of (\d+)",
        gathering=("mine",),
        patience={"": 600, "mine wool": 300},
    ),
)


@dataclass(frozen=True, slots=True)
class WorkshopOptions:
    """goal: the item to make. limit: ticks. searches: item → actions until it is come upon."""

    goal: str = "stone_sword"
    limit: int = 6000


@dataclass(frozen=True)
class State:
    held: Mapping[str, int]
    tick: int = 0
    searched: Mapping[str, int] | None = None


class Workshop(EnvironmentBase):
    card: Card = CARD
    default_split = "test"
    train_splits = ("train",)
    Options = WorkshopOptions
    options: WorkshopOptions

    def __init__(
        self, options: WorkshopOptions | None = None, searches: Mapping[str, int] | None = None
    ) -> None:
        self.options = options or WorkshopOptions()
        self.searches = dict(searches or {})
        self.situation = State({})
        self.actions: list[str] = []

    def protocol(self) -> Mapping[str, Any]:
        return {"environment": "workshop", "version": 1}

    def tasks(self, split: str) -> Sequence[Task]:
        return [Task(f"{split}/0", "workshop", split, f"obtain 1 {self.options.goal}", "make")]

    def reset(self, task: Task) -> TimeStep:
        self.situation = State({}, 0, {})
        return self._time_step(f"Task: {task.goal} within {self.options.limit} ticks.")

    def step(self, action: str) -> TimeStep:
        self.actions.append(action)
        words, _, tool = action.partition(" with ")
        match words.split():
            case ["mine", count, item] if item in RAW and count.isdigit():
                return self._mine(item, int(count), tool)
            case ["craft", count, item] if item in RECIPES and count.isdigit():
                return self._craft(item, int(count), tool)
            case ["equip", item] if self.situation.held.get(item):
                return self._time_step(f"You wear 1 {item}.")
        return self._time_step("Nothing happens.", valid=False)

    def fork(self) -> Workshop:
        return copy.copy(self)

    def close(self) -> None:
        self.situation = State({})

    def _mine(self, item: str, count: int, tool: str) -> TimeStep:
        needed = RAW[item]
        if (needed and tool != needed) or (tool and not self.situation.held.get(tool)):
            return self._time_step("Nothing happens.", valid=False)
        searched = dict(self.situation.searched or {})
        searched[item] = searched.get(item, 0) + 1
        self.situation = replace(
            self.situation, tick=self.situation.tick + TICKS, searched=searched
        )
        if searched[item] <= self.searches.get(item, 0):
            return self._time_step(f"Got 0 {item}, {count} to go.")
        self._add({item: 1})
        left = count - 1
        return self._time_step(f"Got 1 {item}, {left} to go." if left else f"Got 1 {item}.")

    def _craft(self, item: str, count: int, tool: str) -> TimeStep:
        makes, materials, needed = RECIPES[item]
        runs = -(-count // makes)
        enough = all(self.situation.held.get(m, 0) >= n * runs for m, n in materials.items())
        if (
            not runs
            or not enough
            or (needed and (tool != needed or not self.situation.held.get(tool)))
        ):
            return self._time_step("Nothing happens.", valid=False)
        self._add({m: -n * runs for m, n in materials.items()} | {item: makes * runs})
        self.situation = replace(self.situation, tick=self.situation.tick + 20)
        return self._time_step(f"Made {makes * runs} {item}.")

    def _add(self, items: Mapping[str, int]) -> None:
        held = dict(self.situation.held)
        for item, count in items.items():
            held[item] = held.get(item, 0) + count
        self.situation = replace(self.situation, held={k: v for k, v in held.items() if v})

    def _time_step(self, answer: str, valid: bool = True) -> TimeStep:
        held = ", ".join(f"{count} {item}" for item, count in sorted(self.situation.held.items()))
        lines = [
            answer,
            f"Time: {self.situation.tick} of {self.options.limit}.",
            f"Inventory: {held or 'nothing'}.",
        ]
        won = self.situation.held.get(self.options.goal, 0) > 0
        over = won or self.situation.tick >= self.options.limit
        return TimeStep("\n".join(lines), float(won), over, None, valid)
