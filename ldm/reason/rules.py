"""Rules in words: which facts of a state call for which action, and how often that held.

Conjunctions of a few facts are searched for each action, as short descriptions pay: a fact belongs
to a rule if it explains more steps than naming it costs. Rules are found in some episodes, counted
in others, and shown if they hold there. Time is a fact like any other, so that a memory which
contradicts itself is told so instead of given a rule.

Facts are in words that a person understands: values of structured texts and thresholds of their
numbers, wherever in the episode they were read; what was done; words of the goal; what the text in
sight says of the goal's things, which are called "thing 1", "thing 2", … from the goal's end; and
when the episode was.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.reason import reading
from ldm.reason.features import Situation
from ldm.reason.reading import FUNCTION_WORDS, mentioned, words
from ldm.reason.vocabulary import STEPS, Lesson, Vocabulary, read_command, vocabulary_of, within
from ldm.types import by_key, stable_seed

#: The sorts of facts, in the order in which those that always hold together are named.
KIND, DEED, VALUE, GOAL, SIGHT, NOT, TIME = range(7)
#: Beginnings of facts.
SAYS, AFTER, JUST, LATELY = "the goal says ", "after ", "just after ", "in the latest "
SAID, NOT_DONE = "said of ", "not done: "
#: A thing that a description of an action does not name.
ANY = "…"
#: Episodes that must show a fact.
SUPPORT = 3
#: Words of a line that is a fact, things of the goal that are told apart, and values of a path.
LINE, THINGS, VALUES = 12, 8, 8
#: The latest episodes, by share, in which other facts may matter, and distinct times from which.
LATEST, TIMES = (0.1, 0.25, 0.5, 0.75), 20


def described(action: str, now: Situation, *, named: bool) -> str:
    """Return an action in words. named: whether things are named that the goal does not name."""
    command = read_command(action)
    if reading.structure(action) is not None:
        called = [v for v in reading.leaves(action) if named or " ".join(v) in command.frame]
        arguments = ", ".join(f"{path.rpartition('.')[2]} {value}" for path, value in called[1:])
        return f"{called[0][1]} ({arguments})" if arguments else called[0][1] if called else action
    parts = iter(
        f"thing {r}" if (r := now.role_of(x)) else " ".join(reading.shape(x)) if named else ANY
        for x in command.fillers
    )
    pieces = command.frame.split()
    return " ".join(x.replace("_", next(parts)) if x in ("_", "[_]") else x for x in pieces)


def descriptions(action: str, now: Situation) -> tuple[str, ...]:
    """Return an action in words, with and without the names of things."""
    return tuple(dict.fromkeys(described(action, now, named=named) for named in (True, False)))


def holds(fact: str, facts: Mapping[str, int]) -> bool:
    """Return whether a fact of a rule is true of a state with these facts, which is the latest."""
    if " != " in fact:
        path = fact.partition(" != ")[0]
        equal = fact.replace(" != ", " = ", 1)
        return equal not in facts and any(one.startswith(f"{path} = ") for one in facts)
    if fact.startswith(NOT_DONE):
        return AFTER + fact.removeprefix(NOT_DONE) not in facts
    return fact in facts or fact.startswith(LATELY)


def recurring(rows: Sequence[Mapping[str, int]], lessons: Sequence[Lesson]) -> set[str]:
    """Return the facts of several episodes that some steps lack."""
    both = zip(rows, lessons, strict=True)
    where = by_key((name, lesson.episode) for facts, lesson in both for name in facts)
    return {name for name, of in where.items() if len({*of}) >= SUPPORT and len(of) < len(rows)}


class FactReader:
    """Reads recorded steps as facts in words, each with its sort."""

    def __init__(self, vocabulary: Vocabulary, lessons: Sequence[Lesson]) -> None:
        """Learn from all steps how much is said of what."""
        self._vocabulary = vocabulary
        self._kinds = len({one.kind for one in lessons})
        self._limits = dict(vocabulary.thresholds)
        paths = {path for one in lessons for path, _ in reading.leaves(one.observation, named=True)}
        ends = Counter(end for path in paths for end in _ends(path))
        self._short = {path: next((e for e in _ends(path) if ends[e] == 1), path) for path in paths}
        self._texts: dict[str, dict[str, tuple[str, ...]]] = {}
        self._states: dict[tuple[str, ...], dict[str, tuple[str, ...]]] = {}
        self._paths: dict[str, str] = {}
        when = sorted({one.time for one in lessons})
        shares = LATEST if len(when) >= TIMES else ()
        self._latest = {
            f"{LATELY}{x:.0%} of the episodes": when[-round(x * len(when))] for x in shares
        }

    def read_all(self, lessons: Sequence[Lesson]) -> tuple[list[dict[str, int]], list[list[str]]]:
        """Return the facts of each step, and the descriptions of its action, the exact one first.

        Facts are also which of the usual values a path has not, and what was not done yet.
        """
        read = [self.read(one) for one in lessons]
        rows = [facts for facts, _ in read]
        done = [descriptions(one.action, now) for one, (_, now) in zip(lessons, read, strict=True)]
        common = recurring(rows, lessons)
        deeds = [name for name in common if name.startswith(AFTER)]
        values = by_key((self._paths[name], name) for name in common & self._paths.keys())
        several = {path: v for path, v in values.items() if 2 < len(v) <= VALUES}
        for facts in rows:
            here = {self._paths[name] for name in facts if name in self._paths} & several.keys()
            others = [
                x.replace(" = ", " != ", 1) for p in here for x in several[p] if x not in facts
            ]
            others += [f"{NOT_DONE}{x.removeprefix(AFTER)}" for x in deeds if x not in facts]
            facts.update(dict.fromkeys(others, NOT))
        return rows, [list(actions) for actions in done]

    def read(self, one: Lesson) -> tuple[dict[str, int], Situation]:
        """Return the facts of a step, each with its sort, and its state."""
        now = Situation(self._vocabulary, one.goal, one.kind, one.past, one.observation)
        facts: dict[str, int] = {}
        for values in self._state(tuple(now.texts)).values():
            facts.update(dict.fromkeys(values, VALUE))
        done = [descriptions(action, now) for _, action in now.past]
        facts.update((f"{AFTER}{name}", DEED) for names in done for name in names)
        last = [f"{JUST}{name}" for name in done[-1]] if done else ["at the start"]
        facts.update(dict.fromkeys(last, DEED))
        if self._kinds > 1:
            facts[f"kind {one.kind}"] = KIND
        known = {x for x in words(one.goal) if x in self._vocabulary.goal_words}
        facts.update((f'{SAYS}"{word}"', GOAL) for word in known - FUNCTION_WORDS)
        for r, thing in enumerate(now.roles[:THINGS], 1):
            words_of = {x for line in now.instructions if mentioned(thing, line) for x in line}
            words_of -= {*FUNCTION_WORDS, *thing}
            facts.update((f'asked of thing {r}: "{word}"', GOAL) for word in words_of)
        facts.update(dict.fromkeys(_sights(now), SIGHT))
        time = one.time
        facts.update((name, TIME) for name, least in self._latest.items() if time >= least)
        return facts, now

    def _state(self, texts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Return the latest values of each path, as facts."""
        if texts not in self._states:
            before = self._state(texts[:-1]) if len(texts) > 1 else {}
            self._states[texts] = {**before, **self._read(texts[-1])}
        return self._states[texts]

    def _read(self, text: str) -> dict[str, tuple[str, ...]]:
        if text not in self._texts:
            values: dict[str, list[str]] = defaultdict(list)
            for path, value in reading.leaves(text, named=True):
                name = self._short.get(path, path)
                values[path].append(f"{name} = {value}")
                if (amount := reading.number(value)) is None:
                    self._paths[f"{name} = {value}"] = path
                    continue
                for limit in self._limits.get(path, ()):
                    values[path].append(f"{name} {'<=' if amount <= limit else '>'} {limit:g}")
            self._texts[text] = {path: tuple(dict.fromkeys(v)) for path, v in values.items()}
        return self._texts[text]


def _ends(path: str) -> list[str]:
    """Return the ends of a path, the shortest first, and all of it."""
    parts = path.split(".")
    return [*(".".join(parts[i:]) for i in range(len(parts) - 1, 0, -1)), f".{path}"[1:]]


def _sights(now: Situation) -> Iterator[str]:
    """Yield what the prose in sight says of the goal's things, and what else it says."""
    present = reading.lines(reading.prose(now.sight))
    rest = [line for line in present if len(line) <= LINE]
    for r, thing in enumerate(now.roles[:THINGS] if present else (), 1):
        about = [(line, place) for line in present if (place := mentioned(thing, line))]
        yield f"thing {r} {'' if about else 'not '}in sight"
        for line, (at, size) in about:
            rest = [one for one in rest if one != line]
            others = (*line[:at], f"[thing {r}]", *line[at + size :])
            yield f'in sight: "{" ".join(others)}"'
            yield f'in sight: "{" ".join("N" if x.isdigit() else x for x in others)}"'
            telling = [x for x in others if x not in FUNCTION_WORDS and x.isalpha()]
            yield from (f'{SAID}thing {r}: "{word}"' for word in telling)
    for line in rest:
        yield f'in sight: "{" ".join(line)}"'


#: Facts of one rule, conjunctions that are looked at further, and rules of one action.
FACTS, WIDTH, OF_ACTION = 3, 6, 6
#: Parts of the episodes that are left out in turn, and left-out steps that must test a rule.
FOLDS, TESTED = 5, 3
#: The share of its steps in which a rule must hold, where it was found and where it was not.
PRECISE, HELD = 0.7, 0.65
#: A rule of which others explain this share says nothing new.
EXPLAINED = 0.7
#: The latest uses of a rule, and how improbable as many failures must be.
LAST, CHANCE = 10, 1e-3
#: The share of a condition in which an action is a rival, and contradictions that are told.
RIVAL, CONTRADICTIONS = 0.3, 6

#: What "thing 1" means.
LEGEND = "(thing 1 is what the task names last, thing 2 what it names before that, and so on)"

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
    failed: int
    held: int
    tested: int
    kinds: tuple[str, ...]

    @property
    def text(self) -> str:
        """The rule in words, with its support and its uses in episodes that failed."""
        failed = f", failed {self.failed}" if self.failed else ""
        return f"{', '.join(self.facts)} → {self.action} ({self.right} of {self.of}{failed})"


@dataclass(frozen=True, slots=True)
class Habit:
    """How often an action was done in tasks of a kind: in how many of the episodes.

    worked, failed: of those that worked, and of those that failed. place: its usual place there.
    """

    kind: str
    action: str
    worked: int
    of_worked: int
    failed: int
    of_failed: int
    place: float


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a memory, those that explain most first.

    contradictions: conditions for which the memory has no single answer, in words. habits: what was
    done in each kind of task, in the usual order. explained: the share of the steps of episodes
    that worked which the rules explain. reader: the `FactReader` that they were read by, or None.
    """

    rules: tuple[Rule, ...] = ()
    contradictions: tuple[str, ...] = ()
    habits: tuple[Habit, ...] = ()
    explained: float = 0.0
    reader: Any = field(default=None, compare=False, repr=False)

    def of_kind(self, kind: str | None) -> Rules:
        """Return those of a kind of task; all for None."""
        if kind is None:
            return self
        rules = tuple(one for one in self.rules if kind in one.kinds)
        return replace(self, rules=rules, habits=tuple(x for x in self.habits if x.kind == kind))

    def bearing(self, now: Lesson) -> list[str]:
        """Return in words, with the names of its things, the rules whose conditions a state meets.

        now: the state, with any action.
        """
        if self.reader is None:
            return []
        facts, state = self.reader.read(now)
        texts = [x.text for x in self.rules if all(holds(fact, facts) for fact in x.facts)]
        for place, name in reversed([*enumerate(state.roles[:THINGS], 1)]):
            texts = [one.replace(f"thing {place}", " ".join(name)) for one in texts]
        return texts

    def lines(self, limit: int | None = None) -> list[str]:
        """Return the first rules in words, and what the words mean that need it."""
        texts = [one.text for one in self.rules[:limit]]
        return [*texts, *([LEGEND] if any("thing " in text for text in texts) else ())]


@dataclass(frozen=True, slots=True, eq=False)
class _Condition:
    """A condition for an action. have: its steps. part: those to test it in. loss: less is more."""

    action: str
    facts: tuple[str, ...]
    have: Array
    part: Array
    loss: float


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Steps by facts.

    x, by_fact: (n, m) sparse, by rows and by columns. costs: of naming each fact, in nats: its
        sort, and which of these it is. of: the steps of each action. general: its description
        without names. weight, episode, time: of each step.
    """

    lessons: Sequence[Lesson]
    x: Any
    by_fact: Any
    names: list[str]
    costs: Array
    of: dict[str, Array]
    general: dict[str, str]
    weight: Array
    episode: Array
    time: Array

    @property
    def worked(self) -> Array:
        """Which steps are of episodes that worked."""
        return self.weight > 0

    def steps(self, facts: Facts) -> Array:
        """Return which steps have all of some facts."""
        have = np.ones(len(self.weight), bool)
        for f in facts:
            has = np.zeros(len(self.weight), bool)
            has[self.by_fact.indices[self.by_fact.indptr[f] : self.by_fact.indptr[f + 1]]] = True
            have &= has
        return have

    def conditions(self, action: str, part: Array) -> Iterator[Facts]:
        """Yield the conditions in some steps for an action, each for what those before leave."""
        worked, size = np.maximum(self.weight, 0), np.abs(self.weight)
        for_it = np.where(part & self.of[action], worked, 0)
        all_of = np.where(part, np.where(self.of[action], size, worked), 0)
        for _ in range(OF_ACTION):
            if not (best := self.best(for_it, all_of)):
                return
            yield best
            done = self.steps(best) & (for_it > 0)
            for_it, all_of = np.where(done, 0, for_it), np.where(done, 0, all_of)

    def best(self, for_it: Array, all_of: Array, least: float = PRECISE) -> Facts:
        """Return the condition that explains most of the weight `for_it`, if it is precise."""
        if len(np.unique(self.episode[for_it > 0])) < SUPPORT:
            return ()
        base = for_it.sum() / all_of.sum()
        beam: list[tuple[Facts, Array]] = [((), np.flatnonzero(all_of))]
        best: tuple[float, int, Facts] = (0.0, 0, ())
        for size in range(1, FACTS + 1):
            grown: dict[Facts, tuple[float, Array]] = {}
            for facts, rows in beam:
                part = self.x[rows].T
                yes, both = part @ for_it[rows], part @ all_of[rows]
                paid = self.costs + self.costs[list(facts)].sum()
                loss = np.round(paid - _gain(yes, both, base), 6)
                loss[list(facts)] = np.inf
                for f in np.argsort(loss, kind="stable")[:WIDTH].tolist():
                    key = tuple(sorted((*facts, f)))
                    grown.setdefault(key, (float(loss[f]), rows))
                    if yes[f] >= least * both[f]:
                        best = min(best, (float(loss[f]), size, key))
            ranked = sorted((loss, key) for key, (loss, _) in grown.items() if loss < np.inf)
            beam = [(key, grown[key][1]) for _, key in ranked[:WIDTH]]
            beam = [(key, rows[self.steps(key)[rows]]) for key, rows in beam]
        return best[2]

    def condition(self, action: str, facts: Facts, part: Array) -> _Condition:
        """Return a condition that was found. part: the steps that it was not learnt from."""
        have, taken = self.steps(facts), self.of[action] & self.worked
        right, of = (np.array((have & one).sum(), float) for one in (taken, self.worked))
        gain = float(_gain(right, of, taken.sum() / self.worked.sum()))
        loss = round(self.costs[list(facts)].sum() - gain, 6)
        return _Condition(action, tuple(self.names[f] for f in facts), have, part, loss)

    def rule(self, case: _Condition) -> Rule:
        """Return a condition with its counts."""
        worked, taken = case.have & self.worked, case.have & self.of[case.action]
        right = worked & taken
        steps = (right, worked, taken & ~worked, right & case.part, worked & case.part)
        right_of, of, failed, held, tested = (int(one.sum()) for one in steps)
        kinds = sorted({self.lessons[i].kind for i in np.flatnonzero(right).tolist()})
        return Rule(case.facts, case.action, right_of, of, failed, held, tested, tuple(kinds))

    def doubt(self, case: _Condition) -> str:
        """Return what speaks against a rule that held, in words; "" if nothing."""
        from scipy.special import bdtrc

        used = np.flatnonzero(case.have & self.of[case.action])
        failed = ~self.worked[used[np.argsort(self.time[used], kind="stable")]]
        usual = float((~self.worked).mean())
        before = max(usual, float(failed[:-LAST].sum() / len(used)))
        recent = failed[-LAST:] if np.ptp(self.time) else failed
        for uses, share in ((recent, before), (failed, usual)):
            if uses.mean() > 0.5 and bdtrc(uses.sum() - 1, len(uses), share) < CHANCE:
                lately = "of the last " if len(uses) < len(failed) else "of "
                return f"{self.rule(case).text}, but {uses.sum()} {lately}{len(uses)} uses failed"
        return ""


def _gain(yes: Array, both: Array, base: float) -> Array:
    """Return by how much steps are likelier by their own share than by the base's, in nats."""
    base = min(base, 0.99)
    share = np.clip(yes / np.maximum(both, 1e-9), 1e-9, 1 - 1e-9)
    gain = yes * np.log(share / base) + (both - yes) * np.log((1 - share) / (1 - base))
    return np.where(share > base, gain, -np.inf)


def _table(lessons: Sequence[Lesson], reader: FactReader) -> _Table:
    """Read recorded steps; facts that always hold together are one."""
    from scipy.sparse import csr_matrix

    rows, actions = reader.read_all(lessons)
    sort = {name: one for facts in rows for name, one in facts.items()}
    names = sorted(recurring(rows, lessons), key=lambda x: (sort[x], x.startswith(SAID), len(x), x))
    place = {name: f for f, name in enumerate(names)}
    columns = [sorted(place[name] for name in facts if name in place) for facts in rows]
    flat, ends = np.array([f for one in columns for f in one], int), [*map(len, columns)]
    x = csr_matrix((np.ones(len(flat)), flat, np.cumsum([0, *ends])), (len(rows), len(names)))
    signs = np.random.default_rng(3).integers(1 << 40, size=len(rows)).astype(float)
    first = np.sort(np.unique(x.T @ signs, return_index=True)[1])
    x, names = x[:, first], [names[f] for f in first]
    sizes = np.bincount(sorts := np.array([sort[name] for name in names], int), minlength=TIME + 1)
    sizes[NOT] += 2 * sizes[VALUE]  # what is says more than what is not
    costs = np.log(TIME + 1) + np.log(sizes[sorts]) + 0.25 * math.log(len(lessons))
    episode = np.unique([one.episode for one in lessons], return_inverse=True)[1]
    general = {action: each[-1] for each in actions for action in each}
    of = {action: np.array([action in each for each in actions]) for action in sorted(general)}
    of = {action: one for action, one in of.items() if len(np.unique(episode[one])) >= SUPPORT}
    weight = np.array([one.weight for one in lessons])
    time = np.array([one.time for one in lessons])
    return _Table(lessons, x, x.tocsc(), names, costs, of, general, weight, episode, time)


def learn_rules(lessons: Sequence[Lesson]) -> Rules:
    """Return the rules that recorded steps teach, in whatever order their episodes come."""
    lessons = sorted(within(lessons, STEPS), key=lambda one: one.episode)
    if not any(one.weight > 0 for one in lessons):
        return Rules()
    reader = FactReader(vocabulary_of(lessons), lessons)
    table = _table(lessons, reader)
    chosen, against, explained = _chosen(table)
    against += _undecided(table, table.worked & ~explained)
    rules = tuple(map(table.rule, chosen))
    against += [f"lately: {one.text}" for one in rules if any(LATELY in x for x in one.facts)]
    share = float(explained[table.worked].mean())
    against = [*dict.fromkeys(against)][:CONTRADICTIONS]
    return Rules(rules, tuple(against), tuple(_habits(table)), share, reader)


def _habits(table: _Table) -> Iterator[Habit]:
    """Yield what was done in each kind of task, in the usual order, without names of things."""
    kinds = np.array([one.kind for one in table.lessons])
    place = np.arange(len(kinds)) - np.unique(table.episode, return_index=True)[1][table.episode]
    actions = [x for x in table.of if x == table.general[x]]
    for kind in sorted(set(kinds.tolist())):
        parts = [(kinds == kind) & one for one in (table.worked, ~table.worked)]
        of = [len(np.unique(table.episode[part])) for part in parts]
        habits = []
        for action in actions:
            rows = [np.flatnonzero(part & table.of[action]) for part in parts]
            first = [row[np.unique(table.episode[row], return_index=True)[1]] for row in rows]
            if any(map(len, first)):
                usual = float(np.median(place[first[not len(first[0])]]))
                counts = len(first[0]), of[0], len(first[1]), of[1]
                habits.append(Habit(kind, action, *counts, usual))
        yield from sorted(habits, key=lambda one: one.place)


def _chosen(table: _Table) -> tuple[list[_Condition], list[str], Array]:
    """Return the rules that hold where they were not found, doubts, and what is explained."""
    folds = np.array([stable_seed("fold", one.episode) % FOLDS for one in table.lessons])
    parts: dict[tuple[str, Facts], Array] = {}
    for fold in range(FOLDS):
        for action in table.of:
            for facts in table.conditions(action, folds != fold):
                before = parts.get((action, facts), False)
                parts[action, facts] = before | (folds == fold)
    ranked, doubts, chosen = [], list[str](), list[_Condition]()
    for (action, facts), part in parts.items():
        case = table.condition(action, facts, part)
        rule, general = table.rule(case), table.general[action]
        if rule.tested >= TESTED and rule.held >= HELD * rule.tested and case.loss < 0:
            known = {*words(general), *words(" ".join(case.facts))}  # names that the facts tell
            later = ANY in action or (action != general and known >= {*words(action)})
            ranked.append((later, case.loss, rule.text, case))
    explained = np.zeros(len(folds), bool)
    for *_, case in sorted(ranked, key=lambda one: one[:3]):
        right = case.have & table.of[case.action] & table.worked
        if (explained & right).sum() >= EXPLAINED * right.sum():
            continue
        explained |= right
        if doubt := table.doubt(case):
            doubts.append(doubt)
            continue
        chosen.append(case)
    return sorted(chosen, key=lambda one: one.loss), doubts, explained


def _undecided(table: _Table, left: Array) -> Iterator[str]:
    """Yield conditions for two actions that no fact tells apart, among the steps that are left."""
    pairs = set[frozenset[str]]()
    for action, taken in table.of.items():
        for_it, all_of = taken & left, table.worked & (left | ~taken)
        facts = table.best(for_it.astype(float), all_of.astype(float), least=RIVAL)
        have = table.steps(facts) & table.worked
        others = [x for x in table.of if ANY not in x and not (table.of[x] & taken).any()]
        counts = [(int((have & left & table.of[x]).sum()), x) for x in others]
        count, rival = max(counts, default=(0, ""))
        mine, of = int((have & left & taken).sum()), int(have.sum())
        few = min(mine, count) < max(SUPPORT, RIVAL * of) or mine + count < (1 - RIVAL / 2) * of
        if not facts or few or ANY in action or {action, rival} in pairs:
            continue
        both = {*table.episode[have & taken]} & {*table.episode[have & table.of[rival]]}
        if len(both) <= RIVAL * min(mine, count):
            pairs.add(frozenset((action, rival)))
            condition = ", ".join(table.names[f] for f in facts)
            yield f"{condition} → {action} ({mine}) or {rival} ({count}): no fact tells which"
