"""Describe states and actions by features that mean the same in every world.

A feature is a pair: a descriptor of the action (its frame, with its fillers put aside, named, or
given the part that they play in the goal) and a fact of the state. `ldm.reason.relevance` learns
what each is worth. Features are 64-bit hashes; the last byte is the group of the fact.
Features that several actions of a state share (those of their frame, of one filler) form blocks.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, groupby, islice, takewhile
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ldm.reason import pages
from ldm.reason.excerpts import facts_of, form_of, sources
from ldm.reason.reading import (
    FUNCTION_WORDS,
    Words,
    kind_of,
    lines,
    lines_with,
    masked,
    mentioned,
    paragraphs,
    pattern_of,
    place_of,
    prose,
    shape,
    word_set,
    words,
    words_beside,
)
from ldm.reason.vocabulary import RARE, Command, Vocabulary, read_command, stem
from ldm.types import Past

if TYPE_CHECKING:
    from ldm.reason.ways import Ways

Keys = NDArray[np.uint64]
#: The form of an action, and what fills its slots: "r1" for the last thing of the goal, or a kind.
Pattern = tuple[str, tuple[str, ...]]

#: The groups of features, and their scales: the penalty of a weight falls with the square.
ACTION, ROLES, WORDS, DEEDS, FILLER, LINES, PHASE, KIND, AGREE, FACTS, GOAL, BEFORE = range(12)
SCALES = np.array([1.0, 0.5, 0.5, 0.5, 1.0, 0.5, 0.5, 1.0, 1.0, 0.7, 1.0, 1.0])

#: The latest steps of a past that are read.
MOST_STEPS = 100
#: Observations in which the latest mention of a thing of the goal is looked for.
LOOK_BACK = 30
#: Facts of one group in one state.
MOST_FACTS = 120
#: Words before a thing that tell it from others of its kind.
ATTRIBUTES = 2
#: Numbers of a line are told apart by these.
LIMITS = (1, 2, 3, 5, 10, 30, 50)
#: The part of a free argument that is quoted from a text.
QUOTED = "quoted"
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT, _LOW = np.uint64(29), np.uint64(255)


@lru_cache(100_000)
def key(text: str, group: int = 0) -> int:
    """Return the hash of a descriptor, or of a fact of a group, the same in every process."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=7).digest()
    return int.from_bytes(digest, "big") << 8 | group


#: The same without a cache, which would keep long texts that seldom come again.
key_of_text = key.__wrapped__


def course_keys(goal: str, action: str, sight: int) -> Iterator[int]:
    """Yield the hashes of an action done for a goal, and done for it in a sight.

    sight: the hash of the text.
    """
    done = f"{goal}\n{action}"
    yield key_of_text(done)
    yield key_of_text(f"{done}\n{sight}")


def keys(facts: Iterable[str], group: int) -> list[int]:
    """Return the hashes of distinct facts of a group."""
    return [key(fact, group) for fact in dict.fromkeys(facts)]


def cross(left: Keys, right: Keys) -> Keys:
    """Return the hashes of pairs; the group is that of the right one."""
    pairs = ((left * _FIRST) ^ right) * _SECOND
    pairs ^= pairs >> _SHIFT
    pairs &= ~_LOW
    pairs |= right & _LOW
    return pairs


_ANY = key("")


def crossed(left: Sequence[int], right: Sequence[int], group: int) -> list[int]:
    """Return the hashes of all pairs as facts of a group."""
    if not left or not right:
        return []
    one, other = np.array(left, np.uint64), np.array(right, np.uint64)
    pairs = cross(np.repeat(one, len(other)), np.tile(other, len(one)))
    listed: list[int] = ((pairs & ~_LOW) | np.uint64(group)).tolist()
    return listed


def unnumbered(line: Words) -> str:
    """Return a line with its numbers as one sign."""
    return " ".join("#" if word.isdigit() else masked(word) for word in line)


@lru_cache(20_000)
def statements(line: Words, at: int, size: int) -> tuple[str, ...]:
    """Return what a line says of the words at a place.

    All of it first, then what is said before and what after them, then word by word.
    """
    rest = (*line[:at], "@", *line[at + size :])
    parts = (rest, *(part for part in (rest[: at + 1], rest[at:]) if len(part) > 1))
    facts = dict.fromkeys([*map(unnumbered, parts), *(word for word in rest if word != "@")])
    return (*facts, *amounts(rest))


def amounts(line: Words) -> list[str]:
    """Return the numbers of a line as "word<=t", with the word after each."""
    return [
        f"{after}<={limit}"
        for amount, after in zip(line, (*line[1:], "."), strict=True)
        if amount.isdigit() and len(amount) < 6
        for limit in LIMITS
        if int(amount) <= limit
    ]


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


@lru_cache(20_000)
def _statement_keys(
    source: str, line: Words, at: int, size: int, whole: bool = False
) -> tuple[int, ...]:
    facts = statements(line, at, size)
    return tuple(key(f"{source} {fact}", LINES) for fact in facts if not whole or " " in fact)


@lru_cache(20_000)
def _mentions(role: Words, text: str) -> tuple[tuple[Words, int, int], ...]:
    """Return (line, place, words) of the best mentions of a goal's thing in a text."""
    if word_set(text).isdisjoint(role):
        return ()
    for size in range(len(role), max(0, min(2, len(role)) - 1), -1):
        parts = [role[i : i + size] for i in range(len(role) - size + 1)]
        matches = [
            (line, at, size)
            for line in lines(text)
            for part in parts
            if (at := place_of(part, line)) >= 0
        ]
        if matches:
            return tuple(matches[:8])
    return ()


def _named(mention: tuple[Words, int, int]) -> Words:
    """Return a mentioned thing with the word before it, () where that tells it from no other."""
    line, at, size = mention
    return () if at == 0 or line[at - 1] in FUNCTION_WORDS else line[at - 1 : at + size]


@lru_cache(20_000)
def _says(line: Words, verb: str) -> str:
    """Return "verb" if a line has a verb, "stem" if it has a word of its stem, "" otherwise."""
    if verb in line:
        return "verb"
    begin = stem(verb)
    return "stem" if any(word.startswith(begin) for word in line) else ""


@dataclass(frozen=True, slots=True, eq=False)
class Filler:
    """What a state says of a thing.

    named: its place in the goal, 0 if none; the part that it plays: "r1" for the last thing of the
    goal, or else its name; its name, the kind of thing. lines: with their sources, None for the
    argument of a call. facts: the set of its facts. by_phase, by_kind: the sets of those that may
    mean another thing by phase and by kind of task.
    """

    named: tuple[int, str, str]
    lines: tuple[tuple[str, Words], ...] | None
    facts: int
    by_phase: int
    by_kind: int


@dataclass(frozen=True, slots=True, eq=False)
class Descriptors:
    """The keys of an action's descriptors.

    frame: of its frame, and of its text where that is closed. roles: of its frame with the parts of
    its fillers. names: with their names. slots: of each slot, alone and with the other fillers.
    """

    frame: tuple[int, ...]
    roles: tuple[int, ...]
    names: int
    slots: tuple[tuple[int, int], ...]


@lru_cache(20_000)
def _descriptors(frame: str, closed: str, *things: tuple[int, str, str]) -> Descriptors:
    """Return the keys of a frame and its things, each with its role, part and name."""
    roles, parts, names = zip(*things, strict=True) if things else ((), (), ())
    slots = (
        (key(f"{frame}:{i}"), key(f"{frame}:{i} {[*parts[:i], *parts[i + 1 :]]}"))
        for i in range(len(parts))
    )
    return Descriptors(
        (key(frame), *((key(f"= {closed}"),) if closed else ())),
        tuple(dict.fromkeys((key(f"{frame} {[*roles]}"), key(f"{frame} {[*parts]}")))),
        key(f"{frame} {[*names]}"),
        tuple(slots),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The features of actions, as blocks.

    features: of all blocks, one after the other. sizes: of each block. rows: the blocks of each
    distinct row. of_action: the row of each action; actions that no fact tells apart share one.
    repeats, again: of each row, see `Situation`.
    """

    features: Keys
    sizes: NDArray[np.int64]
    rows: Sequence[tuple[int, ...]]
    of_action: list[int]
    repeats: Sequence[float]
    again: Sequence[int]


class Situation:
    """A state that is read once: facts of the state, and of the things in it on demand."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        goal: str,
        kind: str,
        past: Past,
        sight: str,
        recorded: Callable[[int], bool] | None = None,
    ) -> None:
        """Read a state.

        past: the pairs (observation, action) before the observation `sight`. recorded: the test
            whether the key of a goal, or one of `course_keys`, is of what was done before.
        """
        past, self._recorded = past[-MOST_STEPS:], recorded or frozenset[int]().__contains__
        self.vocabulary, self.goal, self.kind, self.sight = vocabulary, goal, kind, sight
        self.past, self.texts = past, [*(text for text, _ in past), sight]
        self.commands = [read_command(action) for _, action in past]
        self._past = [(text, word_set(text)) for text in dict.fromkeys(self.texts[:-1])]
        self._goal_recorded = self._recorded(key_of_text(goal))
        self.instructions = [*lines(self.goal), *self._instructions()]
        self._words_asked = frozenset(chain.from_iterable(self.instructions))
        self.roles = self._things_asked()
        self._roles: dict[Words, int] = {}
        self._fillers: dict[Words, Filler] = {}
        self._alike: dict[Sequence[object], Filler] = {}
        self._sets: dict[tuple[int, ...], int] = {}
        self._of_slot: dict[tuple[object, ...], list[int]] = {}
        self._of_form: dict[tuple[object, ...], tuple[Descriptors, list[int]]] = {}
        self._blocks: dict[tuple[tuple[int, int], ...], int] = {}
        self._rows: dict[tuple[object, ...], tuple[int, ...]] = {}
        self._contexts: dict[int, list[int]] = {}
        self._surfaces: dict[Words, str] = {}
        self._read_past()

    def _instructions(self) -> Iterator[Words]:
        """Yield the lines of paragraphs that were shown once and tell what to do.

        One of their lines begins like an action. What was in sight before or stayed is a state.
        """
        verbs, texts, goal = self.vocabulary.verbs, self.texts, lines(self.goal)
        for i, text in enumerate(texts[1:], 1):
            for paragraph in paragraphs(text):
                if any(len(x) > 1 and x[0] in verbs and x not in goal for x in paragraph):
                    beside = {
                        x for other in (texts[i - 1], *texts[i + 1 : i + 2]) for x in lines(other)
                    }
                    if beside.isdisjoint(paragraph):
                        yield from paragraph

    def _things_asked(self) -> list[Words]:
        """Return the things of the goal and of instructions: runs of words that name something.

        The last of the goal is the first. What is written as an identifier is known by its form
        instead.
        """
        known = self.vocabulary
        texts = dict.fromkeys(self.texts)
        words_shown = frozenset().union(*(words_beside(self.goal, text) for text in texts))
        things: list[Words] = []
        count = len(lines(self.goal))
        for line in (*reversed(self.instructions[count:]), *self.instructions[:count]):
            run: list[str] = []
            for word in (*line, "the"):
                if (
                    word not in FUNCTION_WORDS
                    and word not in known.verbs
                    and masked(word) == word
                    and (word in known.things or word in words_shown)
                ):
                    run.append(word)
                elif run:
                    things.append(tuple(run))
                    run = []
        return list(dict.fromkeys(reversed(things)))

    def role_of(self, name: Words) -> int:
        """Return the place, from 1, of the goal's thing that `name` means; 0 if none."""
        if name not in self._roles:
            self._roles[name] = role_of(name, self.roles)
        return self._roles[name]

    def _read_past(self) -> None:
        """Count what was done: ever, in this same sight, and with each thing."""
        self.used: Counter[Words] = Counter()
        self.deed: dict[Words, str] = {}
        self.answers: dict[Words, list[str]] = defaultdict(list)
        self.text_done: Counter[str] = Counter()
        self.here_done: Counter[str] = Counter()
        self.frame_done: Counter[str] = Counter()
        self.progress: Counter[str] = Counter()
        self.tried: set[Words] = set()
        touched: dict[int, str] = {}
        latest, rare = "", self.vocabulary.rare
        for i, command in enumerate(self.commands):
            self.text_done[command.text] += 1
            self.frame_done[command.frame] += 1
            if self.texts[i] == self.sight:
                self.here_done[command.text] += 1
            if command.frame in self.vocabulary.ending:  # as it did not end, that was another thing
                nearest = (_mentions(role, self.texts[i])[:1] for role in self.roles)
                self.tried.update({*map(_named, chain.from_iterable(nearest))} - {()})
            parts = [self.role_of(filler) for filler in command.fillers]
            for slot, filler in enumerate(command.fillers):
                self.used[filler] += 1
                self.deed[filler] = f"{command.frame}:{slot}"
                if parts[slot]:
                    touched[parts[slot]] = self.deed[filler]
                self.answers[filler].append(self.texts[i + 1])
            if command.frame in rare:
                latest = command.frame + str(parts)
                self.progress[latest] += 1
                if self.frame_done[command.frame] <= RARE:  # beyond, it marks no phase
                    # What else was done in this sight may be right again after a rare deed.
                    for text in [x for x in self.here_done if read_command(x).frame not in rare]:
                        del self.here_done[text]
        self.last = self.commands[-1] if self.commands else None
        done = ";".join(sorted(f"{d}x{min(n, 2)}" for d, n in self.progress.items()))
        if self.page:  # a call is told by the part of its argument, not by the argument
            done, latest = pages.phase_of(self.page)
        elif self.vocabulary.quotations:
            done, latest = str(sorted(self.frame_done.items())), ""
        self.touched = touched
        self.phase = keys([done, f"last {latest}"], DEEDS)

    @cached_property
    def _sight_key(self) -> int:
        return key_of_text(self.sight)

    def again(self, action: str) -> int:
        """Return 1 if an action not done yet was done for this goal before, 2 if in this sight."""
        if not self._goal_recorded or self.text_done[action]:
            return 0
        courses = course_keys(self.goal, action, self._sight_key)
        return sum(1 for _ in takewhile(self._recorded, courses))

    def repeats(self, action: str) -> float:
        """Return how often an action was done in this sight, and half as often beyond twice.

        Ways to other places count where they lead to, see `Ways.repeats`.
        """
        if action in self.vocabulary.moves:
            return self._ways.repeats(action)
        often = 0 if action in self.vocabulary.closed else max(0, self.text_done[action] - 2)
        return self.here_done[action] + often / 2

    @cached_property
    def _ways(self) -> Ways:
        """The places of the episode."""
        from ldm.reason.ways import Ways

        return Ways(self.past, self.sight, self.vocabulary.moves)

    @cached_property
    def page(self) -> pages.Page | None:
        """The page in sight, if it has labels that actions press."""
        if not self.vocabulary.pressed:
            return None
        page = pages.Page(self.goal, self.past, self.sight, self.vocabulary.fixed)
        return page if page.labels else None

    @cached_property
    def sources(self) -> dict[str, str]:
        """The texts that arguments are quoted from."""
        return sources(self.goal, self.past, self.sight)

    def _set(self, facts: Sequence[int]) -> int:
        """Return the number of a set of facts."""
        return self._sets.setdefault(tuple(facts), len(self._sets))

    @cached_property
    def _state_sets(self) -> tuple[int, int, int]:
        """The sets of facts that are crossed with frames, with roles, and with names."""
        kind = [key(f"kind {self.kind}", KIND)]
        always = [key("", ACTION), *self.of_deeds, *self.phase, *kind]
        always += crossed(kind, self.phase, KIND)
        if self.page:  # its texts are told by the facts about its labels
            return (self._set(always),) * 3
        phrases, worded = self._of_roles
        by_role = [*always, *phrases, *worded]
        more = [*self.of_words, *self.of_facts, *self.of_before, *self.of_goal]
        more += crossed(self.phase, phrases, PHASE) + crossed(kind, [*phrases, *worded], KIND)
        return self._set([*by_role, *more]), self._set(by_role), self._set(always)

    @cached_property
    def _latest(self) -> list[tuple[str, tuple[tuple[Words, int, int], ...]]]:
        """How long ago each thing of the goal was mentioned last, in words, and by which lines."""
        latest = []
        for r, role in enumerate(self.roles, 1):
            texts = enumerate(reversed(self.texts[-LOOK_BACK:]))
            ages = ((age, matches) for age, text in texts if (matches := self._untried(role, text)))
            age, matches = next(ages, (0, ()))
            latest.append((f"r{r} then" if age else f"r{r}", matches))
        return latest

    def _untried(self, role: Words, text: str) -> tuple[tuple[Words, int, int], ...]:
        """Return the best mentions of a goal's thing, but for what was tried in vain."""
        matches = _mentions(role, text)
        return tuple(x for x in matches if _named(x) not in self.tried) if self.tried else matches

    @cached_property
    def _of_roles(self) -> tuple[list[int], list[int]]:
        """What the texts say of the goal's things, now or when last mentioned: lines, and words."""
        facts: list[str] = []
        worded: list[str] = []
        for r, (when, matches) in enumerate(self._latest, 1):
            if not matches or when != f"r{r}":
                facts.append(f"r{r} absent")
            if matches:
                facts.append(f"{when} present")
            for fact in chain.from_iterable(statements(*one) for one in matches):
                (facts if " " in fact else worded).append(f"{when} {fact}")
        phrases = keys(facts, ROLES)[:MOST_FACTS]
        return phrases, keys(worded, ROLES)[: MOST_FACTS - len(phrases)]

    @cached_property
    def of_words(self) -> list[int]:
        """The lines in sight that mention no thing of the goal, and the words of new ones."""
        rest = self._beside_roles(self.sight)
        before = set(lines(prose(self.texts[-2]))) if len(self.texts) > 1 else set()
        new = [x for x in rest if x not in before][:12]
        first, known = rest[:40], self.vocabulary.goal_words - FUNCTION_WORDS
        # Other things' lines also without their names: what other goals call a thing is one sign.
        unnamed = (groupby("@" if word in known else word for word in x) for x in first)
        both = [*first, *self._alike_lines(first), *(tuple(w for w, _ in x) for x in unnamed)]
        about = [f"{unnumbered(x)} {amount}" for x in both for amount in ("", *amounts(x))]
        return keys([*about, *(word for line in new for word in line)], WORDS)[:MOST_FACTS]

    def _alike_lines(self, others: Sequence[Words]) -> Iterator[Words]:
        """Yield lines that share words with what stands before a thing of the goal, as its own.

        Beside "a locked yellow door", "a yellow key 3 steps left" is "a r1 key 3 steps left".
        """
        for r, (_, matches) in enumerate(self._latest, 1):
            before = {word for x, at, _ in matches for word in x[max(0, at - ATTRIBUTES) : at]}
            own = before - FUNCTION_WORDS
            for line in others:
                if not own.isdisjoint(line):
                    yield tuple(f"r{r}" if word in own else word for word in line)

    @cached_property
    def of_before(self) -> list[int]:
        """The lines of the past that no line in sight replaces, by beginning like them."""
        begun = {line[:2] for line in lines(prose(self.sight))}
        past = dict.fromkeys(x for text, _ in self._past for x in self._beside_roles(text))
        latest = [line for line in past if line[:2] not in begun][-40:]
        return keys((f"before {unnumbered(line)}" for line in latest), BEFORE)

    def _beside_roles(self, text: str) -> list[Words]:
        """Return the lines of a text that mention no thing of the goal."""
        return [x for x in lines(prose(text)) if not any(mentioned(r, x) for r in self.roles)]

    @cached_property
    def of_deeds(self) -> list[int]:
        """What was done: frames with counts, the last action, what was done with which role.

        On a page: its fixed labels, what was pressed, and what is left to do.
        """
        if self.page:
            matters = pages.composed(self.goal, dict(self.vocabulary.taken), pages.MATTERS)
            return keys(pages.page_facts(self.page, pages.content_words(matters)), DEEDS)
        facts = [f"done {frame} {min(n, 2)}" for frame, n in self.frame_done.items()]
        facts.append(f"last {self.last.frame}" if self.last else "first")
        if self.last:
            same = "same" if self.texts[-2] == self.sight else "other"
            facts += [same, f"last {self.last.frame} {same}", f"last {self.last.text}"]
        facts += [f"did {deed} {min(n, 2)}" for deed, n in self.progress.items()]
        facts += [f"touched {role} {deed}" for role, deed in self.touched.items()]
        return keys(facts, DEEDS)

    @cached_property
    def of_facts(self) -> list[int]:
        """The facts of structured texts, now and before."""
        now = self.vocabulary.facts(self.sight)
        before = dict.fromkeys(f for text, _ in self._past for f in self.vocabulary.facts(text))
        about = [f"now {fact}" for fact in now]
        about += [f"before {fact}" for fact in before]
        about += [f"so far {fact}" for fact in {**before, **dict.fromkeys(now)}]
        return keys(about, FACTS)

    @cached_property
    def of_goal(self) -> list[int]:
        """The words of the goal that other goals have as well."""
        return keys((word for word in words(self.goal) if word in self.vocabulary.goal_words), GOAL)

    def filler(self, name: Words) -> Filler:
        """Return what the state says of a thing.

        Things of a kind that nothing was done with, and of which the same is said but for numbers,
        are one.
        """
        if name not in self._fillers:
            now = lines_with(name, self.sight)
            past = dict.fromkeys(
                line
                for text, known in self._past
                if name[0] in known
                for line in lines_with(name, text)
            )
            size = len(name)
            about = [statements(x, place_of(name, x), size)[0] for x in (*now, *past)]
            alike = name if name in self.used else (shape(name), len(now), *about)
            if alike not in self._alike:
                self._alike[alike] = self._read_filler(name, now, list(past))
            self._fillers[name] = self._alike[alike]
        return self._fillers[name]

    def _read_filler(self, name: Words, now: Sequence[Words], past: Sequence[Words]) -> Filler:
        role, kind, size = self.role_of(name), kind_of(name), len(name)
        kind_name, roles = " ".join(shape(name)), [*enumerate(self.roles, 1)]
        hand = bool(self.last and name in self.last.fillers)
        if name in self.answers:
            after = self.answers[name][-1]
            beside = ",".join(str(r) for r, t in roles if _mentions(t, after))
        else:  # the things of the goal that a line named together with it
            together = {*past, *now}
            named = [str(r) for r, t in roles if any(mentioned(t, x) for x in together)]
            beside = f"?{','.join(named)}"
        used = min(self.used[name], 2)
        deed = self.deed.get(name, "")
        view, met = bool(now), bool(now or past)
        near = [f"role {role}", f"name {kind_name}", f"beside {beside}"]
        like = next((r for r, t in roles if kind[-1] == t[-1]), 0)
        near += [f"like {like}", f"touched {deed}"]
        more = [f"goal {role > 0}", f"view {view}", f"hand {hand}", f"used {used}", f"met {met}"]
        more += [f"sig {role} {view} {hand} {used}", f"sig2 {role > 0} {beside} {used}"]
        asking = [(x, m) for x in self.instructions if (m := mentioned(kind, x))]
        most = max((words_of for _, (_, words_of) in asking), default=0)  # else of its namesakes
        asking = [(x, m) for x, m in asking if m[1] == most]
        about = [_statement_keys("now", x, place_of(name, x), size) for x in now[:4]]
        about += [_statement_keys("goal", x, *m) for x, m in asking]
        about += [_statement_keys("past", x, place_of(name, x), size, True) for x in past[:12]]
        lines_say = dict.fromkeys(chain.from_iterable(about))
        where = [("goal", x) for x, _ in asking] + [("now", x) for x in now]
        where += [("past", x) for x in past if x not in now]
        facts = [*keys([*near, *more], FILLER), *islice(lines_say, MOST_FACTS)]
        return Filler(
            (role, f"r{role}" if role else kind_name, kind_name),
            tuple(where[:20]),
            self._set(facts),
            self._set(keys(near, PHASE)),
            self._set(keys(near, KIND)),
        )

    def _argument(self, command: Command) -> Filler | None:
        """Return what a page, or the words around it, say of the argument of a call."""
        known, call = self.vocabulary, pages.read_call(command.text)
        if call and self.page:
            part, about = pages.label_facts(self.page, call.label)
            return self._as_filler(part, (f"is {part}",), keys(about, FILLER))
        if not call or not known.quotations:
            return None
        near = [form_of(call.argument), f"used {min(self.used[command.fillers[0]], 2)}"]
        if (call.verb, call.argument) in known.phrases:
            near.append(f"= {call.argument}")
        around = keys(facts_of(call.argument, self.sources), FILLER)
        more = crossed(self.of_goal, around, GOAL) + crossed(self.phase, around, PHASE)
        return self._as_filler(QUOTED, near, [*around, *more])

    def _as_filler(self, part: str, near: Sequence[str], more: Sequence[int]) -> Filler:
        facts = self._set([*keys(near, FILLER), *more])
        phase, kind = self._set(keys(near, PHASE)), self._set(keys(near, KIND))
        return Filler((0, part, part), None, facts, phase, kind)

    def _agreement(self, verb: str, about: Sequence[tuple[str, Words]]) -> Iterator[str]:
        """Yield whether the goal, and lines about a filler, speak of the verb or its result."""
        yield f"goal says verb {verb in self._words_asked}"
        yield from (f"{source} {says}" for source, line in about if (says := _says(line, verb)))

    def surface(self, name: Words) -> str:
        """Return a name as the latest text spells it, or its words if no text does."""
        if name not in self._surfaces:
            texts = (*reversed(self.texts), self.goal)
            spelt = (match.group() for text in texts if (match := pattern_of(name).search(text)))
            self._surfaces[name] = next(spelt, " ".join(name))
        return self._surfaces[name]

    def pattern(self, action: str) -> Pattern:
        """Return the form of an action, and the parts that its things play in the goal."""
        command = read_command(action)
        parts = (
            f"r{r}" if (r := self.role_of(name)) else " ".join(shape(name))
            for name in command.fillers
        )
        return command.frame, tuple(parts)

    def rows(self, actions: Sequence[str]) -> Rows:
        """Return the features of actions."""
        numbers: dict[tuple[tuple[int, ...], float, int], int] = {}
        of_action = []
        for action in actions:
            row = self._row(read_command(action)), self.repeats(action), self.again(action)
            of_action.append(numbers.setdefault(row, len(numbers)))
        ends = np.cumsum([0, *map(len, self._sets)])
        facts = np.fromiter(chain.from_iterable(self._sets), np.uint64, ends[-1])
        crosses = np.array([*chain.from_iterable(self._blocks)], np.uint64).reshape(-1, 2)
        sets = crosses[:, 1].astype(np.int64)
        sizes = ends[sets + 1] - ends[sets]
        shift = ends[sets] - np.cumsum(sizes) + sizes
        right = facts[np.repeat(shift, sizes) + np.arange(sizes.sum())]
        features = cross(np.repeat(crosses[:, 0], sizes), right)
        last = np.append(0, np.cumsum(sizes))[np.cumsum([0, *map(len, self._blocks)])]
        rows, repeats, again = map(list, zip(*numbers, strict=True)) if numbers else ([], [], [])
        return Rows(features, np.diff(last), rows, of_action, repeats, again)

    def crosses(self, action: str) -> NDArray[np.uint64]:
        """Return the pairs of a descriptor of an action and a fact, (n, 2)."""
        row = self._row(read_command(action))
        blocks, sets = [*self._blocks], [*self._sets]
        pairs = [(one, x) for block in row for one, facts in blocks[block] for x in sets[facts]]
        return np.array(pairs, np.uint64).reshape(-1, 2)

    def in_words(self, action: str) -> dict[int, str]:
        """Return facts of the state, and of an action's things, as a reader understands them."""
        things = [(name, self.filler(name).lines or ()) for name in read_command(action).fillers]
        about = [(when, ROLES, one) for when, matches in self._latest for one in matches]
        about += [
            (source, LINES, (line, at, len(name)))
            for name, about_it in things
            for source, line in about_it
            if (at := place_of(name, line)) >= 0
        ]
        texts = {
            key(f"{source} {fact}", group): " ".join(one[0])
            for source, group, one in about
            for fact in statements(*one)
        }
        for line in lines(prose(self.sight)):
            for more in ("", *amounts(line)):
                texts[key(f"{unnumbered(line)} {more}", WORDS)] = " ".join(line)
        for fact in {x for text in self.texts for x in self.vocabulary.facts(text)}:
            plain = fact.replace("<=", " ≤ ").replace("=", " = ")
            texts.update((key(f"{when} {fact}", FACTS), plain) for when in ("now", "so far"))
        for frame, often in self.frame_done.items():
            texts[key(f"done {frame} {min(often, 2)}", DEEDS)] = f"done: {frame}"
        return texts

    def _row(self, command: Command) -> tuple[int, ...]:
        """Return the blocks of an action, which those share that no fact tells apart."""
        argument = self._argument(command)
        things = [argument] if argument else [self.filler(name) for name in command.fillers]
        text = command.text
        closed = text if not argument and text in self.vocabulary.closed else ""
        alike = (text,) if argument else (command.frame, closed, *map(id, things))
        if alike not in self._rows:
            blocks = self._blocks_of(command, closed, things)
            self._rows[alike] = tuple(dict.fromkeys(blocks))
        return self._rows[alike]

    def _block(self, *crosses: tuple[int, int]) -> int:
        """Return the number of pairs of a descriptor and a set of facts, which are crossed."""
        return self._blocks.setdefault(crosses, len(self._blocks))

    def _blocks_of(self, command: Command, closed: str, things: Sequence[Filler]) -> list[int]:
        form = command.frame, closed, *[thing.named for thing in things]
        if form not in self._of_form:
            described = _descriptors(*form)
            self._of_form[form] = described, [*self._state_blocks(described)]
        described, state = self._of_form[form]
        blocks = [*state]
        for (at, beside), thing in zip(described.slots, things, strict=True):
            if (at, thing) not in self._of_slot:
                self._of_slot[at, thing] = [*self._slot_blocks(command.verb, at, thing)]
            blocks += self._of_slot[at, thing]
            if thing.lines is not None:
                blocks.append(self._block((beside, thing.facts)))
        return blocks

    def _state_blocks(self, described: Descriptors) -> Iterator[int]:
        by_frame, by_role, by_name = self._state_sets
        yield self._block((described.names, by_name))
        for one in described.frame:
            yield self._block((one, by_frame))
        for one in described.roles:
            yield self._block((one, by_role))

    def _slot_blocks(self, verb: str, at: int, thing: Filler) -> Iterator[int]:
        """Yield the blocks of a slot: its filler's facts, also by phase and kind of task."""
        if at not in self._contexts:
            context = np.array([*self.phase, key(f"kind {self.kind}")], np.uint64)
            self._contexts[at] = cross(np.full(len(context), at, np.uint64), context).tolist()
        sets = thing.by_phase, thing.by_phase, thing.by_kind
        by_phase = zip(self._contexts[at], sets, strict=True)
        yield self._block((at, thing.facts), *by_phase)
        if thing.lines is not None:
            agreed = self._set(keys(self._agreement(verb, thing.lines), AGREE))
            yield self._block((at, agreed))
            yield self._block((_ANY, agreed))
