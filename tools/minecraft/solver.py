"""The shortest plan for an item: fewest different goals, then fewest gathered units, then runs.

Counts add up over the whole plan, tools and stations are made once, leftovers are used, and
smelting is fuelled with planks. The search is exact over all choices of recipe and kind of wood.
Recipes that need their own product, as ingots from blocks of ingots do, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ldm.worlds.minecraft.rules import FURNACE, TABLE, WOODS, Recipe, Rules, RuleSet, load_rules

#: Represents any fuel in the order of a search; no item has this name.
_FUEL = "#fuel"


@dataclass(frozen=True, slots=True)
class Move:
    """One goal of a plan.

    verb: how the item is had. count: how many are needed; a craft makes `runs` times its recipe.
    tool: the tool that digs, or the station; "" for none.
    """

    verb: Literal["mine", "craft", "smelt"]
    item: str
    count: int
    runs: int = 0
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The goals that lead to an item, in an order in which they can be done."""

    moves: tuple[Move, ...]

    @property
    def goals(self) -> int:
        """How many different goals there are: the paper's number of required skills."""
        return len(self.moves)

    @property
    def gathered(self) -> dict[str, int]:
        """Raw item → how many of it are needed."""
        return {move.item: move.count for move in self.moves if move.verb == "mine"}


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to an item: a recipe, smelting (`of`), or gathering (neither)."""

    recipe: Recipe | None = None
    of: str = ""


def shortest(
    targets: Iterable[str] | Mapping[str, int],
    rules: RuleSet,
    *,
    held: Mapping[str, int] | None = None,
    burning: int = 0,
    wood: str = "",
) -> Plan | None:
    """Return the shortest plan for one of several items, or for all items of a mapping.

    targets: items of which any one will do, or item → the number to hold. held: the present
    inventory. burning: ticks of fire in the furnace. wood: the only available kind of wood, "" for
    all. Return None if the world has no way to the targets.
    """
    book = _book(rules, wood)
    demands = [targets] if isinstance(targets, Mapping) else [{item: 1} for item in targets]
    search = _Search(book, held or {}, burning)
    for demand in sorted(demands, key=lambda one: [_preference(item) for item in one]):
        if all(item in book.reachable or search.has(item, n) for item, n in demand.items()):
            search.run(demand)
    return search.plan()


def reachable(rules: RuleSet) -> frozenset[str]:
    """Return all items that can be made in the world, raw ones included."""
    return _book(rules, "").reachable


def obstacle(item: str, rules: RuleSet) -> str:
    """Return why there is no way to an item, as "quartz_block needs quartz, …"."""
    book = _book(rules, "")
    steps, visited = [], {item}
    while (parts := book.parts(item)) is not None:
        lacking = next((p for p in parts if p not in book.reachable and p not in visited), None)
        if lacking is None:
            break
        steps.append(f"{item} needs {lacking}")
        visited.add(lacking)
        item = lacking
    return "; ".join([*steps, f"nothing in this world yields {item}"])


class _Book:
    """The ways to each item without those that need their own product, and an order of items.

    ways: item → its ways. order: every item before all that it may need.
    """

    def __init__(self, rules: Rules, wood: str) -> None:
        self.rules = rules
        others = {f"{other}_log" for other in WOODS if wood and other != wood}
        self._raw = rules.sources.keys() - others
        #: item → its ways with their needs, those that need the item itself included
        self._all = {
            item: [(way, self._needs(item, way)) for way in self._all_ways(item)]
            for item in rules.items
        }
        self.ways: dict[str, tuple[_Way, ...]] = {}
        self.reachable = self._closure("")
        for item in sorted(self.reachable, key=_preference):
            before = self._closure(item) if self._circular(item) else self.reachable
            self.ways[item] = tuple(
                way for way, needs in self._all[item] if all(part in before for part in needs)
            )
        self.order = tuple(self._sorted())
        self.place = {item: number for number, item in enumerate(self.order)}

    def parts(self, item: str) -> list[str] | None:
        """Return the needs of all ways to an item, or None if there is no way."""
        ways = self._all.get(item)
        return [part for _, needs in ways for part in needs] if ways else None

    def fuels(self) -> Sequence[tuple[str, int]]:
        """Return the planks, oak first: a furnace burns them before anything else that is held."""
        planks = [fuel for fuel in self.rules.fuels if fuel[0] in self.rules.members("planks")]
        return sorted(planks, key=lambda fuel: _preference(fuel[0]))

    def _all_ways(self, item: str) -> Iterator[_Way]:
        """Yield the ways to an item; raw items are not crafted (coal of its block)."""
        if item in self._raw:
            yield _Way()
            return
        yield from (_Way(recipe=recipe) for recipe in self.rules.recipes.get(item, ()))
        yield from (_Way(of=part) for part in self.rules.smelting.get(item, ()))

    def _needs(self, item: str, way: _Way) -> list[str]:
        """Return the parts, tools and stations of a way; fuel is left out."""
        if way.recipe:
            return [*(part for part, _ in way.recipe.parts), *([TABLE] if way.recipe.table else [])]
        if way.of:
            return [way.of, FURNACE]
        return list(self.rules.fit[item][:1])

    def _closure(self, without: str) -> frozenset[str]:
        """Return all reachable items if one item is unavailable."""
        items: set[str] = set()
        before = -1
        left = {item: ways for item, ways in self._all.items() if item != without}
        while len(items) > before:
            before = len(items)
            new = [
                item
                for item, ways in left.items()
                if any(items.issuperset(needs) for _, needs in ways)
            ]
            items.update(new)
            left = {item: ways for item, ways in left.items() if item not in items}
        return frozenset(items)

    def _circular(self, item: str) -> bool:
        """Return whether an item is among its own direct or indirect needs."""
        queue, visited = [item], set()
        for name in queue:
            for _, needs in self._all[name]:
                if item in needs:
                    return True
                queue += [part for part in needs if part not in visited]
                visited.update(needs)
        return False

    def _sorted(self) -> list[str]:
        visited: dict[str, None] = {}
        below: dict[str, list[str]] = {
            item: [part for way in ways for part in self._needs(item, way)]
            for item, ways in self.ways.items()
        }
        below[_FUEL] = [item for item, _ in self.fuels() if item in self.reachable]
        for item, ways in self.ways.items():
            if self.rules.burns and any(way.of for way in ways):
                below[item].append(_FUEL)

        def visit(item: str) -> None:
            if item not in visited:
                for part in below[item]:
                    visit(part)
                visited[item] = None

        for item in sorted(below, key=_preference):
            visit(item)
        return list(reversed(visited))


class _Search:
    """A depth-first search over ways; an item's way is chosen once all that needs it is chosen."""

    def __init__(self, book: _Book, held: Mapping[str, int], burning: int) -> None:
        self._book, self._held, self._burning = book, held, burning
        self._best: tuple[int, int, int] | None = None
        self._choice: tuple[dict[str, int], dict[str, _Way]] | None = None

    def has(self, item: str, count: int) -> bool:
        return self._held.get(item, 0) >= count

    def run(self, demand: Mapping[str, int]) -> None:
        """Search plans for the demand, and keep the best of all runs."""
        self._from(0, dict(demand), {}, 0, 0)

    def plan(self) -> Plan | None:
        """Return the best plan found."""
        if self._choice is None:
            return None
        demand, ways = self._choice
        moves = [
            _move(item, self._missing(demand, item), ways[item], self._book.rules)
            for item in reversed(self._book.order)
            if item in ways
        ]
        return Plan(tuple(moves))

    def _missing(self, demand: Mapping[str, int], item: str) -> int:
        """Return how many of an item the demand exceeds the inventory by."""
        return max(0, demand.get(item, 0) - self._held.get(item, 0))

    def _from(
        self, place: int, demand: dict[str, int], ways: dict[str, _Way], gathered: int, runs: int
    ) -> None:
        """Choose for everything from `place` on in the order, given the demand so far."""
        order = self._book.order
        while place < len(order) and not self._missing(demand, order[place]):
            place += 1
        goals = sum(self._missing(demand, item) > 0 for item in demand if item != _FUEL)
        if self._best is not None and (goals, gathered, runs) >= self._best:
            return
        if place == len(order):
            self._best = (goals, gathered, runs)
            self._choice = ({**demand}, {**ways})
            return
        item = order[place]
        if item == _FUEL:
            ticks_needed = max(0, demand[_FUEL] - self._burning)
            for fuel, ticks in self._book.fuels():
                if fuel in self._book.reachable:
                    after = self._plus(demand, fuel, -(-ticks_needed // ticks))
                    self._from(place + 1, after, ways, gathered, runs)
            return
        for way in self._book.ways[item]:
            after, more = self._after(item, way, demand)
            raw = 0 if way.recipe or way.of else self._missing(demand, item)
            self._from(place + 1, after, {**ways, item: way}, gathered + raw, runs + more)

    def _after(self, item: str, way: _Way, demand: dict[str, int]) -> tuple[dict[str, int], int]:
        """Return the demand once a way is chosen, and how often its recipe runs."""
        rules, count = self._book.rules, self._missing(demand, item)
        if way.recipe:
            runs = -(-count // way.recipe.count)
            after = demand
            for part, number in way.recipe.parts:
                after = self._plus(after, part, number * runs)
            return (_once(after, TABLE) if way.recipe.table else after), runs
        if way.of:
            after = _once(self._plus(demand, way.of, count), FURNACE)
            if rules.burns:
                after = self._plus(after, _FUEL, count * rules.smelt_ticks)
            return after, count
        tools = rules.fit[item]
        if not tools or any(self._held.get(tool) for tool in tools):
            return demand, 0
        return _once(demand, tools[0]), 0

    def _plus(self, demand: dict[str, int], item: str, count: int) -> dict[str, int]:
        return {**demand, item: demand.get(item, 0) + count}


def _once(demand: dict[str, int], item: str) -> dict[str, int]:
    """Return the demand with at least one of a tool or station, which is not used up."""
    return demand if demand.get(item) else {**demand, item: 1}


def _move(item: str, count: int, way: _Way, rules: Rules) -> Move:
    if way.recipe:
        runs = -(-count // way.recipe.count)
        return Move("craft", item, count, runs, TABLE if way.recipe.table else "")
    if way.of:
        return Move("smelt", item, count, count, FURNACE)
    return Move("mine", item, count, 0, next(iter(rules.fit[item]), ""))


def _preference(item: str) -> tuple[int, str]:
    """Return a key by which oak comes before other kinds of wood, else by name."""
    return int(not item.startswith("oak_")), item


@cache
def _book(rules: RuleSet, wood: str) -> _Book:
    return _Book(load_rules(rules), wood)
