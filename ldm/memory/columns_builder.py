"""Builds the columns of a memory from tuples, keeping each text, past and vector once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.memory.columns import (
    NO_PAST,
    NUMBERS,
    TEXTS,
    Columns,
    Vectors,
    labels_text,
    outcome_text,
    possible_text,
)
from ldm.memory.index import IndexedTuple
from ldm.types import Past, tuple_id


class Interned:
    """Texts, and pasts as nodes (node before, observation, action), each once, by number."""

    def __init__(self, texts: Iterable[str] = (), nodes: Iterable[Sequence[int]] = ()) -> None:
        self.texts = {text: i for i, text in enumerate(texts)}
        self.nodes = {tuple(node): i for i, node in enumerate(nodes)}
        self._longest: tuple[Past, list[int]] = ((), [])

    def text(self, text: str) -> int:
        """Return the number of a text."""
        return self.texts.setdefault(text, len(self.texts))

    def node(self, parent: int, observation: str, action: str) -> int:
        """Return the number of the node for a pair that follows node `parent`."""
        node = parent, self.text(observation), self.text(action)
        return self.nodes.setdefault(node, len(self.nodes))

    def end_of(self, whole: Past) -> int:
        """Return the number of the node at which a past ends.

        It caches the nodes of the last long past, of which the next ones are mostly prefixes:
        walking each past again would take quadratic time in the length of an episode.
        """
        known, nodes = self._longest
        if whole != known[: len(whole)]:
            nodes = nodes if known == whole[: len(known)] else []
            for pair in whole[len(nodes) :]:
                nodes.append(self.node(nodes[-1] if nodes else NO_PAST, *pair))
            self._longest = whole, nodes
        return nodes[len(whole) - 1] if whole else NO_PAST


class ColumnsBuilder:
    """Collects tuples and their vectors; of several tuples with one id it keeps the first."""

    def __init__(
        self, env: str, dimension: int, base: tuple[Columns, Vectors] | None = None
    ) -> None:
        """Start with the tuples and vectors of `base`, or with none."""
        self._env = env
        self._dimension = dimension
        self._base = base
        self.known = Interned(base[0].texts, base[0].pasts.tolist()) if base else Interned()
        self._first_vector = len(base[1].distinct) if base else 0
        self._vectors: dict[bytes, int] = {}
        self._values: dict[str, list[Any]] = {name: [] for name in (*TEXTS, *NUMBERS)}
        self._ids: set[int] = set(base[0]["id"].tolist()) if base else set()

    def vector(self, vector: bytes) -> int:
        """Return the number of a vector, given as float32 bytes."""
        return self._vectors.setdefault(vector, self._first_vector + len(self._vectors))

    def add(self, texts: Mapping[str, str], numbers: Mapping[str, int | float]) -> None:
        """Add a tuple, given as all columns but the id."""
        origin = texts["origin"], texts["goal"], texts["observation"], texts["action"]
        step = int(numbers["step"])
        name = tuple_id(self._env, texts["task_id"], texts["trajectory_id"], step, *origin)
        number = int(name, 16)
        if number in self._ids:
            return
        self._ids.add(number)
        self._values["id"].append(number)
        for column, text in texts.items():
            self._values[column].append(self.known.text(text))
        for column, value in numbers.items():
            self._values[column].append(value)

    def add_row(self, row: IndexedTuple, goal: bytes, observation: bytes) -> None:
        """Add a tuple with the bytes of its two vectors."""
        past = self.known.end_of(row.tuple.history.past)
        numbers = {"past": past, "goal_vector": self.vector(goal)}
        numbers["observation_vector"] = self.vector(observation)
        self.add(texts_of(row), {**numbers, **numbers_of(row)})

    def add_rows(
        self, rows: Iterable[IndexedTuple], vectors: Iterable[NDArray[np.floating]]
    ) -> None:
        """Add n tuples with their vectors, (n, 2 · dimension)."""
        for row, vector in zip(rows, vectors, strict=True):
            halves = vector.astype(np.float32, copy=False)
            goal, observation = halves[: self._dimension], halves[self._dimension :]
            self.add_row(row, goal.tobytes(), observation.tobytes())

    def collected(self) -> tuple[Columns, Vectors]:
        """Return all tuples, those of the base included, in order."""
        values: dict[str, NDArray[Any]] = {
            name: np.array(self._values[name], np.uint32) for name in TEXTS
        }
        for name, kind in NUMBERS.items():
            values[name] = np.array(self._values[name], kind)
        distinct = np.frombuffer(b"".join(self._vectors), np.float32).reshape(-1, self._dimension)
        if self._base:
            before, vectors = self._base
            if not self._values["id"]:
                return before, vectors
            values = {n: np.concatenate([before[n], column]) for n, column in values.items()}
            distinct = np.concatenate([vectors.distinct, distinct])
        pasts = np.array(list(self.known.nodes), np.int32).reshape(-1, 3)
        columns = Columns(self._env, tuple(self.known.texts), values, pasts)
        columns = columns.take(columns.order())
        return columns, Vectors.of(distinct, columns)


def texts_of(row: IndexedTuple) -> dict[str, str]:
    """Return the columns of a tuple that hold texts."""
    t = row.tuple
    return {
        "goal": t.goal,
        "observation": t.observation,
        "action": t.action,
        "assessment": t.history.assessment,
        "summary": t.history.summary,
        "kind": t.kind,
        "split": t.split,
        "task_id": t.task_id,
        "source": t.source,
        "trajectory_id": t.trajectory_id,
        "origin": t.origin,
        "batch": row.batch,
        "outcome": "" if t.outcome is None else outcome_text(t.outcome),
        "scope": labels_text(t.scope),
        "tags": labels_text(t.tags),
        "possible": possible_text(t.possible),
    }


def numbers_of(row: IndexedTuple) -> dict[str, int | float]:
    """Return the columns of a tuple that hold numbers, except its id, past and vectors."""
    return {
        "step": row.tuple.step,
        "generation": row.tuple.generation,
        "goal_type": row.goal_type,
        "observation_type": row.observation_type,
        "time": row.tuple.time,
    }
