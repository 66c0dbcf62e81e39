"""The two indices of a batch memory: goal types, and observation types within each (LDM² §3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter, not_
from typing import Annotated, ClassVar

from pydantic import Field

from ldm.errors import MemoryStoreError
from ldm.types import Count, Reward, Similarity, StateActionTuple

#: What digests begin with that cover all fields.
WHOLE = "2:"
#: (batch, goal type, observation type).
Cell = tuple[str, int, int]
#: For each (goal type, observation type) of a batch that is left, its new place.
TypePlaces = Mapping[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class GoalType:
    """A type of goals with the names of the observation types below it."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    name: str
    observation_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BatchIndex:
    """The index of one batch memory M_b.

    id: e.g. "heat-2"; unique within the environment.
    kind: the task kind, "" for mixed batches.
    generation: the one that the batch was formed for.
    trajectories: ids of those that it was formed from.
    reasoner: the name of the one that wrote its histories and made its types.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    id: str
    kind: str
    generation: Count
    trajectories: tuple[str, ...]
    goal_types: tuple[GoalType, ...]
    reasoner: str = ""

    def cells(self) -> frozenset[Cell]:
        """Return its cells, each of which holds at least one tuple of the newest generation."""
        return frozenset(
            (self.id, g, o)
            for g, goal_type in enumerate(self.goal_types)
            for o in range(len(goal_type.observation_types))
        )

    def reduced(self, members: Iterable[IndexedTuple]) -> tuple[BatchIndex, TypePlaces]:
        """Return the batch without trajectories and types of which no member is left.

        members: the tuples of the batch that are left; it is of the generation of the first.

        Also returns where the other types are now.
        """
        left = list(members)
        places: dict[tuple[int, int], tuple[int, int]] = {}
        goal_types: list[GoalType] = []
        filled = sorted({(row.goal_type, row.observation_type) for row in left})
        for g, cells in groupby(filled, key=itemgetter(0)):
            old, names = self.goal_types[g], list[str]()
            for _, o in cells:
                places[g, o] = len(goal_types), len(names)
                names.append(old.observation_types[o])
            goal_types.append(GoalType(old.name, tuple(names)))
        present = {row.tuple.trajectory_id for row in left}
        reduced = replace(
            self,
            generation=min((row.tuple.generation for row in left), default=self.generation),
            trajectories=tuple(name for name in self.trajectories if name in present),
            goal_types=tuple(goal_types),
        )
        return reduced, places


@dataclass(frozen=True, slots=True)
class IndexedTuple:
    """A tuple and its cell: indices of its goal type and of its observation type below that.

    reach: 0 for a tuple that any goal may recall. Above 0, only goals with at least this cosine to
        the tuple's own recall it, and only from its cell.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    tuple: StateActionTuple
    batch: str
    goal_type: Count
    observation_type: Count
    reach: Similarity = 0.0

    @property
    def cell(self) -> Cell:
        """(batch, goal type, observation type)."""
        return self.batch, self.goal_type, self.observation_type

    def moved(self, places: TypePlaces) -> IndexedTuple:
        """Return the tuple in its new cell."""
        g, o = places[self.goal_type, self.observation_type]
        return replace(self, goal_type=g, observation_type=o)


@dataclass(frozen=True, slots=True)
class Generation:
    """The record that completes a generation: without it, readers do not see its tuples.

    number: 0 is the formed memory.
    origin: "formed", "refined", "pruned", "credited" or "forgotten".
    dimension: of the embedder's vectors.
    tuples: how many tuples all generations up to this one hold together.
    digest: of those tuples and the batches, see `Columns.digest`; equal memories have equal ones.
    settings: how it was made (batch size, batching, seed, reasoner, …).
    tasks: ids of the tasks that a refinement explored for it, whether or not it added anything.
    hidden: ids of the tuples that it no longer recalls, sorted. They stay in the store, where
        earlier generations recall them and the types of goals and observations rest on them; the
        digest covers the ids. Without any the record is what version 0.1.0 reads.
    utilities: tuple id → what following it gained in runs on training tasks, see
        `ldm.run.credit.utilities`; 0 for all others. The digest covers them, too.
    kinds_by_count: whether the classifier of kinds gives more weight to kinds of more goals, as
        version 0.1 did: memories that it made go on deciding so (`is_of_first_version`).
    env_class: the environment's class as "module:Class" where it is not registered, so that it can
        be played without being named; "" where `env` says all, or where the class is unknown.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    number: Count
    origin: str
    env: str
    embedder: str
    dimension: Count
    tuples: Count
    digest: str
    settings: dict[str, str]
    tasks: tuple[str, ...] = ()
    hidden: Annotated[tuple[str, ...], Field(exclude_if=not_)] = ()
    utilities: Annotated[dict[str, Reward], Field(exclude_if=not_)] = field(default_factory=dict)
    kinds_by_count: Annotated[bool, Field(exclude_if=not_)] = False
    env_class: Annotated[str, Field(exclude_if=not_)] = ""

    @property
    def recallable(self) -> int:
        """How many of the tuples may be recalled."""
        return self.tuples - len(self.hidden)

    @property
    def is_of_first_version(self) -> bool:
        """Whether the digest is that of version 0.1, which covers less; migrating raises it."""
        return bool(self.digest) and not self.digest.startswith(WHOLE)

    def without_digest(self) -> Generation:
        """Return the record for a digest of this version to be put in; it decides as before."""
        by_count = self.kinds_by_count or self.is_of_first_version
        return replace(self, digest="", kinds_by_count=by_count)

    def check_embedder(self, name: str) -> None:
        """Raise MemoryStoreError where the memory's vectors are not those of embedder `name`."""
        if name != self.embedder:
            raise MemoryStoreError(
                f"The memory of {self.env} was built with the embedder {self.embedder!r}, not"
                f" {name!r}.",
                "Leave --embedder out, or build the memory again with --rebuild.",
            )
