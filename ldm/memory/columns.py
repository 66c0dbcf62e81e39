"""The tuples of a memory as columns of numbers.

Every text is kept once and referred to by its number, and so are vectors. What a trajectory's
tuples have in common, their past, is a tree: a node is a pair (observation, action) with the node
of the pair before it, and a tuple refers to the last pair of its past. So a memory grows with its
steps and not, as with each tuple's past written out, with the square of an episode's length.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ldm import records
from ldm.memory.index import WHOLE, BatchIndex, Generation
from ldm.types import FULL_OUTCOME, History, Outcome, stable_hash

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
        numbers = [i for i, text in self.distinct("outcome").items() if chosen(outcome_of(text))]
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


@lru_cache(maxsize=10_000)
def outcome_text(outcome: Outcome) -> str:
    """Return an outcome as it is stored and digested: as before there was hindsight, without it."""
    return records.dumps(outcome).replace(',"saved":0}', "}")


@lru_cache(maxsize=10_000)
def outcome_of(text: str) -> Outcome | None:
    """Return the outcome that a text stands for; None where none was recorded."""
    return records.loads(text, Outcome) if text else None
