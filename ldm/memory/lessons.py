"""The contents of a memory up to a generation, and its lessons, which relevance is learnt from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ldm import records
from ldm.embed import Embedder
from ldm.memory.index import NOWHERE, BatchIndex, Generation, IndexedTuple, Kinds, OnProgress, Place
from ldm.memory.rows import CODED, Mask, Rows, RowsBuilder, Vectors
from ldm.parallel import cached
from ldm.reason import shortened
from ldm.reason.features import MOST_STEPS
from ldm.reason.relevance import LeftOut, Relevance, learn
from ldm.reason.vocabulary import STEPS, Lesson, Vocabulary, lesson_of, newest
from ldm.types import StateActionTuple, by_key, encodable, stable_hash, stable_seed

if TYPE_CHECKING:
    from ldm.reason.rules import Rules

#: Steps of one episode that are learnt from: whole ones of any length take too much memory.
EPISODE = 2_000
#: Texts that are embedded at a time.
EMBEDDED = 256
#: What memories teach that is cached.
KEPT = 16


def lessons_from(tuples: Iterable[StateActionTuple]) -> list[Lesson]:
    """Return tuples, which are sorted by trajectory and step, as recorded steps.

    Those of an unknown outcome are left out: how it ended is what an episode teaches by.
    Pasts hold long observations in shortened form; those of tuples before take their places.
    """
    lessons: list[Lesson] = []
    whole: dict[tuple[str, str], tuple[str, str]] = {}
    for one in tuples:
        if one.outcome is None:
            continue
        if lessons and lessons[-1].episode != one.trajectory_id:
            whole.clear()
        pair = one.observation, one.action
        whole[shortened((pair,))[0]] = pair
        lesson = lesson_of(one)
        past = tuple(whole.get(step, step) for step in lesson.past[-MOST_STEPS:])
        lessons.append(replace(lesson, past=past))
    return lessons


def rules_of(tuples: Sequence[StateActionTuple]) -> Rules:
    """Return the rules that tuples teach."""
    from ldm.reason.rules import learn_rules

    return learn_rules(
        lessons_from(sorted(tuples, key=lambda one: (one.trajectory_id, one.step, one.id)))
    )


def relevance_of(
    rows: Rows, seed: int | None = None, localize: Callable[[str], str] = str, wording: str = ""
) -> Relevance:
    """Return what tuples teach, cached.

    seed: exchange their actions first, as a control. localize: puts them into other words.
    wording: what tells these words from others.
    """
    rows = _newest(rows)
    columns = rows.columns
    stated = [columns["id"].tolist(), columns["time"].tolist()]
    stated += [[*map(rows.distinct(name).get, columns[name].tolist())] for name in CODED]

    def made() -> Relevance:
        lessons = lessons_from(rows.steps())
        if wording:
            lessons = [_worded(one, localize) for one in lessons]
        return learn(lessons if seed is None else list(exchanged(lessons, seed)))

    return cached(_learnt, stable_hash(stated, seed, wording, length=32), made, KEPT)


_learnt: dict[str, Relevance] = {}


def _newest(rows: Rows) -> Rows:
    """Return the rows to learn from: of the newest episodes, and of long ones the last steps.

    Episodes of an unknown outcome teach nothing.
    """
    rows = rows.take(rows.with_outcome(lambda one: one is not None))
    names, steps = rows.columns["trajectory_id"], rows.columns["step"]
    numbers, first, of, counts = np.unique(names, True, True, True)
    last = np.zeros(len(numbers), np.int64)
    np.maximum.at(last, of, steps)
    late = steps > last[of] - EPISODE
    if len(rows) <= STEPS:
        return rows.take(late)
    ends = rows.columns["time"][first].tolist()
    texts = [rows.texts[number] for number in numbers.tolist()]
    sizes = dict(zip(texts, np.minimum(counts, EPISODE).tolist(), strict=True))
    chosen = newest(sizes, dict(zip(texts, ends, strict=True)), STEPS)
    return rows.take(late & rows.having("trajectory_id", chosen.__contains__))


def _worded(lesson: Lesson, localize: Callable[[str], str]) -> Lesson:
    """Return a recorded step as `localize` words it; the goal is the task's own."""
    return replace(
        lesson,
        past=tuple((localize(text), localize(action)) for text, action in lesson.past),
        observation=localize(lesson.observation),
        action=localize(lesson.action),
        possible=lesson.possible and tuple(map(localize, lesson.possible)),
    )


@dataclass(frozen=True, slots=True)
class _Head:
    """What a relevance is but for its features, as in `Relevance`."""

    vocabulary: Vocabulary
    special: tuple[float, float, float]
    left_out: LeftOut
    unlisted: LeftOut
    actions: tuple[str, ...]
    recorded: frozenset[int]
    sample: str


def packed(relevance: Relevance) -> bytes:
    """Return a relevance as bytes: a line of JSON, then the features and their weights."""
    head = _Head(**{one.name: getattr(relevance, one.name) for one in fields(_Head)})
    text = encodable(json.dumps(asdict(head), default=sorted, ensure_ascii=False)).encode()
    columns, weights = relevance.columns.astype("<u8"), relevance.weights.astype("<f4")
    return b"\n".join([text, columns.tobytes() + weights.tobytes()])


def unpacked(content: bytes | memoryview) -> Relevance:
    """Return the relevance that bytes stand for; raise ValueError or LdmError otherwise.

    Its features and weights are not copied: those of a file stay there.
    """
    line = re.match(b"[^\n]*\n", content)
    if line is None or (len(content) - line.end()) % 12:
        raise ValueError("the weights of its features are cut off")
    head, size = records.loads(line[0], _Head), (len(content) - line.end()) // 12
    return Relevance(
        columns=np.frombuffer(content, "<u8", size, line.end()),
        weights=np.frombuffer(content, "<f4", size, line.end() + 8 * size),
        **{one.name: getattr(head, one.name) for one in fields(head)},
    )


def exchanged(lessons: Sequence[Lesson], seed: int) -> Iterator[Lesson]:
    """Yield the lessons with their actions exchanged among the steps of a kind, as a control."""
    by_kind = by_key((lesson.kind, place) for place, lesson in enumerate(lessons))
    generator = np.random.default_rng(stable_seed("exchanged", seed))
    source = np.arange(len(lessons))
    for places in by_kind.values():
        source[places] = generator.permutation(places)
    for lesson, place in zip(lessons, source.tolist(), strict=True):
        taken = lessons[place].action
        possible = lesson.possible and tuple(dict.fromkeys((*lesson.possible, taken)))
        yield replace(lesson, action=taken, possible=possible)


@dataclass(frozen=True)
class Contents:
    """The contents of one environment's memory up to a generation.

    generations: this one and those before it, oldest first.
    batches: sorted by id.
    rows: the n tuples, hidden ones included, sorted by cell, trajectory, step and id, so that equal
        memories are equal values.
    kinds: the kind classifier, trained on the tuples that are not hidden; None if not trained yet.
    relevance: what the tuples that are not hidden teach; None if not learnt yet.
    log: the place in the log of episodes before which every episode that can be remembered is in
        these contents.
    """

    generations: tuple[Generation, ...]
    batches: tuple[BatchIndex, ...]
    rows: Rows
    kinds: Kinds | None = None
    relevance: Relevance | None = None
    log: Place = NOWHERE

    @property
    def generation(self) -> Generation:
        """The newest of its generations."""
        return self.generations[-1]

    @cached_property
    def trajectories(self) -> frozenset[str]:
        """The ids of the trajectories that its batches were formed from."""
        return frozenset(name for batch in self.batches for name in batch.trajectories)

    @property
    def visible(self) -> Mask:
        """A mask of the tuples that the generation does not hide."""
        return ~self.rows.named(self.generation.hidden)

    @property
    def recallable(self) -> Rows:
        """The tuples that the generation does not hide."""
        return self.rows.take(self.visible)

    def trained(self) -> Kinds:
        """Return the kind classifier, trained if it is not yet: on all tuples if none is seen."""
        if self.kinds is not None:
            return self.kinds
        rows = self.recallable if self.visible.any() else self.rows
        return Kinds.trained(frozenset(rows.pairs("goal", "kind")))

    def learnt(self) -> Relevance:
        """Return what the tuples teach, learnt if it is not yet."""
        return self.relevance or relevance_of(self.recallable)

    def vectors_of_texts(self) -> dict[str, Vectors]:
        """Return the vectors of the distinct goals and observations."""
        rows, columns = self.rows, self.rows.columns
        return {
            rows.texts[int(columns[name][i])]: rows.vectors[columns[f"{name}_vector"][i]]
            for name in ("goal", "observation")
            for i in np.unique(columns[name], return_index=True)[1].tolist()
        }

    def sources(self) -> frozenset[str]:
        """Return the sources that evaluated tasks must not share (`Task.leak_key`)."""
        return frozenset(self.rows.distinct("source").values())

    def extended(
        self,
        rows: Sequence[IndexedTuple],
        embedder: Embedder,
        batches: Iterable[BatchIndex] = (),
        on_progress: OnProgress = lambda *_: None,
    ) -> Contents:
        """Return the contents with more tuples, skipping those that they hold already.

        batches: new ones. on_progress: called with ("embed", done, total) in tuples.
        """
        builder = RowsBuilder(self.rows)
        new = [row for row in rows if not builder.holds(row)]
        for start in range(0, len(new), EMBEDDED // 2):
            part = new[start : start + EMBEDDED // 2]
            texts = sorted({t for x in part for t in (x.tuple.goal, x.tuple.observation)})
            of = dict(zip(texts, embedder.embed(texts), strict=True))
            pairs = (np.stack([of[x.tuple.goal], of[x.tuple.observation]]) for x in part)
            builder.add_rows(part, pairs)
            on_progress("embed", start + len(part), len(new))
        together = tuple(sorted([*self.batches, *batches], key=lambda batch: batch.id))
        return self._changed(batches=together, rows=builder.collected())

    def _changed(self, **changes: Any) -> Contents:
        """Return the contents with changes, of which nothing is trained or learnt yet."""
        return replace(self, **changes, kinds=None, relevance=None)

    def made(self, generation: Generation) -> Contents:
        """Return the contents as those of a generation, with its size and digest.

        It follows those of its own with a lower number.
        """
        digest = self.rows.digest(generation, self.batches)
        stated = replace(generation, tuples=len(self.rows), digest=digest)
        return self._changed(generations=(*self.generations[: generation.number], stated))

    def hiding(self, tuples: Iterable[str]) -> Contents:
        """Return the contents as if their generation hid more tuples, by their ids."""
        hidden = tuple(sorted({*self.generation.hidden, *tuples}))
        stated = replace(self.generation, hidden=hidden)
        return self._changed(generations=(*self.generations[:-1], stated))

    def rebuilt(
        self, change: Callable[[IndexedTuple], IndexedTuple | None] = lambda row: row
    ) -> Contents:
        """Return contents that refer to no other file, text or vector than they use.

        change: returns a tuple as it should be, or None for one that should not be there.
        """
        left = [row for row in map(change, self.rows) if row is not None]
        stated = self.generation
        known = Known(stated.embedder, stated.dimension, self.vectors_of_texts())
        return replace(self, rows=empty(stated).extended(left, known).rows)

    def at(self, number: int) -> Contents:
        """Return the contents as of an earlier generation."""
        earlier = self.rows.columns["generation"] <= number
        return self._changed(
            generations=self.generations[: number + 1],
            batches=tuple(batch for batch in self.batches if batch.generation <= number),
            rows=self.rows.take(earlier),
        )


def empty(generation: Generation) -> Contents:
    """Return contents without tuples."""
    return Contents((generation,), (), Rows.empty(generation.env, generation.dimension))


def nothing(env: str, embedder: Embedder) -> Contents:
    """Return the contents of a memory before its first generation."""
    named = env, embedder.name, embedder.dimension
    return empty(Generation(-1, "formed", *named, 0, "", {}))


@dataclass(slots=True)
class Known:
    """An embedder that knows the vectors of some texts, and can compute no others."""

    name: str
    dimension: int
    vectors: Mapping[str, Vectors]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return (n, dimension) unit vectors."""
        vectors = [self.vectors[text] for text in texts]
        return np.array(vectors, np.float32).reshape(-1, self.dimension)
