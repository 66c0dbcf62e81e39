"""The contents of one environment's memory up to a generation, as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.memory.kind_classifier import KindWeights, trained
from ldm.memory.lessons import relevance_of
from ldm.memory.rows import Rows, RowsBuilder
from ldm.reason.relevance import Relevance


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
        return ~self.rows.named(self.generation.hidden)

    @property
    def recallable(self) -> Rows:
        """The tuples that the generation does not hide."""
        return self.rows.take(self.visible)

    def trained(self) -> KindWeights:
        """Return the kind classifier, trained if it is not yet: on all tuples if none is seen."""
        if self.kinds is not None:
            return self.kinds
        rows = self.recallable if self.visible.any() else self.rows
        return trained(frozenset(rows.pairs("goal", "kind")))

    def learnt(self) -> Relevance:
        """Return what the tuples teach, learnt if it is not yet."""
        return self.relevance or relevance_of(self.recallable)

    def vectors_of_texts(self) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of the distinct goals and observations."""
        rows, columns = self.rows, self.rows.columns
        return {
            rows.texts[int(columns[name][i])]: rows.vectors[columns[f"{name}_vector"][i]]
            for name in ("goal", "observation")
            for i in np.unique(columns[name], return_index=True)[1].tolist()
        }

    def sources(self) -> frozenset[str]:
        """Return the sources that evaluated tasks must not share (`Task.leak_key`)."""
        return frozenset(self.rows.distinct("source").values())

    def extended(
        self,
        rows: Iterable[IndexedTuple],
        vectors: Iterable[NDArray[np.floating]],
        batches: Iterable[BatchIndex] = (),
    ) -> Contents:
        """Return the contents with more tuples, skipping those that they hold already.

        vectors: (n, 2 · dimension), of the n `rows`. batches: new ones.
        """
        builder = RowsBuilder(self.rows)
        builder.add_rows(rows, vectors)
        together = tuple(sorted([*self.batches, *batches], key=lambda batch: batch.id))
        return Contents(self.generation, together, builder.collected())

    def made(self, generation: Generation) -> Contents:
        """Return the contents as those of a generation, with its size and digest."""
        digest = self.rows.digest(generation, self.batches)
        stated = replace(generation, tuples=len(self.rows), digest=digest)
        return replace(self, generation=stated, kinds=None, relevance=None)

    def rebuilt(
        self, change: Callable[[IndexedTuple], IndexedTuple | None] = lambda row: row
    ) -> Contents:
        """Return contents that refer to no other file, text or vector than they use.

        change: returns a tuple as it should be, or None for one that should not be there.
        """
        before = self.rows
        changed = ((change(row), i) for i, row in enumerate(before))
        left = [(row, i) for row, i in changed if row is not None]
        builder = RowsBuilder(Rows.empty(before.env, before.vectors.shape[1]))
        builder.add_rows((row for row, _ in left), (before.vectors_of(i) for _, i in left))
        return replace(self, rows=builder.collected())

    def at(self, generation: Generation) -> Contents:
        """Return the contents as of an earlier generation."""
        earlier = self.rows.columns["generation"] <= generation.number
        batches = tuple(b for b in self.batches if b.generation <= generation.number)
        return Contents(generation, batches, self.rows.take(earlier))


def empty(generation: Generation) -> Contents:
    """Return contents without tuples."""
    return Contents(generation, (), Rows.empty(generation.env, generation.dimension))
