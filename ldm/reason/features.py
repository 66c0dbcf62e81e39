"""Describe states and actions by features that mean the same in every world.

A feature is a pair: a descriptor of the action (its frame, with its fillers put aside, named, or
given the part that they play in the goal) and a fact of the state. `ldm.reason.relevance` learns
what each is worth. Features are 64-bit hashes; the last byte is the group (`GROUPS`).
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ldm.reason.frames import Command, read_command, stem
from ldm.reason.reading import (
    FUNCTION_WORDS,
    Words,
    kind_of,
    leaves,
    lines,
    masked,
    mentioned,
    number,
    pattern_of,
    place_of,
    prose,
    shape,
    words,
)
from ldm.types import Past

Keys = NDArray[np.uint64]
#: The form of an action, and what fills its slots: "r1" for the last thing of the goal, or a kind.
Pattern = tuple[str, tuple[str, ...]]

#: The groups of features, and their scales: the penalty of a weight falls with the square.
GROUPS = {
    "action": 1.0,
    "roles": 0.5,
    "words": 0.25,
    "deeds": 0.5,
    "filler": 1.0,
    "lines": 0.5,
    "repeat": 0.5,
    "phase": 0.5,
    "kind": 0.7,
    "agree": 1.0,
    "facts": 1.5,
    "goal": 1.5,
    "relation": 0.7,
}
ACTION, ROLES, WORDS, DEEDS, FILLER, LINES, REPEAT, PHASE, KIND, AGREE, FACTS, GOAL, RELATION = (
    range(len(GROUPS))
)
SCALES = np.array(list(GROUPS.values()))

#: Observations in which the latest mention of a thing of the goal is looked for.
LOOK_BACK = 30
#: Facts of one group in one state.
MOST_FACTS = 120
#: A frame that is used at most so often in an episode marks a phase of it.
RARE = 2.0
#: Numbers of one path that are told apart one by one, and beyond by so many quantiles.
DISTINCT = 12

_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT, _LOW = np.uint64(29), np.uint64(255)


@lru_cache(500_000)
def key(text: str) -> int:
    """Return the hash of a descriptor or fact, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def keys(facts: Iterable[str]) -> Keys:
    """Return the hashes of distinct facts."""
    return np.array([key(fact) for fact in dict.fromkeys(facts)], np.uint64)


@lru_cache(50_000)
def fact_keys(facts: tuple[str, ...], group: int) -> Keys:
    """Return the hashes of distinct facts of a group."""
    return grouped(keys(facts), group)


def keys_of(texts: Iterable[str]) -> Keys:
    """Return the hash of each text."""
    return np.array([key(text) for text in texts], np.uint64)


def crossed(left: Keys, right: Keys) -> Keys:
    """Return the hashes of pairs of descriptors and facts, whose group is that of the fact."""
    pairs = (left * _FIRST ^ right) * _SECOND
    pairs ^= pairs >> _SHIFT
    return (pairs & ~_LOW) | (right & _LOW)


def grouped(facts: Keys, group: int) -> Keys:
    """Return the hashes of facts with a group as the last byte."""
    return (facts & ~_LOW) | np.uint64(group)


def both(left: Keys, right: Keys, group: int) -> Keys:
    """Return the hashes of all pairs of facts, as facts of a group."""
    return grouped(crossed(np.repeat(left, len(right)), np.tile(right, len(left))), group)


ONE = keys([""])
NOTHING = keys([])


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the memory teaches about reading: words, frames and numbers that occur in it.

    verbs: first words of actions. things: words of observations and of fillers. frames: those of
    actions taken. closed: actions written the same in many episodes. rare: frames that mark a
    phase. thresholds: numbers by which a path's values are told apart. told: facts of structured
    texts that occur in several episodes. asked: words that occur in several episodes' goals.
    telling: the facts that tell actions apart, hashed, if there are too many.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    verbs: frozenset[str] = frozenset()
    things: frozenset[str] = frozenset()
    frames: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
    rare: frozenset[str] = frozenset()
    thresholds: tuple[tuple[str, tuple[float, ...]], ...] = ()
    told: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    telling: frozenset[int] = frozenset()

    @property
    def telling_keys(self) -> Keys:
        """The facts that tell actions apart, sorted; empty if all are read."""
        return _sorted(self.telling)

    def facts(self, text: str) -> tuple[str, ...]:
        """Return the known facts of a structured text: values, and numbers as "≤ t"."""
        return _facts(self, text) if "{" in text or "[" in text or ":" in text or "=" in text else ()


@lru_cache(8)
def _sorted(telling: frozenset[int]) -> Keys:
    return np.array(sorted(telling), np.uint64)


@lru_cache(8)
def _thresholds(vocabulary: Vocabulary) -> dict[str, tuple[float, ...]]:
    return dict(vocabulary.thresholds)


_FACTS: dict[tuple[int, str], tuple[str, ...]] = {}


def _facts(vocabulary: Vocabulary, text: str) -> tuple[str, ...]:
    cached = _FACTS.get((id(vocabulary), text))
    if cached is None:
        thresholds = _thresholds(vocabulary)
        found = []
        for path, value in leaves(text):
            found.append(f"{path}={masked(value)}")
            amount = number(value)
            if amount is not None:
                limits = thresholds.get(path, ())
                found += [f"{path}<={limit:g}" for limit in limits if amount <= limit]
        told = vocabulary.told
        cached = tuple(dict.fromkeys(fact for fact in found if not told or fact in told))
        if len(_FACTS) > 20_000:
            _FACTS.clear()
        _FACTS[id(vocabulary), text] = cached
    return cached


def between(values: Sequence[float]) -> tuple[float, ...]:
    """Return thresholds halfway between numbers, at most DISTINCT."""
    distinct = sorted(set(values))
    if len(distinct) > DISTINCT:
        ranked = sorted(values)
        distinct = sorted({ranked[i * (len(ranked) - 1) // DISTINCT] for i in range(DISTINCT + 1)})
    return tuple((a + b) / 2 for a, b in zip(distinct, distinct[1:], strict=False))


@lru_cache(200_000)
def _said(line: Words, at: int, size: int) -> tuple[str, ...]:
    """Return what a line says of the words at a place: all of it, and word by word."""
    rest = (*line[:at], "@", *line[at + size :])
    hidden = " ".join("#" if word.isdigit() else word for word in rest)
    facts = {" ".join(rest): None, hidden: None}
    facts.update((word, None) for word in rest if word != "@")
    for amount, after in zip(rest, (*rest[1:], "."), strict=True):
        if amount.isdigit() and len(amount) < 6:
            limits = (t for t in (1, 2, 3, 5, 10, 30, 50) if int(amount) <= t)
            facts.update((f"{after}<={limit}", None) for limit in limits)
    return tuple(facts)


def role_of(name: Words, roles: Sequence[Words]) -> int:
    """Return the place, from 1, of the goal's thing that `name` means; 0 if none.

    One of the two must have all words of the other.
    """
    best, place, mine = 0, 0, set(kind_of(name))
    for i, role in enumerate(roles, 1):
        shared = len(mine.intersection(role))
        if shared > best and shared in (len(mine), len(set(role))):
            best, place = shared, i
    return place


@lru_cache(50_000)
def _mentions(role: Words, text: str) -> tuple[tuple[Words, int, int], ...]:
    """Return (line, place, words) of the best mentions of a goal's thing in a text."""
    for size in range(len(role), max(0, min(2, len(role)) - 1), -1):
        parts = [role[i : i + size] for i in range(len(role) - size + 1)]
        found = [
            (line, at, size)
            for line in lines(text)
            for part in parts
            if (at := place_of(part, line)) >= 0
        ]
        if found:
            return tuple(found[:8])
    return ()


@lru_cache(50_000)
def _with_name(name: Words, text: str) -> tuple[Words, ...]:
    """Return the lines of a text that name a thing in full."""
    return tuple(line for line in lines(text) if place_of(name, line) >= 0)


@dataclass(frozen=True)
class Filler:
    """What a state says of a thing.

    role: its place in the goal, 0 if none. near: attributes that matter by phase and kind. more:
    other attributes. told: what lines say of it. lines: those that name it, with their sources.
    """

    role: int
    near: tuple[str, ...]
    more: tuple[str, ...]
    told: tuple[str, ...]
    lines: tuple[tuple[str, Words], ...]

    @property
    def signature(self) -> tuple[tuple[str, ...], ...]:
        """What is equal for things that no fact tells apart."""
        return self.near, self.more, self.told


@dataclass(frozen=True, slots=True)
class Features:
    """The features of n actions, as parts that several of them share.

    keys: of all parts, one part after the other. sizes: of each part. rows: the parts of each row.
    """

    keys: Keys
    sizes: list[int]
    rows: list[list[int]]


class _Parts:
    """Collects parts, each a descriptor with its facts, once."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self._numbers: dict[tuple[str, object], int] = {}
        self._facts: list[Keys] = []

    def part(self, descriptor: str, name: object, facts: Keys) -> int:
        """Return the number of the part of a descriptor with facts, which have a name."""
        number = self._numbers.setdefault((descriptor, name), len(self._facts))
        if number == len(self._facts):
            self._facts.append(facts)
        return number

    def features(self) -> Features:
        """Return all parts, hashed."""
        if not self._facts:
            return Features(NOTHING, [], [])
        sizes = [len(facts) for facts in self._facts]
        left = np.repeat(keys_of(one for one, _ in self._numbers), sizes)
        return Features(crossed(left, np.concatenate(self._facts)), sizes, self.rows)


class Situation:
    """A state that is read once: facts of the state, and of the things in it on demand."""

    def __init__(
        self, vocabulary: Vocabulary, goal: str, kind: str, past: Past, sight: str
    ) -> None:
        """Read a state. past: the pairs (observation, action) before the observation `sight`."""
        self.vocabulary, self.goal, self.kind, self.sight = vocabulary, goal, kind, sight
        self.texts = [*(text for text, _ in past), sight]
        self.commands = [read_command(action) for _, action in past]
        self.roles = self._things_of_goal()
        self._fillers: dict[Words, Filler] = {}
        self._near: dict[tuple[str, ...], Keys] = {}
        self._read_past()

    def _things_of_goal(self) -> list[Words]:
        """Return the things of the goal, the last first: runs of words that name something."""
        found, run = [], []
        known = self.vocabulary
        for word in (*words(self.goal), "the"):
            if (
                word not in FUNCTION_WORDS
                and word not in known.verbs
                and (word in known.things or any(word in words(text) for text in self.texts))
            ):
                run.append(word)
            elif run:
                found.append(tuple(run))
                run = []
        return list(dict.fromkeys(reversed(found)))

    def _read_past(self) -> None:
        """Count what was done: ever, in this same sight, and with each thing."""
        self.used: Counter[Words] = Counter()
        self.deed: dict[Words, str] = {}
        self.after: dict[Words, int] = {}
        self.joined: dict[Words, set[str]] = defaultdict(set)
        self.text_done: Counter[str] = Counter()
        self.here_done: Counter[str] = Counter()
        self.frame_done: Counter[str] = Counter()
        self.progress: Counter[str] = Counter()
        rare, latest = self.vocabulary.rare, ""
        for i, command in enumerate(self.commands):
            self.text_done[command.text] += 1
            self.frame_done[command.frame] += 1
            if self.texts[i] == self.sight:
                self.here_done[command.text] += 1
            parts = [role_of(filler, self.roles) for filler in command.fillers]
            for slot, filler in enumerate(command.fillers):
                self.used[filler] += 1
                self.deed[filler], self.after[filler] = f"{command.frame}:{slot}", i + 1
                self.joined[filler].update(
                    f"{command.frame}:{slot}+{p}" for j, p in enumerate(parts) if p and j != slot
                )
            if command.frame in rare:
                latest = command.frame + str(parts)
                self.progress[latest] += 1
        self.last = self.commands[-1] if self.commands else None
        done = ";".join(sorted(f"{d}x{min(n, 2)}" for d, n in self.progress.items()))
        self.phase = keys([done, f"last {latest}"])

    @cached_property
    def of_roles(self) -> Keys:
        """What the texts say of the goal's things, now or when they were last mentioned."""
        facts: list[str] = []
        for r, role in enumerate(self.roles, 1):
            for age, text in enumerate(reversed(self.texts[-LOOK_BACK:])):
                if found := _mentions(role, text):
                    when = f"r{r} " if age == 0 else f"r{r} then "
                    facts.append(f"{when}present")
                    facts += [when + fact for mention in found for fact in _said(*mention)]
                    break
                if age == 0:
                    facts.append(f"r{r} absent")
        return grouped(keys(list(dict.fromkeys(facts))[:MOST_FACTS]), ROLES)

    @cached_property
    def of_words(self) -> Keys:
        """The lines in sight that mention no thing of the goal, and the words of new ones."""
        plain = prose(self.sight)
        rest = [x for x in lines(plain) if not any(mentioned(r, x) for r in self.roles)]
        before = set(lines(prose(self.texts[-2]))) if len(self.texts) > 1 else set()
        new = [x for x in rest if x not in before]
        told = [" ".join("#" if w.isdigit() else w for w in line) for line in rest[:40]]
        named = [*told, *(word for line in new[:12] for word in line)]
        return grouped(keys(named[:MOST_FACTS]), WORDS)

    @cached_property
    def of_deeds(self) -> Keys:
        """What was done: frames with counts, the last action, what was done with which role."""
        facts = [f"done {frame} {min(n, 2)}" for frame, n in self.frame_done.items()]
        facts.append(f"last {self.last.frame}" if self.last else "first")
        if self.last:
            same = "same" if self.texts[-2] == self.sight else "other"
            facts += [same, f"last {self.last.frame} {same}", f"last {self.last.text}"]
        facts += [f"did {deed} {min(n, 2)}" for deed, n in self.progress.items()]
        touched: dict[int, tuple[int, str]] = {}
        for filler, deed in self.deed.items():
            if role := role_of(filler, self.roles):
                touched[role] = max(touched.get(role, (0, "")), (self.after[filler], deed))
        return keys([*facts, *(f"touched {role} {d}" for role, (_, d) in touched.items())])

    @cached_property
    def of_facts(self) -> Keys:
        """The facts of structured texts, now and before."""
        facts = self.vocabulary.facts
        told = [f"now {fact}" for fact in facts(self.sight)]
        told += [f"before {fact}" for text in self.texts[:-1] for fact in facts(text)]
        told += [f"so far {fact}" for text in self.texts for fact in facts(text)]
        return grouped(keys(told), FACTS)

    @cached_property
    def of_goal(self) -> Keys:
        """The words of the goal that other goals have as well."""
        asked = (word for word in words(self.goal) if word in self.vocabulary.asked)
        return grouped(keys(asked), GOAL)

    @cached_property
    def of_kind(self) -> Keys:
        """The kind of task."""
        return keys([f"kind {self.kind}"])

    def filler(self, name: Words) -> Filler:
        """Return what the state says of a thing."""
        known = self._fillers.get(name)
        if known is None:
            known = self._fillers[name] = self._read_filler(name)
        return known

    def _read_filler(self, name: Words) -> Filler:
        role, kind = role_of(name, self.roles), kind_of(name)
        now = _with_name(name, self.sight)
        hand = bool(self.last and name in self.last.fillers)
        named = [text for text in self.texts[:-1] if _with_name(name, text)]
        if name in self.after:
            after = self.texts[self.after[name]]
            beside = ",".join(str(r) for r, t in enumerate(self.roles, 1) if _mentions(t, after))
        else:  # the things of the goal that a line named together with it
            together = [x for text in (*named, self.sight) for x in _with_name(name, text)]
            beside = "?" + ",".join(
                str(r) for r, t in enumerate(self.roles, 1) if any(mentioned(t, x) for x in together)
            )
        used = min(self.used[name], 2)
        fresh = "".join(str(r) for r, t in enumerate(self.roles, 1) if self._fresh(name, t))
        deed = self.deed.get(name, "")
        near = [f"role {role}", f"name {' '.join(shape(name))}", f"beside {beside}", f"fresh {fresh}"]
        near += [f"touched {deed}", *(f"joined {j}" for j in sorted(self.joined.get(name, ())))]
        view, seen = bool(now), bool(now or named)
        more = [f"goal {role > 0}", f"view {view}", f"hand {hand}", f"used {used}", f"seen {seen}"]
        more += [f"sig {role} {view} {hand} {used}", f"sig2 {role > 0} {beside} {used}"]
        told = [f"now {s}" for x in now[:4] for s in _said(x, place_of(name, x), len(name))]
        asked = [(x, m) for x in lines(self.goal) if (m := mentioned(kind, x))]
        told += [f"goal {s}" for x, m in asked for s in _said(x, *m)]
        past = list(dict.fromkeys(x for text in named for x in _with_name(name, text)))
        past_said = (s for x in past[:12] for s in _said(x, place_of(name, x), len(name)))
        told += [f"past {s}" for s in past_said if " " in s]
        where = [("goal", x) for x, _ in asked] + [("now", x) for x in now]
        where += [("past", x) for x in past if x not in now]
        told = list(dict.fromkeys(told))[:MOST_FACTS]
        return Filler(role, tuple(near), tuple(more), tuple(told), tuple(where[:20]))

    def _close(self, near: tuple[str, ...]) -> Keys:
        """Return the attributes of a thing that matter by phase and kind."""
        known = self._near.get(near)
        if known is None:
            close = keys(near)
            parts = [both(self.phase, close, PHASE), both(self.of_kind, close, KIND)]
            known = self._near[near] = np.concatenate(parts)
        return known

    def _fresh(self, name: Words, role: Words) -> bool:
        """Return whether an answer to an action on a thing showed another one never acted on."""
        for i, command in enumerate(self.commands):
            if name in command.fillers:
                for line in lines(self.texts[i + 1]):
                    if (at := place_of(role, line)) >= 0:
                        end = at + len(role)
                        found = line[at : end + (end < len(line) and line[end].isdigit())]
                        if found not in self.used and found != name:
                            return True
        return False

    def _agreement(self, command: Command, slot: int) -> tuple[str, ...]:
        """Return whether lines about a filler speak of the verb, its result or other fillers."""
        verb, facts = command.verb, []
        others = [kind_of(y) for j, y in enumerate(command.fillers) if j != slot]
        for source, line in self.filler(command.fillers[slot]).lines:
            if verb in line:
                facts.append(f"{source} verb")
            elif any(stem(verb) == word[: len(stem(verb))] for word in line):
                facts.append(f"{source} stem")
            if any(mentioned(other, line) for other in others):
                facts.append(f"{source} other")
        facts.append(f"goal says verb {verb in words(self.goal)}")
        return tuple(dict.fromkeys(facts))

    def _relations(self, command: Command) -> tuple[str, ...]:
        """Return how the fillers of an action relate to each other and to the last action's."""
        facts = []
        for i, one in enumerate(command.fillers):
            for j, other in enumerate(command.fillers[i + 1 :], i + 1):
                if set(one) & set(other):
                    facts.append(f"{i} {j} alike")
                if set(one) & set(self.deed) or one == other:
                    facts.append(f"{i} {j} same")
            for j, other in enumerate(self.last.fillers if self.last else ()):
                if one == other:
                    facts.append(f"{i} last {j} same")
                elif set(one) & set(other) - FUNCTION_WORDS:
                    facts.append(f"{i} last {j} alike")
        return tuple(facts)

    def surface(self, name: Words) -> str:
        """Return a name as the latest text spells it, or its words if no text does."""
        for text in (*reversed(self.texts), self.goal):
            if match := pattern_of(name).search(text):
                return match.group()
        return " ".join(name)

    def pattern(self, action: str) -> Pattern:
        """Return the form of an action, and the parts that its things play in the goal."""
        command = read_command(action)
        parts = (
            f"r{r}" if (r := role_of(name, self.roles)) else " ".join(shape(name))
            for name in command.fillers
        )
        return command.frame, tuple(parts)

    @cached_property
    def _facts(self) -> tuple[Keys, Keys, Keys]:
        """The facts that matter to any descriptor, to those with roles, and to frames."""
        kind = self.of_kind
        for_all = [
            grouped(ONE, ACTION),
            grouped(self.of_deeds, DEEDS),
            grouped(self.phase, DEEDS),
            both(kind, np.concatenate([ONE, self.phase]), KIND),
        ]
        of_roles = self._telling(self.of_roles)
        for_roles = [*for_all, of_roles]
        for_frames = [
            *for_roles,
            *map(self._telling, (self.of_words, self.of_facts, self.of_goal)),
            both(self.phase, of_roles, PHASE),
        ]
        return np.concatenate(for_all), np.concatenate(for_roles), np.concatenate(for_frames)

    def _telling(self, facts: Keys) -> Keys:
        """Return those of the facts that tell actions apart, if there are too many."""
        telling = self.vocabulary.telling_keys
        if not len(telling):
            return facts
        at = np.minimum(np.searchsorted(telling, facts), len(telling) - 1)
        chosen: Keys = facts[telling[at] == facts]
        return chosen

    @property
    def facts(self) -> Keys:
        """All facts of the texts, of which too many are left out (`Vocabulary.telling`)."""
        return np.concatenate([self.of_roles, self.of_words, self.of_facts, self.of_goal])

    def rows(self, actions: Sequence[str]) -> tuple[Features, list[int]]:
        """Return the distinct features of actions, and for each action the number of its row.

        Actions that no fact tells apart have the same: five drawers that were never opened.
        """
        numbers: dict[tuple[object, ...], int] = {}
        made, of_action = _Parts(), []
        for action in actions:
            command = read_command(action)
            fillers = tuple(map(self.filler, command.fillers))
            closed = action if action in self.vocabulary.closed else ""
            more = (
                tuple(self._agreement(command, i) for i in range(len(fillers))),
                self._relations(command),
                self._repeats(command),
            )
            same = command.frame, closed, tuple(one.signature for one in fillers), more
            number = numbers.setdefault(same, len(numbers))
            if number == len(made.rows):
                self._describe(made, command, closed, fillers, *more)
            of_action.append(number)
        return made.features(), of_action

    def _describe(
        self,
        made: _Parts,
        command: Command,
        closed: str,
        fillers: tuple[Filler, ...],
        agreed: tuple[tuple[str, ...], ...],
        related: tuple[str, ...],
        repeats: tuple[str, ...],
    ) -> None:
        """Add the row of an action: each descriptor with the facts that matter to it."""
        for_all, for_roles, for_frames = self._facts
        roles = [one.role for one in fillers]
        names = [" ".join(shape(name)) for name in command.fillers]
        mixed = [f"r{r}" if r else name for r, name in zip(roles, names, strict=True)]
        frame = command.frame
        plain = [frame, *([f"= {closed}"] if closed else ())]
        by_role = dict.fromkeys([f"{frame} {roles}", f"{frame} {mixed}"])
        parts = [made.part(one, "frames", for_frames) for one in plain]
        parts += [made.part(one, "roles", for_roles) for one in by_role]
        if (named := f"{frame} {names}") not in by_role:
            parts.append(made.part(named, "all", for_all))
        again = fact_keys(repeats, REPEAT)
        parts += [made.part(one, f"again {repeats}", again) for one in (*plain, *by_role, "")]
        for slot, one in enumerate(fillers):
            at = f"{frame}:{slot}"
            others = f"{at} {[m for i, m in enumerate(mixed) if i != slot]}"
            parts.append(made.part(at, ("by phase", one.near), self._close(one.near)))
            for by in (at, others) if len(fillers) > 1 else (at,):
                parts.append(made.part(by, one.near + one.more, fact_keys(one.near + one.more, FILLER)))
                parts.append(made.part(by, one.told, fact_keys(one.told, LINES)))
            if agreed[slot]:
                lines = fact_keys(agreed[slot], AGREE)
                parts += [made.part(by, agreed[slot], lines) for by in (at, "")]
        if related:
            between = fact_keys(related, RELATION)
            parts += [made.part(by, related, between) for by in (frame, "")]
        made.rows.append(parts)

    def _repeats(self, command: Command) -> tuple[str, ...]:
        ever, here = self.text_done[command.text], self.here_done[command.text]
        again = bool(self.last and self.last.text == command.text)
        frame = min(self.frame_done[command.frame], 4)
        return f"ever {min(ever, 3)}", f"here {min(here, 3)}", f"frame {frame}", f"again {again}"

    def repeats(self, action: str) -> int:
        """Return how often an action was done before in this same sight."""
        return self.here_done[action]
