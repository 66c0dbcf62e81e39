"""Ticks that each selector of DEPS saves against the plan's order, without a language model.

    python benchmarks/deps_selectors.py --worlds 200
    python benchmarks/deps_selectors.py --worlds 30 --whole          # whole tasks, dep against deps

The planner is exact: several goals at once are a plan with a line each (arXiv 2302.01560, §4.3.1,
Fig. 4); a whole task's plan is the solver's. `nearest` takes the goal whose nearest known thing is
closest. Ticks are those of success, or the limit; pairs are the same world.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ldm.agents import Resources
from ldm.deps import DepsAgent
from ldm.deps.parser import Goal
from ldm.deps.select import UNKNOWN, Selector, clock, situation, soonest
from ldm.deps.styles import DepsOptions
from ldm.embed import load_embedder
from ldm.episode import Episode, run_episode
from ldm.llm import Completion
from ldm.types import Card, Task, TimeStep, Trajectory, Usage
from ldm.worlds.minecraft import Minecraft
from ldm.worlds.minecraft.environment import LIMITS, MinecraftOptions, listed_tasks
from tools.minecraft.solver import shortest

#: The woods that a planner names beside oak, which does not know what grows near.
OTHER_WOODS = ("birch_log", "spruce_log", "acacia_log")
ARMS = ("none", "random", "similarity", "nearest", "horizon")
#: Ticks within which success is counted, too.
WITHIN = (1000, 1500, 2000, 3000)
#: Those of which the gain in success is printed with its interval.
SHORT = 1500


class Exact:
    """A planner that knows: it replies with a plan from what there is."""

    name = "exact"

    def __init__(self, plan: Callable[[], str]) -> None:
        self._plan = plan

    def complete(self, messages: Any, **options: Any) -> Completion:
        return Completion(self._plan(), Usage(1))


class Arm(DepsAgent):
    """The agent with one of the arms; those that are not its own are made here."""

    def __init__(
        self, name: str, env: Minecraft, plan: Planned, task: Task, horizon: str | None
    ) -> None:
        options = DepsOptions(
            selector="none" if name == "nearest" else name,  # type: ignore[arg-type]
            method="gpt_rp", horizon=horizon, rounds=99, shots=0, budget=2000,
        )  # fmt: skip
        exact = Exact(lambda: plan(env, task))
        super().__init__(options, Resources(llm=exact, planner=exact, embedding=_embedder))
        self._arm = name

    def _selector(self, episode: Episode) -> Selector:
        if self._arm == "nearest":
            return partial(
                soonest, lambda goals, now: [_distance(one, now, episode.card) for one in goals]
            )
        return super()._selector(episode)


#: A plan for a task, from what is held in the environment now.
Planned = Callable[[Minecraft, Task], str]
_EMBEDDER: list[Any] = []


def _embedder() -> Any:
    if not _EMBEDDER:
        _EMBEDDER.append(load_embedder(None))
    return _EMBEDDER[0]


def _distance(goal: Goal, now: TimeStep, card: Card) -> float:
    if goal.verb not in card.reading.gathering:
        return 0.0
    far = situation(goal, now, card.reading).distance
    return 1e9 if far == UNKNOWN else far


def _in_parallel(env: Minecraft, task: Task) -> str:
    """Return a plan with a line for each of the goals of a task that is not reached."""
    goals = task.goal.removeprefix("obtain ").replace(" and ", ", ").split(", ")
    left = []
    for goal in goals:
        count, _, word = goal.partition(" ")
        members = env.rules.members(word)
        if (missing := int(count) - env.situation.held(*members)) > 0:
            left.append(f"mine {missing} {word}{_or_other_woods(missing, word)}")
    return "\n".join(f"step {n}: {goal}" for n, goal in enumerate(left, 1))


def _or_other_woods(count: int, word: str) -> str:
    """Return what a planner adds that does not know which trees are near."""
    words = OTHER_WOODS if word == "log" else ()
    return "".join(f" or mine {count} {other}" for other in words)


def _solved(env: Minecraft, task: Task) -> str:
    """Return the shortest plan for a task of the paper from what is held."""
    targets = next(one.targets for one in listed_tasks() if one.word == task.source)
    plan = shortest(
        targets, env.rules.name, held=env.situation.inventory, burning=env.situation.burning
    )
    lines = []
    for move in plan.moves if plan else ():
        tool = f'"{move.tool}"' if move.tool else "null"
        items = [move.item]
        free = not env.options.nearest and targets != ("oak_stairs",)
        if free and move.verb == "mine" and move.item.endswith("log"):
            items += [item for item in OTHER_WOODS if item != move.item]
        lines.append(
            " or ".join(f'mine({{"{i}": {move.count}}}, {{}}, {tool})' for i in items)
            if len(items) > 1
            else f'{move.verb}({{"{move.item}": {move.count}}}, {{}}, {tool})'
        )
    return "\n".join(lines)


def _ticks(trial: Trajectory, env: Minecraft, limit: int) -> int:
    time = clock(trial.steps[-1].observation, env.card.reading) if trial.steps else None
    return time[0] if trial.success and time else limit


def _played(
    env: Minecraft, tasks: Sequence[Task], arm: str, plan: Planned, horizon: str | None
) -> Any:
    """Return the ticks of each task's success, or its limit."""
    ticks = []
    for task in tasks:
        result, (trial,) = run_episode(env, Arm(arm, env, plan, task, horizon), task)
        if result.error:
            raise SystemExit(result.error)
        ticks.append(_ticks(trial, env, LIMITS[task.kind]))
    return np.array(ticks, float)


def _line(arm: str, ticks: Any, fixed: Any) -> str:
    draws = np.random.default_rng(0).integers(0, len(ticks), (4000, len(ticks)))
    within = "  ".join(f"{100 * float(np.mean(ticks < limit)):5.1f}" for limit in WITHIN)
    gained = 100.0 * (ticks < SHORT) - 100.0 * (fixed < SHORT)
    low, high = np.percentile(gained[draws].mean(1), [2.5, 97.5])
    gain = f"{gained.mean():5.1f} ({low:5.1f} to {high:5.1f})"
    return f"{arm:>11} {ticks.mean():8.0f} {_saved(fixed, ticks, draws)}   {within}   {gain}"


def _saved(fixed: Any, ticks: Any, draws: Any) -> str:
    """Return the share of ticks that is saved, with its interval over drawn worlds."""
    saved = fixed - ticks
    low, high = np.percentile(100 * saved[draws].sum(1) / fixed[draws].sum(1), [2.5, 97.5])
    return f"{100 * saved.sum() / fixed.sum():7.1f} % ({low:5.1f} to {high:5.1f})"


def main() -> None:
    """Print a table for each number of goals, or of whole tasks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--horizon", help="file of a model; default: the shipped one")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--slice", type=int, default=150)
    parser.add_argument("--whole", action="store_true", help="whole tasks, from the solver")
    parser.add_argument("--start", default="plains", choices=("plains", "any"))
    parser.add_argument("--by-plan", action="store_true", help="env.nearest=false")
    parser.add_argument("--controller", default="oracle", choices=("oracle", "paper"))
    chosen = parser.parse_args()
    if chosen.whole:
        _whole(chosen)
        return
    within = ", ".join(map(str, WITHIN))
    head = f"{'arm':>11} {'ticks':>8} {'saved (95 %)':>26}   solved within {within} ticks, %"
    head += f"   points gained within {SHORT} (95 %)"
    options = MinecraftOptions(
        slice=chosen.slice, worlds=-(-chosen.worlds // 100), nearest=not chosen.by_plan
    )
    env = Minecraft(options)
    tasks = env.tasks("parallel")
    for number in (2, 3, 4):
        own = [task for task in tasks if task.kind == f"parallel{number}"][: chosen.worlds]
        print(f"{number} goals at once, {len(own)} worlds\n{head}", flush=True)
        fixed = _played(env, own, "none", _in_parallel, chosen.horizon)
        for arm in chosen.arms.split(","):
            ticks = fixed if arm == "none" else _played(env, own, arm, _in_parallel, chosen.horizon)
            print(_line(arm, ticks, fixed), flush=True)


def _whole(chosen: argparse.Namespace) -> None:
    """Print dep and deps on the paper's tasks, by kind: success, and ticks."""
    options = MinecraftOptions(
        worlds=chosen.worlds,
        controller=chosen.controller,
        nearest=not chosen.by_plan,
        start=chosen.start,
        slice=chosen.slice,
        mobs=chosen.start == "plains",
    )
    env = Minecraft(options)
    tasks = [task for task in env.tasks("test") if _solvable(env, task)]
    print(f"{len(tasks)} tasks, controller {chosen.controller}")
    print(f"{'kind':>6} {'tasks':>6} {'dep, %':>8} {'deps, %':>8} {'ticks saved (95 %)':>28}")
    kinds = sorted({task.kind for task in tasks})
    totals: dict[str, list[Any]] = {"none": [], "horizon": []}
    for kind in kinds:
        own = [task for task in tasks if task.kind == kind]
        both = {arm: _played(env, own, arm, _solved, chosen.horizon) for arm in ("none", "horizon")}
        for arm, ticks in both.items():
            totals[arm].append((ticks, LIMITS[kind]))
        print(_kind_line(kind, both["none"], both["horizon"], LIMITS[kind]), flush=True)
    fixed, moved = (np.concatenate([ticks for ticks, _ in totals[arm]]) for arm in totals)
    limits = np.concatenate([np.full(len(ticks), limit) for ticks, limit in totals["none"]])
    print(_kind_line("all", fixed, moved, limits))


def _kind_line(kind: str, fixed: Any, moved: Any, limit: Any) -> str:
    draws = np.random.default_rng(0).integers(0, len(fixed), (4000, len(fixed)))
    rates = (100 * float(np.mean(ticks < limit)) for ticks in (fixed, moved))
    solved = " ".join(f"{rate:8.1f}" for rate in rates)
    return f"{kind:>6} {len(fixed):6} {solved} {_saved(fixed, moved, draws)}"


def _solvable(env: Minecraft, task: Task) -> bool:
    targets = next(one.targets for one in listed_tasks() if one.word == task.source)
    return shortest(targets, env.rules.name) is not None


if __name__ == "__main__":
    main()
