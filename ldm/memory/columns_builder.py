"""Builds the columns of a memory from tuples, keeping each text, past and vector once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.memory.columns import NO_PAST, NUMBERS, TEXTS, Columns, Vectors, fields_of
from ldm.memory.index import IndexedTuple
from ldm.types import Past


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

    def _vector(self, vector: NDArray[np.float32]) -> int:
        number = self._first_vector + len(self._vectors)
        return self._vectors.setdefault(vector.tobytes(), number)

    def add_rows(
        self, rows: Iterable[IndexedTuple], vectors: Iterable[NDArray[np.floating]]
    ) -> None:
        """Add n tuples with their vectors, (n, 2 · dimension)."""
        for row, vector in zip(rows, vectors, strict=True):
            number = int(row.tuple.id, 16)
            if number in self._ids:
                continue
            self._ids.add(number)
            goal, observation = np.split(vector.astype(np.float32, copy=False), 2)
            values = {
                **{column: self.known.text(text) for column, text in fields_of(row).items()},
                "past": self.known.end_of(row.tuple.history.past),
                "goal_vector": self._vector(goal),
                "observation_vector": self._vector(observation),
                "step": row.tuple.step,
                "generation": row.tuple.generation,
                "goal_type": row.goal_type,
                "observation_type": row.observation_type,
                "time": row.tuple.time,
                "id": number,
            }
            for column, value in values.items():
                self._values[column].append(value)

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
