"""The two indices of a batch memory: goal types, and observation types within each (LDM² §3.2)."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import Field

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
    origin: "formed", "refined", "pruned" or "credited".
    dimension: of the embedder's vectors.
    tuples: how many tuples all generations up to this one hold together.
    digest: of those tuples' ids, histories and cells; equal memories have equal digests.
    settings: how it was made (batch size, batching, seed, reasoner, …).
    tasks: ids of the tasks that a refinement explored for it, whether or not it added anything.
    hidden: ids of the tuples that it no longer recalls, sorted. They stay in the store, where
        earlier generations recall them and the types of goals and observations rest on them; the
        digest covers the ids. Without any the record is what version 0.1.0 reads.
    utilities: tuple id → what following it gained in runs on training tasks, see
        `ldm.eval.credit.utilities`; 0 for all others. The digest covers them, too.
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
    hidden: Annotated[tuple[str, ...], Field(exclude_if=operator.not_)] = ()
    utilities: Annotated[dict[str, float], Field(exclude_if=operator.not_)] = field(
        default_factory=dict
    )

    @property
    def recallable(self) -> int:
        """How many of the tuples may be recalled."""
        return self.tuples - len(self.hidden)

    def check_embedder(self, name: str) -> None:
        """Raise MemoryStoreError where the memory's vectors are not those of embedder `name`."""
        if name != self.embedder:
            raise MemoryStoreError(
                f"The memory of {self.env} was built with the embedder {self.embedder!r}, not"
                f" {name!r}.",
                "Leave --embedder out, or build the memory again with --rebuild.",
            )


def type_sizes(
    batch: BatchIndex, rows: Sequence[IndexedTuple]
) -> list[tuple[str, int, list[tuple[str, int]]]]:
    """Count the tuples of a batch by type.

    rows: those of the batch; rows of other batches are ignored.

    Returns (goal type, tuples, [(observation type, tuples), …]) for each goal type, in index order.
    """
    sizes = []
    for g, goal_type in enumerate(batch.goal_types):
        members = [r.observation_type for r in rows if r.batch == batch.id and r.goal_type == g]
        below = [(name, members.count(o)) for o, name in enumerate(goal_type.observation_types)]
        sizes.append((goal_type.name, len(members), below))
    return sizes


def outcome_counts(rows: Sequence[IndexedTuple]) -> dict[str, int]:
    """Count the trajectories of `rows` by what they earned, in this order, without zeros.

    Returns "full", "partial" (less than everything), "failed" (nothing), "warning" (nothing, and
    their tuples vote against their actions) and "unknown" → number.
    """
    earned = Counter({row.tuple.trajectory_id: _earned(row.tuple) for row in rows}.values())
    names = ("full", "partial", "failed", "warning", "unknown")
    return {name: earned[name] for name in names if earned[name]}


def _earned(source: StateActionTuple) -> str:
    if source.outcome is None:
        return "unknown"
    if source.is_warning:
        return "warning"
    if not source.fell_short:
        return "full"
    return "partial" if source.outcome.score > 0 else "failed"
