"""The two indices of a batch memory: goal types, and observation types within each (LDM² §3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ldm.errors import MemoryStoreError
from ldm.types import StateActionTuple

#: (batch, goal type, observation type).
Cell = tuple[str, int, int]


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
    generation: int
    trajectories: tuple[str, ...]
    goal_types: tuple[GoalType, ...]
    reasoner: str = ""


@dataclass(frozen=True, slots=True)
class IndexedTuple:
    """A tuple and its cell: indices of its goal type and of its observation type below that.

    reach: 0 for a tuple that any goal may recall. Above 0, only goals with at least this cosine to
        the tuple's own recall it, and only from its cell.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    tuple: StateActionTuple
    batch: str
    goal_type: int
    observation_type: int
    reach: float = 0.0

    @property
    def cell(self) -> Cell:
        """(batch, goal type, observation type)."""
        return self.batch, self.goal_type, self.observation_type


@dataclass(frozen=True, slots=True)
class Generation:
    """The record that completes a generation: without it, readers do not see its tuples.

    number: 0 is the formed memory.
    origin: "formed" or "refined".
    dimension: of the embedder's vectors.
    tuples: how many tuples all generations up to this one hold together.
    digest: of those tuples' ids, histories and cells; equal memories have equal digests.
    settings: how it was made (batch size, batching, seed, reasoner, …).
    tasks: ids of the tasks that a refinement explored for it, whether or not it added anything.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    number: int
    origin: str
    env: str
    embedder: str
    dimension: int
    tuples: int
    digest: str
    settings: dict[str, str]
    tasks: tuple[str, ...] = ()

    def check_embedder(self, name: str) -> None:
        """Raise MemoryStoreError where the memory's vectors are not those of embedder `name`."""
        if name != self.embedder:
            raise MemoryStoreError(
                f"The memory of {self.env} was built with the embedder {self.embedder!r}, not"
                f" {name!r}.",
                "Leave --embedder out, or build the memory again with --rebuild.",
            )


def named_sizes(
    batch: BatchIndex, counts: Mapping[tuple[int, int], int]
) -> list[tuple[str, int, list[tuple[str, int]]]]:
    """Return (goal type, tuples, [(observation type, tuples), …]) of each goal type, in order.

    counts: the number of tuples of each cell (goal type, observation type).
    """
    sizes = []
    for g, goal_type in enumerate(batch.goal_types):
        below = [
            (name, counts.get((g, o), 0)) for o, name in enumerate(goal_type.observation_types)
        ]
        sizes.append((goal_type.name, sum(count for _, count in below), below))
    return sizes
