"""Learn from recorded steps which action a state calls for: a conditional logit over the candidates.

For each recorded step the action taken stands against the other candidates, those that were
possible or, where that was not recorded, the memory's frames with fillers from the same texts. The
weights of features (`ldm.reason.features`) maximise the likelihood of what worked and minimise that
of what failed, with a ridge towards a prior: what was done before in this same sight is not done
again, which recordings of experts cannot teach, as they never loop.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.reason.features import (
    GROUPS,
    RARE,
    SCALES,
    Features,
    Keys,
    Situation,
    Vocabulary,
    between,
)
from ldm.reason.frames import Command, read_command
from ldm.reason.ranking import Ranking
from ldm.reason.reading import Words, leaves, lines, number, shape, words
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
#: Left-out parts by which confidence is calibrated, and steps from which isotonically.
FOLDS, ISOTONIC = 5, 500
#: Facts of texts that are read, those that tell most of the actions taken.
MOST_TELLING = 700
#: Iterations of the fit.
ITERATIONS = 80


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


def vocabulary_of(lessons: Sequence[Lesson]) -> Vocabulary:
    """Return what lessons teach about reading."""
    episodes = {lesson.episode for lesson in lessons}
    listed: dict[str, set[str]] = defaultdict(set)
    told: dict[str, set[str]] = defaultdict(set)
    asked: dict[str, set[str]] = defaultdict(set)
    numbers: dict[str, dict[str, float]] = defaultdict(dict)
    uses: Counter[str] = Counter()
    verbs: set[str] = set()
    things: set[str] = set()
    for lesson in lessons:
        for action in (lesson.action, *(lesson.possible or ())):
            listed[action].add(lesson.episode)
        uses[read_command(lesson.action).frame] += 1
        things.update(words(lesson.observation))
        for path, value in leaves(lesson.observation):
            if (amount := number(value)) is not None:
                numbers[path][f"{lesson.episode} {value}"] = amount
        for word in words(lesson.goal):
            asked[word].add(lesson.episode)
    for action in listed:
        verbs.update(words(action)[:1])
        things.update(word for filler in read_command(action).fillers for word in filler)
    limits = tuple((path, between([*numbers[path].values()])) for path in sorted(numbers))
    draft = Vocabulary(thresholds=tuple(limit for limit in limits if limit[1]))
    for lesson in lessons:
        for fact in draft.facts(lesson.observation):
            told[fact].add(lesson.episode)
    count = len(episodes)
    least = max(CLOSED_TIMES, CLOSED * count)
    return replace(
        draft,
        verbs=frozenset(verbs),
        things=frozenset(things),
        frames=frozenset(uses),
        closed=frozenset(a for a, where in listed.items() if len(where) >= least),
        rare=frozenset(frame for frame, n in uses.items() if n <= RARE * count),
        told=frozenset(f for f, where in told.items() if SUPPORT <= len(where) < count) or frozenset([""]),
        asked=frozenset(word for word, where in asked.items() if SUPPORT <= len(where)),
    )


class Candidates:
    """The actions that a state may call for where none are listed: known frames, filled anew."""

    def __init__(self, actions: Iterable[str]) -> None:
        """Learn frames, and what kinds of things fill their slots, from recorded actions."""
        self._commands: dict[str, Command] = {}
        self._fillers: dict[str, list[Counter[Words]]] = {}
        self._kinds: set[Words] = set()
        self._uses: Counter[str] = Counter()
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
        entities: dict[Words, None] = {}
        for text in reversed([now.goal, *now.texts]):
            entities.update(dict.fromkeys(self._entities(text)))
        entities.update(dict.fromkeys(now.roles))
        found: dict[str, None] = {}
        for frame, _ in sorted(self._uses.items(), key=lambda one: (-one[1], one[0])):
            command, slots = self._commands[frame], self._fillers[frame]
            options = [self._options(slot, entities, now) for slot in slots]
            for i, fillers in enumerate(product(*options)):
                if i == FILLED:
                    break
                found[self._text(command, fillers, now)] = None
        return list(found)

    def _options(self, slot: Counter[Words], entities: dict[Words, None], now: Situation) -> list[Words]:
        known = [name for name in entities if shape(name) in slot]
        roles = [name for name in entities if name not in known and shape(name) not in self._kinds]
        return [*known[:FILLERS], *roles[: max(2, FILLERS - len(known))]]

    def _entities(self, text: str) -> list[Words]:
        found = []
        for line in lines(text):
            for i in range(len(line)):
                for size in (4, 3, 2, 1):
                    name = line[i : i + size]
                    if len(name) == size and shape(name) in self._kinds:
                        found.append(name)
                        break
        return found

    def _text(self, command: Command, fillers: tuple[Words, ...], now: Situation) -> str:
        if fillers == command.fillers:
            return command.text
        return command.filled([now.surface(filler) for filler in fillers])


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """The candidates of n steps as rows, and the parts of features that rows share.

    keys: of all parts, one after the other. sizes: of each part. parts: of all rows, one row after
    the other. counts: parts of each row. start: the first row of each step, which is the action
    taken. alike: the number of candidates that a row stands for. repeats: how often it was done in
    this same sight. episode, weight: of each step.
    """

    keys: Keys
    sizes: NDArray[np.int64]
    parts: NDArray[np.int64]
    counts: NDArray[np.int64]
    start: NDArray[np.int64]
    alike: NDArray[np.float64]
    repeats: NDArray[np.float64]
    episode: NDArray[np.int64]
    weight: NDArray[np.float64]

    @property
    def ends(self) -> NDArray[np.int64]:
        """The row after the last one of each step."""
        return np.append(self.start[1:], len(self.counts))


def telling(lessons: Sequence[Lesson], vocabulary: Vocabulary) -> Vocabulary:
    """Return the vocabulary with the facts that tell actions apart, if there are too many.

    They are those that have most information on the frame of the action taken (a G-test).
    """
    frames: dict[str, int] = {}
    facts, taken, sizes = list[Keys](), list[int](), list[int]()
    for lesson in lessons:
        now = Situation(vocabulary, lesson.goal, lesson.kind, lesson.past, lesson.observation)
        facts.append(np.unique(now.facts))
        sizes.append(len(facts[-1]))
        taken.append(frames.setdefault(read_command(lesson.action).frame, len(frames)))
    distinct, place = np.unique(np.concatenate(facts), return_inverse=True)
    if len(distinct) <= MOST_TELLING:
        return vocabulary
    width, total = len(frames), len(lessons)
    pairs = place.astype(np.int64) * width + np.repeat(taken, sizes)
    counts = np.bincount(pairs, minlength=len(distinct) * width).reshape(-1, width)
    overall, with_fact = np.bincount(taken, minlength=width), counts.sum(1, keepdims=True)

    def information(part: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.float64]:
        expected = size * overall / total
        terms = part * np.log(np.maximum(part, 1) / np.maximum(expected, 1e-9))
        gained: NDArray[np.float64] = np.where(part, terms, 0).sum(1)
        return gained

    worth = information(counts, with_fact) + information(overall - counts, total - with_fact)
    best = np.lexsort((distinct, -np.round(worth, 9)))[:MOST_TELLING]
    return replace(vocabulary, telling=frozenset(distinct[best].tolist()))


def gather(lessons: Sequence[Lesson], vocabulary: Vocabulary, candidates: Candidates) -> Data:
    """Read lessons as rows of features."""
    generator = np.random.default_rng(0)
    numbers: dict[str, int] = {}
    hashes: list[Keys] = []
    sizes, parts, counts, of_part = list[int](), list[int](), list[int](), 0
    start, repeats, episode = list[int](), list[int](), list[int]()
    alike, weight = list[float](), list[float]()
    for lesson in lessons:
        now = Situation(vocabulary, lesson.goal, lesson.kind, lesson.past, lesson.observation)
        possible = candidates.of(now) if lesson.possible is None else lesson.possible
        known = (a for a in dict.fromkeys(possible) if read_command(a).frame in vocabulary.frames)
        others = _sampled([a for a in known if a != lesson.action], lesson, generator)
        actions = [lesson.action, *others]
        features, of_action = now.rows(actions)
        if len(features.rows) < 2:
            continue
        start.append(len(counts))
        episode.append(numbers.setdefault(lesson.episode, len(numbers)))
        weight.append(lesson.weight)
        hashes.append(features.keys)
        sizes += features.sizes
        for row in features.rows:
            parts += [of_part + part for part in row]
            counts.append(len(row))
        of_part += len(features.sizes)
        alike += np.bincount(of_action, minlength=len(features.rows)).tolist()
        firsts = dict(zip(reversed(of_action), reversed(actions), strict=True))
        repeats += [now.repeats(firsts[row]) for row in range(len(features.rows))]
    return Data(
        np.concatenate(hashes) if hashes else np.empty(0, np.uint64),
        np.array(sizes, np.int64),
        np.array(parts, np.int64),
        np.array(counts, np.int64),
        np.array(start, np.int64),
        np.array(alike, np.float64),
        np.array(repeats, np.float64),
        np.array(episode, np.int64),
        np.array(weight, np.float64),
    )


def _sampled(others: list[str], lesson: Lesson, generator: np.random.Generator) -> list[str]:
    """Return at most NEGATIVES candidates, half of them of the frame of the action taken."""
    if len(others) <= NEGATIVES:
        return others
    frame = read_command(lesson.action).frame
    near = [action for action in others if read_command(action).frame == frame]
    near = [near[i] for i in generator.permutation(len(near))[: NEGATIVES // 2]]
    far = [others[i] for i in generator.permutation(len(others))]
    return list(dict.fromkeys([*near, *far]))[:NEGATIVES]


class Fit:
    """The matrices of features and of parts of n rows, and weights fitted to them."""

    def __init__(self, data: Data, ridge: float = RIDGE, repeated: float = REPEATED) -> None:
        from scipy.sparse import csr_matrix

        self.data, self.ridge, self.repeated = data, ridge, repeated
        self.columns, place = np.unique(data.keys, return_inverse=True)
        of_row = np.repeat(data.episode, data.ends - data.start)
        of_part = np.zeros(len(data.sizes), np.int64)
        of_part[data.parts] = np.repeat(of_row, data.counts)
        episodes = int(data.episode.max(initial=-1)) + 1
        pairs = np.unique(place.astype(np.int64) * episodes + np.repeat(of_part, data.sizes))
        support = np.bincount(pairs // max(episodes, 1), minlength=len(self.columns))
        keep = support >= min(SUPPORT, max(1, episodes // 4))
        scale = SCALES[(self.columns & np.uint64(255)).astype(int)]
        good, index = keep[place], np.cumsum(keep) - 1
        kept = np.concatenate([[0], np.cumsum(good)])
        self.columns, self.scale = self.columns[keep], scale[keep]
        self.of_parts = csr_matrix(
            (
                scale[place[good]].astype(np.float32),
                index[place[good]].astype(np.int32),
                kept[np.concatenate([[0], np.cumsum(data.sizes)])],
            ),
            shape=(len(data.sizes), len(self.columns)),
        )
        self.of_rows = csr_matrix(
            (
                np.ones(len(data.parts), np.float32),
                data.parts.astype(np.int32),
                np.concatenate([[0], np.cumsum(data.counts)]),
            ),
            shape=(len(data.counts), len(data.sizes)),
        )

    def weights(self, steps: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return the weights learnt from some steps, or from all; the last is of `repeats`."""
        from scipy.optimize import minimize

        data = self.data
        steps = np.arange(len(data.start)) if steps is None else steps
        sizes = data.ends[steps] - data.start[steps]
        rows = np.concatenate([np.arange(a, b) for a, b in zip(data.start[steps], data.ends[steps], strict=True)])
        start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        of_rows, repeats, alike = self.of_rows[rows], data.repeats[rows], np.log(data.alike[rows])
        used = np.unique(of_rows.indices)
        of_parts, of_rows = self.of_parts[used], of_rows[:, used]
        to_parts, to_columns = of_rows.T.tocsr(), of_parts.T.tocsr()
        mean = np.zeros(len(self.columns) + 1)
        mean[-1] = self.repeated
        worked, size = data.weight[steps] > 0, np.abs(data.weight[steps])
        each = np.repeat(size, sizes)

        def loss(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            z = of_rows @ (of_parts @ w[:-1]) + repeats * w[-1] + alike
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
            gradient = np.append(to_columns @ (to_parts @ p), repeats @ p) + self.ridge * (w - mean)
            return float(value.sum() + 0.5 * self.ridge * ((w - mean) ** 2).sum()), gradient

        options = {"maxiter": ITERATIONS, "maxcor": 8}
        best: NDArray[np.float64] = minimize(loss, mean, jac=True, method="L-BFGS-B", options=options).x
        return best

    def left_out(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Return (confidence, share right, step) of steps that worked, of episodes left out."""
        data = self.data
        folds = np.random.default_rng(1).permutation(int(data.episode.max()) + 1)[data.episode] % FOLDS
        sure, right, steps = [], [], []
        for fold in range(FOLDS):
            others, held = np.flatnonzero(folds != fold), np.flatnonzero((folds == fold) & (data.weight > 0))
            if not len(others) or not len(held):
                continue
            w = self.weights(others)
            z = self.of_rows @ (self.of_parts @ w[:-1]) + data.repeats * w[-1]
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


@dataclass(frozen=True, eq=False)
class Relevance:
    """The learnt rule.

    columns, weights: of features, (n,) each. repeated: the weight of a repetition in this sight.
    calibration: (confidence, share right) pairs between which confidences are interpolated.
    right: how often left-out steps were decided right, by kind; "" is overall.
    """

    vocabulary: Vocabulary = Vocabulary()
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
        features, of_action = now.rows(actions)
        known = [read_command(action).frame in self.vocabulary.frames for action in actions]
        values = self._values(features)[of_action]
        values += self.repeated * np.array([now.repeats(action) for action in actions])
        if any(known):
            values[~np.array(known)] = -1e3
        return np.round(values, 6)

    def rank(self, now: Situation, admissible: Sequence[str] | None) -> Ranking:
        """Rank the candidates of a state.

        admissible: the possible actions; None for known frames with things of the present texts.
        """
        listed = self.candidates.of(now) if admissible is None else admissible
        texts = tuple(dict.fromkeys(listed))
        if not texts or not len(self.columns):
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

    def _values(self, features: Features) -> NDArray[np.float64]:
        """Return the sum of the weights of each row."""
        if not len(self.columns) or not features.rows:
            return np.zeros(len(features.rows))
        at = np.minimum(np.searchsorted(self.columns, features.keys), len(self.columns) - 1)
        worth = np.where(self.columns[at] == features.keys, self.weights[at], np.float32(0))
        sums = np.cumsum(worth, dtype=np.float64)
        ends = np.cumsum(features.sizes)
        of_parts = np.diff(np.concatenate([[0.0], sums])[np.concatenate([[0], ends])])
        return np.array([of_parts[row].sum() for row in features.rows])

    def sureness(self, share: float) -> float:
        """Return how often a decision with this share of the probability was right."""
        if not self.calibration:
            return share
        xs, ys = zip(*self.calibration, strict=True)
        return float(np.interp(share, xs, ys))


def learn(lessons: Sequence[Lesson], *, calibrated: bool = True, **settings: Any) -> Relevance:
    """Learn the rule from lessons, always the same from the same ones."""
    vocabulary = telling(lessons, vocabulary_of(lessons)) if lessons else Vocabulary()
    actions = tuple(dict.fromkeys(lesson.action for lesson in lessons))
    data = gather(lessons, vocabulary, Candidates(lesson.action for lesson in lessons))
    if not len(data.start):
        return Relevance(vocabulary, actions=actions)
    fit = Fit(data, **settings)
    weights = fit.weights()
    curve: tuple[tuple[float, float], ...] = ()
    if calibrated:
        curve = calibration(*fit.left_out()[:2])
    scaled = (weights[:-1] * fit.scale).astype(np.float32)
    return Relevance(vocabulary, fit.columns, scaled, float(weights[-1]), curve, actions)


def calibration(sure: NDArray[np.float64], right: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    """Return the curve from confidence to the share of right decisions, rising."""
    if len(sure) < ISOTONIC:
        return ()
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(out_of_bounds="clip").fit(sure, right)
    points = zip(model.X_thresholds_.tolist(), model.y_thresholds_.tolist(), strict=True)
    return tuple((round(x, 6), round(y, 6)) for x, y in points)


__all__ = ["GROUPS", "Data", "Fit", "Lesson", "Relevance", "learn"]
