"""The fast engine, and why an action is not possible (Ouyang & Li, arXiv 2305.15064, Table 6).

The engine plays games by the rules in `world`; a fork only copies five references. Of AutoPlan
are seven kinds of reasons: missing index, invalid receptacle, invalid appliance, wrong location,
closed receptacle, inventory limit, not in inventory. A reason is always true and reveals nothing
that the agent could not see. If several apply, the first in this order is returned, since fixing
only a later one would not help. Other reasons are not explained.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from ldm.errors import LdmError
from ldm.worlds.alfworld.games import NOTHING, Game, UnknownRules
from ldm.worlds.alfworld.world import Operation, State, World

_THING = r"(?:the |an? )?([a-z]+)(?: (\d+))?"
_FORMS = tuple(
    re.compile(form.replace("THING", _THING))
    for form in (
        r"(go) to THING",
        r"(open|close|use|examine) THING",
        r"(take) THING from THING",
        r"(put|move) THING (?:in/on|in|on|into|onto|to) THING",
        r"(clean|heat|cool|slice) THING with THING",
    )
)
_APPLIED = {"clean": "cleaning", "heat": "heating", "cool": "cooling"}
#: Verbs whose last argument is a place; the others take objects, or either.
_AT_PLACES = frozenset({"go", "open", "close", "take", "put", "move", *_APPLIED})

#: (kind, sentence)
Reason = tuple[str, str]


def reason(world: World, state: State, command: str) -> Reason | None:
    """Return the kind of reason why `command` is not admissible, and a sentence.

    Return None if no kind applies, as for a command of unknown form.
    """
    for form in _FORMS:
        match = form.fullmatch(" ".join(command.lower().split()))
        if match:
            verb, *parts = match.groups()
            words = [(parts[i], parts[i + 1]) for i in range(0, len(parts), 2)]
            return next(_Room(world, state).reasons(verb, words), None)
    return None


class _Room:
    """A state as the agent sees it, by the readable names of things."""

    def __init__(self, world: World, state: State) -> None:
        self._world = world
        self._state = state
        self._ids: Mapping[str, str] = {name: thing for thing, name in world.names.items()}
        self._places = {world.names[thing] for thing in world.receptacles}
        self._held = {world.names[thing] for thing in state.held}

    def reasons(self, verb: str, words: list[tuple[str, str | None]]) -> Iterator[Reason]:
        """Yield the reasons, each of which assumes that none of those before it applies.

        words: type and number of each thing in the command; the number is None if it is missing.
        """
        for at, (kind, number) in enumerate(words, 1):
            if number is None:
                known = any(place.split()[0] == kind for place in self._places)
                if at == len(words) and verb in _AT_PLACES and not known:
                    yield "invalid receptacle", f"There is no place called {kind} in this room."
                sentence = f"Say which {kind} is meant: things have a number, as in {kind} 1."
                yield "missing index", sentence
        names = [f"{kind} {number}" for kind, number in words]
        if verb in _AT_PLACES:
            yield from self._at_place(verb, names[-1], names[0])
        elif verb == "use":
            yield from self._use(names[0])
        elif verb == "slice":
            yield from self._slice(*names)
        else:
            yield from self._examine(names[0])

    def _at_place(self, verb: str, place: str, thing: str) -> Iterator[Reason]:
        """Yield why an action at a place fails; `thing` is the object that it is done with."""
        world = self._world
        if place not in self._places:
            yield "invalid receptacle", f"There is no place called {place} in this room."
        if verb == "go":
            return
        target = self._ids[place]
        if verb in _APPLIED and not world.types[target] & world.appliances[verb]:
            yield "invalid appliance", f"The {place} is not made for {_APPLIED[verb]}."
        if verb in ("open", "close") and not world.holds("openable", target):
            yield "invalid receptacle", f"The {place} has nothing to open or close."
        if world.location[target] != self._state.here:
            yield "wrong location", f"You are not at the {place}."
        closed = world.holds("openable", target) and target not in self._state.opened
        if verb in ("take", "put", "move") and closed:
            yield "closed receptacle", f"The {place} is closed."
        if verb == "take" and self._held:
            objects = " and the ".join(sorted(self._held))
            sentence = f"You can hold one object at a time, and you hold the {objects}."
            yield "inventory limit", sentence
        if verb not in ("open", "close", "take") and thing not in self._held:
            yield "not in inventory", f"You are not holding the {thing}."
        if verb in ("put", "move") and not world.fits(self._ids[thing], target):
            yield "invalid receptacle", f"The {place} does not take the {thing}."

    def _use(self, name: str) -> Iterator[Reason]:
        if name not in self._held | self._places | self._visible():
            yield "wrong location", f"You see no {name} where you are."
        if not self._world.holds("toggleable", self._ids[name]):
            yield "invalid appliance", f"The {name} cannot be switched on or off."

    def _slice(self, name: str, knife: str) -> Iterator[Reason]:
        if knife not in self._held:
            yield "not in inventory", f"You are not holding the {knife}."
        if not self._world.types[self._ids[knife]] & self._world.rules.knives:
            yield "invalid appliance", f"The {knife} is not made for slicing."
        if name not in self._visible():
            yield "wrong location", f"You see no {name} where you are."

    def _examine(self, name: str) -> Iterator[Reason]:
        if name not in self._places | self._held:
            yield "not in inventory", f"You are not holding the {name}."
        if name in self._places and self._world.location[self._ids[name]] != self._state.here:
            yield "wrong location", f"You are not at the {name}."

    def _visible(self) -> set[str]:
        """Return the objects in open or always-open receptacles at the agent's location."""
        world, state = self._world, self._state
        return {
            world.names[thing]
            for number, place in enumerate(world.receptacles)
            if world.location[place] == state.here
            and (not world.holds("openable", place) or place in state.opened)
            for thing in state.inside[number]
        }


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

    _world: World
    _state: State
    _now: EngineState
    _operations: dict[str, Operation]

    def start(self, game: Game) -> EngineState:
        """Start `game`. Raise LdmError if its rules are not ALFWorld's, or if it is damaged."""
        try:
            self._world = _compiled(game)
            return self._enter(self._world.introduction, self._world.start)
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
        operation = self._operations.get(command.strip())
        if operation is None:
            self._now = replace(self._now, feedback=NOTHING)
            return self._now
        return self._enter(*self._world.apply(operation, self._state))

    def why_not(self, command: str) -> str:
        """Return a sentence on why a command is not admissible, "" if none is known."""
        explanation = reason(self._world, self._state, command)
        return explanation[1] if explanation else ""

    def fork(self) -> FastEngine:
        """Return an engine in the same state; the two continue independently."""
        return copy.copy(self)

    def close(self) -> None:
        """Release nothing: the compiled games are the process's."""

    def _enter(self, feedback: str, state: State) -> EngineState:
        self._state = state
        self._operations = self._world.commands(state)
        self._now = EngineState(feedback, tuple(sorted(self._operations)), self._world.won(state))
        return self._now
