"""Learn from recorded steps which action a state calls for, as a conditional logit.

For each recorded step the action taken stands against the other candidates, those that were
possible or, where that was not recorded, the memory's frames with fillers from the same texts. The
weights of features (`ldm.reason.features`) maximise the likelihood of what worked and minimise that
of what failed, with a ridge towards a prior: what was done before in this same sight is not done
again, which recordings of experts cannot teach, as they never loop.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.reason.features import (
    GROUPS,
    RARE,
    SCALES,
    STANDING,
    Keys,
    Rows,
    Situation,
    Vocabulary,
    between,
    standing,
)
from ldm.reason.frames import Command, read_command
from ldm.reason.labels import composed, words_taken
from ldm.reason.pages import has_lines_of_labels, labels_of, read_call
from ldm.reason.quotes import Quotation, patterns, quoted, sources
from ldm.reason.ranking import Ranking
from ldm.reason.reading import (
    Words,
    instances,
    leaves,
    lines,
    number,
    shape,
    stripped,
    words,
    words_beside,
)
from ldm.types import Outcome, Past, StateActionTuple

#: Strength of the ridge, and the prior weight of an action done before in this same sight, per
#: time; chosen by playing training tasks of ALFWorld and BabyAI.
RIDGE, REPEATED = 2.0, -3.0
#: Candidates beside the action taken that a step is learnt from.
NEGATIVES = 40
#: A feature must occur in so many episodes, and a fact of a structured text as well.
SUPPORT = 2
#: An action written the same in this share of the episodes, and at least so often, is closed.
CLOSED, CLOSED_TIMES = 0.3, 3
#: The weight of a step of an attempt that earned nothing more. With 0, hence weights in proportion
#: to the score, training goals of WebShop scored less: such sessions show the way as well.
LEAST = 0.5
#: The weight of a step of a failure against its action: most of its steps were not at fault.
FAILED = -0.25
#: Candidates for one slot, and for one frame, where none are listed.
FILLERS, FILLED = 10, 40
#: A frame of which so many actions stood in texts as lines takes only such lines.
COPIED = 0.9
#: A slot takes new kinds of things if this share of its uses were each the only one of a kind.
OPEN = 0.05
#: Share of the episodes that used a slot in which its filler may have stood elsewhere, and so many
#: episodes at least.
EXCEPTIONS, NEEDED_TIMES = 0.05, 5
#: Left-out parts by which confidence is calibrated, and steps from which isotonically.
FOLDS, ISOTONIC = 5, 500
#: Iterations of the fit.
ITERATIONS = 80
#: The logit of an action of a frame that no recorded step used, beside others.
UNKNOWN = -1e3
#: Bits by which features are counted.
BINS = 24


@dataclass(frozen=True, slots=True)
class Lesson:
    """A recorded step: a state, the action taken, and the actions that were possible.

    episode: its number or name. possible: None if unknown. weight: above 0 for what worked, below
    0 for what failed.
    """

    episode: str
    goal: str
    kind: str
    past: Past
    observation: str
    action: str
    possible: tuple[str, ...] | None = None
    weight: float = 1.0


def weight_of(outcome: Outcome | None) -> float:
    """Return the weight of a step by its outcome.

    An unknown outcome counts 1, and so does a failure kept on request: without any reward, a score
    of 0 says nothing.
    """
    if outcome is None or outcome.score <= 0 <= outcome.value:
        return 1.0
    return FAILED if outcome.value < 0 else LEAST + (1 - LEAST) * outcome.value


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
    )


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
    """Return the frames of actions that stood in texts before as lines of their own."""
    taken: Counter[str] = Counter()
    copied: Counter[str] = Counter()
    for one in lessons:
        if one.possible is None:
            frame = read_command(one.action).frame
            taken[frame] += 1
            texts = (one.goal, one.observation, *(text for text, _ in one.past))
            copied[frame] += any(one.action in stripped(text) for text in texts)
    return frozenset(frame for frame, n in taken.items() if copied[frame] >= COPIED * n)


def vocabulary_of(lessons: Sequence[Lesson]) -> Vocabulary:
    """Return what lessons teach about reading."""
    episodes = {lesson.episode for lesson in lessons}
    listed: dict[str, set[str]] = defaultdict(set)
    recurring: dict[str, set[str]] = defaultdict(set)
    goal_words: dict[str, set[str]] = defaultdict(set)
    numbers: dict[str, dict[str, float]] = defaultdict(dict)
    uses: Counter[str] = Counter()
    verbs: set[str] = set()
    things: set[str] = set()
    elsewhere: dict[str, set[str]] = defaultdict(set)
    slots: dict[str, set[str]] = defaultdict(set)
    pressed, entered, taken = _calls(lessons)
    quotations, phrases = _quotations(lessons) if not pressed else ((), ())
    for lesson in lessons:
        for label in labels_of(lesson.observation) if pressed else ():
            for verb in pressed:
                listed[f"{verb}[{label}]"].add(lesson.episode)
        for action in (lesson.action, *(lesson.possible or ())):
            listed[action].add(lesson.episode)
        command = read_command(lesson.action)
        uses[command.frame] += 1
        commands = [read_command(action) for _, action in lesson.past]
        for i, filler in enumerate(command.fillers):
            there = standing(filler, lesson.observation, commands)
            slots[f"{command.frame}:{i}"].add(lesson.episode)
            for one in STANDING:
                if one not in there:
                    elsewhere[f"{command.frame}:{i} {one}"].add(lesson.episode)
        things.update(words_beside(lesson.goal, lesson.observation))
        for path, value in leaves(lesson.observation):
            if (amount := number(value)) is not None:
                numbers[path][f"{lesson.episode} {value}"] = amount
        for word in words(lesson.goal):
            goal_words[word].add(lesson.episode)
    for action in listed:
        verbs.update(words(action)[:1])
        things.update(word for filler in read_command(action).fillers for word in filler)
    limits = tuple((path, between([*numbers[path].values()])) for path in sorted(numbers))
    draft = Vocabulary(thresholds=tuple(limit for limit in limits if limit[1]))
    for lesson in lessons:
        for fact in draft.facts(lesson.observation):
            recurring[fact].add(lesson.episode)
    count = len(episodes)
    least = max(CLOSED_TIMES, CLOSED * count)
    return replace(
        draft,
        pressed=pressed,
        entered=entered,
        taken=taken,
        quotations=quotations,
        phrases=phrases,
        copied=_copied(lessons),
        verbs=frozenset(verbs),
        things=frozenset(things),
        frames=frozenset(uses),
        closed=frozenset(a for a, where in listed.items() if len(where) >= least),
        rare=frozenset(frame for frame, n in uses.items() if n <= RARE * count),
        recurring=frozenset(f for f, where in recurring.items() if SUPPORT <= len(where) < count)
        or frozenset([""]),
        goal_words=frozenset(word for word, where in goal_words.items() if len(where) >= SUPPORT),
        needed=frozenset(
            f"{slot} {one}"
            for slot, where in slots.items()
            for one in STANDING
            if len(where) >= NEEDED_TIMES
            and len(elsewhere[f"{slot} {one}"]) <= EXCEPTIONS * len(where)
        ),
    )


def needs(vocabulary: Vocabulary, slot: str) -> set[str]:
    """Return where a filler of a slot always stood."""
    return {one for one in STANDING if f"{slot} {one}" in vocabulary.needed}


class Candidates:
    """The actions that a state may call for where none are listed: known frames, filled anew."""

    def __init__(self, actions: Iterable[str]) -> None:
        """Learn frames, and what kinds of things fill their slots, from recorded actions."""
        self._commands: dict[str, Command] = {}
        self._fillers: dict[str, list[Counter[Words]]] = {}
        self._kinds: set[Words] = set()
        self._uses: Counter[str] = Counter()
        self._named: dict[str, tuple[Words, ...]] = {}
        for action in actions:
            command = read_command(action)
            self._commands.setdefault(command.frame, command)
            self._uses[command.frame] += 1
            slots = self._fillers.setdefault(command.frame, [Counter() for _ in command.fillers])
            for slot, filler in zip(slots, command.fillers, strict=False):
                slot[shape(filler)] += 1
                self._kinds.add(shape(filler))

    def of(self, now: Situation) -> list[str]:
        """Return the candidates of a state, the most used frames first."""
        known = now.vocabulary
        if now.page:
            pressed = [f"{v}[{x}]" for x in now.page.labels for v in sorted(known.pressed)]
            return [*pressed, *self.entered(now)]
        if known.quotations:
            calls = dict.fromkeys([*known.phrases, *quoted(known.quotations, now.sources)])
            return [f"{verb}[{argument}]" for verb, argument in calls]
        names: dict[Words, None] = {}
        for text in reversed([now.goal, *now.texts]):
            names.update(dict.fromkeys(self._entities(text)))
            names.update((name, None) for role in now.roles for name in instances(role, text))
        entities = {name: now.standing(name) for name in names}
        candidates: dict[str, None] = {}
        for text in [now.goal, *now.texts] if known.copied else ():
            copied = (x for x in stripped(text) if read_command(x).frame in known.copied)
            candidates.update(dict.fromkeys(copied))
        for frame, _ in sorted(self._uses.items(), key=lambda one: (-one[1], one[0])):
            if frame in known.copied:
                continue
            command = self._commands[frame]
            options = [
                self._options(slot, entities, needs(now.vocabulary, f"{frame}:{i}"))
                for i, slot in enumerate(self._fillers[frame])
            ]
            for fillers in islice(product(*options), FILLED):
                candidates[self._text(command, fillers, now)] = None
        return list(candidates)

    def against(self, now: Situation, lesson: Lesson) -> list[str]:
        """Return the actions that a lesson's action stands against, none if they are unknown."""
        possible = self.of(now) if lesson.possible is None else list(lesson.possible)
        known, call = now.vocabulary, read_call(lesson.action)
        if not known.pressed:
            return possible
        if not now.page or not has_lines_of_labels(now.page.observation) or not call:
            return []  # a page that was not recorded
        if call.label in now.page.labels:
            return [x for x in possible if x != f"{call.verb}[{call.label}]"]
        if call.verb in known.pressed:
            return []
        return [x for x in possible if read_command(x).verb != call.verb]

    def entered(self, now: Situation) -> list[str]:
        """Return the calls with an argument made up for the goal."""
        argument = composed(now.goal, dict(now.vocabulary.taken))
        return [f"{verb}[{argument}]" for verb in sorted(now.vocabulary.entered)]

    def completed(self, now: Situation, listed: Sequence[str]) -> Sequence[str]:
        """Return listed actions, with arguments made up for the goal where any may be given."""
        if not now.page:
            return listed
        labels, free = now.page.labels, now.vocabulary.entered
        calls = [(x, read_call(x)) for x in listed]
        any_kind = {x: c.verb for x, c in calls if c and c.verb in free and c.label not in labels}
        verbs = set(any_kind.values())
        made = [x for x in self.entered(now) if read_command(x).verb in verbs]
        return [*made, *(x for x in listed if x not in any_kind)]

    def _options(
        self, slot: Counter[Words], entities: Mapping[Words, set[str]], needed: set[str]
    ) -> list[Words]:
        there = [name for name, standing in entities.items() if needed <= standing]
        known = [name for name in there if shape(name) in slot][:FILLERS]
        once = sum(count == 1 for count in slot.values())
        if once < OPEN * slot.total():  # of what fills it, this share was never there before
            return known
        new = [name for name in there if shape(name) not in self._kinds]
        return [*known, *new[: max(2, FILLERS - len(known))]]

    def _entities(self, text: str) -> tuple[Words, ...]:
        """Return the things of known kinds in a text."""
        if text not in self._named:
            names: dict[Words, None] = {}
            for line in lines(text):
                for i in range(len(line)):
                    runs = (line[i : i + size] for size in (4, 3, 2, 1) if i + size <= len(line))
                    name = next((run for run in runs if shape(run) in self._kinds), None)
                    if name is not None:
                        names[name] = None
            self._named[text] = tuple(names)
        return self._named[text]

    def _text(self, command: Command, fillers: tuple[Words, ...], now: Situation) -> str:
        if fillers == command.fillers:
            return command.text
        return command.filled([now.surface(filler) for filler in fillers])


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """The candidates of n steps as rows, rows as blocks of features.

    features: of all blocks, one after the other. sizes: of each block. owner: the episode of each
    block. blocks: of all rows, one after the other. lengths: the number of blocks of each row.
    start: the first row of each step, which is the action taken. alike: the number of candidates
    that a row stands for. repeats: how often it was done in this same sight. episode, weight: of
    each step.
    """

    features: Keys
    sizes: NDArray[np.int64]
    owner: NDArray[np.int64]
    blocks: NDArray[np.int64]
    lengths: NDArray[np.int64]
    start: NDArray[np.int64]
    alike: NDArray[np.float64]
    repeats: NDArray[np.float64]
    episode: NDArray[np.int64]
    weight: NDArray[np.float64]

    @property
    def ends(self) -> NDArray[np.int64]:
        """The row after the last one of each step."""
        return np.append(self.start[1:], len(self.lengths))


def gather(lessons: Sequence[Lesson], vocabulary: Vocabulary, candidates: Candidates) -> Data:
    """Read lessons, episode by episode, as rows of blocks of features."""
    generator = np.random.default_rng(0)
    names = dict.fromkeys(lesson.episode for lesson in lessons)
    numbers = {name: number for number, name in enumerate(names)}
    features: list[Keys] = [np.empty(0, np.uint64)]
    sizes: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    blocks: list[int] = []
    owner: list[int] = []
    lengths: list[int] = []
    start, alike, repeats, episode, weight = [], [], [], [], []
    for lesson in sorted(lessons, key=lambda one: numbers[one.episode]):
        now = Situation(vocabulary, lesson.goal, lesson.kind, lesson.past, lesson.observation)
        possible = candidates.against(now, lesson)
        actions = [lesson.action, *_sampled(possible, lesson.action, vocabulary, generator)]
        read = now.rows(actions)
        if len(read.rows) < 2:
            continue
        first = len(owner)
        start.append(len(lengths))
        episode.append(numbers[lesson.episode])
        weight.append(lesson.weight)
        features.append(read.features)
        sizes.append(read.sizes)
        owner += [episode[-1]] * len(read.sizes)
        alike += np.bincount(read.of_action).tolist()
        for row in read.rows:
            blocks += [first + block for block in row]
            lengths.append(len(row))
        taken = dict(zip(reversed(read.of_action), reversed(actions), strict=True))
        repeats += [now.repeats(taken[row]) for row in range(len(read.rows))]
    return Data(
        np.concatenate(features),
        np.concatenate(sizes),
        np.array(owner, np.int64),
        np.array(blocks, np.int64),
        np.array(lengths, np.int64),
        np.array(start, np.int64),
        np.array(alike, np.float64),
        np.array(repeats, np.float64),
        np.array(episode, np.int64),
        np.array(weight, np.float64),
    )


def _sampled(
    possible: Iterable[str], taken: str, known: Vocabulary, generator: np.random.Generator
) -> list[str]:
    """Return at most NEGATIVES other candidates, half of them of the frame of the action taken.

    Frames that no recorded step used are never chosen beside others.
    """
    frames = {action: read_command(action).frame for action in possible if action != taken}
    others = [action for action, frame in frames.items() if frame in known.frames]
    if len(others) <= NEGATIVES:
        return others
    frame = read_command(taken).frame
    near = [action for action in others if frames[action] == frame]
    near = [near[i] for i in generator.permutation(len(near))[: NEGATIVES // 2]]
    far = [others[i] for i in generator.permutation(len(others))]
    return list(dict.fromkeys([*near, *far]))[:NEGATIVES]


class Fit:
    """The features of n rows as two sparse matrices, and weights fitted to them.

    rows: what blocks a row has. x: what features a block has. Features that tell the rows of every
    step apart in the same way are one column of `x`, and those that never do are none.
    """

    def __init__(self, data: Data, ridge: float = RIDGE, repeated: float = REPEATED) -> None:
        self.data, self.ridge, self.repeated = data, ridge, repeated
        keep = _supported(data)
        self.columns, place = np.unique(data.features[keep], return_inverse=True)
        ends_kept = np.concatenate([[0], np.cumsum(keep)])[
            np.concatenate([[0], np.cumsum(data.sizes)])
        ]
        x_t = _ones(place, ends_kept, len(self.columns)).T.tocsr()
        ends = np.concatenate([[0], np.cumsum(data.lengths)])
        self.rows = _ones(data.blocks, ends, len(data.sizes))
        signs = np.random.default_rng(2).integers(1 << 63, size=len(data.lengths), dtype=np.uint64)
        signs[data.start] -= np.add.reduceat(signs, data.start)
        signs = x_t.astype(np.uint64) @ (self.rows.T.astype(np.uint64) @ signs)
        distinct, chosen, self.column = np.unique(signs, return_index=True, return_inverse=True)
        self.each = SCALES[(self.columns & np.uint64(255)).astype(int)] ** 2 * (signs != 0)
        self.scale = np.sqrt(np.bincount(self.column, self.each, len(distinct)))
        self.x_t = x_t[chosen[distinct != 0]]
        self.column -= int(not distinct.all())
        self.scale = self.scale[distinct != 0]
        self.x = self.x_t.T.tocsr()

    def learnt(self, weights: NDArray[np.float64]) -> tuple[Keys, NDArray[np.float32]]:
        """Return the features that have a weight, and their weights."""
        known = self.each > 0
        column = self.column[known]
        each = weights[column] * self.each[known] / self.scale[column]
        return self.columns[known], each.astype(np.float32)

    def weights(self, steps: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return the weights learnt from some steps, or from all; the last is of `repeats`."""
        from scipy.optimize import minimize

        data = self.data
        steps = np.arange(len(data.start)) if steps is None else steps
        sizes = data.ends[steps] - data.start[steps]
        start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        chosen = np.repeat(data.start[steps] - start, sizes) + np.arange(sizes.sum())
        rows, x = self.rows[chosen], self.x
        repeats, alike = data.repeats[chosen], np.log(data.alike[chosen])
        rows_t, x_t, scale = rows.T.tocsr(), self.x_t, self.scale
        mean = np.zeros(x.shape[1] + 1)
        mean[-1] = self.repeated
        worked, size = data.weight[steps] > 0, np.abs(data.weight[steps])
        each = np.repeat(size, sizes)

        def loss(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            z = rows @ (x @ (w[:-1] * scale)) + repeats * w[-1] + alike
            z -= np.repeat(np.maximum.reduceat(z, start), sizes)
            p = np.exp(z)
            total = np.add.reduceat(p, start)
            p /= np.repeat(total, sizes)
            taken = np.clip(p[start], 1e-12, 1 - 1e-9)
            # What failed: the likelihood of having done anything else.
            value = -np.where(worked, np.log(taken), np.log1p(-taken)) * size
            slope = np.where(worked, 1.0, -taken / (1 - taken))
            p *= np.repeat(slope, sizes)
            p[start] -= slope
            p *= each
            gradient = np.append((x_t @ (rows_t @ p)) * scale, repeats @ p)
            gradient += self.ridge * (w - mean)
            return float(value.sum() + 0.5 * self.ridge * ((w - mean) ** 2).sum()), gradient

        options = {"maxiter": ITERATIONS, "maxcor": 8}
        best: NDArray[np.float64] = minimize(
            loss, mean, jac=True, method="L-BFGS-B", options=options
        ).x
        return best

    def logits(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the value of each row."""
        values: NDArray[np.float64] = self.rows @ (self.x @ (weights[:-1] * self.scale))
        values += self.data.repeats * weights[-1]
        return values

    def left_out(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Return (confidence, share right, step) of steps that worked, of episodes left out."""
        data = self.data
        folds = (
            np.random.default_rng(1).permutation(int(data.episode.max()) + 1)[data.episode] % FOLDS
        )
        sure, right, steps = [], [], []
        for fold in range(FOLDS):
            others, held = (
                np.flatnonzero(folds != fold),
                np.flatnonzero((folds == fold) & (data.weight > 0)),
            )
            if not len(others) or not len(held):
                continue
            z = self.logits(self.weights(others))
            for step in held:
                part = slice(data.start[step], data.ends[step])
                p = np.exp(z[part] - z[part].max())
                p *= data.alike[part]
                p /= p.sum()
                best = z[part] >= z[part].max() - 1e-9
                sure.append(float(p[best].sum()))
                right.append(float(best[0]))
                steps.append(step)
        return np.array(sure), np.array(right), np.array(steps, np.int64)


def _supported(data: Data) -> NDArray[np.bool_]:
    """Return which features occur in several episodes, but for rare collisions of hashes."""
    episodes = int(data.episode.max(initial=-1)) + 1
    bins = (data.features >> np.uint64(64 - BINS)).astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(data.sizes)])
    borders = ends[np.searchsorted(data.owner, np.arange(episodes + 1))]
    support = np.zeros(1 << BINS, np.int32)
    for begin, end in pairwise(borders):
        support[np.unique(bins[begin:end])] += 1
    least: NDArray[np.bool_] = support[bins] >= min(SUPPORT, max(1, episodes // 4))
    return least


def _ones(columns: NDArray[np.int64], ends: NDArray[np.int64], width: int) -> Any:
    from scipy.sparse import csr_matrix

    shape = (len(ends) - 1, width)
    return csr_matrix((np.ones(len(columns)), columns.astype(np.int32), ends), shape)


@dataclass(frozen=True, eq=False)
class Relevance:
    """The learnt rule.

    columns, weights: of features, (n,) each. repeated: the weight of a repetition in this sight.
    calibration: (confidence, share right) pairs between which confidences are interpolated.
    right: how often left-out steps were decided right, by kind; "" is overall.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    columns: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    weights: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    repeated: float = REPEATED
    calibration: tuple[tuple[float, float], ...] = ()
    actions: tuple[str, ...] = ()

    @cached_property
    def candidates(self) -> Candidates:
        """The candidates where none are listed."""
        return Candidates(self.actions)

    def logits(self, now: Situation, actions: Sequence[str]) -> NDArray[np.float64]:
        """Return a value for each action: its logit, far below for unknown frames beside known."""
        known = [read_command(action).frame in self.vocabulary.frames for action in actions]
        some = any(known)
        chosen = [a for a, one in zip(actions, known, strict=True) if one or not some]
        values = np.full(len(actions), UNKNOWN)
        repeats = np.array([now.repeats(action) for action in chosen])
        values[np.array(known, np.bool_) | (not some)] = (
            self._values(now.rows(chosen)) + self.repeated * repeats
        )
        return np.round(values, 6)

    def rank(self, now: Situation, admissible: Sequence[str] | None) -> Ranking:
        """Rank the candidates of a state.

        admissible: the possible actions; None for known frames with things of the present texts.
        """
        if admissible is None:
            listed: Sequence[str] = self.candidates.of(now)
        else:
            listed = self.candidates.completed(now, admissible)
        texts = tuple(dict.fromkeys(listed))
        if not texts or not self.actions:
            return Ranking(texts)
        values = self.logits(now, texts)
        numbers: dict[float, int] = {}
        groups = tuple(numbers.setdefault(value, len(numbers)) for value in values.tolist())
        weights = np.exp(np.array(list(numbers)) - values.max()) * np.bincount(groups)
        shares = weights / weights.sum()
        return Ranking(texts, groups, tuple(shares.tolist()), self.sureness(float(shares.max())))

    def forms(self, now: Situation, count: int) -> dict[str, float]:
        """Return the most probable forms of an action with their probabilities, the best first."""
        shares: dict[str, float] = defaultdict(float)
        for action, share in self.rank(now, None).ranked():
            shares[read_command(action).frame] += share
        best = sorted(shares, key=lambda form: (-shares[form], form))[:count]
        return {form: shares[form] for form in best}

    def _values(self, read: Rows) -> NDArray[np.float64]:
        if not len(self.columns):
            return np.zeros(len(read.of_action))
        columns, weights, starts, depth = self._table
        at = starts[read.features >> np.uint64(64 - (len(starts) - 1).bit_length())]
        for _ in range(depth):
            at += columns[at] < read.features
        each = np.where(columns[at] == read.features, weights[at], 0.0)
        blocks = np.diff(np.append(0.0, np.cumsum(each))[np.append(0, np.cumsum(read.sizes))])
        row = np.repeat(np.arange(len(read.rows)), [len(one) for one in read.rows])
        of_row: NDArray[Any] = np.bincount(
            row, blocks[[block for one in read.rows for block in one]]
        )
        values: NDArray[np.float64] = of_row[read.of_action]
        return values

    @cached_property
    def _table(self) -> tuple[Keys, NDArray[np.float64], NDArray[Any], int]:
        """Features, weights, where those of each first bits start, and the most of one start."""
        bits = len(self.columns).bit_length() + 1
        firsts = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
        starts = np.searchsorted(self.columns, firsts)
        depth = int(np.diff(np.append(starts, len(self.columns))).max())
        columns = np.append(self.columns, np.uint64((1 << 64) - 1))
        return columns, np.append(self.weights, 0.0).astype(np.float64), starts, depth

    def sureness(self, share: float) -> float:
        """Return how often a decision with this share of the probability was right."""
        if not self.calibration:
            return share
        xs, ys = zip(*self.calibration, strict=True)
        return float(np.interp(share, xs, ys))


def learn(lessons: Sequence[Lesson], *, calibrated: bool = True, **settings: Any) -> Relevance:
    """Learn the rule from lessons, always the same from the same ones."""
    vocabulary = vocabulary_of(lessons)
    actions = tuple(dict.fromkeys(lesson.action for lesson in lessons))
    data = gather(lessons, vocabulary, Candidates(actions))
    if not len(data.start):
        return Relevance(vocabulary, actions=actions)
    fit = Fit(data, **settings)
    weights = fit.weights()
    curve: tuple[tuple[float, float], ...] = ()
    if calibrated:
        curve = calibration(*fit.left_out()[:2])
    learnt = fit.learnt(weights[:-1])
    return Relevance(vocabulary, *learnt, float(weights[-1]), curve, actions)


def calibration(
    sure: NDArray[np.float64], right: NDArray[np.float64]
) -> tuple[tuple[float, float], ...]:
    """Return the curve from confidence to the share of right decisions, rising."""
    if len(sure) < ISOTONIC:
        return ()
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(out_of_bounds="clip").fit(sure, right)
    points = zip(model.X_thresholds_.tolist(), model.y_thresholds_.tolist(), strict=True)
    return tuple((round(x, 6), round(y, 6)) for x, y in points)


__all__ = ["GROUPS", "Data", "Fit", "Lesson", "Relevance", "learn"]
