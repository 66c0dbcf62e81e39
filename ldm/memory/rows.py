"""The tuples of a memory: columns of numbers, and values made from them on access.

Every text and every vector is kept once and referred to by its number. The pasts of tuples form a
tree: a node is a pair (observation, action) with the node of the pair before it, and a tuple refers
to the last pair of its past. So a memory grows with the number of its steps, not with the square of
an episode's length.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm import records
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.parallel import cached
from ldm.types import History, Labels, Outcome, Past, StateActionTuple, encodable, stable_hash

#: Columns that hold numbers of texts: those of a history, of a tuple, its batch, and what is no
#: text but kept as JSON, "" if empty.
NOTES = ("assessment", "summary")
PLAIN = (
    *("goal", "observation", "action", "kind", "split", "task_id", "source", "trajectory_id"),
    "origin",
)
TEXTS = (*PLAIN[:3], *NOTES, *PLAIN[3:], "batch", "outcome", "scope", "tags", "possible")
#: Fields of a tuple that are numbers.
COUNTED = ("step", "generation", "time")
#: The other columns. past: a node of the pasts, or NO_PAST. id: `StateActionTuple.id`.
NUMBERS: Mapping[str, type[np.generic]] = {
    "past": np.int32,
    "goal_vector": np.uint32,
    "observation_vector": np.uint32,
    "step": np.int64,
    "generation": np.int32,
    "goal_type": np.int32,
    "observation_type": np.int32,
    "time": np.float64,
    "id": np.uint64,
}
#: The type of each column.
KINDS: Mapping[str, type[np.generic]] = {**dict.fromkeys(TEXTS, np.uint32), **NUMBERS}
NO_PAST = -1
#: The id of a tuple (`id_of`).
ID = re.compile("[0-9a-f]{16}")
#: Arrays: of integers, truth values, float32 (vectors), float64 and bytes.
Array = NDArray[Any]
Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Vectors = NDArray[np.float32]
Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
#: Where rows are: in a batch, in a goal type of it, or in an observation type of that.
Span = tuple[Any, ...]
#: The columns that a digest covers: all but vectors.
DIGESTED = tuple(name for name in KINDS if not name.endswith("_vector"))
#: Tuples that are hashed at a time.
HASHED = 1_000
#: Columns that hold other values as JSON: their types, and the values that "" stands for.
CODED: Mapping[str, tuple[Any, Any]] = {
    "outcome": (Outcome, None),
    "scope": (Labels, ()),
    "tags": (Labels, ()),
    "possible": (tuple[str, ...], None),
}
#: Tuples, pasts and texts that are cached.
KEPT = 5_000


@dataclass(slots=True, eq=False)
class Rows:
    """The n tuples of one environment's memory in their cells: columns, and a sequence of values.

    A value is made on access and then cached.

    texts: the distinct texts.
    columns: n numbers for each name in TEXTS (uint32, numbers of texts) and NUMBERS.
    pasts: (p, 3) int32: the node before (a smaller number) or NO_PAST, and the texts of observation
        and action.
    vectors: (m, dimension) float32, the distinct ones, each of unit length.
    """

    env: str
    texts: Sequence[str]
    columns: Mapping[str, Array]
    pasts: NDArray[np.int32]
    vectors: Vectors
    _made: dict[int, IndexedTuple] = field(default_factory=dict, init=False)
    _read: dict[int, str] = field(default_factory=dict, init=False)
    _ended: dict[int, Past] = field(default_factory=dict, init=False)

    @classmethod
    def empty(cls, env: str, dimension: int) -> Rows:
        """Return no tuple."""
        columns = {name: np.empty(0, kind) for name, kind in KINDS.items()}
        return cls(
            env, (), columns, np.empty((0, 3), np.int32), np.empty((0, dimension), np.float32)
        )

    def __len__(self) -> int:
        return len(self.columns["id"])

    def __iter__(self) -> Iterator[IndexedTuple]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, at: int) -> IndexedTuple:
        number = range(len(self))[at]
        return cached(self._made, number, lambda: self._value(number), KEPT)

    @property
    def tuples(self) -> list[StateActionTuple]:
        """The tuples without their cells."""
        return [row.tuple for row in self]

    def steps(self) -> Iterator[StateActionTuple]:
        """Yield the tuples by trajectory, step and id."""
        return (self[number].tuple for number in np.lexsort(self._by_step()).tolist())

    @property
    def ids(self) -> frozenset[str]:
        """The tuples' ids."""
        return frozenset(map(id_of, self.columns["id"].tolist()))

    def take(self, rows: Numbers | Mask | slice) -> Rows:
        """Return the tuples selected by row numbers, by a mask or by a slice."""
        return replace(self, columns={name: one[rows] for name, one in self.columns.items()})

    def vectors_of(self, rows: Any) -> Vectors:
        """Return (…, 2 · dimension), goal and observation of tuples by number, slice or mask."""
        names = ("goal_vector", "observation_vector")
        parts = [self.vectors[self.columns[name][rows]] for name in names]
        return np.concatenate(parts, axis=-1)

    def distinct(self, name: str) -> dict[int, str]:
        """Return the distinct texts of a column by their numbers."""
        return {i: self.texts[i] for i in np.unique(self.columns[name]).tolist()}

    def pairs(self, first: str, second: str) -> Iterator[tuple[str, str]]:
        """Yield the distinct pairs of texts of two columns."""
        both = self.columns[first].astype(np.int64) * len(self.texts) + self.columns[second]
        for a, b in (divmod(pair, len(self.texts)) for pair in np.unique(both).tolist()):
            yield self.texts[a], self.texts[b]

    def having(self, name: str, chosen: Callable[[str], bool]) -> Mask:
        """Return a mask of the tuples whose text in a column satisfies `chosen`."""
        numbers = [i for i, text in self.distinct(name).items() if chosen(text)]
        return np.isin(self.columns[name], numbers)

    def with_outcome(self, chosen: Callable[[Outcome | None], bool]) -> Mask:
        """Return a mask of the tuples whose outcome satisfies `chosen`."""
        return self.having("outcome", lambda text: chosen(value_of("outcome", text)))

    def named(self, tuples: Collection[str], trajectories: Collection[str] = ()) -> Mask:
        """Return a mask of the tuples with these ids or of these trajectories."""
        numbers = [int(name, 16) for name in tuples if ID.fullmatch(name)]
        named: Mask = np.isin(self.columns["id"], np.array(numbers, np.uint64))
        if trajectories:
            named |= self.having("trajectory_id", frozenset(trajectories).__contains__)
        return named

    def spans(self) -> dict[Span, slice]:
        """Return the span of rows of each batch, goal type and cell; they must be in order."""
        names = ("batch", "goal_type", "observation_type")
        cells = np.column_stack([self.columns[name] for name in names])
        spans: dict[Span, slice] = {}
        for depth in (1, 2, 3):
            begins = np.diff(cells[:, :depth], axis=0, prepend=-1).any(axis=1)
            for start, end in pairwise([*np.flatnonzero(begins).tolist(), len(self)]):
                batch, *types = cells[start, :depth].tolist()
                spans[self.texts[batch], *types] = slice(start, end)
        return spans

    def same_texts(self) -> Numbers:
        """Return one number per tuple, equal for equal goal, observation and action."""
        names = ("goal", "observation", "action")
        goals, observations, actions = (self.columns[name].astype(np.int64) for name in names)
        count = len(self.texts) + 1
        pairs = goals * count + observations
        if count**3 >= 2**63:
            pairs = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
        triples: Numbers = pairs * count + actions
        return triples

    def order(self) -> Numbers:
        """Return the row numbers sorted by cell, trajectory, step and id."""
        cell = [self.columns["observation_type"], self.columns["goal_type"], self._ranks("batch")]
        return np.lexsort([*self._by_step(), *cell])

    def _by_step(self) -> list[Array]:
        """Return the keys, the last one first, that sort rows by trajectory, step and id."""
        return [self.columns["id"], self.columns["step"], self._ranks("trajectory_id")]

    def _ranks(self, name: str) -> Numbers:
        present = self.distinct(name)
        ranks = np.zeros(max(present, default=-1) + 1, np.int64)
        for rank, i in enumerate(sorted(present, key=present.__getitem__)):
            ranks[i] = rank
        ranked: Numbers = ranks[self.columns[name]]
        return ranked

    def digest(self, of: Generation | None = None, batches: Iterable[BatchIndex] = ()) -> str:
        """Return the hash of the tuples and their cells, independent of their order.

        It covers everything that decisions and gates use: all fields of the tuples, the batches
        with the names of their types, and the embedder, tasks and hidden tuples of generation `of`.
        Vectors are not covered.
        """
        texts, ends = list(self.texts), [*self._past_hashes(), ""]

        def stated(name: str, rows: Numbers) -> list[Any]:
            values = self.columns[name][rows].tolist()
            known = ends if name == "past" else texts if name in TEXTS else None
            return [known[one] for one in values] if known else values

        order, tuples = np.argsort(self.columns["id"], kind="stable"), []
        for start in range(0, len(order), HASHED):
            part = order[start : start + HASHED]
            tuples.append(stable_hash([stated(name, part) for name in DIGESTED], length=32))
        indices = sorted(records.dumps(batch) for batch in batches)
        more = [of.embedder, sorted(of.tasks), sorted(of.hidden)] if of else []
        return stable_hash(tuples, indices, more, length=32)

    def _past_hashes(self) -> list[str]:
        """Return for each node the hash of the whole past that ends there."""
        texts, hashes = list(self.texts), list[str]()
        for before, observation, action in self.pasts.tolist():
            parent = "" if before == NO_PAST else hashes[before]
            hashes.append(stable_hash(parent, texts[observation], texts[action]))
        return hashes

    def past(self, node: int) -> Past:
        """Return the past that ends at a node of `pasts`."""
        later, at, known = list[int](), node, None
        while at != NO_PAST and (known := self._ended.get(at)) is None:
            later.append(at)
            at = int(self.pasts[at, 0])
        pairs = ((self._text(o), self._text(a)) for _, o, a in self.pasts[later[::-1]].tolist())
        return cached(self._ended, node, lambda: (*(known or ()), *pairs), KEPT)

    def _text(self, number: int) -> str:
        return cached(self._read, number, lambda: self.texts[number], KEPT)

    def _value(self, number: int) -> IndexedTuple:
        texts = {name: self._text(int(self.columns[name][number])) for name in TEXTS}
        numbers = {name: self.columns[name][number].item() for name in NUMBERS}
        notes = {name: texts[name] for name in NOTES}
        fields: dict[str, Any] = {
            **{name: texts[name] for name in PLAIN},
            **{name: value_of(name, texts[name]) for name in CODED},
            **{name: numbers[name] for name in COUNTED},
            "history": History(**notes, past=self.past(numbers["past"])),
        }
        cell = texts["batch"], numbers["goal_type"], numbers["observation_type"]
        return IndexedTuple(StateActionTuple(env=self.env, **fields), *cell)


def id_of(number: int) -> str:
    """Return the tuple id that a number stands for."""
    return f"{number:016x}"


@lru_cache(maxsize=10_000)
def _coded(name: str, value: Any) -> str:
    """Return the text of a value in a column of CODED."""
    if value == CODED[name][1]:
        return ""
    if isinstance(value, Outcome):
        return records.dumps(value)
    return encodable(json.dumps(value, ensure_ascii=False))


@lru_cache(maxsize=10_000)
def value_of(name: str, text: str) -> Any:
    """Return the value that a text in a column of CODED stands for."""
    kind, empty = CODED[name]
    return records.loads(text, kind) if text else empty


class RowsBuilder:
    """Collects tuples and their vectors; of several tuples with one id it keeps the first."""

    def __init__(self, base: Rows) -> None:
        """Start with the tuples of `base`."""
        self._base = base
        self._texts = {text: i for i, text in enumerate(base.texts)}
        self._nodes = {tuple(node): i for i, node in enumerate(base.pasts.tolist())}
        self._ids = set[int](base.columns["id"].tolist())
        self._vectors: dict[bytes, int] = {}
        self._values: dict[str, list[Any]] = {name: [] for name in KINDS}

    def holds(self, row: IndexedTuple) -> bool:
        """Return whether a tuple was added, or is in the base."""
        return int(row.tuple.id, 16) in self._ids

    def add_rows(
        self, rows: Iterable[IndexedTuple], vectors: Iterable[NDArray[np.floating]]
    ) -> None:
        """Add n tuples with the vectors of goal and observation, (n, 2, dimension)."""
        for row, vector in zip(rows, vectors, strict=True):
            if self.holds(row):
                continue
            self._ids.add(number := int(row.tuple.id, 16))
            goal, observation = vector.astype(np.float32, copy=False)
            values = {
                **{column: self._text(text) for column, text in _texts_of(row).items()},
                "past": self._end_of(row.tuple.history.past),
                "goal_vector": self._vector(goal),
                "observation_vector": self._vector(observation),
                **{name: getattr(row.tuple, name) for name in COUNTED},
                "goal_type": row.goal_type,
                "observation_type": row.observation_type,
                "id": number,
            }
            for column, value in values.items():
                self._values[column].append(value)

    def collected(self) -> Rows:
        """Return all tuples, those of the base included, in order."""
        base = self._base
        added = {name: np.array(self._values[name], kind) for name, kind in KINDS.items()}
        rows = Rows(
            base.env,
            tuple(self._texts),
            {name: np.concatenate([base.columns[name], one]) for name, one in added.items()},
            np.array([*self._nodes], np.int32).reshape(-1, 3),
            np.vstack([base.vectors, *(np.frombuffer(one, np.float32) for one in self._vectors)]),
        )
        return rows.take(rows.order()) if self._values["id"] else base

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _vector(self, vector: Vectors) -> int:
        number = len(self._base.vectors) + len(self._vectors)
        return self._vectors.setdefault(vector.tobytes(), number)

    def _end_of(self, past: Past) -> int:
        """Return the number of the node at which a past ends."""
        end = NO_PAST
        for observation, action in past:
            node = end, self._text(observation), self._text(action)
            end = self._nodes.setdefault(node, len(self._nodes))
        return end


def _texts_of(row: IndexedTuple) -> dict[str, str]:
    """Return the columns of a tuple that hold texts."""
    one = row.tuple
    return {
        **{name: getattr(one, name) for name in PLAIN},
        **{name: getattr(one.history, name) for name in NOTES},
        **{name: _coded(name, getattr(one, name)) for name in CODED},
        "batch": row.batch,
    }


def type_sizes(batch: BatchIndex, rows: Rows) -> list[tuple[str, str, int, dict[str, int]]]:
    """Return (name, most frequent goal, tuples, tuples by observation type) of each goal type.

    rows: of the memory.
    """
    spans, sizes = rows.spans(), []
    for g, goal_type in enumerate(batch.goal_types):
        if (span := spans.get((batch.id, g))) is None:  # purging may have emptied it
            continue
        below = Counter[str]()
        for o, name in enumerate(goal_type.observation_types):
            below[name] += len(range(len(rows))[spans.get((batch.id, g, o), slice(0))])
        texts = Counter(rows.texts[number] for number in rows.columns["goal"][span].tolist())
        typical = min(texts, key=lambda text: (-texts[text], text))
        sizes.append((goal_type.name, typical, below.total(), dict(+below)))
    return sizes


def outcome_counts(rows: Rows, generation: int | None = None) -> dict[str, int]:
    """Return the number of trajectories by outcome, without zeros.

    generation: the last one to count; None for all.

    The outcomes are "full", "partial", "failed" (a score of 0), "warning" (a score of 0, and the
    tuples vote against their actions) and "unknown".
    """
    if generation is not None:
        rows = rows.take(rows.columns["generation"] <= generation)
    counted = {
        name: _earned(value_of("outcome", text))
        for name, text in rows.pairs("trajectory_id", "outcome")
    }
    earned = Counter(counted.values())
    names = ("full", "partial", "failed", "warning", "unknown")
    return {name: earned[name] for name in names if earned[name]}


def _earned(outcome: Outcome | None) -> str:
    if outcome is None:
        return "unknown"
    if outcome.is_warning:
        return "warning"
    if not outcome.fell_short:
        return "full"
    return "partial" if outcome.score > 0 else "failed"
