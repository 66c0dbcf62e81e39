"""Controllers, which carry out one unit of an action at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Protocol

from ldm.envs.minecraft import workshop
from ldm.envs.minecraft.commands import Command, Way
from ldm.envs.minecraft.drops import dig_up, slaughter
from ldm.envs.minecraft.rules import MOBS, Rules
from ldm.envs.minecraft.state import State
from ldm.envs.minecraft.workshop import Unit

ControllerName = Literal["oracle", "paper", "none"]


class Controller(Protocol):
    """What an environment asks of a controller."""

    def start(self, given: tuple[str, ...]) -> State:
        """Return the state at the start, with what is given."""
        ...

    def unit(self, command: Command, way: Way, state: State, left: int) -> Unit:
        """Return what the next unit of a command comes to; left: how many are still wanted."""
        ...

    def finish(self, state: State) -> Unit:
        """Return the state after clearing away what a finished action has left standing."""
        ...


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
        return Unit(state)

    def finish(self, state: State) -> Unit:
        return Unit(replace(state, standing=""))
