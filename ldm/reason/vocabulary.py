"""What recorded steps teach about reading: the words, frames, labels and numbers that matter.

Actions of any world are frames with slots: "take _ from _" filled by "mug 1" and "desk 2". An
action is a command in words, a call verb[argument], or a tool call in JSON. A frame knows how it is
written, so that other fillers can be put into its slots.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain

from ldm.parallel import cached
from ldm.reason import reading
from ldm.reason.excerpts import Quotation, patterns, sources
from ldm.reason.pages import has_lines_of_labels, labels_of, read_call, words_taken
from ldm.reason.reading import Words, kind_of, words
from ldm.types import Outcome, Past, StateActionTuple, by_key, stable_seed

#: Words of a value of a call above which it is free text: a slot, not part of the frame.
FREE_TEXT = 6
#: Words above which an action is free text, which is not filled anew.
PROSE = 20


@dataclass(frozen=True, slots=True)
class Command:
    """An action: its frame, the fillers of its slots, and where they stand in its text.

    spans: (start, end) of each filler; () if they are not all found.
    """

    text: str
    frame: str
    fillers: tuple[Words, ...]
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def verb(self) -> str:
        """Its first word."""
        return self.frame.partition(" ")[0]

    def named_in(self, text: str) -> bool:
        """Return whether a text has all words of its fillers."""
        return reading.word_set(text).issuperset(chain.from_iterable(self.fillers))

    def filled(self, surfaces: Sequence[str]) -> str:
        """Return its text with other fillers, given as they are spelt."""
        if not self.spans:
            return self.text
        text, end = "", 0
        for (start, stop), surface in zip(self.spans, surfaces, strict=True):
            text, end = text + self.text[end:start] + surface, stop
        return text + self.text[end:]


@lru_cache(50_000)
def read_command(action: str) -> Command:
    """Read an action; a slot is a run of words that are not closed-class, but for the first."""
    if action.lstrip()[:1] == "{":
        return _call(action)
    if call := read_call(action):
        span = action.index("[") + 1, action.rindex("]")
        return Command(action, f"{call.verb} [_]", (words(call.argument) or ("",),), (span,))
    tokens = [(m[0], *m.span()) for m in reading.TOKEN.finditer(action.lower())]
    if len(tokens) > PROSE:
        return Command(action, " ".join(word for word, *_ in tokens), ())
    frame = [tokens[0][0]] if tokens else []
    fillers: list[Words] = []
    spans: list[tuple[int, int]] = []
    run: list[tuple[str, int, int]] = []
    for token in (*tokens[1:], ("the", 0, 0)):
        if token[0] in reading.FUNCTION_WORDS and not (token[0] == "of" and run):
            if run:
                fillers.append(tuple(word for word, _, _ in run))
                spans.append((run[0][1], run[-1][2]))
                frame.append("_")
                run = []
            frame.append(token[0])
        else:
            run.append(token)
    return Command(action, " ".join(frame[:-1]), tuple(fillers), tuple(spans))


def _call(action: str) -> Command:
    """Read a JSON call: names and free texts are fillers, all else is the frame."""
    frame, fillers = [], []
    spans: list[tuple[int, int]] = []
    for path, value in reading.leaves(action):
        read = words(value)
        if read and (any(map(str.isdigit, value)) or len(read) > FREE_TEXT):
            frame.append(f"{path} _")
            fillers.append(read)
            start = action.find(value, spans[-1][1] if spans else 0)
            spans.append((start, start + len(value)))
        else:
            frame.append(f"{path} {value}")
    named = [piece for piece in frame if not piece.endswith(" _")] or frame
    return Command(
        action,
        ", ".join([*named, *(p for p in frame if p not in named)]),
        tuple(fillers),
        tuple(spans) if all(start >= 0 for start, _ in spans) else (),
    )


def stem(verb: str) -> str:
    """Return the beginning that a verb shares with its participle: "slice", "sliced"."""
    return verb[:-1] if len(verb) > 2 and verb[-1] in "ey" else verb


#: A frame that is used at most so often in an episode marks a phase of it.
RARE = 2.0
#: Numbers of one path that are told apart one by one, and beyond by so many quantiles.
DISTINCT = 12
#: A feature must occur in so many episodes, and a fact of a structured text as well.
SUPPORT = 2
#: An action written the same in this share of the episodes, and at least so often, is closed.
CLOSED, CLOSED_TIMES = 0.3, 3
#: The weight of a step of an attempt that earned nothing more. With 0, hence weights in proportion
#: to the score, training goals of WebShop scored less: such sessions show the way as well.
UNREWARDED = 0.5
#: The weight of a step of a search as the one that counts, see `ldm.reason.detours`; chosen by
#: playing training tasks of ALFWorld and our own games.
INSTEAD = 0.2
#: The weight of a step of a failure against its action: most of its steps were not at fault.
FAILED = -0.25
#: Steps that are read to learn from.
STEPS = 20_000
#: A frame of which so many actions stood in texts as lines takes only such lines.
COPIED = 0.9


@dataclass(frozen=True, slots=True)
class Lesson:
    """A recorded step: a state, the action taken, and the actions that were possible.

    episode: its number or name. possible: None if unknown. weight: above 0 for what worked, below
    0 for what failed. time: when its episode ended, in seconds since 1970; 0 if unknown.
    """

    episode: str
    goal: str
    kind: str
    past: Past
    observation: str
    action: str
    possible: tuple[str, ...] | None = None
    weight: float = 1.0
    time: float = 0.0


def newest(sizes: Mapping[str, int], times: Mapping[str, float], most: int) -> frozenset[str]:
    """Return the episodes to learn from: whole ones with at most so many steps, the newest first.

    Those of one time come by lot, which is always the same. There is always one.

    sizes, times: the number of steps of each episode, and when it ended, where that is known.
    """
    order = sorted(sizes, key=lambda one: (-times.get(one, 0.0), stable_seed("sampled", one)))
    ends = accumulate(sizes[one] for one in order)
    within = [one for one, end in zip(order, ends, strict=True) if end <= most]
    return frozenset(within or order[:1])


def within(lessons: Sequence[Lesson], most: int) -> list[Lesson]:
    """Return the lessons of the `newest` episodes, in their order."""
    sizes = Counter(one.episode for one in lessons)
    chosen = newest(sizes, {one.episode: one.time for one in lessons}, most)
    return [one for one in lessons if one.episode in chosen]


def weight_of(outcome: Outcome | None) -> float:
    """Return the weight of a step by its outcome.

    An unknown outcome counts 1, and so does a failure kept on request: without any reward, a score
    of 0 says nothing.
    """
    if outcome is None or outcome.score <= 0 <= outcome.value:
        return 1.0
    return FAILED if outcome.value < 0 else UNREWARDED + (1 - UNREWARDED) * outcome.value


def lesson_of(one: StateActionTuple) -> Lesson:
    """Return a tuple as a recorded step."""
    return Lesson(
        episode=one.trajectory_id,
        goal=one.goal,
        kind=one.kind,
        past=one.history.past,
        observation=one.observation,
        action=one.action,
        possible=one.possible,
        weight=weight_of(one.outcome),
        time=one.time,
    )


@dataclass(frozen=True)
class Vocabulary:
    """What the memory teaches about reading: words, frames and numbers that occur in it.

    verbs: first words of actions. things: words of observations and of fillers. frames: those of
    actions that worked. closed: actions written the same in many episodes. rare: frames that mark a
    phase. ending: frames after which no success went on. moves: closed actions that lead to another
    place. thresholds: numbers by which a path's values are told apart. recurring: facts of
    structured texts that occur in several episodes. goal_words: words of several episodes' goals.
    pressed, entered: verbs of calls whose arguments are labels of pages, and of calls in which they
    are made up. taken: how often made-up arguments took each word of their goals. quotations,
    phrases: where free arguments stood in texts, and the (verb, argument) of those that stood in
    none. copied: frames of actions that stood in texts as lines of their own.
    """

    verbs: frozenset[str] = frozenset()
    things: frozenset[str] = frozenset()
    frames: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
    rare: frozenset[str] = frozenset()
    ending: frozenset[str] = frozenset()
    moves: frozenset[str] = frozenset()
    thresholds: tuple[tuple[str, tuple[float, ...]], ...] = ()
    recurring: frozenset[str] = frozenset()
    goal_words: frozenset[str] = frozenset()
    pressed: frozenset[str] = frozenset()
    entered: frozenset[str] = frozenset()
    taken: tuple[tuple[str, float], ...] = ()
    quotations: tuple[Quotation, ...] = ()
    phrases: tuple[tuple[str, str], ...] = ()
    copied: frozenset[str] = frozenset()

    def facts(self, text: str) -> tuple[str, ...]:
        """Return the known facts of a structured text: values, and numbers as "≤ t"."""

        def made() -> tuple[str, ...]:
            facts, known = dict.fromkeys(self._facts(text)), self.recurring
            return tuple(fact for fact in facts if not known or fact in known)

        return cached(self._read, text, made, reading.TEXTS)

    def _facts(self, text: str) -> Iterator[str]:
        read = reading.leaves(text, named=True)
        often = Counter(path for path, _ in read)
        for path, value in read:
            yield f"{path}={reading.masked(value)}"
            if often[path] == 1 and (amount := reading.number(value)) is not None:
                yield from (f"{path}<={x:g}" for x in self._limits.get(path, ()) if amount <= x)

    @cached_property
    def fixed(self) -> frozenset[str]:
        """The labels that are a part of many pages."""
        return frozenset(call.label for action in self.closed if (call := read_call(action)))

    @cached_property
    def _limits(self) -> dict[str, tuple[float, ...]]:
        return dict(self.thresholds)

    @cached_property
    def _read(self) -> dict[str, tuple[str, ...]]:
        return {}


def between(values: Sequence[float]) -> tuple[float, ...]:
    """Return thresholds halfway between numbers, at most DISTINCT."""
    distinct = sorted(set(values))
    if len(distinct) > DISTINCT:
        ranked = sorted(values)
        distinct = sorted({ranked[i * (len(ranked) - 1) // DISTINCT] for i in range(DISTINCT + 1)})
    return tuple((a + b) / 2 for a, b in zip(distinct, distinct[1:], strict=False))


def _calls(
    lessons: Sequence[Lesson],
) -> tuple[frozenset[str], frozenset[str], tuple[tuple[str, float], ...]]:
    """Return the verbs that press labels, those with arguments made up, and the words of these."""
    on_page: Counter[str] = Counter()
    off_page: Counter[str] = Counter()
    examples: dict[tuple[str, str], str] = {}
    for lesson in lessons:
        call = read_call(lesson.action)
        if call is None or not has_lines_of_labels(lesson.observation):
            continue
        if call.label in labels_of(lesson.observation):
            on_page[call.verb] += 1
        else:
            off_page[call.verb] += 1
            examples[lesson.goal, call.label] = call.verb
    pressed = frozenset(verb for verb, n in on_page.items() if n > off_page[verb])
    entered = frozenset(off_page) - pressed if pressed else frozenset()
    pairs = [pair for pair, verb in examples.items() if verb in entered]
    return pressed, entered, words_taken(pairs) if pairs else ()


def _quotations(
    lessons: Sequence[Lesson],
) -> tuple[tuple[Quotation, ...], tuple[tuple[str, str], ...]]:
    """Return from where calls quote their arguments, and those that stand in no text."""
    return patterns(
        (
            (one.episode, call.verb, call.argument, sources(one.goal, one.past, one.observation))
            for one in lessons
            if one.possible is None and one.weight > 0 and (call := read_call(one.action))
        ),
        SUPPORT,
    )


def _copied(lessons: Sequence[Lesson]) -> frozenset[str]:
    """Return the frames of actions that stood apart in texts before."""
    taken: Counter[str] = Counter()
    copied: Counter[str] = Counter()
    for one in lessons:
        if one.possible is None:
            frame = read_command(one.action).frame
            taken[frame] += 1
            texts = (one.goal, one.observation, *(text for text, _ in one.past))
            copied[frame] += any(one.action in reading.apart(text) for text in texts)
    return frozenset(frame for frame, n in taken.items() if copied[frame] >= COPIED * n)


def vocabulary_of(lessons: Sequence[Lesson]) -> Vocabulary:
    """Return what lessons teach about reading."""
    listed: dict[str, set[str]] = defaultdict(set)
    goal_words: dict[str, set[str]] = defaultdict(set)
    uses: Counter[str] = Counter()
    ends: dict[str, tuple[int, str]] = {}
    things: set[str] = set()
    pressed, entered, taken = _calls(lessons)
    quotations, phrases = _quotations(lessons) if not pressed else ((), ())
    for lesson in lessons:
        labels = labels_of(lesson.observation) if pressed else ()
        buttons = (f"{verb}[{label}]" for verb in pressed for label in labels)
        for action in (lesson.action, *(lesson.possible or ()), *buttons):
            listed[action].add(lesson.episode)
        frame = read_command(lesson.action).frame
        uses[frame] += lesson.weight > 0
        if lesson.weight > 0:
            step = len(lesson.past), frame
            ends[lesson.episode] = max(ends.get(lesson.episode, step), step)
        things.update(reading.words_beside(lesson.goal, lesson.observation))
        for word in words(lesson.goal):
            goal_words[word].add(lesson.episode)
    for action in listed:
        things.update(word for filler in read_command(action).fillers for word in filler)
    count = len({lesson.episode for lesson in lessons})
    last = Counter(frame for _, frame in ends.values())
    thresholds, recurring = _structured(lessons, count)
    often = _frequent(listed, max(CLOSED_TIMES, CLOSED * count))
    # What names a thing by a number means another one elsewhere.
    closed = frozenset(x for x in often if all(kind_of(f) == f for f in read_command(x).fillers))
    return Vocabulary(
        verbs=frozenset(word for action in listed for word in words(action)[:1]),
        things=frozenset(things),
        frames=frozenset(frame for frame, n in uses.items() if n),
        closed=closed,
        rare=frozenset(frame for frame, n in uses.items() if n <= RARE * count),
        ending=frozenset(frame for frame, n in last.items() if n == uses[frame]),
        moves=_moves(lessons, closed),
        thresholds=thresholds,
        recurring=recurring,
        goal_words=_frequent(goal_words, SUPPORT),
        pressed=pressed,
        entered=entered,
        taken=taken,
        quotations=quotations,
        phrases=phrases,
        copied=_copied(lessons),
    )


def _moves(lessons: Sequence[Lesson], closed: frozenset[str]) -> frozenset[str]:
    """Return the closed actions that mostly lead to another place, from which others lead on.

    Those have the same form: "go north" leads to where a way leads south.
    """
    forms: dict[str, set[str]] = defaultdict(set)
    for action in closed:
        if read_command(action).fillers and not read_call(action):
            forms[read_command(action).frame].add(action)
    done: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    for one in lessons:
        before, action = one.past[-1] if one.past else ("", "")
        if action in (others := forms.get(read_command(action).frame, set())):
            further = (read_command(x).named_in(one.observation) for x in others - {action})
            done[action] += 1
            moved[action] += not reading.alike(before, one.observation) and any(further)
    return frozenset(action for action, n in done.items() if moved[action] > n / 2)


def _frequent(episodes: Mapping[str, set[str]], least: float) -> frozenset[str]:
    """Return what occurs in so many episodes."""
    return frozenset(one for one, where in episodes.items() if len(where) >= least)


def _structured(
    lessons: Sequence[Lesson], count: int
) -> tuple[tuple[tuple[str, tuple[float, ...]], ...], frozenset[str]]:
    """Return the thresholds of paths, and the facts of several but not of all `count` episodes."""
    numbers: dict[str, dict[str, float]] = defaultdict(dict)
    for lesson in lessons:
        for path, value in reading.leaves(lesson.observation, named=True):
            if (amount := reading.number(value)) is not None:
                numbers[path][f"{lesson.episode} {value}"] = amount
    limits = tuple((path, between([*numbers[path].values()])) for path in sorted(numbers))
    draft = Vocabulary(thresholds=tuple(limit for limit in limits if limit[1]))
    facts = ((fact, one.episode) for one in lessons for fact in draft.facts(one.observation))
    where = by_key(facts).items()
    known = frozenset(fact for fact, of in where if SUPPORT <= len({*of}) < count)
    return draft.thresholds, known or frozenset([""])
