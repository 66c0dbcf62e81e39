"""The fast engine: plays games by the rules in `world`; a fork only copies five references."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import lru_cache

from ldm.envs.alfworld.feedback import reason
from ldm.envs.alfworld.games import Game
from ldm.envs.alfworld.pddl import UnknownRules
from ldm.envs.alfworld.texts import NOTHING
from ldm.envs.alfworld.world import Operation, State, World
from ldm.errors import LdmError

#: Games that a process keeps compiled: a gate plays all goals of a refinement several times.
COMPILED = 192
_compiled = lru_cache(maxsize=COMPILED)(World)


@dataclass(frozen=True, slots=True)
class EngineState:
    """A moment of a game.

    feedback: the engine's answer to the last command, or its introduction, word for word.
    commands: the admissible commands, sorted, in the game's own grammar.
    won: whether the game's goal holds.
    """

    feedback: str
    commands: tuple[str, ...]
    won: bool


class FastEngine:
    """Play games with `World`."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._state: State | None = None
        self._now = EngineState("", (), won=False)
        self._operations: dict[str, Operation] = {}

    def start(self, game: Game) -> EngineState:
        """Start `game`. Raise LdmError if its rules are not ALFWorld's, or if it is damaged."""
        try:
            if self._world is None or self._world.digest != game.digest:
                self._world = _compiled(game)
            return self._enter(self._world, self._world.introduction, self._world.start)
        except UnknownRules as error:
            raise LdmError(
                f"The rules of {game.id} are not ALFWorld's: {error}.",
                "Download the games again: ldm data alfworld --to FOLDER.",
            ) from error
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise LdmError(
                f"The game {game.id} is damaged: {type(error).__name__}: {error}.",
                "Download the games again: ldm data alfworld --to FOLDER.",
            ) from error

    def step(self, command: str) -> EngineState:
        """Execute any command; an inadmissible one is answered and changes nothing."""
        if self._world is None or self._state is None:
            raise RuntimeError("no game is running: call start first")
        operation = self._operations.get(command.strip())
        if operation is None:
            self._now = replace(self._now, feedback=NOTHING)
            return self._now
        feedback, state = self._world.apply(operation, self._state)
        if state is self._state:
            self._now = replace(self._now, feedback=feedback)
            return self._now
        return self._enter(self._world, feedback, state)

    def why_not(self, command: str) -> str:
        """Return a sentence on why a command is not admissible, "" if none is known."""
        if self._world is None or self._state is None or command in self._operations:
            return ""
        explanation = reason(self._world, self._state, command)
        return explanation[1] if explanation else ""

    def fork(self) -> FastEngine:
        """Return an engine in the same state; the two continue independently."""
        return copy.copy(self)

    def close(self) -> None:
        self._world = self._state = None

    def _enter(self, world: World, feedback: str, state: State) -> EngineState:
        self._state = state
        self._operations = world.commands(state)
        self._now = EngineState(feedback, tuple(sorted(self._operations)), world.won(state))
        return self._now
