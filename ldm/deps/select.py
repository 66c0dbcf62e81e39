"""The selector of the goal of a plan to pursue next (DEPS, §3.3 and §4.3.1)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ldm.deps.describe import amount, held
from ldm.deps.plans import Goal, Plan
from ldm.embed import Embedder
from ldm.types import Reading, TimeStep, stable_seed


def candidates(
    plan: Plan, done: Collection[int], now: TimeStep, reading: Reading
) -> tuple[Goal, ...]:
    """Return the goals that can be pursued now, in the plan's order.

    These are the first that is not done, and each gathering one whose tool is held or that takes
    none: goals "with the same precondition" (§3.3), and alternatives of one step. Crafting goals
    keep their order, because moving them could use up what an earlier goal needs.
    """
    counts = held(now.observation, reading) or {}
    left = [goal for goal in plan.goals if goal.rank not in done]
    return tuple(
        one
        for goal in left
        for one in (goal, *goal.others)
        if one is left[0] or (one.verb in reading.gathering and _equipped(one, counts, reading))
    )


def _equipped(goal: Goal, counts: Mapping[str, int], reading: Reading) -> bool:
    """Return whether the tool that a goal states is held, or else one that it cannot do without."""
    if goal.tool:
        return amount(goal.tool, counts, reading) > 0
    sorts = reading.fitting.get(goal.item, ())
    held_one = any(name.rpartition("_")[2] in sorts for name in counts)
    return held_one or goal.item not in reading.needing


class InOrder:
    """Takes the first goal of the plan: a fixed sequence."""

    def choose(self, goals: Sequence[Goal], now: TimeStep) -> Goal:
        return goals[0]


class AtRandom:
    """Draws a goal at random, and keeps it until it has ended."""

    def __init__(self, *seed: object) -> None:
        self._seed = seed
        self._draws = 0
        self._current: Goal | None = None

    def choose(self, goals: Sequence[Goal], now: TimeStep) -> Goal:
        if self._current not in goals:
            seed = stable_seed("select", *self._seed, self._draws)
            self._current = random.Random(seed).choice(goals)
            self._draws += 1
        assert self._current is not None  # noqa: S101 - it is among the goals
        return self._current


class MostSimilar:
    """Takes the goal whose words are nearest to the observation, in place of CLIP and MineCLIP."""

    def __init__(self, embedding: Callable[[], Embedder]) -> None:
        self._embedding = embedding

    def choose(self, goals: Sequence[Goal], now: TimeStep) -> Goal:
        if len(goals) == 1:
            return goals[0]
        embedder = self._embedding()
        cosines = (
            embedder.embed([goal.words.replace("_", " ") for goal in goals])
            @ (embedder.embed([now.observation])[0])
        )
        return goals[int(cosines.argmax())]


#: μ of the goals, predicted times on the scale of Eq. 2.
Times = Callable[[Sequence[Goal], TimeStep], Sequence[float]]


@dataclass
class Soonest:
    """Takes the greatest of Eq. 2: f(g | s, P) = exp(−μ(g, s)) / Σ exp(−μ(g', s)). times: μ."""

    times: Times

    def choose(self, goals: Sequence[Goal], now: TimeStep) -> Goal:
        if len(goals) == 1:
            return goals[0]
        times = self.times(goals, now)
        return goals[list(times).index(min(times))]


#: Chooses the next goal among those that can be pursued now, one or more.
Selector = InOrder | AtRandom | MostSimilar | Soonest


def scaled(ticks: float) -> float:
    """Return a time as μ: 2·log2(1 + h/20), cut at 15 like the 16 classes of the authors' code."""
    return min(15.0, 2 * math.log2(1 + max(0.0, ticks) / 20))
