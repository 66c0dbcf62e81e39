"""How a plan went in words, which goal is next (DEPS, §3.2 and 3.3), and reports on planners.

No model is asked for the description: `Card.reading` defines how observations report on goals.

The horizon predictor says how long a goal will take, given the observation (§3.3). Its models are
forests of regression trees as arrays, evaluated with numpy. Their features are extracted from the
observation as the environment's card defines; they use nothing hidden.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ldm import records
from ldm.deps.parser import Goal, Plan
from ldm.embed import Embedder
from ldm.errors import LdmError
from ldm.prompts import shortened
from ldm.reporting import Branch, BranchState, Findings, Reporting, TaskTree, measure_of_note, noted
from ldm.text import Problem, read_bytes
from ldm.types import Card, Count, EpisodeResult, Number, Reading, TimeStep, stable_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Characters of an answer or of a place in a description.
LONGEST = 300
_COUNTED = re.compile(r"(\d+) ([a-z][\w ]*)", re.IGNORECASE)


def still_to_get(answer: TimeStep, reading: Reading) -> int | None:
    """Return what a goal still has to get after the answer to its action; None if it failed.

    0 is reached. If the card's reading does not know the answer, its `valid` decides.
    """
    text = answer.observation
    if not answer.valid:
        return None
    if reading.going and (match := re.search(reading.going, text, re.MULTILINE)):
        return int(match.groupdict().get("left") or 1)
    if reading.done and not re.search(reading.done, text, re.MULTILINE):
        return None
    return 0


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


#: Chooses the next goal among those that can be pursued now, one or more.
Selector = Callable[[Sequence[Goal], TimeStep], Goal]
#: μ of the goals, predicted times on the scale of Eq. 2.
Times = Callable[[Sequence[Goal], TimeStep], Sequence[float]]


def in_order(goals: Sequence[Goal], now: TimeStep) -> Goal:
    """Return the first goal of the plan: a fixed sequence."""
    return goals[0]


class AtRandom:
    """Draws a goal at random, and keeps it until it has ended."""

    def __init__(self, *seed: object) -> None:
        self._seed = seed
        self._draws = 0
        self._current: Goal | None = None

    def __call__(self, goals: Sequence[Goal], now: TimeStep) -> Goal:
        if self._current is None or self._current not in goals:
            seed = stable_seed("select", *self._seed, self._draws)
            self._current = random.Random(seed).choice(goals)
            self._draws += 1
        return self._current


def most_similar(embedding: Callable[[], Embedder], goals: Sequence[Goal], now: TimeStep) -> Goal:
    """Return the goal whose words are nearest to the observation, in place of CLIP and MineCLIP."""
    if len(goals) == 1:
        return goals[0]
    embedder = embedding()
    words = [goal.words.replace("_", " ") for goal in goals]
    cosines = embedder.embed(words) @ embedder.embed([now.observation])[0]
    return goals[int(cosines.argmax())]


def soonest(times: Times, goals: Sequence[Goal], now: TimeStep) -> Goal:
    """Return the greatest of Eq. 2: f(g | s, P) = exp(−μ(g, s)) / Σ exp(−μ(g', s)). times: μ."""
    if len(goals) == 1:
        return goals[0]
    predicted = times(goals, now)
    return goals[list(predicted).index(min(predicted))]


#: Kind of the note that holds the rounds of an episode.
NOTE = "deps"


def _done(data: Mapping[str, Any]) -> int:
    return sum(len(one["done"]) for one in data["rounds"])


def _findings(results: Sequence[EpisodeResult]) -> Findings:
    rounds = [
        one for result in results for one in (noted(result, NOTE) or {"rounds": ()})["rounds"]
    ]
    if not rounds:
        return Findings()
    read = sum(len(one["goals"]) for one in rounds)
    dropped = sum(len(one["dropped"]) for one in rounds)
    ends = Counter(one["trigger"] or "the trial ended" for one in rounds)
    ended = ", ".join(f"{end} {count}" for end, count in sorted(ends.items()))
    lines = (
        f"Plans: {len(rounds)}, with {read} goals that are known and {dropped} lines that name "
        "none.",
        f"What ended a plan: {ended}.",
    )
    values = {"plans": len(rounds), "goals": read, "dropped": dropped, "ends": dict(ends)}
    return Findings(lines, values)


def _tree(result: EpisodeResult) -> TaskTree | None:
    data = noted(result, NOTE)
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
    texts = {name: one[name] for name in ("plan", "description", "explanation") if one[name]}
    over = one["trigger"] or "the trial ended"
    state: BranchState = "done" if over == "all done" else "failed" if one["trigger"] else ""
    yield Branch(0, f"plan {number + 1}", state, f"ended by: {over}", texts=texts)
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


#: The folder of the shipped models, ENV.json.gz for each environment.
SHIPPED = Path(__file__).parent / "horizons"
#: Maximum trees of a forest.
MOST_TREES = 1000
#: The value of a feature that the observation does not tell.
UNKNOWN = -1.0

_ENTRY = re.compile(
    r"\s*(?:(?P<count>\d+) )?(?P<thing>[a-z][a-z ]*?), (?:nearest )?(?:(?P<far>\d+)|here)"
)
_AGE = re.compile(r"(\d+) ticks ago")


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts about a goal in an observation.

    distance, age: of the nearest known source of the goal's item, in blocks and ticks. known: the
    number of known sources. tier: of the best tool for it that is held. y, left: the height and the
    remaining time. Unknown values are "" or UNKNOWN.
    """

    verb: str
    item: str
    tier: str
    biome: str
    distance: float
    age: float
    known: float
    y: float
    count: float
    left: float

    @property
    def words(self) -> tuple[str, ...]:
        """The categorical features, each with its name."""
        return tuple(f"{name} {getattr(self, name)}" for name in ("verb", "item", "tier", "biome"))

    @property
    def numbers(self) -> tuple[float, ...]:
        return tuple(getattr(self, name) for name in NUMBERS)


#: The names of `Situation.numbers` in a model's list of features.
NUMBERS = ("distance", "age", "known", "y", "count", "left")


def situation(goal: Goal, now: TimeStep, reading: Reading) -> Situation:
    """Return the facts about a goal in the observation."""
    text = now.observation
    place = re.search(reading.place, text, re.MULTILINE) if reading.place else None
    where = {} if place is None else place.groupdict()
    time = clock(text, reading)
    near = _nearest(_things(goal, reading), text, reading)
    return Situation(
        verb=goal.verb,
        item=goal.item,
        tier=_tier(goal, text, reading),
        biome=where.get("biome") or "",
        distance=near[0],
        age=near[1],
        known=near[2],
        y=float(where.get("y") or UNKNOWN),
        count=float(goal.count),
        left=float(time[1] - time[0]) if time else UNKNOWN,
    )


def _members(goal: Goal, reading: Reading) -> tuple[str, ...]:
    return (goal.item, *reading.families.get(goal.item, ()))


def _things(goal: Goal, reading: Reading) -> frozenset[str]:
    """Return the sources of the goal's item, in the singular.

    Those of a word for several items are theirs, unless it has a source of its own.
    """
    members = (goal.item,) if goal.item in reading.sources else _members(goal, reading)
    return frozenset(_single(reading.sources[one]) for one in members if one in reading.sources)


def _single(thing: str) -> str:
    return thing.strip().removesuffix("s")


def _nearest(things: frozenset[str], text: str, reading: Reading) -> tuple[float, float, float]:
    """Return distance and age of the nearest of these things, and the number of known ones."""
    nearest, known = (UNKNOWN, UNKNOWN), 0.0
    for line in (reading.visible, reading.remembered):
        match = re.search(line, text, re.MULTILINE) if line else None
        for entry in (match[1] if match else "").split(";"):
            parts = _ENTRY.match(entry)
            if parts is None or _single(parts["thing"]) not in things:
                continue
            age = _AGE.search(entry)
            sighting = (float(parts["far"] or 0), float(age[1]) if age else 0.0)
            known += float(parts["count"] or 1)
            if nearest[0] == UNKNOWN or sighting < nearest:
                nearest = sighting
    return (*nearest, known)


def _tier(goal: Goal, text: str, reading: Reading) -> str:
    """Return the tier of a fitting tool that is held, or its whole name if it has no tier.

    Of several tools, take the one that the goal names, or else the last by name.
    """
    sorts = [sort for one in _members(goal, reading) for sort in reading.fitting.get(one, ())]
    counts = held(text, reading) or {}
    fitting = [name for name in sorted(counts) if name.rpartition("_")[2] in sorts]
    if not fitting:
        return ""
    return (goal.tool if goal.tool in fitting else fitting[-1]).rpartition("_")[0]


@dataclass(frozen=True)
class HorizonModel:
    """A forest that predicts μ: of a time of h ticks 2·log2(1 + h/20), at most 15.

    env: the environment that it was trained in. words: those of `Situation.words` that it knows;
    its features are these, each 1 or 0, and then `numbers`. roots: the first node of each tree.
    An inner node's left child is the next node, its right child is `right`, which is 0 for leaves.
    """

    env: str
    words: tuple[str, ...]
    roots: tuple[Count, ...]
    feature: tuple[Count, ...]
    threshold: tuple[Number, ...]
    right: tuple[Count, ...]
    value: tuple[Number, ...]
    numbers: tuple[str, ...] = NUMBERS

    def __post_init__(self) -> None:
        """Raise ValueError if following the trees would not end, or would leave them."""
        size, features = len(self.right), len(self.words) + len(NUMBERS)
        if self.numbers != NUMBERS:
            raise ValueError("its features are not those of this version")
        if not 0 < len(self.roots) <= MOST_TREES or max(self.roots) >= size:
            raise ValueError("it has no trees, or too many, or they have no root")
        if any(len(one) != size for one in (self.feature, self.threshold, self.value)):
            raise ValueError("its trees have different lengths")
        for place, (feature, right) in enumerate(zip(self.feature, self.right, strict=True)):
            if right and not (place + 1 < right < size and feature < features):
                raise ValueError("its trees are damaged")

    @cached_property
    def _trees(self) -> tuple[NDArray[Any], ...]:
        fields = (self.roots, self.feature, self.threshold, self.right, self.value)
        return tuple(map(np.array, fields))

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return μ for each row: the mean over the trees."""
        roots, features, thresholds, rights, leaves = self._trees
        places = np.arange(len(rows))[:, None]
        nodes = np.repeat(roots[None, :], len(rows), axis=0)
        while True:
            inner = rights[nodes] > 0
            if not inner.any():
                return np.asarray(leaves[nodes].mean(axis=1))
            values = rows[places, np.where(inner, features[nodes], 0)]
            after = np.where(values <= thresholds[nodes], nodes + 1, rights[nodes])
            nodes = np.where(inner, after, nodes)

    def times(self, goals: Sequence[Goal], now: TimeStep, card: Card) -> list[float]:
        """Return μ of goals. Goals that gather nothing need no search: their μ is 0."""
        situations = [situation(goal, now, card.reading) for goal in goals]
        predicted = self(feature_rows(situations, self.words))
        gathering = card.reading.gathering
        searched = [goal.verb in gathering for goal in goals]
        times: list[float] = np.where(searched, predicted, 0.0).tolist()
        return times

    @classmethod
    def load(cls, path: Path) -> HorizonModel:
        """Return the model in a file. Raise LdmError if it holds none or is damaged."""
        model = records.parse(read_bytes(path), cls, str(path), 1)
        if isinstance(model, Problem):
            raise LdmError(f"{model}: this is no horizon model.", REMEDY)
        return model


#: The model in a file, read once.
horizon_model = lru_cache(maxsize=8)(HorizonModel.load)
#: How to get a model, for error messages.
REMEDY = "Train one in a checkout of ldm: python -m tools.horizon --env ENV --out FILE."


def feature_rows(situations: Sequence[Situation], words: Sequence[str]) -> NDArray[np.float32]:
    """Return situations as rows: 1 or 0 for each of `words`, then the numbers."""
    places = {word: place for place, word in enumerate(words)}
    rows = np.zeros((len(situations), len(words) + len(NUMBERS)), np.float32)
    for row, one in enumerate(situations):
        for word in one.words:
            if word in places:
                rows[row, places[word]] = 1
        rows[row, len(words) :] = one.numbers
    return rows


def shipped(env: str) -> Path | None:
    """Return the file of the model shipped for an environment, or None if there is none."""
    path = SHIPPED / f"{env}.json.gz"
    return path if path.is_file() else None
