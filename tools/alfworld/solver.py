"""A shortest solution of a game, by exact search on the fast engine.

It knows where everything is: it proves that a game can be solved, and in how many steps. No agent
uses it; what a person would do is another matter (`expert.py`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ldm.envs.alfworld.fast import Operation, State, World
from ldm.envs.alfworld.games import Game
from ldm.errors import LdmError

_CHANGES = {
    "clean": "isclean",
    "heat": "ishot",
    "cool": "iscool",
    "slice": "issliced",
    "use": "istoggled",
}
_ABLE = ("cleanable", "coolable", "heatable", "pickupable", "sliceable", "toggleable")
#: How many objects that are alike in all respects a goal may need.
_ALIKE_OBJECTS = 2

T = TypeVar("T")


def plan(game: Game) -> tuple[str, ...]:
    """The commands of a shortest solution, the same one every time.

    Breadth-first search over the states that useful commands reach. Left out is only what a
    shortest solution of the six kinds of task cannot need: looking, examining and closing; objects
    of which the goal does not speak; places that hold no such object, are no goal and change
    nothing that the goal asks; more than one of several places, or two of several objects, that
    are alike in all respects; going on where nothing was done. Raises LdmError where there is none.
    """
    world = World(game)
    useful = _Useful(world)
    seen = {world.start}
    waiting: deque[tuple[State, tuple[str, ...]]] = deque([(world.start, ())])
    while waiting:
        state, commands = waiting.popleft()
        arrived = bool(commands) and commands[-1].startswith("go to ")
        for command, operation in useful.of(world.commands(state), arrived=arrived):
            after = world.apply(operation, state)[1]
            if world.won(after):
                return (*commands, command)
            if after not in seen:
                seen.add(after)
                waiting.append((after, (*commands, command)))
    raise LdmError(f"The game {game.id} has no solution.", "Leave it out.")


class _Useful:
    """Which commands of a game a shortest solution may contain."""

    def __init__(self, world: World) -> None:
        start, asked, rules = world.start, world.goal_words, world.rules
        types = set(asked)
        for trait, needed in (
            ("isclean", rules.cleaners),
            ("ishot", rules.heaters),
            ("iscool", rules.coolers),
            ("issliced", rules.knives),
        ):
            types |= needed if trait in asked else frozenset()
        wanted = {name for name, kinds in world.types.items() if kinds & types}
        found = [
            (name, place)
            for place, things in zip(world.receptacles, start.inside, strict=True)
            for name in things
            if name in wanted
        ]
        sources = {place for _, place in found}
        others = [p for p in world.receptacles if p in wanted and p not in sources]
        locations = list(world.location.values())

        def object_like(pair: tuple[str, str]) -> tuple[str, ...]:
            name, place = pair
            traits = (trait for trait, thing in start.traits if thing == name)
            able = (fact for fact in _ABLE if world.holds(fact, name))
            return (place, *sorted(world.types[name]), *sorted(traits), *able)

        def place_like(name: str) -> tuple[str, ...]:
            closed = world.holds("openable", name) and name not in start.opened
            alone = locations.count(world.location[name]) == 1
            return ("" if alone else name, str(closed), *sorted(world.types[name]))

        self._objects = {name for name, _ in _first(_ALIKE_OBJECTS, found, object_like)}
        self._objects |= set(start.held)
        self._places = sources | set(_first(1, others, place_like))
        self._verbs = {verb for verb, trait in _CHANGES.items() if trait in asked}
        self._verbs |= {"go", "open", "take", "put"}

    def of(
        self, commands: dict[str, Operation], *, arrived: bool
    ) -> Iterator[tuple[str, Operation]]:
        """Those of a state's commands, in alphabetical order. arrived: the last one was a walk."""
        for command in sorted(commands):
            verb, things = commands[command]
            if verb not in self._verbs or (verb == "go" and arrived):
                continue
            if all(thing in self._objects or thing in self._places for thing in things):
                yield command, (verb, things)


def _first(count: int, items: Iterable[T], like: Callable[[T], tuple[str, ...]]) -> list[T]:
    """The first `count` of the items of each class of those that are alike."""
    kept: Counter[tuple[str, ...]] = Counter()
    found = []
    for item in items:
        key = like(item)
        kept[key] += 1
        if kept[key] <= count:
            found.append(item)
    return found
