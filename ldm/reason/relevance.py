"""Learn from recorded steps which action a state calls for, as a conditional logit.

For each recorded step the action taken stands against the other candidates, those that were
possible or, where that was not recorded, the memory's frames with fillers from the same texts. The
weights of features (`ldm.reason.features`) maximise the likelihood of what worked and minimise that
of what failed, with a ridge towards a prior: what was done before in this same sight is not done
again, which recordings of experts cannot teach, as they never loop.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain, islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.parallel import one_thread
from ldm.reason.candidates import Candidates
from ldm.reason.features import SCALES, Keys, Rows, Situation, course_keys, cross, key_of_text
from ldm.reason.vocabulary import (
    INSTEAD,
    SUPPORT,
    UNREWARDED,
    Lesson,
    Vocabulary,
    read_command,
    vocabulary_of,
    within,
)
from ldm.types import Past, by_key

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

#: Strength of the ridge, and the prior weight of an action done before, per time (see
#: `Situation.repeats`); chosen by playing training tasks of ALFWorld and BabyAI.
RIDGE, REPEATED = 2.0, -3.0
#: The weight that is penalised by RIDGE when learnt the second time, smaller ones in proportion
#: more, and what is added to all; chosen by playing training tasks of two desks.
FULL, LEAST = 0.1, 0.01
#: The prior weight of an action that was done for the same goal, and again of one in this sight,
#: and the weights from which the likeliest on episodes left out is chosen.
AGAIN, CHOICES = 1.0, np.linspace(-1.0, 5.0, 25)
#: The share of the episodes beyond which a goal is none of its own.
COMMON = 0.25
#: Candidates beside the action taken that a step is learnt from. With 40, 20 and 10, memories of 24
#: episodes solve 1, 6 and 15 of 100 training tasks of ALFWorld fewer.
NEGATIVES = 100
#: Parts of the episodes of which each is left out once, until so many steps were.
FOLDS, LEFT_OUT = 5, 800
#: Strength of the ridge towards confidence that equals the share of the probability, the least
#: share, or rest, that it tells from less, and the points between which it is interpolated; chosen
#: by the left-out steps of the memories of `benchmarks/relevance.py table calibration`.
EQUAL, CLEAREST, POINTS = 5.0, 1e-3, 101
#: Groups of left-out steps, of about equal size, by which the calibration is shown.
PARTS = 10
#: Numbers of newer episodes with which a step may count half, those that are tried first, and how
#: much more probable, in nats, fading must make what came; the newest episodes by which this is
#: judged, in blocks, and the steps before that are read for it.
FIRST, OTHERS, BETTER = (np.inf, 30.0), (100.0, 10.0), 3.0
NEWEST, BLOCK, OLDER = 40, 20, 1_000
#: The least probability that counts there, so that no single step decides.
SURPRISE = 0.02
#: Iterations of the fit.
ITERATIONS = 40
#: Candidates, those of the most used forms, of which the most probable form is taken.
USED = 200
#: Facts that are told of a decision.
BECAUSE = 3
#: The logit of an action of a frame that no recorded step used, beside others, and of each repeat
#: (`Situation.repeats`) beyond the most of a step that worked and ENOUGH more.
UNKNOWN, ENOUGH = -1e3, 2.0
#: Features of all steps that are learnt from, steps by which those of the others are estimated, and
#: so few that they are learnt from anyway.
FEATURES, PROBED, FEW = 1 << 25, 100, 1_000
#: The most first bits by which a feature's weight is looked up.
FIRST_BITS = 22
#: Bits by which features are counted, and features that are looked up at a time.
BINS, PART = 24, 1 << 20
#: Steps by which the wording of a memory is known, and characters of what was seen there.
EXAMPLES, EXAMPLE = 50, 1_000


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """The candidates of n steps as rows, rows as blocks of features.

    features: of all blocks, one after the other. sizes: of each block. owner: the episode of each
    block. blocks: of all rows, one after the other. lengths: the number of blocks of each row.
    start: the first row of each step, which is the action taken. alike: the number of candidates
    that a row stands for. repeats, again: of each row, see `Situation`. episode, weight, kinds: of
    each step. age: how many episodes are newer than that of each step. offered: whether the action
    taken was possible as listed, or would be a candidate. recorded: the keys of what was done for
    which goal (`course_keys`).
    """

    features: Keys
    sizes: Numbers
    owner: Numbers
    blocks: Numbers
    lengths: Numbers
    start: Numbers
    alike: Floats
    repeats: Floats
    again: Floats
    episode: Numbers
    weight: Floats
    age: Numbers
    offered: NDArray[np.bool_]
    kinds: tuple[str, ...]
    recorded: frozenset[int]

    @property
    def ends(self) -> Numbers:
        """The row after the last one of each step."""
        return np.append(self.start[1:], len(self.lengths))


class Courses:
    """What was done for which goal, in episodes that worked, unless it is the goal of many.

    episodes: the number of episodes by the keys of goals and of `course_keys`.
    """

    def __init__(self, lessons: Sequence[Lesson]) -> None:
        self._of: dict[str, set[int]] = defaultdict(set)
        goals = Counter({one.episode: one.goal for one in lessons}.values())
        for one in lessons:
            if one.weight > 0 and goals[one.goal] <= COMMON * goals.total():
                keys = course_keys(one.goal, one.action, key_of_text(one.observation))
                self._of[one.episode].update((key_of_text(one.goal), *keys))
        self.episodes = Counter(key for keys in self._of.values() for key in keys)

    def of_others(self, episode: str) -> Callable[[int], bool]:
        """Return the test whether a key is of another episode."""
        own = self._of.get(episode, set())
        return lambda key: self.episodes.get(key, 0) > (key in own)


def gather(lessons: Sequence[Lesson], vocabulary: Vocabulary, candidates: Candidates) -> Data:
    """Read lessons, episode by episode, as rows of blocks of features."""
    generator = np.random.default_rng(0)
    names = dict.fromkeys(lesson.episode for lesson in lessons)
    numbers = {name: number for number, name in enumerate(names)}
    courses, steps, read = Courses(lessons), list[tuple[Lesson, bool]](), list[Rows]()
    for lesson in sorted(lessons, key=lambda one: numbers[one.episode]):
        state = lesson.goal, lesson.kind, lesson.past, lesson.observation
        now = Situation(vocabulary, *state, courses.of_others(lesson.episode))
        possible = candidates.against(now, lesson)
        actions = [lesson.action, *_sampled(possible, lesson.action, vocabulary, generator)]
        rows = now.rows(actions)
        if len(rows.rows) > 1:
            listed = lesson.possible is not None or bool(vocabulary.pressed)
            steps.append((lesson, listed or lesson.action in possible))
            read.append(rows)
    episode = np.array([numbers[one.episode] for one, _ in steps], np.int64)
    times = np.array([one.time for one, _ in steps])
    counts = [len(one.sizes) for one in read]
    ends = zip(accumulate([0, *counts]), read, strict=False)
    return Data(
        np.concatenate([np.empty(0, np.uint64), *(one.features for one in read)]),
        np.concatenate([np.empty(0, np.int64), *(one.sizes for one in read)]),
        np.repeat(episode, np.array(counts, np.int64)),
        np.array([end + block for end, one in ends for row in one.rows for block in row], np.int64),
        np.array([len(row) for one in read for row in one.rows], np.int64),
        np.array([0, *accumulate(len(one.rows) for one in read)][:-1], np.int64),
        np.array([n for one in read for n in np.bincount(one.of_action).tolist()], np.float64),
        np.array([often for one in read for often in one.repeats], np.float64),
        np.array([often for one in read for often in one.again], np.float64),
        episode,
        np.array([one.weight for one, _ in steps], np.float64),
        np.unique(-times, return_inverse=True)[1].astype(np.int64),
        np.array([offered for _, offered in steps], np.bool_),
        tuple(one.kind for one, _ in steps),
        frozenset(courses.episodes),
    )


def _sampled(
    possible: Iterable[str], taken: str, known: Vocabulary, generator: np.random.Generator
) -> list[str]:
    """Return at most NEGATIVES other candidates, half of them of the frame of the action taken.

    Frames that no recorded step used are never chosen beside others.
    """
    frames = {action: read_command(action).frame for action in possible if action != taken}
    others = [one for one, frame in frames.items() if frame in known.frames or not known.frames]
    if len(others) <= NEGATIVES:
        return others
    frame = read_command(taken).frame
    near = [action for action in others if frames[action] == frame]
    near = [near[i] for i in generator.permutation(len(near))[: NEGATIVES // 2]]
    far = [others[i] for i in generator.permutation(len(others))]
    return list(dict.fromkeys([*near, *far]))[:NEGATIVES]


class Fit:
    """The features of n rows as two sparse matrices, and weights fitted to them.

    rows: what blocks a row has. x: what features a block has. Blocks of the same features are one.
    Features that tell the rows of every step apart in the same way are one column of `x`, and those
    that never do are none.
    """

    def __init__(self, data: Data) -> None:
        self.data = data
        keep = _supported(data)
        supported = data.features[keep]
        counted = np.append(np.int32(0), np.cumsum(keep, dtype=np.int32))
        ends = counted[np.append(0, np.cumsum(data.sizes))]
        sums = np.diff(np.append(np.uint64(0), np.cumsum(supported))[ends])
        _, chosen, block = np.unique(sums, return_index=True, return_inverse=True)
        place = np.arange(len(supported), dtype=np.int32)
        x = _ones(place, ends, len(supported), np.uint8)[chosen]
        supported = supported[x.indices]
        # All at once would take twice the memory, and three times as long.
        few = np.array_split(supported, len(supported) // PART + 1)
        parts = [np.unique(one, return_inverse=True) for one in few]
        self.columns = np.unique(np.concatenate([part for part, _ in parts]))
        place = np.concatenate([np.searchsorted(self.columns, part)[at] for part, at in parts])
        x = _ones(place, x.indptr, len(self.columns), np.uint64)
        del counted, place, supported, few, parts
        ends = np.concatenate([[0], np.cumsum(data.lengths)])
        self.rows = _ones(block[data.blocks], ends, len(chosen), np.float64)
        signs = np.random.default_rng(2).integers(1 << 63, size=len(data.lengths), dtype=np.uint64)
        signs[data.start] -= np.add.reduceat(signs, data.start)
        signs = x.T @ (self.rows.T.astype(np.uint64) @ signs)
        distinct, chosen, self.column = np.unique(signs, return_index=True, return_inverse=True)
        self.each = SCALES[(self.columns & np.uint64(255)).astype(int)] ** 2 * (signs != 0)
        self.scale = np.sqrt(np.bincount(self.column, self.each, len(distinct)))
        self.x = x[:, chosen[distinct != 0]].astype(np.float32)
        self.column -= int(not distinct.all())
        self.scale = self.scale[distinct != 0]

    def learnt(self, weights: Floats) -> tuple[Keys, NDArray[np.float32]]:
        """Return the features that have a weight, and their weights."""
        known = self.each > 0
        column = self.column[known]
        each = weights[column] * self.each[known] / self.scale[column]
        return self.columns[known], each.astype(np.float32)

    def weights(self, steps: Numbers | None = None, half_life: float = np.inf) -> Floats:
        """Return the weights learnt from some steps, or from all; the last is of `repeats`.

        They are learnt twice, the second time with a penalty that is the higher, the less a feature
        weighed the first time: a few facts decide, and many would share what they decide.

        half_life: the number of newer episodes with which a step counts half.
        """
        steps = np.arange(len(self.data.start)) if steps is None else steps
        age = self.data.age[steps] - self.data.age[steps].min(initial=0)
        size = np.abs(self.data.weight[steps]) * 0.5 ** (age / half_life)
        first = self._weights(steps, size, self.scale)
        factor = np.sqrt((np.abs(first[:-1]) + LEAST) / FULL)
        weights = self._weights(steps, size, self.scale * factor)
        weights[:-1] *= factor
        return weights

    def _weights(self, steps: Numbers, size: Floats, scale: Floats) -> Floats:
        """Return the weights learnt from some steps.

        size: how much each step counts. scale: of each column, by its penalty.
        """
        from scipy.optimize import minimize

        data = self.data
        sizes = data.ends[steps] - data.start[steps]
        start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        chosen = np.repeat(data.start[steps] - start, sizes) + np.arange(sizes.sum())
        rows = self.rows[chosen]
        blocks = np.unique(rows.indices)
        rows, x = rows[:, blocks], self.x[blocks]
        repeats, alike = data.repeats[chosen], np.log(data.alike[chosen])
        mean = np.append(np.zeros(x.shape[1]), REPEATED)
        worked = data.weight[steps] > 0
        each = np.repeat(size, sizes)

        def loss(w: Floats) -> tuple[float, Floats]:
            z = rows @ (x @ (w[:-1] * scale).astype(np.float32)) + repeats * w[-1] + alike
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
            gradient = np.append((x.T @ (rows.T @ p).astype(np.float32)) * scale, repeats @ p)
            gradient += RIDGE * (w - mean)
            return float(value.sum() + 0.5 * RIDGE * ((w - mean) ** 2).sum()), gradient

        options = {"maxiter": ITERATIONS, "maxcor": 8}
        with one_thread():  # the many short products would wait for one another
            best: Floats = minimize(loss, mean, jac=True, method="L-BFGS-B", options=options).x
        return best

    def logits(self, weights: Floats) -> Floats:
        """Return the value of each row."""
        values: Floats = self.rows @ (self.x @ (weights[:-1] * self.scale))
        values += self.data.repeats * weights[-1]
        return values

    def half_life(self) -> float:
        """Return the number of newer episodes with which a step should count half.

        Chosen by how well the older episodes predict the newest: infinite unless the memory's world
        has changed.
        """
        losses = {one: self._prediction_loss(one) for one in FIRST}
        if losses[np.inf] - losses[FIRST[1]] < BETTER:
            return np.inf
        losses |= {one: self._prediction_loss(one) for one in OTHERS}
        return min(losses, key=lambda one: losses[one])

    def _prediction_loss(self, half_life: float) -> float:
        """Return the loss on the newest episodes, each block predicted from what is older."""
        age, loss = self.data.age, 0.0
        for newest in range(0, NEWEST, BLOCK):
            older = np.flatnonzero(age >= newest + BLOCK)
            older = np.sort(older[np.argsort(age[older], kind="stable")[:OLDER]])
            if len(np.unique(age[older])) >= 2 * BLOCK:
                steps = np.flatnonzero((age >= newest) & (age < newest + BLOCK))
                loss += self._loss(self.logits(self.weights(older, half_life)), steps)
        return loss

    def _loss(self, values: Floats, steps: Numbers) -> float:
        """Return the negative log-likelihood of steps, in nats; failures count as successes do."""
        total = 0.0
        for step, _, p in self._shares(values, steps):
            taken = min(max(float(p[0] / p.sum()), SURPRISE), 1 - SURPRISE)
            total -= np.log(taken if self.data.weight[step] > 0 else 1 - taken)
        return total

    def _shares(self, values: Floats, steps: Numbers) -> Iterator[tuple[int, slice, Floats]]:
        """Yield each step, its rows, and what their probabilities are in proportion to."""
        start, ends = self.data.start, self.data.ends
        for step in steps.tolist():
            part = slice(start[step], ends[step])
            yield step, part, np.exp(values[part] - values[part].max()) * self.data.alike[part]

    def left_out(self) -> tuple[Numbers, Floats]:
        """Return steps that worked, decided without their episodes, and the value of each row.

        Steps of searches are judged by what counts, not by what was tried in vain.
        """
        data = self.data
        episodes = int(data.episode.max()) + 1
        folds = np.random.default_rng(1).permutation(episodes)[data.episode] % FOLDS
        values, chosen = np.zeros(len(data.lengths)), [np.empty(0, np.int64)]
        counts = (data.weight >= UNREWARDED) | (data.weight > 0) & (data.weight <= INSTEAD)
        of = np.repeat(np.arange(len(data.start)), data.ends - data.start)
        for fold in range(FOLDS):
            others = np.flatnonzero(folds != fold)
            held = np.flatnonzero((folds == fold) & counts)
            if len(others) and len(held) and sum(map(len, chosen)) < LEFT_OUT:
                chosen.append(held)
                rows = folds[of] == fold
                values[rows] = self.logits(self.weights(others))[rows]
        return np.concatenate(chosen), values

    def again(self, steps: Numbers, values: Floats) -> float:
        """Return the weight of `Data.again` under which left-out steps are likeliest."""
        losses = RIDGE / 2 * (CHOICES - AGAIN) ** 2
        for _, part, _ in self._shares(values, steps):
            if self.data.again[part].any():
                z = values[part] + np.log(self.data.alike[part])
                z = z + CHOICES[:, None] * self.data.again[part]
                top = z.max(1, keepdims=True)
                losses += np.log(np.exp(z - top).sum(1)) + top[:, 0] - z[:, 0]
        return float(CHOICES[losses.argmin()])

    def decided(self, steps: Numbers, values: Floats) -> Iterator[tuple[str, float, float, float]]:
        """Yield (kind, share, right, right unlisted) of steps.

        share: of the probability that the rows of the action decided on have. right: whether the
        action taken is one of them, and would also be a candidate if none were listed.
        """
        for step, part, p in self._shares(values, steps):
            best = values[part] >= values[part].max() - 1e-9
            right = float(best[0]), float(best[0] and self.data.offered[step])
            yield self.data.kinds[step], float(p[best].sum() / p.sum()), *right


def _supported(data: Data) -> NDArray[np.bool_]:
    """Return which features occur in several episodes, but for rare collisions of hashes."""
    episodes = int(data.episode.max(initial=-1)) + 1
    bins = (data.features >> np.uint64(64 - BINS)).astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(data.sizes)])
    borders = ends[np.searchsorted(data.owner, np.arange(episodes + 1))]
    support = np.zeros(1 << BINS, np.int32)
    for begin, end in pairwise(borders):
        support[bins[begin:end]] += 1  # once for each bin, however often it is listed
    least: NDArray[np.bool_] = support[bins] >= min(SUPPORT, max(1, episodes // 4))
    return least


def _ones(
    columns: NDArray[np.integer[Any]], ends: Numbers, width: int, number: type[np.generic]
) -> Any:
    from scipy.sparse import csr_matrix

    ones = np.ones(len(columns), number), columns.astype(np.int32, copy=False), ends
    return csr_matrix(ones, (len(ends) - 1, width))


@dataclass(frozen=True)
class LeftOut:
    """How steps were decided by what the other episodes teach.

    kinds: (kind, steps, share of them right). curve: (share of the probability, share right) pairs,
    rising, between which confidence is interpolated. parts: (confidence, share right, steps) of
    groups of steps by rising confidence.
    """

    kinds: tuple[tuple[str, int, float], ...] = ()
    curve: tuple[tuple[float, float], ...] = ()
    parts: tuple[tuple[float, float, int], ...] = ()

    @classmethod
    def of(cls, kinds: Sequence[str], shares: Sequence[float], right: Sequence[float]) -> LeftOut:
        """Sum up the kinds of steps, the shares of the probability and whether they were right."""
        of_kinds = sorted(by_key(zip(kinds, right, strict=True)).items())
        listed = tuple((kind, len(of), round(float(np.mean(of)), 6)) for kind, of in of_kinds)
        draft = cls(listed, _curve(np.array(shares), np.array(right)))
        sure = np.array([draft.confidence(share) for share in shares])
        ranked = np.column_stack([sure, right])[np.argsort(sure, kind="stable")]
        parts = (part for part in np.array_split(ranked, PARTS) if len(part))
        means = tuple((*np.round(part.mean(0), 6).tolist(), len(part)) for part in parts)
        return replace(draft, parts=means)

    def confidence(self, share: float) -> float:
        """Return how often a decision with this share of the probability was right."""
        if not self.curve:
            return share
        xs, ys = zip(*self.curve, strict=True)
        return float(np.interp(share, xs, ys))

    @property
    def right(self) -> float:
        """The share of steps that were decided right."""
        steps = sum(n for _, n, _ in self.kinds)
        return sum(n * right for _, n, right in self.kinds) / max(1, steps)

    @property
    def error(self) -> float:
        """The expected calibration error: the mean distance of confidence from the share right."""
        steps = sum(n for _, _, n in self.parts)
        return sum(n * abs(sure - right) for sure, right, n in self.parts) / max(1, steps)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates of a state, in their order.

    texts: the distinct actions.
    groups: the number of each candidate's group, from 0, in order of first occurrence. Nothing
        tells the candidates of a group apart.
    shares: the probability of each group, all its candidates together; they sum to 1, or to 0 if
        nothing is known.
    sure: how often the first one was right where left-out steps were decided so clearly.
    """

    texts: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    sure: float = 0.0

    def ranked(self) -> list[tuple[str, float]]:
        """Return the candidates by descending share of one; ties keep their order."""
        sizes = Counter(self.groups)
        each = [self.shares[group] / sizes[group] for group in self.groups]
        order = sorted(range(len(each)), key=lambda i: -round(each[i], 9))
        return [(self.texts[i], each[i]) for i in order if each[i] > 0]

    def alternatives(self) -> list[tuple[str, float]]:
        """Return the first candidate of each group in that order, with the share of the group.

        Going to the third drawer instead of the second is no alternative worth a branch, as long as
        nothing is known of either.
        """
        of, firsts = dict(zip(self.texts, self.groups, strict=False)), dict[int, str]()
        for text, _ in self.ranked():
            firsts.setdefault(of[text], text)
        return [(text, self.shares[group]) for group, text in firsts.items()]


@dataclass(frozen=True, eq=False)
class Relevance:
    """The learnt rule.

    columns, weights: of features, (n,) each. special: the weights of `Situation.repeats` and
    `Situation.again`, and the most repeats of a step that worked. recorded: the keys of what was
    done for which goal (`course_keys`). left_out, unlisted: how left-out steps were decided where
    the possible actions are listed, and where they are not. sample: texts whose translation tells
    whether a task words them otherwise than the memory.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    columns: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    weights: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    special: tuple[float, float, float] = (REPEATED, AGAIN, 0.0)
    left_out: LeftOut = field(default_factory=LeftOut)
    unlisted: LeftOut = field(default_factory=LeftOut)
    actions: tuple[str, ...] = ()
    recorded: frozenset[int] = frozenset()
    sample: str = ""

    def situation(self, goal: str, kind: str, past: Past, sight: str) -> Situation:
        """Read a state, see `Situation`."""
        return Situation(self.vocabulary, goal, kind, past, sight, self.recorded.__contains__)

    @cached_property
    def candidates(self) -> Candidates:
        """The candidates where none are listed."""
        return Candidates(self.actions)

    def logits(self, now: Situation, actions: Sequence[str]) -> Floats:
        """Return a value for each action: its logit, far below for unknown frames beside known."""
        known = [read_command(action).frame in self.vocabulary.frames for action in actions]
        some = any(known)
        chosen = [a for a, one in zip(actions, known, strict=True) if one or not some]
        values = np.full(len(actions), UNKNOWN)
        values[np.array(known, np.bool_) | (not some)] = self._values(now.rows(chosen))
        # Else what is decided from recordings, in which nobody goes in circles, might for ever.
        repeats = np.array([now.repeats(action) for action in actions])
        values += UNKNOWN * np.maximum(0.0, repeats - self.special[2] - ENOUGH)
        return np.round(values, 6)

    def rank(
        self, now: Situation, admissible: Sequence[str] | None, refused: Collection[str] = ()
    ) -> Ranking:
        """Rank the candidates of a state.

        admissible: the possible actions; None for known frames with things of the present texts.
        refused: what was refused in this state, and is no candidate beside others.
        """
        if admissible is None:
            listed: Sequence[str] = self.candidates.of(now)
        else:
            listed = self.candidates.completed(now, admissible)
        texts = tuple(dict.fromkeys(listed))
        texts = tuple(one for one in texts if one not in refused) or texts
        if not texts or not self.actions:
            return Ranking(texts)
        values = self.logits(now, texts)
        numbers: dict[tuple[float, str], int] = {}
        alike = zip(values.tolist(), (read_command(text).frame for text in texts), strict=True)
        groups = tuple(numbers.setdefault(one, len(numbers)) for one in alike)
        each = np.array([value for value, _ in numbers])
        weights = np.exp(each - values.max()) * np.bincount(groups)
        shares = weights / weights.sum()
        left_out = self.left_out if {*texts} <= {*(admissible or ())} else self.unlisted
        sure = left_out.confidence(float(shares[each.argmax()]))
        return Ranking(texts, groups, tuple(shares.tolist()), sure)

    def because(self, now: Situation, action: str, other: str) -> tuple[str, ...]:
        """Return the facts that speak most for an action rather than another one, in words."""
        gains: Counter[str] = Counter()
        for text, sign in ((action, 1), (other, -1)):
            pairs, known = now.crosses(text), now.in_words(text)
            worth = sign * self._weights_of(cross(pairs[:, 0], pairs[:, 1])).astype(float)
            for fact, gain in zip(pairs[:, 1].tolist(), worth.tolist(), strict=True):
                if fact in known:
                    gains[known[fact]] += gain
        return tuple(fact for fact, gain in gains.most_common(BECAUSE) if gain > 0)

    def form(self, now: Situation) -> str:
        """Return the most probable form of an action, of the most used ones if there are many."""
        shares: dict[str, float] = defaultdict(float)
        for action, share in self.rank(now, self.candidates.of(now)[:USED]).ranked():
            shares[read_command(action).frame] += share
        return min(shares, key=lambda form: (-shares[form], form), default="")

    def _values(self, read: Rows) -> Floats:
        each = np.append(0.0, np.cumsum(self._weights_of(read.features), dtype=np.float64))
        blocks = np.diff(each[np.append(0, np.cumsum(read.sizes))])
        row = np.repeat(np.arange(len(read.rows)), [*map(len, read.rows)])
        each_row = np.array([*chain.from_iterable(read.rows)], np.int64)
        of_row = np.bincount(row, blocks[each_row], len(read.rows)).astype(np.float64)
        repeated, again, _ = self.special
        of_row += repeated * np.array(read.repeats) + again * np.array(read.again)
        values: Floats = of_row[read.of_action]
        return values

    def _weights_of(self, features: Keys) -> NDArray[np.float32]:
        """Return the weights of features, 0 for unknown ones."""
        columns, weights, shift, begins, most = self._table
        at = begins[features >> shift]  # hashes lie evenly: four times as fast as halving
        for _ in range(most):
            at += columns[at] < features
        return np.where(columns[at] == features, weights[at], np.float32(0))

    @cached_property
    def _table(self) -> tuple[Keys, NDArray[np.float32], np.uint64, NDArray[np.int32], int]:
        """Features, one beyond all others, and their weights; a shift that leaves their first bits.

        And where the features with each of these begin, and the most that one has.
        """
        columns = np.append(self.columns, np.uint64(2**64 - 1))  # as numpy reads them fast
        shift = np.uint64(64 - min(FIRST_BITS, len(columns).bit_length()))
        counts = np.bincount((columns >> shift).astype(np.int64), minlength=1 << (64 - int(shift)))
        begins = (np.cumsum(counts) - counts).astype(np.int32)
        return columns, np.append(self.weights, np.float32(0)), shift, begins, int(counts.max())


def learn(lessons: Sequence[Lesson], *, calibrated: bool = True) -> Relevance:
    """Learn the rule from lessons, always the same from the same ones."""
    from ldm.reason.detours import without_detours

    vocabulary = vocabulary_of(lessons)
    actions = tuple(dict.fromkeys(lesson.action for lesson in lessons))
    candidates = Candidates(actions)
    better = without_detours(lessons, vocabulary)
    data = gather(_bounded(better, vocabulary, candidates), vocabulary, candidates)
    sample = _sample(lessons)
    if not len(data.start):
        return Relevance(vocabulary, actions=actions, sample=sample)
    fit = Fit(data)
    weights = fit.weights(half_life=fit.half_life())
    again, left_out = AGAIN, (LeftOut(), LeftOut())
    if calibrated:
        steps, values = fit.left_out()
        again = fit.again(steps, values)
        if decided := [*fit.decided(steps, values + again * data.again)]:
            kinds, shares, *right = zip(*decided, strict=True)
            left_out = LeftOut.of(kinds, shares, right[0]), LeftOut.of(kinds, shares, right[1])
    most = float(data.repeats[data.start][data.weight > 0].max(initial=0))
    special, learnt = (float(weights[-1]), again, most), fit.learnt(weights[:-1])
    return Relevance(vocabulary, *learnt, special, *left_out, actions, data.recorded, sample)


def _bounded(
    lessons: Sequence[Lesson], vocabulary: Vocabulary, candidates: Candidates
) -> Sequence[Lesson]:
    """Return the lessons whose features can be held in memory, estimated from a few of them.

    They are drawn from all episodes, as steps of one episode teach much the same, without detours;
    where it is known when episodes ended, half of them are those of the newest episodes.
    """
    if len(lessons) <= FEW:
        return lessons
    probed = lessons[:: -(-len(lessons) // PROBED)]
    each = len(gather(probed, vocabulary, candidates).features) / len(probed)
    most = int(FEATURES / max(each, 1))
    if most >= len(lessons):
        return lessons
    lessons = [one for one in lessons if not 0 < one.weight < UNREWARDED]
    dated = any(one.time for one in lessons)
    newest = within(lessons, most // 2)[-(most // 2) :] if dated else []
    chosen = {*map(id, newest)}
    others = [one for one in lessons if id(one) not in chosen]
    lot = np.random.default_rng(3).permutation(len(others))[: most - len(newest)]
    return [*newest, *(others[place] for place in sorted(lot.tolist()))]


def _sample(lessons: Sequence[Lesson]) -> str:
    """Return an action of each frame, and where it was done, of the first EXAMPLES frames."""
    examples: dict[str, Lesson] = {}
    for lesson in lessons:
        examples.setdefault(read_command(lesson.action).frame, lesson)
    first = islice(examples.values(), EXAMPLES)
    return "\n".join(f"{one.action}\n{one.observation[:EXAMPLE]}" for one in first)


def _curve(shares: Floats, right: Floats) -> tuple[tuple[float, float], ...]:
    """Return the rising curve from shares of the probability to shares of right decisions.

    By beta calibration (Kull et al., 2017), near that of equal ones: a logistic regression on the
    logarithms of the share and of the rest.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    def terms(of: Floats) -> Floats:
        clear = np.clip(of, CLEAREST, 1 - CLEAREST)
        return np.column_stack([np.log(clear), -np.log1p(-clear), np.ones(len(clear))])

    equal, known, signs = np.array([1.0, 1.0, 0.0]), terms(shares), np.where(right > 0, -1, 1)

    def loss(w: Floats) -> float:
        likely = np.logaddexp(0, signs * (known @ w)).sum()
        return float(likely + 0.5 * EQUAL * ((w - equal) ** 2).sum())

    best = minimize(loss, equal, bounds=((0, None), (0, None), (None, None))).x
    at = np.linspace(0.0, 1.0, POINTS)
    return tuple(zip(at.tolist(), np.round(expit(terms(at) @ best), 6).tolist(), strict=True))
