"""Rules in words: which facts of a state call for which action, and how often that held.

Conjunctions of a few facts are searched for each action, as short descriptions pay: a fact belongs
to a rule if it explains more steps than naming it costs. Rules are found in some episodes, counted
in others, and shown if they hold there. Time is a fact like any other, so that a memory which
contradicts itself is told so instead of given a rule.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.reason.features import Situation, statements
from ldm.reason.frames import read_command
from ldm.reason.reading import (
    FUNCTION_WORDS,
    leaves,
    lines,
    mentioned,
    number,
    prose,
    shape,
    structure,
    words,
)
from ldm.reason.vocabulary import Lesson, Vocabulary
from ldm.types import stable_seed

#: Facts of one rule, conjunctions that are looked at further, and rules of one action.
FACTS, WIDTH, OF_ACTION = 3, 6, 6
#: Episodes that must show a fact or an action, and parts of them that are left out in turn.
SUPPORT, FOLDS = 3, 5
#: Steps that are read; whole episodes beyond are left aside.
STEPS = 20_000
#: The share of its steps in which a rule must hold, where it was found and where it was not.
PRECISE, HELD = 0.75, 0.7
#: A rule of which others explain this share says nothing new.
EXPLAINED = 0.7
#: The latest episodes, by share, in which other rules may hold than before.
LATEST = (0.1, 0.25, 0.5, 0.75)
LATELY, EARLIER = "lately", "earlier"
#: Words of a line that is a fact, things of the goal that are told apart, and values of a path.
LINE, THINGS, VALUES = 12, 3, 8
#: The order in which facts that always hold together are named.
VALUE, DEED, KIND, GOAL, SIGHT, NOT, TIME = range(7)

Array = NDArray[Any]
Facts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """What to do under a condition.

    right, of: how often that was done there, in the steps of episodes that worked. failed: how
    often it was done there in episodes that failed. held, tested: as right and of, in episodes that
    the rule was not learnt from. kinds: of the tasks in which it was done.
    """

    facts: tuple[str, ...]
    action: str
    right: int
    of: int
    failed: int = 0
    held: int = 0
    tested: int = 0
    kinds: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The rule in words, with its support."""
        failed = f", {self.failed} failed" if self.failed else ""
        condition = ", ".join(self.facts) or "always"
        return f"{condition} → {self.action} ({self.right} of {self.of}{failed})"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a memory, those that explain most first.

    contradictions: conditions for which the memory has no single answer, in words. explained: the
    share of the steps of episodes that worked which the rules explain.
    """

    rules: tuple[Rule, ...] = ()
    contradictions: tuple[str, ...] = ()
    explained: float = 0.0


def described(action: str, now: Situation, *, named: bool) -> str:
    """Return an action in words, with things of the goal by their place from its end.

    named: whether other things are named, or "…".
    """
    command = read_command(action)
    if structure(action) is not None:
        pairs = leaves(action) if named else [
            (piece.partition(" ")[0], piece.partition(" ")[2])
            for piece in command.frame.split(", ")
            if not piece.endswith(" _")
        ]
        shown = [f"{path.rpartition('.')[2]} {value}" for path, value in pairs[1:]]
        name = pairs[0][1] if pairs else action
        return f"{name} ({', '.join(shown)})" if shown else name
    parts = iter(
        f"thing {r}" if (r := now.role_of(x)) else " ".join(shape(x)) if named else "…"
        for x in command.fillers
    )
    pieces = command.frame.split()
    return " ".join(x.replace("_", next(parts)) if x in ("_", "[_]") else x for x in pieces)


class _Reader:
    """Reads recorded steps as facts in words, each with its place in the order of naming."""

    def __init__(self, vocabulary: Vocabulary, lessons: Sequence[Lesson]) -> None:
        self._vocabulary, self._kinds = vocabulary, len({one.kind for one in lessons})
        self._limits = dict(vocabulary.thresholds)
        self._short = _shortest({path for one in lessons for path, _ in leaves(one.observation)})
        #: The path of each fact that is a value.
        self.paths: dict[str, str] = {}
        self._texts: dict[str, dict[str, tuple[str, ...]]] = {}
        self._values: dict[tuple[str, ...], dict[str, tuple[str, ...]]] = {}

    def read(self, lesson: Lesson) -> tuple[dict[str, int], tuple[str, ...]]:
        """Return the facts of a step, and the descriptions of its action, the exact one first."""
        now = Situation(
            self._vocabulary, lesson.goal, lesson.kind, lesson.past, lesson.observation
        )
        facts: dict[str, int] = {}
        for values in self._state(tuple(now.texts)).values():
            facts.update(dict.fromkeys(values, VALUE))
        done = [self._descriptions(action, now) for _, action in now.past]
        facts.update((f"after {one}", DEED) for both in done for one in both)
        facts.update((f"just after {one}", DEED) for one in (done[-1] if done else ()))
        if not done:
            facts["at the start"] = DEED
        if self._kinds > 1:
            facts[f"kind {lesson.kind}"] = KIND
        for word in words(lesson.goal):
            if word in self._vocabulary.goal_words and word not in FUNCTION_WORDS:
                facts[f'the goal says "{word}"'] = GOAL
        facts.update(dict.fromkeys(self._seen(now), SIGHT))
        return facts, self._descriptions(lesson.action, now)

    @staticmethod
    def _descriptions(action: str, now: Situation) -> tuple[str, ...]:
        both = (described(action, now, named=named) for named in (True, False))
        return tuple(dict.fromkeys(both))

    def _state(self, texts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Return the latest values of each path, as facts."""
        if texts not in self._values:
            before = self._state(texts[:-1]) if len(texts) > 1 else {}
            self._values[texts] = {**before, **self._read(texts[-1])}
        return self._values[texts]

    def _read(self, text: str) -> dict[str, tuple[str, ...]]:
        if text not in self._texts:
            values: dict[str, list[str]] = defaultdict(list)
            for path, value in leaves(text):
                name = self._short.get(path, path)
                values[path].append(f"{name} = {value}")
                if (amount := number(value)) is None:
                    self.paths[f"{name} = {value}"] = path
                else:
                    for limit in self._limits.get(path, ()):
                        values[path].append(f"{name} {'<=' if amount <= limit else '>'} {limit:g}")
            self._texts[text] = {path: tuple(dict.fromkeys(v)) for path, v in values.items()}
        return self._texts[text]

    @staticmethod
    def _seen(now: Situation) -> Iterator[str]:
        """Yield what the prose in sight says of the goal's things, and what else it says."""
        present = lines(prose(now.sight))
        rest = [line for line in present if len(line) <= LINE]
        for r, thing in enumerate(now.roles[:THINGS], 1):
            about = [(line, place) for line in present if (place := mentioned(thing, line))]
            yield f"thing {r} {'' if about else 'not '}in sight"
            for line, place in about:
                rest = [one for one in rest if one != line]
                for said in statements(line, *place):
                    yield f"thing {r}: {said}" if "<=" in said else f'thing {r}: "{said}"'
        for line in rest:
            yield f'in sight: "{" ".join(line)}"'


def _shortest(paths: set[str]) -> dict[str, str]:
    """Return the shortest ends of paths that no other path has."""
    ends = Counter(end for path in paths for end in _ends(path))
    return {path: next(e for e in _ends(path) if ends[e] == 1 or e == path) for path in paths}


def _ends(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[i:]) for i in range(len(parts) - 1, -1, -1)]


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Steps by facts. x: (n, m) sparse. of: the steps of each action. weight: of each step."""

    x: Any
    names: list[str]
    of: dict[str, Array]
    weight: Array
    episode: Array

    def steps(self, facts: Facts) -> Array:
        """Return which steps have all of some facts."""
        have: Array = np.asarray(self.x[:, list(facts)].sum(axis=1)).ravel() == len(facts)
        return have

    def taken(self, action: str) -> Array:
        """Return in which steps an action was taken."""
        taken = np.zeros(len(self.weight), bool)
        taken[self.of[action]] = True
        return taken

    def found(self, action: str, part: Array) -> list[Facts]:
        """Return the conditions in some steps for an action, each for what those before leave."""
        taken, chosen = self.taken(action), list[Facts]()
        for_it = np.where(part & taken, np.maximum(self.weight, 0), 0)
        all_of = np.where(part, np.where(taken, np.abs(self.weight), np.maximum(self.weight, 0)), 0)
        while len(chosen) < OF_ACTION and (best := self._best(for_it, all_of)) is not None:
            chosen.append(best)
            done = self.steps(best) & (for_it > 0)
            for_it, all_of = np.where(done, 0, for_it), np.where(done, 0, all_of)
        return chosen

    def _best(self, for_it: Array, all_of: Array) -> Facts | None:
        """Return the condition that explains most of the weight `for_it`, if it is precise."""
        right, total = for_it.sum(), all_of.sum()
        if right <= 0 or len(np.unique(self.episode[for_it > 0])) < SUPPORT:
            return None
        cost, base = math.log(len(self.names)), min(right / total, 0.99)
        beam: list[tuple[float, Facts, Array]] = [(0.0, (), np.flatnonzero(all_of))]
        best: tuple[float, Facts] = (0.0, ())
        for size in range(1, FACTS + 1):
            grown: dict[Facts, tuple[float, Array]] = {}
            for _, facts, rows in beam:
                part = self.x[rows]
                yes, both = part.T @ for_it[rows], part.T @ all_of[rows]
                gain = np.round(_gain(yes, both, base) - cost * size, 6)
                gain[list(facts)] = -np.inf
                for f in np.argsort(-gain, kind="stable")[:WIDTH].tolist():
                    key = tuple(sorted((*facts, f)))
                    if gain[f] > -np.inf and key not in grown:
                        has = np.asarray(part[:, [f]].sum(axis=1)).ravel() > 0
                        grown[key] = float(gain[f]), rows[has]
                        precise = yes[f] >= PRECISE * both[f]
                        if precise and (-gain[f], size, key) < (-best[0], len(best[1]), best[1]):
                            best = float(gain[f]), key
            ranked = sorted(grown.items(), key=lambda one: (-one[1][0], one[0]))[:WIDTH]
            beam = [(gain, facts, rows) for facts, (gain, rows) in ranked]
        return best[1] or None


def _gain(yes: Array, both: Array, base: float) -> Array:
    """Return by how much steps are likelier by their own share than by the base's, in nats."""
    share = np.clip(yes / np.maximum(both, 1e-9), 1e-9, 1 - 1e-9)
    gain = yes * np.log(share / base) + (both - yes) * np.log((1 - share) / (1 - base))
    return np.where(share > base, gain, -np.inf)


def _table(
    lessons: Sequence[Lesson], vocabulary: Vocabulary, times: Mapping[str, float]
) -> _Table:
    """Read recorded steps."""
    from scipy.sparse import csr_matrix

    reader = _Reader(vocabulary, lessons)
    read = [reader.read(one) for one in lessons]
    number_of = {name: i for i, name in enumerate(dict.fromkeys(x.episode for x in lessons))}
    episode = np.array([number_of[one.episode] for one in lessons])
    rows = [{**facts, **late} for (facts, _), late in zip(read, _when(lessons, times), strict=True)]
    common = _common(rows, episode)
    for facts, more in zip(rows, _negations(rows, common, reader.paths), strict=True):
        facts.update(more)
    order = {name: place for facts in rows for name, place in facts.items()}
    common = _common(rows, episode)
    names = sorted(common, key=lambda name: (order[name], len(name), name))
    place = {name: i for i, name in enumerate(names)}
    columns = [sorted(place[name] for name in facts if name in place) for facts in rows]
    ends = np.cumsum([0, *map(len, columns)])
    flat = np.array([i for one in columns for i in one], np.int32)
    x = csr_matrix((np.ones(len(flat)), flat, ends), (len(rows), len(names)))
    signs = np.random.default_rng(3).integers(1 << 40, size=len(rows)).astype(float)
    _, first = np.unique(x.T @ signs, return_index=True)
    first = np.sort(first)
    of: dict[str, list[int]] = defaultdict(list)
    for i, (_, actions) in enumerate(read):
        for action in actions:
            of[action].append(i)
    known = {name: np.array(i) for name, i in sorted(of.items())}
    kept = {name: i for name, i in known.items() if len(np.unique(episode[i])) >= SUPPORT}
    weight = np.array([one.weight for one in lessons])
    return _Table(x[:, first], [names[i] for i in first], kept, weight, episode)


def _common(rows: Sequence[Mapping[str, int]], episode: Array) -> set[str]:
    """Return the facts of several episodes that some steps lack."""
    where: dict[str, set[int]] = defaultdict(set)
    often: Counter[str] = Counter()
    for facts, one in zip(rows, episode.tolist(), strict=True):
        often.update(facts)
        for name in facts:
            where[name].add(one)
    return {name for name, n in often.items() if len(where[name]) >= SUPPORT and n < len(rows)}


def _negations(
    rows: Sequence[Mapping[str, int]], common: set[str], paths: Mapping[str, str]
) -> Iterator[dict[str, int]]:
    """Yield for each step which values its paths have not, and what is not done yet."""
    done = [name for name in common if name.startswith("after ")]
    values: dict[str, list[str]] = defaultdict(list)
    for name in common & paths.keys():
        values[paths[name]].append(name)
    several = {path: v for path, v in values.items() if 2 < len(v) <= VALUES}
    for facts in rows:
        here = {paths[name] for name in facts if name in paths} & several.keys()
        others = [x.replace(" = ", " != ", 1) for p in here for x in several[p] if x not in facts]
        others += [f"not yet {x.removeprefix('after ')}" for x in done if x not in facts]
        yield dict.fromkeys(others, NOT)


def _when(lessons: Sequence[Lesson], times: Mapping[str, float]) -> Iterator[dict[str, int]]:
    """Yield for each step whether its episode is among the latest ones."""
    distinct = sorted({times.get(one.episode, 0.0) for one in lessons})
    least = {s: distinct[-max(1, round(s * len(distinct)))] for s in LATEST}
    for one in lessons:
        if len(distinct) < 2 * SUPPORT / LATEST[0]:
            yield {}
            continue
        when = times.get(one.episode, 0.0)
        yield {
            f"{LATELY if when >= limit else EARLIER} ({share:.0%})": TIME
            for share, limit in least.items()
        }


def learn_rules(
    lessons: Sequence[Lesson], vocabulary: Vocabulary, times: Mapping[str, float] | None = None
) -> Rules:
    """Return the rules that recorded steps teach, in whatever order their episodes come.

    times: when episodes ended, where known.
    """
    lessons = _sampled(sorted(lessons, key=lambda one: one.episode))
    if not lessons:
        return Rules()
    table = _table(lessons, vocabulary, times or {})
    folds = np.array([stable_seed("fold", one.episode) % FOLDS for one in lessons])
    tested: dict[tuple[str, Facts], Array] = {}
    for fold in range(FOLDS):
        for action in table.of:
            for facts in table.found(action, folds != fold):
                tested.setdefault((action, facts), np.zeros(len(lessons), bool))
                tested[action, facts] |= folds == fold
    kinds = [one.kind for one in lessons]
    ranked = []
    for (action, facts), part in tested.items():
        rule, gain, right = _counted(table, action, facts, part, kinds)
        if rule.tested >= 2 and rule.held >= HELD * rule.tested:
            ranked.append((-gain, rule.text, rule, right))
    worked = table.weight > 0
    explained = np.zeros(len(lessons), bool)
    rules: list[Rule] = []
    for _, _, rule, right in sorted(ranked, key=lambda one: one[:2]):
        if (explained & right).sum() < EXPLAINED * right.sum():
            rules.append(rule)
            explained |= right
    return Rules(tuple(rules), (), float(explained[worked].mean()) if worked.any() else 0.0)


def _sampled(lessons: list[Lesson]) -> list[Lesson]:
    """Return the steps of whole episodes, at most STEPS of them."""
    if len(lessons) <= STEPS:
        return lessons
    sizes = Counter(one.episode for one in lessons)
    left, kept = STEPS, set[str]()
    for name in sorted(sizes, key=lambda one: stable_seed("sampled", one)):
        if sizes[name] <= left:
            kept.add(name)
            left -= sizes[name]
    return [one for one in lessons if one.episode in kept]


def _counted(
    table: _Table, action: str, facts: Facts, part: Array, kinds: Sequence[str]
) -> tuple[Rule, float, Array]:
    """Return a rule with its counts, what it explains in nats, and the steps in which it held.

    part: the steps that it was not learnt from.
    """
    have, taken, worked = table.steps(facts), table.taken(action), table.weight > 0
    right = have & taken & worked
    rule = Rule(
        tuple(table.names[f] for f in facts),
        action,
        int(right.sum()),
        int((have & worked).sum()),
        int((have & taken & ~worked).sum()),
        int((right & part).sum()),
        int((have & worked & part).sum()),
        tuple(sorted({kinds[i] for i in np.flatnonzero(right)})),
    )
    base = (taken & worked).sum() / max(1, worked.sum())
    gain = _gain(np.array(float(rule.right)), np.array(float(rule.of)), min(float(base), 0.99))
    return rule, round(float(gain) - math.log(len(table.names)) * len(facts), 6), right
