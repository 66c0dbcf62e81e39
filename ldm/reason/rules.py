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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.reason.features import Situation
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
PRECISE, HELD = 0.7, 0.65
#: A rule of which others explain this share says nothing new.
EXPLAINED = 0.7
#: The latest episodes, by share, in which other rules may hold than before.
LATEST = (0.1, 0.25, 0.5, 0.75)
SAYS, OR = "the goal says ", " or "
LATELY, EARLIER = "in the latest ", "before the latest "
#: Distinct times from which they tell, the latest uses of a rule, which may have failed, and how
#: improbable so many failures must be.
LEAST_TIMES, LAST, CHANCE = 20, 10, 1e-3
#: A thing that a description of an action does not name.
ANY = "…"
#: Left-out steps that a rule must have been tested in.
TESTED = 3
#: The share of its condition in which an action is a rival, and contradictions that are told.
RIVAL, CONTRADICTIONS = 0.3, 6
#: Words of a line that is a fact, things of the goal that are told apart, and values of a path.
LINE, THINGS, VALUES = 12, 8, 8
#: Facts that are joined as alternatives.
ALTERNATIVES = 6
#: The order in which facts that always hold together are named.
KIND, DEED, VALUE, GOAL, SIGHT, NOT, TIME = range(7)

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
        return f"{', '.join(self.facts)} → {self.action} ({self.right} of {self.of})"


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

    named: whether other things are named, or ANY.
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
        f"thing {r}" if (r := now.role_of(x)) else " ".join(shape(x)) if named else ANY
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
                facts[f'{SAYS}"{word}"'] = GOAL
        for r, thing in enumerate(now.roles[:THINGS], 1):
            for line in (x for x in now.instructions if mentioned(thing, x)):
                asked = {x for x in line if x not in FUNCTION_WORDS and x not in thing}
                facts.update((f'asked of thing {r}: "{word}"', GOAL) for word in asked)
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
        for r, thing in enumerate(now.roles[:THINGS] if present else (), 1):
            about = [(line, place) for line in present if (place := mentioned(thing, line))]
            yield f"thing {r} {'' if about else 'not '}in sight"
            for line, (at, size) in about:
                rest = [one for one in rest if one != line]
                others = (*line[:at], f"[thing {r}]", *line[at + size :])
                yield f'in sight: "{" ".join(others)}"'
                yield f'in sight: "{" ".join("N" if x.isdigit() else x for x in others)}"'
                telling = {x for x in others if x not in FUNCTION_WORDS and x.isalpha()}
                yield from (f'said of thing {r}: "{word}"' for word in telling)
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
    """Steps by facts.

    x, by_fact: (n, m) sparse, by rows and by columns. costs: of naming each fact, in nats: that it is of its sort, which of them it
        is, and how often the rule holds. of: the steps of each action. general: its description
        without names. weight: of each step.
    """

    x: Any
    by_fact: Any
    names: list[str]
    costs: Array
    of: dict[str, Array]
    general: dict[str, str]
    weight: Array
    episode: Array

    def steps(self, facts: Facts) -> Array:
        """Return which steps have all of some facts."""
        have = np.ones(len(self.weight), bool)
        for f in facts:
            one = np.zeros(len(self.weight), bool)
            one[self.by_fact.indices[self.by_fact.indptr[f] : self.by_fact.indptr[f + 1]]] = True
            have &= one
        return have

    def with_joined(self, joined: Sequence[str]) -> _Table:
        """Return the table with facts that are true where one of several is."""
        from scipy.sparse import csr_matrix, hstack

        columns, costs = [], []
        for fact in joined:
            head, others = _parted(fact)
            places = [self.names.index(head + x) for x in others.split(OR)]
            columns.append(np.any([self.steps((f,)) for f in places], axis=0).astype(float))
            costs.append(self.costs[places[0]])
        x = hstack([self.x, csr_matrix(np.array(columns).T)], format="csr")
        names, paid = [*self.names, *joined], np.append(self.costs, costs)
        return replace(self, x=x, by_fact=x.tocsc(), names=names, costs=paid)

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

    def _best(self, for_it: Array, all_of: Array, least: float = PRECISE) -> Facts | None:
        """Return the condition that explains most of the weight `for_it`, if it is precise."""
        right, total = for_it.sum(), all_of.sum()
        if right <= 0 or len(np.unique(self.episode[for_it > 0])) < SUPPORT:
            return None
        base = min(right / total, 0.99)
        beam: list[tuple[Facts, Array]] = [((), np.flatnonzero(all_of))]
        best: tuple[float, int, Facts] = (0.0, 0, ())
        for size in range(1, FACTS + 1):
            grown: dict[Facts, tuple[float, Array]] = {}
            for facts, rows in beam:
                part = self.x[rows].T
                yes, both = part @ for_it[rows], part @ all_of[rows]
                paid = self.costs + self.costs[list(facts)].sum()
                gain = np.round(_gain(yes, both, base) - paid, 6)
                gain[list(facts)] = -np.inf
                for f in np.argsort(-gain, kind="stable")[:WIDTH].tolist():
                    key = tuple(sorted((*facts, f)))
                    grown.setdefault(key, (-float(gain[f]), rows))
                    if yes[f] >= least * both[f]:
                        best = min(best, (-float(gain[f]), size, key))
            beam = []
            for key, (loss, rows) in sorted(grown.items(), key=lambda one: (one[1][0], one[0])):
                if loss < np.inf and len(beam) < WIDTH:
                    beam.append((key, rows[self.steps(key)[rows]]))
        return best[2] or None


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
    general = {action: actions[-1] for _, actions in read for action in actions}
    weight = np.array([one.weight for one in lessons])
    kept_names = [names[i] for i in first]
    sorts = np.array([order[name] for name in kept_names], int)
    sizes = np.bincount(sorts, minlength=TIME + 1)
    sizes[NOT] += 2 * sizes[VALUE]  # what is says more than what is not
    costs = np.log(TIME + 1) + np.log(sizes[sorts])
    costs += 0.25 * math.log(len(lessons))
    x = x[:, first]
    return _Table(x, x.tocsc(), kept_names, costs, kept, general, weight, episode)


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
    least = {share: distinct[-max(1, round(share * len(distinct)))] for share in LATEST}
    for one in lessons:
        when = times.get(one.episode, 0.0)
        yield {
            f"{LATELY if when >= limit else EARLIER}{share:.0%} of the episodes": TIME
            for share, limit in least.items()
            if len(distinct) >= LEAST_TIMES
        }


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """A condition for an action. facts: in words. have: its steps. part: those to test it in."""

    action: str
    facts: tuple[str, ...]
    have: Array
    part: Array

    def joined(self, other: _Found) -> _Found | None:
        """Return both as one, if they differ in what one fact names."""
        mine = [x for x in self.facts if x not in other.facts]
        theirs = [x for x in other.facts if x not in self.facts]
        if self.action != other.action or not len(mine) == len(theirs) == 1:
            return None
        (head, first), (same, second) = _parted(mine[0]), _parted(theirs[0])
        if head != same or not first or f"{first}{second}".count(OR) > ALTERNATIVES - 2:
            return None
        facts = tuple(f"{head}{first}{OR}{second}" if x == mine[0] else x for x in self.facts)
        part = (self.have & self.part) | (other.have & other.part)
        return _Found(self.action, facts, self.have | other.have, part)


def _parted(fact: str) -> tuple[str, str]:
    """Return the beginning of a fact that may have alternatives, and the first of them."""
    for mark in (SAYS, "asked of thing ", "in sight: ", "just after ", "kind "):
        if fact.startswith(mark):
            return mark, fact.removeprefix(mark)
    return fact, ""


class _Counting:
    """Counts how often conditions held."""

    def __init__(self, table: _Table, lessons: Sequence[Lesson], times: Mapping[str, float]) -> None:
        self._table, self._kinds = table, [one.kind for one in lessons]
        self._times = np.array([times.get(one.episode, 0.0) for one in lessons])
        self.worked = table.weight > 0
        self._failing = float((~self.worked).mean())

    def rule(self, found: _Found) -> Rule:
        """Return a condition with its counts."""
        right = self.right(found)
        return Rule(
            found.facts,
            found.action,
            int(right.sum()),
            int((found.have & self.worked).sum()),
            int((found.have & self._table.taken(found.action) & ~self.worked).sum()),
            int((right & found.part).sum()),
            int((found.have & self.worked & found.part).sum()),
            tuple(sorted({self._kinds[i] for i in np.flatnonzero(right)})),
        )

    def right(self, found: _Found) -> Array:
        """Return the steps in which a condition held."""
        return found.have & self._table.taken(found.action) & self.worked

    def gain(self, found: _Found, facts: Facts) -> float:
        """Return what a condition explains, in nats."""
        taken = self._table.taken(found.action) & self.worked
        base = min(float(taken.sum() / max(1, self.worked.sum())), 0.99)
        counts = (self.right(found).sum(), (found.have & self.worked).sum())
        gain = _gain(*(np.array(float(one)) for one in counts), base)
        return round(float(gain) - float(self._table.costs[list(facts)].sum()), 6)

    def contradiction(self, found: _Found) -> str:
        """Return what speaks against a rule that held, in words; "" if nothing."""
        rule, table = self.rule(found), self._table
        used = np.flatnonzero(found.have & table.taken(found.action))
        used = used[np.argsort(self._times[used], kind="stable")]
        failed = ~self.worked[used]
        last, usual = failed[-LAST:], max(self._failing, float(failed[:-LAST].sum() / len(used)))
        if np.ptp(self._times) and last.mean() > 0.5 and _chance(last, usual) < CHANCE:
            return f"{rule.text}, but it failed {last.sum()} of the last {len(last)} times"
        if failed.mean() > 0.5 and _chance(failed, self._failing) < CHANCE:
            return f"{rule.text}, but it failed {failed.sum()} other times"
        return ""

    def outdated(self, found: _Found) -> str:
        """Return in words how a rule of earlier episodes did later; "" if it was not tried."""
        before = [x for x in found.facts if x.startswith(EARLIER)]
        facts = tuple(x for x in found.facts if x not in before)
        place = {name: f for f, name in enumerate(self._table.names)}
        have = self._table.steps(tuple(place[x] for x in facts)) & ~found.have & self.worked
        right = int((have & self._table.taken(found.action)).sum())
        if have.sum() < SUPPORT or right > have.sum() / 2:
            return ""
        return f"{self.rule(found).text}, since then {right} of {have.sum()}"


def _chance(failed: Array, usual: float) -> float:
    """Return how probable so many failures are if the usual share of uses fails."""
    n, least = len(failed), int(failed.sum())
    return sum(
        math.exp(math.log(math.comb(n, k)) + k * math.log(usual) + (n - k) * math.log1p(-usual))
        for k in range(least, n + 1)
        if 0 < usual < 1
    )


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
    counting = _Counting(table, lessons, times or {})
    folds = np.array([stable_seed("fold", one.episode) % FOLDS for one in lessons])
    chosen, *_ = _chosen(table, counting, folds)
    if joined := {x for one in chosen for x in one.facts if x.startswith(SAYS) and OR in x}:
        table = table.with_joined(sorted(joined))
        counting = _Counting(table, lessons, times or {})
    chosen, against, explained = _chosen(table, counting, folds)
    against += _undecided(table, counting.worked & ~explained)
    share = float(explained[counting.worked].mean()) if counting.worked.any() else 0.0
    rules = tuple(counting.rule(one) for one in chosen)
    return Rules(rules, tuple(dict.fromkeys(filter(None, against)))[:CONTRADICTIONS], share)


def _chosen(
    table: _Table, counting: _Counting, folds: Array
) -> tuple[list[_Found], list[str], Array]:
    """Return the rules that hold where they were not found, what speaks against others, and the
    steps that are explained."""
    parts: dict[tuple[str, Facts], Array] = {}
    for fold in range(FOLDS):
        for action in table.of:
            for facts in table.found(action, folds != fold):
                parts.setdefault((action, facts), np.zeros(len(folds), bool))
                parts[action, facts] |= folds == fold
    ranked, against = [], list[str]()
    for (action, facts), part in parts.items():
        found = _Found(action, tuple(table.names[f] for f in facts), table.steps(facts), part)
        rule, loss = counting.rule(found), -counting.gain(found, facts)
        if rule.tested >= TESTED and rule.held >= HELD * rule.tested and loss < 0:
            known = {*words(table.general[action]), *words(" ".join(found.facts))}
            later = ANY in action or (action != table.general[action] and known >= {*words(action)})
            ranked.append((later, loss, rule.text, found))
    explained, chosen = np.zeros(len(folds), bool), list[tuple[float, _Found]]()
    for _, loss, _, found in sorted(ranked, key=lambda one: one[:3]):
        right = counting.right(found)
        if any(x.startswith(EARLIER) for x in found.facts):
            against.append(counting.outdated(found))
        elif (explained & right).sum() < EXPLAINED * right.sum():
            explained |= right
            if said := counting.contradiction(found):
                against.append(said)
                continue
            for i, (least, other) in enumerate(chosen):
                if joined := other.joined(found):
                    chosen[i] = least, joined
                    break
            else:
                chosen.append((loss, found))
    chosen.sort(key=lambda one: one[0])  # equal ones stay in their order
    return [found for _, found in chosen], against, explained


def _undecided(table: _Table, left: Array) -> Iterator[str]:
    """Yield conditions for two actions that no fact tells apart, among the steps that are left."""
    pairs = set[frozenset[str]]()
    for action in table.of:
        taken = table.taken(action) & left
        facts = table._best(np.where(taken, 1.0, 0.0), np.where(left, 1.0, 0.0), least=RIVAL)
        if facts is None:
            continue
        have = table.steps(facts) & left
        rivals = [
            (int((have & table.taken(x)).sum()), x)
            for x in table.of
            if not (table.taken(x) & table.taken(action)).any()
        ]
        count, rival = max(rivals, default=(0, ""), key=lambda one: (one[0], one[1]))
        mine, of = int((have & taken).sum()), int(have.sum())
        if min(mine, count) < max(SUPPORT, RIVAL * of) or mine + count < (1 - RIVAL / 2) * of:
            continue
        both = {*table.episode[have & taken]} & {*table.episode[have & table.taken(rival)]}
        if len(both) <= RIVAL * min(mine, count) and frozenset((action, rival)) not in pairs:
            pairs.add(frozenset((action, rival)))
            condition = ", ".join(table.names[f] for f in facts)
            yield f"{condition} → {action} ({mine}) or {rival} ({count}): no fact tells which"


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
