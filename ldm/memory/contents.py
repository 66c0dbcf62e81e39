"""The contents of one environment's memory up to a generation, as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ldm.memory.columns import Columns, ColumnsBuilder
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.memory.kind_classifier import KindWeights, trained
from ldm.memory.lessons import relevance_of
from ldm.memory.rows import Rows
from ldm.reason.relevance import Relevance
from ldm.types import StateActionTuple


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of one environment's memory up to a generation.

    batches: sorted by id.
    rows: the n tuples, hidden ones included, sorted by cell, trajectory, step and id, so that equal
        memories are equal values.
    kinds: the kind classifier, trained on the tuples that are not hidden; None if not trained yet.
    relevance: what the tuples that are not hidden teach; None if not learnt yet.
    """

    generation: Generation
    batches: tuple[BatchIndex, ...]
    rows: Rows
    kinds: KindWeights | None = None
    relevance: Relevance | None = None

    @property
    def visible(self) -> NDArray[np.bool_]:
        """A mask of the tuples that the generation does not hide."""
        return ~self.rows.columns.named(self.generation.hidden)

    def recallable(self) -> frozenset[str]:
        """Return the ids of the tuples that the generation does not hide."""
        return self.rows.columns.take(self.visible).ids

    def recalled(self) -> list[StateActionTuple]:
        """Return the tuples that the generation does not hide."""
        return [self.rows[i].tuple for i in np.flatnonzero(self.visible).tolist()]

    def trained(self) -> KindWeights:
        """Return the kind classifier, trained if it is not yet."""
        return self.kinds or kinds_of(self.rows.columns, self.visible)

    def learnt(self) -> Relevance:
        """Return what the tuples teach, learnt if it is not yet."""
        return self.relevance or relevance_of(self.rows, self.visible)

    def vectors_of_texts(self) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of the distinct goals and observations."""
        columns = self.rows.columns
        return {
            columns.texts[int(columns[name][i])]: columns.vectors[columns[f"{name}_vector"][i]]
            for name in ("goal", "observation")
            for i in np.unique(columns[name], return_index=True)[1].tolist()
        }

    def sources(self) -> frozenset[str]:
        """Return the sources that evaluated tasks must not share (`Task.leak_key`)."""
        return frozenset(self.rows.columns.distinct("source").values())

    def extended(
        self,
        rows: Iterable[IndexedTuple],
        vectors: Iterable[NDArray[np.floating]],
        batches: Iterable[BatchIndex] = (),
    ) -> Contents:
        """Return the contents with more tuples, skipping those that they hold already.

        vectors: (n, 2 · dimension), of the n `rows`. batches: new ones.
        """
        builder = ColumnsBuilder(self.rows.columns)
        builder.add_rows(rows, vectors)
        together = tuple(sorted([*self.batches, *batches], key=lambda batch: batch.id))
        return Contents(self.generation, together, Rows(builder.collected()))

    def made(self, generation: Generation) -> Contents:
        """Return the contents as those of a generation, with its size and digest."""
        columns = self.rows.columns
        digest = columns.digest(generation, self.batches)
        stated = replace(generation, tuples=len(columns), digest=digest)
        return replace(self, generation=stated, kinds=None, relevance=None)

    def rebuilt(
        self, change: Callable[[IndexedTuple], IndexedTuple | None] = lambda row: row
    ) -> Contents:
        """Return contents that refer to no other file, text or vector than they use.

        change: returns a tuple as it should be, or None for one that should not be there.
        """
        before = self.rows.columns
        changed = ((change(row), i) for i, row in enumerate(self.rows))
        left = [(row, i) for row, i in changed if row is not None]
        builder = ColumnsBuilder(Columns.empty(before.env, before.vectors.shape[1]))
        builder.add_rows((row for row, _ in left), (before.vectors_of(i) for _, i in left))
        return replace(self, rows=Rows(builder.collected()))

    def at(self, generation: Generation) -> Contents:
        """Return the contents as of an earlier generation."""
        columns = self.rows.columns
        earlier = columns["generation"] <= generation.number
        batches = tuple(b for b in self.batches if b.generation <= generation.number)
        return Contents(generation, batches, Rows(columns.take(earlier)))


def kinds_of(columns: Columns, visible: NDArray[np.bool_]) -> KindWeights:
    """Train the kind classifier on the visible tuples, or on all if none is."""
    columns = columns.take(visible) if visible.any() else columns
    return trained(frozenset(columns.pairs("goal", "kind")))


def empty(generation: Generation) -> Contents:
    """Return contents without tuples."""
    return Contents(generation, (), Rows(Columns.empty(generation.env, generation.dimension)))
