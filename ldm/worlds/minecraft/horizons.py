"""The true horizons of goals, played ahead on a copy of the state.

DEPS predicts the ticks until a goal is done, its horizon (arXiv 2302.01560, §3.3); the true ones
bound the gain of any prediction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ldm.worlds.minecraft.commands import Command, Tools, Way, way
from ldm.worlds.minecraft.controllers import Controller
from ldm.worlds.minecraft.rules import Rules
from ldm.worlds.minecraft.solver import shortest
from ldm.worlds.minecraft.state import State
from ldm.worlds.minecraft.tasks import Target


def goals(targets: Sequence[Target], state: State, rules: Rules) -> Iterator[tuple[str, int]]:
    """Yield (word, count) of the things to gather: raw targets, and the parts of a plan."""
    for target in targets:
        missing = target.count - state.held(*target.items)
        if missing <= 0:
            continue
        item = target.items[0]
        if item in rules.sources and (not rules.fit(item) or state.held(*rules.fit(item))):
            yield target.word, missing
            continue
        plan = shortest(target.items, rules.name, held=state.inventory, burning=state.burning)
        for item, count in plan.gathered.items() if plan else ():
            yield "log" if item.endswith("_log") else item, count


def horizon(
    goal: tuple[str, int], controller: Controller, state: State, rules: Rules, tools: Tools,
    *, limit: int,
) -> int | None:  # fmt: skip
    """Return the ticks until a goal is done, or until `limit`; None if its tool lacks."""
    word, count = goal
    items = tuple(item for item in rules.members(word) if item in rules.sources)
    command = Command("mine", word, items, count)
    how = way(command, state, rules, tools)
    if not isinstance(how, Way):
        return None
    now, gained = state, 0
    while gained < count and now.tick < limit:
        unit = controller.unit(command, how, now, count - gained)
        if unit.broken or unit.after is now:
            return limit - state.tick
        now, gained = unit.after, gained + unit.gained
    return min(now.tick, limit) - state.tick
