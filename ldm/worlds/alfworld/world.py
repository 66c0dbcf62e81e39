"""ALFWorld's rules in plain Python, with the official engine's exact answers.

A game is compiled once into an immutable `World`; only a small immutable `State` is replaced.
Quirks of the official engine that are visible in its answers are reproduced
(scripts/lockstep_alfworld.py compares the two):

- The agent cannot go to the place where it already is, nor to another at the same location.
- In the middle of the room, `look` sees nothing; only the introduction lists the places.
- `look` names an object beside a place only if it was once taken from that place and is at the
  same location now.
- Only a held object can be examined: the domain's other way, seeing it in a place, never applies.
- A lamp in a closed drawer can be used; once used, its description says "on" forever.
- A heated object is no longer cool and a cooled one no longer hot, but both stay clean.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ldm.types import by_key
from ldm.worlds.alfworld import games
from ldm.worlds.alfworld.games import FACTS, Game, GameProblem, UnknownRules
from ldm.worlds.alfworld.goals import GoalCompiler

#: Facts that no action changes; that are part of a state; and that neither a text nor an action's
#: precondition depends on.
_STATIC, _CHANGING, _TRAITS, _UNSEEN = (
    FACTS["predicates"][name] for name in ("static", "changing", "traits", "unseen")
)

#: Verb of an appliance → the trait that a thing gains, and the one that it loses.
_EFFECTS = {"clean": ("isclean", ""), "heat": ("ishot", "iscool"), "cool": ("iscool", "ishot")}
_MIDDLE = "You are in the middle of a room. Looking quickly around you, you see {}."

#: The name of an action, and its arguments after the state.
Operation = tuple[str, tuple[str, ...]]
Pairs = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class State:
    """A moment of a game; equal states have equal futures.

    here: the agent's location. held: the objects it carries. inside: the contents of each
    receptacle, sorted, in the world's order of receptacles. opened: the open receptacles.
    lying: (object, location). taken: (object, receptacle) for each object that was taken from there
    and not put back. traits: (trait, object), such as ("isclean", "mug_bar_1").
    """

    here: str
    held: tuple[str, ...]
    inside: tuple[tuple[str, ...], ...]
    opened: frozenset[str]
    lying: Pairs
    taken: Pairs
    traits: Pairs


class World:
    """The constant part of a game, and its rules: possible commands and their effects.

    Things are identified by their ids in the problem, in lower case; lists are sorted by id, as in
    the official engine. names: id → readable name. receptacles: their ids; index: the position of
    each in it. location: of each receptacle. types: of each receptacle and object. appliances:
    verb → types of receptacle for it. start: the first state. won: decides whether the goal holds
    in a state.
    """

    def __init__(self, game: Game) -> None:
        """Compile `game`. Raise UnknownRules if its rules or facts are not ALFWorld's."""
        rules = games.read_rules(game.domain, game.grammar) if game.domain else games.OWN_RULES
        problem = games.read_problem(game.problem)
        self.rules = rules
        self.appliances = {"clean": rules.cleaners, "heat": rules.heaters, "cool": rules.coolers}
        self._put = "put {} in/on {}" if rules.dialect == "put" else "move {} to {}"
        facts = defaultdict(list, by_key((name, tuple(things)) for name, *things in problem.facts))
        if unknown := facts.keys() - {*_STATIC, *_CHANGING, *_TRAITS, *_UNSEEN}:
            raise UnknownRules(f"the fact {min(unknown)!r} is not known")
        self._static = {name: frozenset(facts[name]) for name in _STATIC}
        self.names = games.entity_names({thing for fact in problem.facts for thing in fact[1:]})
        self.location = _single_values(self._static["receptacleatlocation"], "location")
        self.receptacles = tuple(sorted(self.location))
        self.index = {name: number for number, name in enumerate(self.receptacles)}
        self._at = by_key((self.location[name], name) for name in self.receptacles)
        self.types: dict[str, frozenset[str]] = dict.fromkeys(problem.things, frozenset())
        for name, kind in self._static["objecttype"] | self._static["receptacletype"]:
            self.types[name] |= {kind}
        self._sliceable = tuple(sorted(name for (name,) in self._static["sliceable"]))
        self._everywhere: dict[str, Operation] = {"look": ("look", ()), "inventory": ("list", ())}
        if rules.help:
            self._everywhere["help"] = ("help", ())
        self._moves = {place: self._moves_from(place) for place in {*self._at, ""}}
        self.start = self._initial_state(facts)
        self.won = self._goal(problem)
        in_the_middle = self.start.here not in self._at
        places = self._list(self.receptacles)
        room = _MIDDLE.format(places) if in_the_middle else self._look(self.start)
        self.introduction = f"{games.BANNER}\n\n{room}\n\n{games.TASK}{game.goal}"

    def commands(self, state: State) -> dict[str, Operation]:
        """Return every admissible command of a state with its operation."""
        commands = dict(self._moves.get(state.here) or self._moves[""])
        for thing in state.held:
            commands[f"examine {self.names[thing]}"] = ("examine", (thing,))
        for place in self._at.get(state.here, ()):
            self._commands_at(place, state, commands)
        self._commands_to_slice(state, commands)
        return commands

    def apply(self, operation: Operation, state: State) -> tuple[str, State]:
        """Return the answer to an operation of `commands(state)`, and the state after it."""
        name, things = operation
        if name in _EFFECTS:
            return self._treat(state, name, *things)
        act: Callable[..., tuple[str, State]] = getattr(self, f"_do_{name}")
        return act(state, *things)

    def _commands_at(self, place: str, state: State, commands: dict[str, Operation]) -> None:
        names = self.names
        at = names[place]
        commands[f"examine {at}"] = ("examine_place", (place,))
        closed = False
        if self.holds("openable", place):
            closed = place not in state.opened
            verb = "open" if closed else "close"
            commands[f"{verb} {at}"] = (verb, (place,))
        for thing in state.inside[self.index[place]]:
            if not closed and not state.held and self.holds("pickupable", thing):
                commands[f"take {names[thing]} from {at}"] = ("take", (thing, place))
            if self.holds("toggleable", thing):
                commands[f"use {names[thing]}"] = ("use", (thing,))
        for carried in state.held:
            if not closed and self.fits(carried, place):
                commands[self._put.format(names[carried], at)] = ("put", (carried, place))
            for verb, appliances in self.appliances.items():
                if self.types[place] & appliances and self.holds(f"{verb}able", carried):
                    command = f"{verb} {names[carried]} with {at}"
                    commands[command] = (verb, (carried, place))

    def _commands_to_slice(self, state: State, commands: dict[str, Operation]) -> None:
        for knife in state.held:
            if self.types[knife] & self.rules.knives:
                for thing in self._sliceable:
                    if (thing, state.here) in state.lying:
                        command = f"slice {self.names[thing]} with {self.names[knife]}"
                        commands[command] = ("slice", (thing, knife))

    def _moves_from(self, here: str) -> dict[str, Operation]:
        return self._everywhere | {
            f"go to {self.names[name]}": ("go", (name,))
            for name in self.receptacles
            if self.location[name] != here
        }

    def _do_look(self, state: State) -> tuple[str, State]:
        return self._look(state), state

    def _do_list(self, state: State) -> tuple[str, State]:
        if not state.held:
            return "You are not carrying anything.", state
        return f"You are carrying: {self._list(state.held)}.", state

    def _do_help(self, state: State) -> tuple[str, State]:
        return FACTS["help"], state

    def _do_go(self, state: State, place: str) -> tuple[str, State]:
        location = self.location[place]
        reached = self.names[place if self.rules.dialect == "move" else location]
        return f"You arrive at {reached}. {self._place_text(place, state)}", replace(
            state, here=location
        )

    def _do_open(self, state: State, place: str) -> tuple[str, State]:
        after = replace(state, opened=state.opened | {place})
        return f"You open the {self.names[place]}. {self._place_text(place, after)}", after

    def _do_close(self, state: State, place: str) -> tuple[str, State]:
        after = replace(state, opened=state.opened - {place})
        return f"You close the {self.names[place]}.", after

    def _do_take(self, state: State, thing: str, place: str) -> tuple[str, State]:
        remaining = tuple(name for name in state.inside[self.index[place]] if name != thing)
        after = replace(
            state,
            held=(thing,),
            inside=self._inside(state, place, remaining),
            lying=state.lying - {(thing, state.here)},
            taken=state.taken | {(thing, place)},
        )
        return f"You pick up the {self.names[thing]} from the {self.names[place]}.", after

    def _do_put(self, state: State, thing: str, place: str) -> tuple[str, State]:
        contents = tuple(sorted({*state.inside[self.index[place]], thing}))
        after = replace(
            state,
            held=(),
            inside=self._inside(state, place, contents),
            lying=state.lying | {(thing, state.here)},
            taken=state.taken - {(thing, place)},
        )
        sentence = self._put.format(f"the {self.names[thing]}", f"the {self.names[place]}")
        return f"You {sentence}.", after

    def _treat(self, state: State, verb: str, thing: str, place: str) -> tuple[str, State]:
        gained, lost = _EFFECTS[verb]
        after = self._with(state, gained, thing, lost)
        return f"You {verb} the {self.names[thing]} using the {self.names[place]}.", after

    def _do_slice(self, state: State, thing: str, knife: str) -> tuple[str, State]:
        sentence = f"You sliced the {self.names[thing]} with the {self.names[knife]}."
        return sentence, self._with(state, "issliced", thing)

    def _do_use(self, state: State, thing: str) -> tuple[str, State]:
        after = self._with(state, "istoggled", thing)
        traits = after.traits ^ {("ison", thing)}
        return f"You turn on the {self.names[thing]}.", replace(after, traits=traits)

    def _do_examine_place(self, state: State, place: str) -> tuple[str, State]:
        return self._place_text(place, state), state

    def _do_examine(self, state: State, thing: str) -> tuple[str, State]:
        name = self.names[thing]
        if self.holds("isreceptacleobject", thing):
            pairs = sorted(self._static["inreceptacleobject"])
            contents = tuple(inner for inner, outer in pairs if outer == thing)
            return f"This is a normal {name}. In it, you see {self._list(contents)}.", state
        condition = self._condition(thing, state)
        if condition:
            return f"This is a {condition} {name}.", state
        if self.holds("toggleable", thing) and ("istoggled", thing) in state.traits:
            return f"This {name} is on.", state
        if self.holds("sliceable", thing) and ("issliced", thing) in state.traits:
            return f"This is a sliced {name}.", state
        return f"There's nothing special about {name}.", state

    def _condition(self, thing: str, state: State) -> str:
        """Return the words for being warm, clean and sliced, in the grammar's order."""
        clean, hot, cool, sliced = (
            (trait, thing) in state.traits for trait in ("isclean", "ishot", "iscool", "issliced")
        )
        warmth = "hot" if hot else "cool" if cool else ""
        words = [*([warmth] if warmth else []), *(["clean"] if clean else [])]
        if words == ["cool"] and not sliced:
            return "cold"
        return " and ".join(words) + (" sliced" if words and sliced else "")

    def _place_text(self, place: str, state: State) -> str:
        name = self.names[place]
        inside = self._list(state.inside[self.index[place]])
        if not self.holds("openable", place):
            return f"On the {name}, you see {inside}."
        if place in state.opened:
            return f"The {name} is open. In it, you see {inside}."
        return f"The {name} is closed."

    def _look(self, state: State) -> str:
        places = self._at.get(state.here, ())
        if not places:
            return _MIDDLE.format("nothing")
        beside = [
            thing
            for thing, location in sorted(state.lying)
            if location == state.here
            for place in places
            if (thing, place) in state.taken
        ]
        facing = _joined([self.names[place] for place in places])
        return f"You are facing the {facing}. Next to it, you see {self._list(beside)}."

    def _list(self, things: Sequence[str]) -> str:
        return _joined([f"a {self.names[thing]}" for thing in things])

    def _with(self, state: State, trait: str, thing: str, without: str = "") -> State:
        return replace(state, traits=state.traits - {(without, thing)} | {(trait, thing)})

    def _inside(
        self, state: State, place: str, things: tuple[str, ...]
    ) -> tuple[tuple[str, ...], ...]:
        at = self.index[place]
        return (*state.inside[:at], things, *state.inside[at + 1 :])

    def holds(self, predicate: str, thing: str) -> bool:
        """Return whether a fact about one thing that never changes is true, like "openable"."""
        return (thing,) in self._static[predicate]

    def fits(self, thing: str, place: str) -> bool:
        """Return whether things of this type may be put at places of this type."""
        return any(
            (kind, sort) in self._static["cancontain"]
            for kind in self.types[place]
            for sort in self.types[thing]
        )

    def _initial_state(self, facts: Mapping[str, Sequence[tuple[str, ...]]]) -> State:
        (_, here), *others = facts["atlocation"] or [("", "")]
        if not here or others:
            raise UnknownRules("the agent is not at one location")
        if len(facts["holds"]) > 1:
            raise UnknownRules("the agent holds more than one object")
        inside = by_key((place, thing) for thing, place in facts["inreceptacle"])
        if unplaced := inside.keys() - self.location.keys():
            raise UnknownRules(f"the receptacle {min(unplaced)!r} has no location")
        return State(
            here,
            held=tuple(thing for _, thing in facts["holds"]),
            inside=tuple(tuple(sorted(inside.get(name, ()))) for name in self.receptacles),
            opened=frozenset(name for (name,) in facts["opened"]),
            lying=frozenset((thing, place) for thing, place in facts["objectatlocation"]),
            taken=frozenset(),
            traits=frozenset((name, things[0]) for name in _TRAITS for things in facts[name]),
        )

    def _goal(self, problem: GameProblem) -> Callable[[State], bool]:
        things: dict[str, list[str]] = {
            kind: [] for kind in ("agent", "location", "receptacle", "object", "rtype", "otype")
        }
        things |= by_key((kind, name) for name, kind in sorted(problem.things.items()))
        changing: dict[str, Callable[[State, tuple[str, ...]], bool]] = {
            "atlocation": lambda state, of: of[1] == state.here,
            "holds": lambda state, of: of[1] in state.held,
            "holdsany": lambda state, of: bool(state.held),
            "inreceptacle": lambda state, of: of[0] in state.inside[self.index[of[1]]],
            "objectatlocation": lambda state, of: of in state.lying,
            "opened": lambda state, of: of[0] in state.opened,
        }
        for trait in _TRAITS:
            changing[trait] = lambda state, of, trait=trait: (trait, of[0]) in state.traits  # type: ignore[misc]
        return GoalCompiler(things, self._static, changing).compile(problem.goal)


def _single_values(pairs: frozenset[tuple[str, ...]], what: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in sorted(pairs):
        if name in values:
            raise UnknownRules(f"{name!r} has more than one {what}")
        values[name] = value
    return values


def _joined(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return parts[0] if parts else "nothing"
    return ", ".join(parts[:-1]) + ", and " + parts[-1]
