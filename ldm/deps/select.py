"""How a plan went in words, which goal is next (DEPS, §3.2 and 3.3), and reports on planners.

No model is asked for the description: `Card.reading` defines how observations report on goals.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldm.deps.parser import Goal, Plan
from ldm.embed import Embedder
from ldm.prompts import shortened
from ldm.reporting import Branch, BranchState, Findings, Reporting, TaskTree, measure_of_note, noted
from ldm.types import Card, EpisodeResult, Reading, TimeStep, stable_seed

#: Characters of an answer or of a place in a description.
LONGEST = 300
_COUNTED = re.compile(r"(\d+) ([a-z][\w ]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a pursued goal according to an answer.

    reached: whether it is done. left: the number still to get if it is continued, else 0.
    """

    reached: bool
    left: int = 0


def progress(answer: TimeStep, reading: Reading) -> Progress:
    """Return the progress of a goal according to the answer to its action.

    If the card's reading does not know the answer, its `valid` decides.
    """
    text = answer.observation
    if not answer.valid:
        return Progress(reached=False)
    if reading.going and (match := re.search(reading.going, text, re.MULTILINE)):
        left = match.groupdict().get("left")
        return Progress(reached=False, left=int(left) if left else 1)
    if reading.done:
        return Progress(re.search(reading.done, text, re.MULTILINE) is not None)
    return Progress(reached=True)


def held(observation: str, reading: Reading) -> dict[str, int] | None:
    """Return the inventory in an observation, item → count, or None if it does not tell."""
    if not reading.held:
        return None
    match = re.search(reading.held, observation, re.MULTILINE)
    if match is None:
        return None
    return {item.strip(): int(count) for count, item in _COUNTED.findall(match[1])}


def amount(item: str, counts: Mapping[str, int], reading: Reading) -> int:
    """Return the number held of an item; a word for a family counts all its members."""
    members = {item, *reading.families.get(item, ())}
    return sum(count for name, count in counts.items() if name in members)


def clock(observation: str, reading: Reading) -> tuple[int, int] | None:
    """Return the present and the final time, or None if the observation does not tell."""
    match = re.search(reading.clock, observation, re.MULTILINE) if reading.clock else None
    return None if match is None else (int(match[1]), int(match[2]))


def description(
    plan: Plan, done: Collection[int], failed: Goal | None, *, answer: str = "", held: str = ""
) -> str:
    """Describe the outcome of a plan: steps done, the failed one, the answer, the inventory.

    done: ranks. answer: the world's reply to the failed step, or the reason for its absence.
    """
    parts = [f"{_steps(done)} done." if done else "No step is done."]
    if failed is not None:
        parts.append(f'Step {failed.rank} failed: "{failed.text or failed.words}".')
    elif len(done) == len(plan.goals) and plan.goals:
        parts[0] = "All steps are done."
    if answer:
        parts.append(answer if answer.endswith((".", "!", "?")) else f"{answer}.")
    if held:
        parts.append(f"I hold {held}.")
    return " ".join(parts)


def _steps(ranks: Collection[int]) -> str:
    """Return the subject and verb for some steps: "Step 2 is", "Steps 1, 2 and 4 are"."""
    *others, last = map(str, sorted(ranks))
    return f"Steps {', '.join(others)} and {last} are" if others else f"Step {last} is"


def answer_line(card: Card, now: TimeStep, *, whole: bool) -> str:
    """Return the answer to an action in one line; whole: with the rest of the observation."""
    lines = [line.strip() for line in now.observation.splitlines() if line.strip()]
    if card.reading.held and not whole:
        lines = lines[:1]
    elif card.reading.held:  # the inventory is described separately
        lines = [line for line in lines if not re.search(card.reading.held, line)]
    return shortened(" ".join(lines), LONGEST)


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


#: Kind of the note that holds the rounds of an episode.
NOTE = "deps"


def data_of(result: EpisodeResult) -> Mapping[str, Any] | None:
    """Return the note on an episode's rounds, or None."""
    return noted(result, NOTE)


def _done(data: Mapping[str, Any]) -> int:
    return sum(len(one["done"]) for one in data["rounds"])


def _findings(results: Sequence[EpisodeResult]) -> Findings:
    rounds = [one for result in results for one in (data_of(result) or {"rounds": ()})["rounds"]]
    if not rounds:
        return Findings()
    read = sum(len(one["goals"]) for one in rounds)
    dropped = sum(len(one["dropped"]) for one in rounds)
    ends = Counter(one["trigger"] or "the trial ended" for one in rounds)
    return Findings(
        (
            f"Plans: {len(rounds)}, with {read} goals that are known and {dropped} lines that "
            "name none.",
            "What ended a plan: "
            + ", ".join(f"{end} {count}" for end, count in sorted(ends.items()))
            + ".",
        ),
        {"plans": len(rounds), "goals": read, "dropped": dropped, "ends": dict(ends)},
    )


def _tree(result: EpisodeResult) -> TaskTree | None:
    data = data_of(result)
    if data is None:
        return None
    rounds, done = data["rounds"], _done(data)
    dropped = sum(len(one["dropped"]) for one in rounds)
    return TaskTree(
        {"method": data["method"], "plans": str(len(rounds)), "goals done": str(done)},
        f"{data['method']}, {len(rounds)} plans, {done} goals done, {dropped} lines dropped",
        tuple(one for number, turn in enumerate(rounds) for one in _branches(number, turn)),
    )


def _branches(number: int, one: Mapping[str, Any]) -> Iterator[Branch]:
    """Yield a round for reports: its plan, and below it each goal with its outcome."""
    names = ("plan", "description", "explanation")
    over = one["trigger"] or "the trial ended"
    state: BranchState = "done" if over == "all done" else "failed" if one["trigger"] else ""
    yield Branch(
        0,
        f"plan {number + 1}",
        state,
        f"ended by: {over}",
        texts={name: one[name] for name in names if one[name]},
    )
    ends = dict(one["pursued"])
    done = set(one["done"])
    for goal in one["goals"]:
        end = ends.get(goal["rank"], "not tried")
        how: BranchState = "done" if goal["rank"] in done else "failed"
        state = "open" if goal["rank"] not in ends else how
        yield Branch(1, f"{goal['rank']}. {goal['goal']}", state, end)
    for line in one["dropped"]:
        yield Branch(1, line, "pruned", "names no known goal")


REPORTING = Reporting(
    (
        measure_of_note("plans", "plans that were made", NOTE, lambda data: len(data["rounds"])),
        measure_of_note("goals_done", "goals of plans that were reached", NOTE, _done),
    ),
    _findings,
    _tree,
)
