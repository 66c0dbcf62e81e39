"""The tuples of a memory as columns of numbers; an IndexedTuple is made when one is asked for.

Every text is kept once and referred to by its number, and so are vectors. What a trajectory's
tuples have in common, their past, is a tree: a node is a pair (observation, action) with the node
of the pair before it, and a tuple refers to the last pair of its past. So a memory grows with its
steps and not, as with each tuple's past written out, with the square of an episode's length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ldm import records
from ldm.memory.index import WHOLE, BatchIndex, Generation, IndexedTuple
from ldm.memory.kind_classifier import KindWeights, trained
from ldm.types import FULL_OUTCOME, History, Outcome, Past, StateActionTuple, stable_hash, tuple_id

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns of numbers of texts. outcome: as JSON, "" where none was recorded.
TEXTS = (
    *("goal", "observation", "action", "assessment", "summary", "kind", "split", "task_id"),
    *("source", "trajectory_id", "origin", "batch", "outcome"),
)
#: The other columns. past: a node of the pasts, NO_PAST for none. id: `StateActionTuple.id`.
NUMBERS: Mapping[str, type[np.generic]] = {
    "past": np.int32,
    "goal_vector": np.uint32,
    "observation_vector": np.uint32,
    "step": np.int64,
    "generation": np.int32,
    "goal_type": np.int32,
    "observation_type": np.int32,
    "reach": np.float64,
    "id": np.uint64,
}
NO_PAST = -1
#: The columns that a digest covers, beside ids and pasts.
DIGESTED = (*TEXTS, "step", "generation", "goal_type", "observation_type", "reach")
#: Values, and texts, that are kept once they were asked for.
KEPT_ROWS = 20_000
KEPT_TEXTS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """n tuples of one environment.

    texts: the distinct texts.
    values: for each name in TEXTS (uint32, numbers of texts) and NUMBERS, n numbers.
    pasts: (p, 3) int32: number of the node before (smaller than its own) or NO_PAST, and the texts
        of observation and action.
    """

    env: str
    texts: Sequence[str]
    values: Mapping[str, NDArray[Any]]
    pasts: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.values["id"])

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.values[name]

    @property
    def ids(self) -> IdSet:
        """The tuples' ids."""
        return IdSet(self["id"].tolist())

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Columns:
        """Return the tuples with these numbers, or those that a mask is true for."""
        values = {name: column[rows] for name, column in self.values.items()}
        return Columns(self.env, self.texts, values, self.pasts)

    def distinct(self, name: str) -> dict[int, str]:
        """Return the texts that a column of texts holds, by their numbers."""
        return {i: self.texts[i] for i in np.unique(self[name]).tolist()}

    def order(self) -> NDArray[np.int64]:
        """Return the numbers of the tuples by cell, trajectory, step and id."""
        keys = [self["id"], self["step"], self._ranks("trajectory_id")]
        keys += [self["observation_type"], self["goal_type"], self._ranks("batch")]
        return np.lexsort(keys)

    def _ranks(self, name: str) -> NDArray[np.int64]:
        present = self.distinct(name)
        ranks = np.zeros(max(present, default=-1) + 1, np.int64)
        for rank, i in enumerate(sorted(present, key=present.__getitem__)):
            ranks[i] = rank
        ranked: NDArray[np.int64] = ranks[self[name]]
        return ranked

    def same_texts(self) -> NDArray[np.int64]:
        """Return a number for each tuple; those of equal goal, observation and action are equal."""
        goals, observations, actions = (
            self[name].astype(np.int64) for name in ("goal", "observation", "action")
        )
        count = len(self.texts) + 1
        pairs = goals * count + observations
        if count**3 >= 2**63:
            pairs = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
        triples: NDArray[np.int64] = pairs * count + actions
        return triples

    def digest(self, of: Generation | None = None, batches: Iterable[BatchIndex] = ()) -> str:
        """Return the hash of the tuples and their cells, whatever their order.

        It covers all that decisions and gates use: every field of the tuples, the batches with the
        names of their types, and what the generation `of` says beside its number, settings and
        the environment's class.
        Vectors are not covered: their ids are hashes of them. Where the digest of `of` is of
        version 0.1, so is this one, which covers less; None is of no generation.
        """
        if of is not None and of.is_of_first_version:
            return self._first_digest(of)
        texts, pasts = list(self.texts), self._past_hashes()
        fields = [
            [texts[i] for i in self[name].tolist()] if name in TEXTS else self[name].tolist()
            for name in DIGESTED
        ]
        tuples = [
            (id_of(number), "" if past == NO_PAST else pasts[past], *values)
            for number, past, *values in zip(
                self["id"].tolist(), self["past"].tolist(), *fields, strict=True
            )
        ]
        indices = sorted(records.dumps(batch) for batch in batches)
        stated: list[object] = []
        if of is not None:
            stated = [of.embedder, sorted(of.tasks), sorted(of.hidden), of.utilities]
            stated += ["kinds by count"] * of.kinds_by_count
        return WHOLE + stable_hash(sorted(tuples), indices, stated, length=32)

    def _past_hashes(self) -> list[str]:
        """Return a hash for each node of the pasts, of the whole past that ends there."""
        texts, hashes = list(self.texts), list[str]()
        for before, observation, action in self.pasts.tolist():
            parent = "" if before == NO_PAST else hashes[before]
            hashes.append(stable_hash(parent, texts[observation], texts[action]))
        return hashes

    def _first_digest(self, base: Generation) -> str:
        """Return the digest of version 0.1: of ids, histories' words, cells and outcomes."""
        usual = {"", outcome_text(FULL_OUTCOME)}
        names = ("batch", "goal_type", "observation_type", "assessment", "summary", "outcome")
        columns = [self["id"].tolist(), *(self[name].tolist() for name in names)]
        digested = []
        for number, batch, goal_type, observation_type, assessment, summary, outcome, reach in zip(
            *columns, self["reach"].tolist(), strict=True
        ):
            history = History(self.texts[assessment], self.texts[summary])
            parts = [id_of(number), self.texts[batch], goal_type, observation_type, history.text]
            if (recorded := self.texts[outcome]) not in usual:
                parts.append(recorded)
            digested.append([*parts, f"reach {reach}"] if reach else parts)
        further = [part for part in (sorted(base.hidden), base.utilities) if part]
        return stable_hash(sorted(digested), *further, length=32)

    def pairs(self, first: str, second: str) -> Iterator[tuple[str, str]]:
        """Yield the distinct pairs of texts in two columns of texts."""
        both = self[first].astype(np.int64) * len(self.texts) + self[second]
        for a, b in (divmod(pair, len(self.texts)) for pair in np.unique(both).tolist()):
            yield self.texts[a], self.texts[b]

    def with_outcome(self, chosen: Callable[[Outcome | None], bool]) -> NDArray[np.bool_]:
        """Return which tuples have an outcome (None: not recorded) that `chosen` is true for."""
        numbers = [i for i, text in self.distinct("outcome").items() if chosen(_outcome(text))]
        return np.isin(self["outcome"], numbers)

    def batch_spans(self) -> dict[str, slice]:
        """Return the rows of each batch; the tuples must be in order."""
        of_batch = self["batch"]
        borders = [0, *(np.flatnonzero(np.diff(of_batch)) + 1).tolist(), len(self)]
        return {
            self.texts[int(of_batch[start])]: slice(start, stop)
            for start, stop in pairwise(borders)
            if start < stop
        }

    def named(
        self, tuples: Collection[str], trajectories: Collection[str] = ()
    ) -> NDArray[np.bool_]:
        """Return which tuples are named, or are of a named trajectory."""
        numbers = [n for n in (number_of(name) for name in tuples) if n is not None]
        named: NDArray[np.bool_] = np.isin(self["id"], np.array(numbers, np.uint64))
        if trajectories:
            known = self.distinct("trajectory_id").items()
            of_trajectories = [i for i, text in known if text in frozenset(trajectories)]
            named |= np.isin(self["trajectory_id"], of_trajectories)
        return named


class IdSet(Set[str]):
    """Tuple ids, kept as numbers."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = frozenset(numbers)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and number_of(name) in self._numbers

    def __iter__(self) -> Iterator[str]:
        return map(id_of, self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    @classmethod
    def _from_iterable(cls, names: Iterable[Any]) -> Any:  # what `-` and `&` make
        return frozenset(names)


def id_of(number: int) -> str:
    """Return the tuple id that is kept as a number."""
    return f"{number:016x}"


def number_of(name: str) -> int | None:
    """Return a tuple id as a number; None where the text is no id."""
    try:
        number = int(name, 16)
    except ValueError:
        return None
    return number if id_of(number) == name else None


class Vectors:
    """The vectors of n tuples, (n, 2 · dimension) float32, made of distinct ones when asked for.

    It is read like an array: by a number, a slice, numbers or a mask. The distinct ones may be kept
    rounded, as float16.
    """

    def __init__(
        self,
        distinct: NDArray[np.floating],
        goals: NDArray[np.uint32],
        observations: NDArray[np.uint32],
    ) -> None:
        """Take (m, dimension) distinct vectors, and for each tuple the numbers of its two.

        distinct: float32 or float16.
        """
        self.distinct = distinct
        self.goals = goals
        self.observations = observations

    @classmethod
    def of(cls, distinct: NDArray[np.floating], columns: Columns) -> Vectors:
        """Return the vectors that the tuples of `columns` refer to."""
        return cls(distinct, columns["goal_vector"], columns["observation_vector"])

    def numbered(self, numbers: Any) -> NDArray[np.float32]:
        """Return distinct vectors by their numbers, (…, dimension)."""
        vectors: NDArray[np.float32] = self.distinct[numbers].astype(np.float32, copy=False)
        return vectors

    @property
    def precision(self) -> str:
        """How the distinct vectors are kept: "float32" or "float16"."""
        return self.distinct.dtype.name

    def rounded(self, precision: str) -> Vectors:
        """Return the vectors kept with another precision."""
        if precision == self.precision:
            return self
        return Vectors(self.distinct.astype(precision), self.goals, self.observations)

    @property
    def dimension(self) -> int:
        """The embedder's."""
        return int(self.distinct.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(n, 2 · dimension)."""
        return len(self.goals), 2 * self.dimension

    def __len__(self) -> int:
        return len(self.goals)

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        if isinstance(rows, tuple):
            return self[rows[0]][(..., *rows[1:])]
        parts = self.numbered(self.goals[rows]), self.numbered(self.observations[rows])
        return np.concatenate(parts, axis=-1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype)


class Rows(Sequence[IndexedTuple]):
    """The tuples of `Columns` in their cells, made when asked for and then kept for a while.

    As long as one is kept it is the same object, so that others may know it by its id().
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._rows: dict[int, IndexedTuple] = {}
        self._texts: dict[int, str] = {}
        self._pasts: dict[int, Past] = {NO_PAST: ()}

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, at: int) -> IndexedTuple: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[IndexedTuple, ...]: ...

    def __getitem__(self, at: int | slice) -> IndexedTuple | tuple[IndexedTuple, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        number = at if at >= 0 else at + len(self)
        if not 0 <= number < len(self):
            raise IndexError(at)
        row = self._rows.get(number)
        if row is None:
            if len(self._rows) >= KEPT_ROWS:
                self._rows.clear()
            row = self._rows.setdefault(number, self._made(number))  # the first of two threads
        return row

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Rows, tuple, list)):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as a list has none

    def __contains__(self, row: object) -> bool:
        if not isinstance(row, IndexedTuple):
            return False
        number = number_of(row.tuple.id)
        return any(self[i] == row for i in np.flatnonzero(self.columns["id"] == number).tolist())

    def with_ids(self, ids: Collection[str]) -> tuple[IndexedTuple, ...]:
        """Return the tuples with these ids, in the order of the rows; others are ignored."""
        return tuple(self[i] for i in np.flatnonzero(self.columns.named(ids)).tolist())

    def after(self, generation: int) -> tuple[IndexedTuple, ...]:
        """Return the tuples that came after a generation."""
        later = np.flatnonzero(self.columns["generation"] > generation)
        return tuple(self[i] for i in later.tolist())

    def sizes(self, batch: str) -> dict[tuple[int, int], int]:
        """Count the tuples of each cell (goal type, observation type) of a batch."""
        columns = self.columns
        members = np.isin(
            columns["batch"], [i for i, b in columns.distinct("batch").items() if b == batch]
        )
        pairs = np.stack([columns["goal_type"][members], columns["observation_type"][members]])
        cells, counts = np.unique(pairs, axis=1, return_counts=True)
        return {(g, o): n for g, o, n in zip(*cells.tolist(), counts.tolist(), strict=True)}

    def _text(self, number: int) -> str:
        text = self._texts.get(number)
        if text is None:
            if len(self._texts) >= KEPT_TEXTS:
                self._texts.clear()
            text = self._texts.setdefault(number, self.columns.texts[number])
        return text

    def past(self, node: int) -> Past:
        """Return the past that ends with a node of `Columns.pasts`."""
        later, at = [], node
        while (known := self._pasts.get(at)) is None:
            later.append(at)
            at = int(self.columns.pasts[at, 0])
        for one in reversed(later):
            _, observation, action = self.columns.pasts[one].tolist()
            known = (*known, (self._text(observation), self._text(action)))
            if len(self._pasts) >= KEPT_ROWS:
                self._pasts.clear()
                self._pasts[NO_PAST] = ()
            self._pasts[one] = known
        return known

    def _made(self, number: int) -> IndexedTuple:
        columns = self.columns
        texts = {name: self._text(int(columns[name][number])) for name in TEXTS}
        outcome = texts["outcome"]
        history = History(
            texts["assessment"], texts["summary"], self.past(int(columns["past"][number]))
        )
        source = StateActionTuple(
            goal=texts["goal"],
            history=history,
            observation=texts["observation"],
            action=texts["action"],
            kind=texts["kind"],
            env=columns.env,
            split=texts["split"],
            task_id=texts["task_id"],
            source=texts["source"],
            trajectory_id=texts["trajectory_id"],
            step=int(columns["step"][number]),
            origin=texts["origin"],  # type: ignore[arg-type]  # one of its names
            generation=int(columns["generation"][number]),
            outcome=_outcome(outcome),
        )
        return IndexedTuple(
            source,
            texts["batch"],
            int(columns["goal_type"][number]),
            int(columns["observation_type"][number]),
            float(columns["reach"][number]),
        )


class ColumnsBuilder:
    """Collects tuples and their vectors. Of tuples with one id the first is kept."""

    def __init__(
        self, env: str, dimension: int, base: tuple[Columns, Vectors] | None = None
    ) -> None:
        """Start with the tuples and vectors of `base`, None for none."""
        self._env = env
        self._dimension = dimension
        self._base = base
        texts = base[0].texts if base else ()
        nodes = base[0].pasts.tolist() if base else ()
        self._texts = {text: i for i, text in enumerate(texts)}
        self._pasts: dict[tuple[int, ...], int] = {tuple(node): i for i, node in enumerate(nodes)}
        self._present = base[0].ids if base else IdSet(())
        self._first_vector = len(base[1].distinct) if base else 0
        self._vectors: dict[bytes, int] = {}
        self._values: dict[str, list[Any]] = {name: [] for name in (*TEXTS, *NUMBERS)}
        self._ids: set[int] = set()
        self._longest: tuple[Past, list[int]] = ((), [])

    def text(self, text: str) -> int:
        """Return the number of a text."""
        return self._texts.setdefault(text, len(self._texts))

    def past(self, parent: int, observation: str, action: str) -> int:
        """Return the number of the node of the pasts for a pair after `parent`."""
        node = parent, self.text(observation), self.text(action)
        return self._pasts.setdefault(node, len(self._pasts))

    def vector(self, vector: bytes) -> int:
        """Return the number of a vector, given as the bytes of its float32."""
        return self._vectors.setdefault(vector, self._first_vector + len(self._vectors))

    def add(self, texts: Mapping[str, str], numbers: Mapping[str, int | float]) -> None:
        """Add a tuple by its columns, all but the id."""
        origin = texts["origin"], texts["goal"], texts["observation"], texts["action"]
        step = int(numbers["step"])
        name = tuple_id(self._env, texts["task_id"], texts["trajectory_id"], step, *origin)
        number = int(name, 16)
        if number in self._ids or name in self._present:
            return
        self._ids.add(number)
        self._values["id"].append(number)
        for column, text in texts.items():
            self._values[column].append(self.text(text))
        for column, value in numbers.items():
            self._values[column].append(value)

    def add_row(self, row: IndexedTuple, goal: bytes, observation: bytes) -> None:
        """Add a tuple with the bytes of its two vectors."""
        past = self._past_of(row.tuple.history.past)
        numbers = {"past": past, "goal_vector": self.vector(goal)}
        numbers["observation_vector"] = self.vector(observation)
        self.add(texts_of(row), {**numbers, **numbers_of(row)})

    def _past_of(self, whole: Past) -> int:
        """Return the number of the node at which a past ends.

        The nodes of the longest past of late are remembered: others are mostly parts of it, and to
        walk each of them anew would take the square of an episode's length.
        """
        known, nodes = self._longest
        if whole != known[: len(whole)]:
            nodes = nodes if known == whole[: len(known)] else []
            for pair in whole[len(nodes) :]:
                nodes.append(self.past(nodes[-1] if nodes else NO_PAST, *pair))
            self._longest = whole, nodes
        return nodes[len(whole) - 1] if whole else NO_PAST

    def add_rows(
        self, rows: Iterable[IndexedTuple], vectors: Iterable[NDArray[np.floating]]
    ) -> None:
        """Add n tuples with their vectors, (n, 2 · dimension)."""
        for row, vector in zip(rows, vectors, strict=True):
            halves = vector.astype(np.float32, copy=False)
            goal, observation = halves[: self._dimension], halves[self._dimension :]
            self.add_row(row, goal.tobytes(), observation.tobytes())

    def collected(self) -> tuple[Columns, Vectors]:
        """Return all tuples, those of the base included, in the order of cells."""
        values: dict[str, NDArray[Any]] = {
            name: np.array(self._values[name], np.uint32) for name in TEXTS
        }
        for name, kind in NUMBERS.items():
            values[name] = np.array(self._values[name], kind)
        distinct = np.frombuffer(b"".join(self._vectors), np.float32).reshape(-1, self._dimension)
        if self._base:
            before, vectors = self._base
            if not self._ids:
                return before, vectors
            values = {n: np.concatenate([before[n], column]) for n, column in values.items()}
            distinct = np.concatenate([vectors.distinct, distinct])
        pasts = np.array(list(self._pasts), np.int32).reshape(-1, 3)
        columns = Columns(self._env, tuple(self._texts), values, pasts)
        columns = columns.take(columns.order())
        return columns, Vectors.of(distinct, columns)


@lru_cache(maxsize=10_000)
def outcome_text(outcome: Outcome) -> str:
    """Return an outcome as it is stored and digested: as before there was hindsight, without it."""
    return records.dumps(outcome).replace(',"saved":0}', "}")


@lru_cache(maxsize=10_000)
def _outcome(text: str) -> Outcome | None:
    return records.loads(text, Outcome) if text else None


def texts_of(row: IndexedTuple) -> dict[str, str]:
    """Return a tuple's columns of texts."""
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
    }


def numbers_of(row: IndexedTuple) -> dict[str, int | float]:
    """Return a tuple's columns of numbers, but for its id, past and vectors."""
    return {
        "step": row.tuple.step,
        "generation": row.tuple.generation,
        "goal_type": row.goal_type,
        "observation_type": row.observation_type,
        "reach": row.reach,
    }


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a memory holds of one environment up to a generation.

    batches: sorted by id.
    rows: the n tuples, sorted by cell, trajectory, step and id, those that the generation hides
        included; equal memories are equal values.
    vectors: (n, 2 · dimension) float32, row i = [goal; observation] of rows[i], each half of unit
        length.
    kinds: the classifier of kinds, trained on the tuples that are not hidden; None where it still
        has to be trained.
    """

    generation: Generation
    batches: tuple[BatchIndex, ...]
    rows: Rows
    vectors: Vectors
    kinds: KindWeights | None = None

    def recallable(self) -> IdSet:
        """Return the ids of the tuples that the generation does not hide."""
        columns = self.rows.columns
        return columns.take(~columns.named(self.generation.hidden)).ids

    def with_kinds(self) -> Contents:
        """Return the memory with its classifier of kinds, trained where it has none."""
        if self.kinds is not None:
            return self
        columns = self.rows.columns
        return replace(
            self, kinds=kinds_of(columns, columns.named(self.generation.hidden), self.generation)
        )

    def sources(self) -> frozenset[str]:
        """Return the sources that no evaluated task may share (compared with `Task.leak_key`)."""
        return frozenset(self.rows.columns.distinct("source").values())

    def extended(
        self,
        rows: Sequence[IndexedTuple],
        vectors: NDArray[np.floating],
        batches: Sequence[BatchIndex] = (),
    ) -> Contents:
        """Return the memory with more tuples, those that it holds already left out.

        vectors: (n, 2 · dimension), of the n `rows`. batches: new ones.
        """
        before = self.rows.columns, self.vectors
        builder = ColumnsBuilder(before[0].env, self.vectors.dimension, before)
        builder.add_rows(rows, vectors)
        columns, of_rows = builder.collected()
        together = tuple(sorted([*self.batches, *batches], key=lambda batch: batch.id))
        return Contents(self.generation, together, Rows(columns), of_rows)

    def at(self, generation: Generation) -> Contents:
        """Return what the memory held at an earlier generation."""
        columns = self.rows.columns
        earlier = columns["generation"] <= generation.number
        if not earlier.all():
            columns = columns.take(earlier)
        of_rows = Vectors.of(self.vectors.distinct, columns)
        batches = tuple(b for b in self.batches if b.generation <= generation.number)
        return Contents(generation, batches, Rows(columns), of_rows)


@dataclass(frozen=True, slots=True)
class Whole:
    """The memory of one environment with its generations, oldest first; contents: of the newest."""

    contents: Contents
    generations: tuple[Generation, ...]


def kinds_of(
    columns: Columns, hidden: NDArray[np.bool_] | None, generation: Generation
) -> KindWeights:
    """Train the classifier of kinds on the tuples that are not hidden, on all if all are."""
    if hidden is not None and not hidden.all():
        columns = columns.take(~hidden)
    goals, kinds = zip(*columns.pairs("goal", "kind"), strict=True)
    by_count = generation.kinds_by_count or generation.is_of_first_version
    return trained(goals, kinds, balanced=not by_count)


def empty(generation: Generation) -> Contents:
    """Return a memory without tuples."""
    columns, vectors = ColumnsBuilder(generation.env, generation.dimension).collected()
    return Contents(generation, (), Rows(columns), vectors)


def type_sizes(batch: BatchIndex, rows: Rows) -> list[tuple[str, int, list[tuple[str, int]]]]:
    """Count the tuples of a batch by type.

    rows: those of the memory.

    Returns (goal type, tuples, [(observation type, tuples), …]) for each goal type, in index order.
    """
    counts = rows.sizes(batch.id)
    sizes = []
    for g, goal_type in enumerate(batch.goal_types):
        below = [
            (name, counts.get((g, o), 0)) for o, name in enumerate(goal_type.observation_types)
        ]
        sizes.append((goal_type.name, sum(count for _, count in below), below))
    return sizes


def outcome_counts(rows: Rows, generation: int | None = None) -> dict[str, int]:
    """Count the trajectories of `rows` by what they earned, in this order, without zeros.

    generation: count those up to this one; None for all.

    Returns "full", "partial" (less than everything), "failed" (nothing), "warning" (nothing, and
    their tuples vote against their actions) and "unknown" → number.
    """
    columns = rows.columns
    if generation is not None:
        columns = columns.take(columns["generation"] <= generation)
    counted = {
        name: _earned(_outcome(text)) for name, text in columns.pairs("trajectory_id", "outcome")
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
