"""An expert that follows the shortest plan from what it holds, as a person would.

It takes the wood of the nearest tree, gathers what lies on the surface, the nearest first, crafts
as soon as it can, and then digs. It acts in the units that the environment lists, and plans anew
after each: a tool may break, and what a cow leaves is chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

from ldm.errors import LdmError
from ldm.types import Step, Task, TimeStep, Trajectory
from ldm.worlds.minecraft import Minecraft
from ldm.worlds.minecraft.commands import possible
from ldm.worlds.minecraft.map import animals, grounds, trees
from ldm.worlds.minecraft.rules import FURNACE, TABLE, WOODS, RuleSet, load_rules
from tools.minecraft.solver import Move, Plan, shortest

#: Actions after which the expert gives up; the time limit binds first.
_MOST = 1000
_Held = tuple[tuple[str, int], ...]


def solve(env: Minecraft, task: Task) -> Trajectory:
    """Return the expert's episode of a task, successful or not."""
    now = env.reset(task)
    opening, score = now.observation, 0.0
    steps: list[Step] = []
    while not now.done and len(steps) < _MOST:
        action = next_action(env, now)
        now = env.step(action)
        steps.append(Step(action, now.observation, now.reward, valid=now.valid))
        score += now.reward
    success = score > 1 - 1e-9
    return Trajectory(
        task, opening, tuple(steps), 1.0 if success else score, success=success, origin="expert"
    )


def next_action(env: Minecraft, now: TimeStep) -> str:
    """Return the expert's next action. Raise LdmError where no way leads to the targets."""
    moves = _moves(env)
    listed = now.admissible or tuple(possible(env.situation, env.rules, env.options.tools))
    for move in moves:
        for action in listed:
            if move.verb != "mine" and action.split()[0::2][:2] == [move.verb, move.item]:
                return action
    able = [move for move in moves if move.verb == "mine" and _able(move, env)]
    surface = [move for move in able if _source(move, env) in ("tree", "animal", "ground")]
    if surface:
        near = min(surface, key=lambda move: (_distance(move, env), moves.index(move)))
        return f"mine 1 {_plainly(near.item, env)}"
    if not able:
        raise LdmError(
            f"The expert is stuck with {dict(env.situation.inventory)}.", "Read its plan."
        )
    return f"mine 1 {able[0].item}"


def _plainly(item: str, env: Minecraft) -> str:
    """Return "log" for the wood of the nearest known tree, any other item itself."""
    if not item.endswith("_log") or env.world is None:
        return item
    near = min(trees(env.situation, env.world), default=None)
    return "log" if near and near.thing == env.rules.sources[item].thing else item


def _moves(env: Minecraft) -> list[Move]:
    """Return what is to be done from here."""
    targets = [target for target in env.targets if env.situation.held(*target.items) < target.count]
    if len(env.targets) > 1:
        return [Move("mine", target.word, target.count) for target in targets]
    (target,) = targets
    plan = _from_here(env, target.items)
    if plan is None:
        raise LdmError(f"No way leads to {target}.", "Leave the task out.")
    woods = _woods(target.items, env.options.rules)
    if len(woods) == len(WOODS) and not _wood(env, woods):
        return [
            Move("mine", "log", move.count) if move.item.endswith("_log") else move
            for move in plan.moves
        ]
    return list(plan.moves)


def _from_here(env: Minecraft, items: tuple[str, ...]) -> Plan | None:
    rules = env.options.rules
    woods = _woods(items, rules)
    wood = _wood(env, woods) or next(iter(woods), "")
    relevant = _below(items, rules)
    held = tuple(sorted((i, n) for i, n in env.situation.inventory.items() if i in relevant))
    return _planned(items, rules, held, env.situation.burning, wood)


@lru_cache(maxsize=100_000)
def _planned(
    items: tuple[str, ...], rules: RuleSet, held: _Held, burning: int, wood: str
) -> Plan | None:
    return shortest(items, rules, held=dict(held), burning=burning, wood=wood)


@cache
def _woods(items: tuple[str, ...], rules: RuleSet) -> tuple[str, ...]:
    """Return the kinds of wood with which one of the items can be made; () under one kind."""
    if rules == "paper":
        return ()
    return tuple(wood for wood in WOODS if shortest(items, rules, wood=wood) is not None)


def _wood(env: Minecraft, woods: Iterable[str]) -> str:
    """Return the kind of wood of which most is held, "" where none is."""
    held = {wood: 4 * env.situation.held(f"{wood}_log") + env.situation.held(f"{wood}_planks")
            for wood in woods}  # fmt: skip
    best = max(held, key=lambda wood: held[wood], default="")
    return best if held.get(best) else ""


@cache
def _below(items: tuple[str, ...], rules: RuleSet) -> frozenset[str]:
    """Return all that the items may be made of or with."""
    book, names, queue = load_rules(rules), set(items), list(items)
    for item in queue:
        parts = [part for recipe in book.recipes.get(item, ()) for part, _ in recipe.parts]
        parts += [*book.smelting.get(item, ()), TABLE, FURNACE, *book.members("planks")]
        parts += book.fit[item] if item in book.sources else ()
        queue += [part for part in dict.fromkeys(parts) if part not in names]
        names.update(parts)
    return frozenset(names)


def _able(move: Move, env: Minecraft) -> bool:
    item = _items(move, env)[0]
    fit = env.rules.fit[item]
    return not fit or env.situation.held(*fit) > 0


def _source(move: Move, env: Minecraft) -> str:
    return env.rules.sources[_items(move, env)[0]].where


def _items(move: Move, env: Minecraft) -> tuple[str, ...]:
    return tuple(item for item in env.rules.members(move.item) if item in env.rules.sources)


def _distance(move: Move, env: Minecraft) -> float:
    """Return how far the nearest known source is, as observations say; infinity if none is."""
    return min(_known(_items(move, env), env), default=math.inf)


def _known(items: tuple[str, ...], env: Minecraft) -> Iterator[float]:
    state, world, source = env.situation, env.world, env.rules.sources[items[0]]
    if world is None:
        return
    if source.where == "animal":
        known = animals(state)
    elif source.where == "tree":
        known = trees(state, world)
    else:
        known = grounds(state, world)
    things = {env.rules.sources[item].thing for item in items}
    yield from (one.distance for one in known if one.thing in things or "tree" in things)
