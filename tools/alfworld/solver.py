"""A solver that finds a shortest solution of a game, by exact search on the fast engine.

It knows where everything is: it proves that a game can be solved, and in how many steps. The
expert (`expert.py`), which acts as a person would, does not use it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ldm.errors import LdmError
from ldm.worlds.alfworld.games import Expression, Game, read_problem
from ldm.worlds.alfworld.world import Operation, State, World

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


def plan(game: Game, done: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the commands of a shortest solution, the same one every time.

    done: commands before it, of which impossible ones do nothing.

    Breadth-first search over the states that useful commands reach. Left out is only what a
    shortest solution of the six kinds of task cannot need: looking, examining and closing; objects
    that the goal does not mention; places that hold no such object, are no goal and change
    nothing that the goal requires; more than one of several places, or two of several objects,
    that are alike in all respects; moving on where nothing was done. Raise LdmError where there
    is none.
    """
    world = World(game)
    start = world.start
    for command in done:
        if operation := world.commands(start).get(command):
            start = world.apply(operation, start)[1]
    useful = _Useful(world, start, frozenset(_words(read_problem(game.problem).goal)))
    visited = {start}
    queue: deque[tuple[State, tuple[str, ...]]] = deque([(start, ())])
    while queue:
        state, commands = queue.popleft()
        arrived = bool(commands) and commands[-1].startswith("go to ")
        for command, operation in useful.of(world.commands(state), arrived=arrived):
            next_state = world.apply(operation, state)[1]
            if world.won(next_state):
                return (*commands, command)
            if next_state not in visited:
                visited.add(next_state)
                queue.append((next_state, (*commands, command)))
    raise LdmError(f"The game {game.id} has no solution.", "Leave it out.")


def _words(form: Expression) -> Iterator[str]:
    """Yield all words of a goal."""
    if isinstance(form, str):
        yield form
    else:
        for part in form:
            yield from _words(part)


class _Useful:
    """The commands of a game that a shortest solution may contain."""

    def __init__(self, world: World, start: State, goal_words: frozenset[str]) -> None:
        rules, types = world.rules, set(goal_words)
        for trait, tools in (
            ("isclean", rules.cleaners),
            ("ishot", rules.heaters),
            ("iscool", rules.coolers),
            ("issliced", rules.knives),
        ):
            types |= tools if trait in goal_words else frozenset()
        relevant = {name for name, kinds in world.types.items() if kinds & types}
        located = [
            (name, place)
            for place, things in zip(world.receptacles, start.inside, strict=True)
            for name in things
            if name in relevant
        ]
        sources = {place for _, place in located}
        goal_places = [p for p in world.receptacles if p in relevant and p not in sources]
        locations = list(world.location.values())

        def object_like(pair: tuple[str, str]) -> tuple[str, ...]:
            name, place = pair
            traits = (trait for trait, thing in start.traits if thing == name)
            able = (fact for fact in _ABLE if world.holds(fact, name))
            return (place, *sorted(world.types[name]), *sorted(traits), *able)

        def place_like(name: str) -> tuple[str, ...]:
            closed = world.holds("openable", name) and name not in start.opened
            sole = locations.count(world.location[name]) == 1
            return ("" if sole else name, str(closed), *sorted(world.types[name]))

        self._objects = {name for name, _ in _first(_ALIKE_OBJECTS, located, object_like)}
        self._objects |= set(start.held)
        self._places = sources | set(_first(1, goal_places, place_like))
        if not relevant.issuperset(start.held):  # it has to be put down, wherever it may lie
            self._places |= set(world.receptacles)
        self._verbs = {verb for verb, trait in _CHANGES.items() if trait in goal_words}
        self._verbs |= {"go", "open", "take", "put"}

    def of(
        self, commands: dict[str, Operation], *, arrived: bool
    ) -> Iterator[tuple[str, Operation]]:
        """Yield the useful ones of a state's commands, in alphabetical order.

        arrived: the last command went to a place.
        """
        for command in sorted(commands):
            verb, things = commands[command]
            if verb not in self._verbs or (verb == "go" and arrived):
                continue
            if all(thing in self._objects or thing in self._places for thing in things):
                yield command, (verb, things)


def _first(count: int, items: Iterable[T], like: Callable[[T], tuple[str, ...]]) -> list[T]:
    """Return the first `count` items of each class of those that are alike."""
    counts: Counter[tuple[str, ...]] = Counter()
    selected = []
    for item in items:
        key = like(item)
        counts[key] += 1
        if counts[key] <= count:
            selected.append(item)
    return selected
