"""Passages: the form in which Chroma stores tuples.

A passage holds the tuples that one generation and batch took from a trajectory, as one JSON object:
their shared fields, their distinct texts, the steps of their pasts as nodes [node before,
observation, action], and a list of numbers for each tuple.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldm.memory.columns import NO_PAST
from ldm.memory.columns_builder import ColumnsBuilder, Interned, numbers_of, texts_of
from ldm.memory.index import IndexedTuple
from ldm.types import stable_hash

#: Fields that the tuples of a passage share.
SHARED = ("goal", "kind", "split", "task_id", "source", "trajectory_id", "origin", "batch")
#: Fields of each tuple, in the order of its list: texts (by number) and numbers.
OWN_TEXTS = ("observation", "action", "assessment", "summary", "outcome")
OWN_NUMBERS = ("past", "step", "goal_type", "observation_type", "reach")


@dataclass(frozen=True, slots=True)
class Passage:
    """A stored passage. vectors: ids of the vectors that `content` refers to."""

    id: str
    generation: int
    batch: str
    content: str
    vectors: tuple[str, ...]


def passages(rows: Sequence[IndexedTuple], vectors: Sequence[tuple[str, str]]) -> Iterator[Passage]:
    """Yield the passages of tuples. vectors: ids of each tuple's goal and observation vectors."""
    groups: dict[tuple[Any, ...], list[tuple[IndexedTuple, tuple[str, str]]]] = {}
    for row, pair in zip(rows, vectors, strict=True):
        texts = texts_of(row)
        key = row.tuple.generation, *(texts[name] for name in SHARED)
        groups.setdefault(key, []).append((row, pair))
    for (generation, *shared), members in groups.items():
        yield _passage(generation, dict(zip(SHARED, shared, strict=True)), members)


def _passage(
    generation: int,
    shared: Mapping[str, str],
    members: Iterable[tuple[IndexedTuple, tuple[str, str]]],
) -> Passage:
    known = Interned()
    vectors: dict[str, int] = {}
    tuples, ids = [], []
    for row, pair in members:
        past = known.end_of(row.tuple.history.past)
        own, numbers = texts_of(row), {"past": past, **numbers_of(row)}
        values: list[float] = [known.text(own[name]) for name in OWN_TEXTS]
        values += [numbers[name] for name in OWN_NUMBERS]
        tuples.append([*values, *(vectors.setdefault(one, len(vectors)) for one in pair)])
        ids.append(row.tuple.id)
    content = {
        **shared,
        "texts": list(known.texts),
        "steps": list(known.nodes),
        "vectors": list(vectors),
        "tuples": tuples,
    }
    name = stable_hash(generation, shared, sorted(ids))
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return Passage(name, generation, shared["batch"], text, tuple(vectors))


def vectors_of(content: str) -> list[str]:
    """Return the ids of the vectors that a passage refers to."""
    ids: list[str] = json.loads(content)["vectors"]
    return ids


def add_passage(
    builder: ColumnsBuilder, generation: int, content: str | bytes, vectors: Mapping[str, bytes]
) -> None:
    """Add the tuples of a passage; raise KeyError if one of its vectors is missing."""
    passage = json.loads(content)
    texts: list[str] = passage["texts"]
    nodes: list[int] = []
    for before, text, action in passage["steps"]:
        parent = NO_PAST if before == NO_PAST else nodes[before]
        nodes.append(builder.known.node(parent, texts[text], texts[action]))
    numbers = [builder.vector(vectors[name]) for name in passage["vectors"]]
    shared = {name: passage[name] for name in SHARED}
    for values in passage["tuples"]:
        own = dict(zip(OWN_TEXTS, (texts[i] for i in values[: len(OWN_TEXTS)]), strict=True))
        own_numbers = dict(zip(OWN_NUMBERS, values[len(OWN_TEXTS) : -2], strict=True))
        past = own_numbers["past"]
        goal, observation = values[-2:]
        builder.add(
            {**shared, **own},
            {
                **own_numbers,
                "past": NO_PAST if past == NO_PAST else nodes[past],
                "generation": generation,
                "goal_vector": numbers[goal],
                "observation_vector": numbers[observation],
            },
        )
