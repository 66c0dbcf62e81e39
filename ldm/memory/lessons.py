"""The lessons of a memory: its tuples as recorded steps, which relevance is learnt from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.memory.rows import Rows
from ldm.reason.features import Vocabulary
from ldm.reason.relevance import Lesson, Relevance, learn
from ldm.types import Outcome, StateActionTuple, stable_hash, stable_seed

#: The weight of a step of an attempt that earned nothing more. With 0, hence weights in proportion
#: to the score, training goals of WebShop scored less: such sessions show the way as well.
LEAST = 0.5
#: The weight of a step of a failure against its action: most of its steps were not at fault.
FAILED = -0.25
#: What memories teach that is cached.
KEPT = 16


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


def lessons_of(rows: Rows, visible: NDArray[np.bool_]) -> list[Lesson]:
    """Return the visible tuples as recorded steps, sorted by trajectory and step."""
    tuples = [rows[i].tuple for i in np.flatnonzero(visible).tolist()]
    tuples.sort(key=lambda one: (one.trajectory_id, one.step, one.id))
    return [lesson_of(one) for one in tuples]


def relevance_of(rows: Rows, visible: NDArray[np.bool_], seed: int | None = None) -> Relevance:
    """Return what the visible tuples teach, cached.

    seed: exchange their actions first, as a control.
    """
    columns = rows.columns
    outcomes = [columns.texts[i] for i in columns["outcome"][visible].tolist()]
    of = stable_hash(columns["id"][visible].tolist(), outcomes, seed, length=32)
    if of not in _learnt:
        lessons = lessons_of(rows, visible)
        if len(_learnt) >= KEPT:
            del _learnt[next(iter(_learnt))]
        _learnt[of] = learn(lessons if seed is None else list(exchanged(lessons, seed)))
    return _learnt[of]


_learnt: dict[str, Relevance] = {}


def packed(relevance: Relevance) -> bytes:
    """Return a relevance as bytes: a line of JSON, then the features and their weights."""
    known = {
        one.name: sorted(value) if isinstance(value, frozenset) else value
        for one in fields(relevance.vocabulary)
        for value in [getattr(relevance.vocabulary, one.name)]
    }
    head = {
        "vocabulary": known,
        "size": len(relevance.columns),
        "repeated": relevance.repeated,
        "calibration": relevance.calibration,
        "actions": relevance.actions,
    }
    text = json.dumps(head, ensure_ascii=False).encode("utf-8", "surrogatepass")
    columns, weights = relevance.columns.astype("<u8"), relevance.weights.astype("<f4")
    return b"\n".join([text, columns.tobytes() + weights.tobytes()])


def unpacked(content: bytes) -> Relevance:
    """Return the relevance that bytes stand for; raise ValueError or LookupError otherwise."""
    text, _, arrays = content.partition(b"\n")
    head = json.loads(text.decode("utf-8", "surrogatepass"))
    size = head["size"]
    if len(arrays) != 12 * size:
        raise ValueError("the weights of its features are cut off")
    known: dict[str, Any] = {
        one.name: tuple((path, tuple(limits)) for path, limits in head["vocabulary"][one.name])
        if one.name == "thresholds"
        else frozenset(head["vocabulary"][one.name])
        for one in fields(Vocabulary)
    }
    return Relevance(
        Vocabulary(**known),
        np.frombuffer(arrays, "<u8", size),
        np.frombuffer(arrays, "<f4", size, 8 * size),
        float(head["repeated"]),
        tuple((float(x), float(y)) for x, y in head["calibration"]),
        tuple(head["actions"]),
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
