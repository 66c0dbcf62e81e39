"""The lessons of a memory: its tuples as recorded steps, which relevance is learnt from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from ldm import records
from ldm.memory.rows import Rows
from ldm.reason import shortened
from ldm.reason.features import MOST_STEPS
from ldm.reason.relevance import LeftOut, Relevance, learn
from ldm.reason.vocabulary import STEPS, Lesson, Vocabulary, lesson_of, newest
from ldm.types import StateActionTuple, encodable, stable_hash, stable_seed

if TYPE_CHECKING:
    from ldm.reason.rules import Rules

#: What memories teach that is cached.
KEPT = 16


def lessons_from(tuples: Iterable[StateActionTuple]) -> list[Lesson]:
    """Return tuples, which are sorted by trajectory and step, as recorded steps.

    Those of an unknown outcome are left out: how it ended is what an episode teaches by.
    Pasts hold long observations in shortened form; those of tuples before take their places.
    """
    lessons: list[Lesson] = []
    whole: dict[tuple[str, str], str] = {}
    for one in tuples:
        if one.outcome is None:
            continue
        if lessons and lessons[-1].episode != one.trajectory_id:
            whole.clear()
        short = shortened(((one.observation, one.action),))[0]
        whole[short] = one.observation
        lesson = lesson_of(one)
        past = tuple((whole.get(step, step[0]), step[1]) for step in lesson.past[-MOST_STEPS:])
        lessons.append(replace(lesson, past=past))
    return lessons


def rules_of(tuples: Sequence[StateActionTuple]) -> Rules:
    """Return the rules that tuples teach."""
    from ldm.reason.rules import learn_rules

    return learn_rules(
        lessons_from(sorted(tuples, key=lambda one: (one.trajectory_id, one.step, one.id)))
    )


def relevance_of(
    rows: Rows, seed: int | None = None, localize: Callable[[str], str] = str
) -> Relevance:
    """Return what tuples teach, cached.

    seed: exchange their actions first, as a control. localize: puts them into other words.
    """
    rows = _newest(rows)
    lessons = [_worded(one, localize) for one in lessons_from(rows.steps())]
    steps = [(one.observation, one.action, one.possible, one.weight, one.time) for one in lessons]
    of = stable_hash(rows.columns["id"].tolist(), repr(steps), seed, length=32)
    if of not in _learnt:
        if len(_learnt) >= KEPT:
            del _learnt[next(iter(_learnt))]
        _learnt[of] = learn(lessons if seed is None else list(exchanged(lessons, seed)))
    return _learnt[of]


_learnt: dict[str, Relevance] = {}


def _newest(rows: Rows) -> Rows:
    """Return the rows of the episodes to learn from."""
    rows = rows.take(rows.with_outcome(lambda one: one is not None))
    if len(rows) <= STEPS:
        return rows
    codes = rows.columns["trajectory_id"]
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    names, ends = rows.distinct("trajectory_id").values(), rows.columns["time"][first]
    sizes, times = (dict(zip(names, one.tolist(), strict=True)) for one in (counts, ends))
    chosen = newest(sizes, times, STEPS)
    return rows.take(rows.having("trajectory_id", chosen.__contains__))


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
    special: tuple[float, float]
    left_out: LeftOut
    actions: tuple[str, ...]
    recorded: frozenset[int]
    sample: str


def packed(relevance: Relevance) -> bytes:
    """Return a relevance as bytes: a line of JSON, then the features and their weights."""
    head = _Head(**{one.name: getattr(relevance, one.name) for one in fields(_Head)})
    text = encodable(json.dumps(asdict(head), default=sorted, ensure_ascii=False)).encode()
    columns, weights = relevance.columns.astype("<u8"), relevance.weights.astype("<f4")
    return b"\n".join([text, columns.tobytes() + weights.tobytes()])


def unpacked(content: bytes) -> Relevance:
    """Return the relevance that bytes stand for; raise ValueError or LdmError otherwise."""
    text, _, arrays = content.partition(b"\n")
    head = records.loads(text, _Head)
    size, rest = divmod(len(arrays), 12)
    if rest:
        raise ValueError("the weights of its features are cut off")
    return Relevance(
        columns=np.frombuffer(arrays, "<u8", size),
        weights=np.frombuffer(arrays, "<f4", size, 8 * size),
        **{one.name: getattr(head, one.name) for one in fields(head)},
    )


def exchanged(lessons: Sequence[Lesson], seed: int) -> Iterator[Lesson]:
    """Yield the lessons with their actions exchanged among the steps of a kind, as a control."""
    by_kind: dict[str, list[int]] = {}
    for place, lesson in enumerate(lessons):
        by_kind.setdefault(lesson.kind, []).append(place)
    generator = np.random.default_rng(stable_seed("exchanged", seed))
    source = list(range(len(lessons)))
    for places in by_kind.values():
        for to, place in zip(places, generator.permutation(places).tolist(), strict=True):
            source[to] = place
    for lesson, place in zip(lessons, source, strict=True):
        taken = lessons[place].action
        possible = lesson.possible and tuple(dict.fromkeys((*lesson.possible, taken)))
        yield replace(lesson, action=taken, possible=possible)
