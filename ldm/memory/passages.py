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
from ldm.memory.columns_builder import ColumnsBuilder, numbers_of, texts_of
from ldm.memory.index import IndexedTuple
from ldm.types import Past, stable_hash

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
    texts: dict[str, int] = {}
    nodes: dict[tuple[int, int, int], int] = {}
    vectors: dict[str, int] = {}
    tuples, ids = [], []
    longest: Past = ()
    path: list[int] = []  # the nodes of the longest past so far, of which others are prefixes
    for row, pair in members:
        whole = row.tuple.history.past
        if longest[: len(whole)] != whole:
            if whole[: len(longest)] != longest:
                longest, path = (), []
            past = path[-1] if path else NO_PAST
            for observation, action in whole[len(longest) :]:
                first = texts.setdefault(observation, len(texts))
                node = past, first, texts.setdefault(action, len(texts))
                past = nodes.setdefault(node, len(nodes))
                path.append(past)
            longest = whole
        past = path[len(whole) - 1] if whole else NO_PAST
        own, numbers = texts_of(row), {"past": past, **numbers_of(row)}
        values: list[float] = [texts.setdefault(own[name], len(texts)) for name in OWN_TEXTS]
        values += [numbers[name] for name in OWN_NUMBERS]
        tuples.append([*values, *(vectors.setdefault(one, len(vectors)) for one in pair)])
        ids.append(row.tuple.id)
    content = {
        **shared,
        "texts": list(texts),
        "steps": list(nodes),
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
    builder: ColumnsBuilder, generation: int, content: str, vectors: Mapping[str, bytes]
) -> None:
    """Add the tuples of a passage; raise KeyError if one of its vectors is missing."""
    passage = json.loads(content)
    texts: list[str] = passage["texts"]
    nodes: list[int] = []
    for before, text, action in passage["steps"]:
        parent = NO_PAST if before == NO_PAST else nodes[before]
        nodes.append(builder.past(parent, texts[text], texts[action]))
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
