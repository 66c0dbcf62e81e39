"""Types of goals and observations by a model (LDM² Eq. 7–8, 3): checked, whatever it answers."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ldm.embed import Embedder
from ldm.parallel import map_concurrently
from ldm.reasoner import Clustering, TypeView
from ldm.reasoner.asking import Asker, fitting_or_none, numbered, types_of, values
from ldm.reasoner.clusters import cluster, nearest
from ldm.types import stable_seed

#: Items that the model makes types of at once; the others are classified.
SAMPLE = 40
#: Items classified with one question.
CHUNK = 16
#: Characters of an item that the model sees.
SHOWN = 240
MOST_TYPES = 12
#: Characters of the name of a type that nobody named.
NAME = 60
#: A type of this index: none, so far.
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Sorter:
    """Sorts texts of one sort (`what`, e.g. "goals") by asking a model."""

    asker: Asker
    embedder: Embedder
    what: str
    concurrency: int

    def cluster(self, items: Sequence[str]) -> Clustering:
        """High-level types of about equal size of n distinct items, each in exactly one.

        Of more than SAMPLE items a seeded sample is clustered and the rest classified. What the
        model leaves out or names twice is asked for again once, and then goes to the nearest type.
        Where it makes no types at all, or most items have no single one, they are those of
        `clusters.cluster`: a small model puts all items into each type.
        """
        if len(items) <= 1:
            return Clustering(tuple(item[:NAME] for item in items), (0,) * len(items))
        sample = list(range(len(items)))
        if len(items) > SAMPLE:
            sample = sorted(random.Random(stable_seed(*items)).sample(sample, SAMPLE))
        names, placed = self._types([items[i] for i in sample])
        if 2 * placed.count(NOWHERE) > len(placed) or not names:
            self.asker.tally.add("types by the aid")
            return cluster(items, self.embedder.embed(items))
        assignment = [NOWHERE] * len(items)
        for i, label in zip(sample, placed, strict=True):
            assignment[i] = label
        views = self._views(names, items, assignment)
        left = [i for i, label in enumerate(assignment) if label == NOWHERE]
        for i, label in zip(left, self._all([items[i] for i in left], views), strict=True):
            assignment[i] = label
        kept = [label for label in range(len(names)) if label in assignment]
        return Clustering(
            tuple(names[label] for label in kept), tuple(kept.index(label) for label in assignment)
        )

    def classify(self, items: Sequence[str], types: Sequence[TypeView]) -> list[int]:
        """The index of the type of each of up to CHUNK items; the nearest where the model fails."""
        if len(types) == 1:
            return [0] * len(items)

        def ask(effort: float) -> list[int] | None:
            completion = self.asker.ask(
                "classify",
                numbered(len(items), len(types)),
                40 + 16 * len(items),
                what=self.what,
                types=types,
                items=items,
                length=int(SHOWN * effort),
            )
            if completion.value is None:
                return None
            return [number - 1 for number in values(completion.value)]

        found = fitting_or_none(ask)
        if found is not None:
            return found
        return [nearest(self.embedder.embed([item])[0], types) for item in items]

    def _all(self, items: Sequence[str], types: Sequence[TypeView]) -> list[int]:
        chunks = [items[i : i + CHUNK] for i in range(0, len(items), CHUNK)]
        found = map_concurrently(
            lambda chunk: self.classify(chunk, types), chunks, self.concurrency
        )
        return [label for labels in found for label in labels]

    def _types(self, items: Sequence[str]) -> tuple[list[str], list[int]]:
        """Names of types, none where the reply is no use; each item's type, or NOWHERE."""
        most = max(2, min(MOST_TYPES, round(math.sqrt(len(items)))))

        def ask(effort: float) -> Any:
            return self.asker.ask(
                "cluster",
                types_of(len(items), most),
                200 + 8 * len(items),
                what=self.what,
                items=items,
                fewest=2,
                most=most,
                length=int(SHOWN * effort),
            ).value

        form = fitting_or_none(ask)
        if form is None:
            return [], []
        told = _told(form.types)
        claims = [[label for label, (_, m) in enumerate(told) if i in m] for i in range(len(items))]
        return [name for name, _ in told], [c[0] if len(c) == 1 else NOWHERE for c in claims]

    def _views(
        self, names: Sequence[str], items: Sequence[str], assignment: Sequence[int]
    ) -> list[TypeView]:
        """The types with their members so far; one without any is where its name is."""
        views = []
        for label, name in enumerate(names):
            members = [items[i] for i, at in enumerate(assignment) if at == label]
            views.append(TypeView.of(name, members, self.embedder.embed(members or [name])))
        return views


def _told(types: Sequence[Any]) -> list[tuple[str, set[int]]]:
    """The types of a reply: a unique name, and the indices of the members."""
    told: dict[str, set[int]] = {}
    for found in types:
        name = " ".join(found.name.split())[:NAME] or "unnamed"
        unique, number = name, 2
        while unique in told:
            unique, number = f"{name} ({number})", number + 1
        told[unique] = {number - 1 for number in found.members}
    return list(told.items())
