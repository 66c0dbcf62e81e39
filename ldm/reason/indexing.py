"""The types of a memory's indices, made and found by a model (LDM² §3.2, Eq. 7–8 and 3).

Replies are checked: every text ends up in exactly one type.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ldm.embed import Embedder
from ldm.parallel import map_concurrently
from ldm.reason import TYPES_BY_FALLBACK, Clustering, TypeView
from ldm.reason.budget import OVERHEAD, Budget
from ldm.reason.clusters import cluster, nearest
from ldm.reason.excerpts import Passage, fitted
from ldm.reason.forms import field_values, numbers_form, types_form
from ldm.reason.replies import Prompter, fit_context_or_none
from ldm.types import stable_seed

#: Items that the model clusters at once; the others are classified.
SAMPLE = 40
#: Characters beside an item, and of the example of a type.
MARKUP = 12
EXAMPLE = 240
#: Characters of the name of a type.
NAME_LENGTH = 60
#: The label of an item without a type.
UNASSIGNED = -1


@dataclass(frozen=True, slots=True)
class TypeIndexer:
    """Divides texts into types by asking a model.

    budget: of a question, shared evenly by items that do not fit. what: the name of the texts in
    prompts ("goals").
    """

    prompter: Prompter
    embedder: Embedder
    budget: Budget
    concurrency: int
    what: str

    def cluster(self, items: Sequence[str]) -> Clustering:
        """Divide n distinct items into high-level types of about equal size, one type per item.

        Of more than SAMPLE items a seeded sample is clustered and the others are classified. Items
        that the model omits or names twice are classified with a second question; if that fails,
        they go to the nearest type. If the model makes no types, or most items have no single one
        (a small model puts all items into each type), the types are those of `clusters.cluster`.
        """
        if len(items) <= 1:
            return Clustering(tuple(item[:NAME_LENGTH] for item in items), (0,) * len(items))
        sample = list(range(len(items)))
        if len(items) > SAMPLE:
            sample = sorted(random.Random(stable_seed(*items)).sample(sample, SAMPLE))
        names, labels = self._types([items[i] for i in sample])
        if 2 * labels.count(UNASSIGNED) > len(labels) or not names:
            self.prompter.counts.add(TYPES_BY_FALLBACK)
            return cluster(items, self.embedder.embed(items))
        assignment = [UNASSIGNED] * len(items)
        for i, label in zip(sample, labels, strict=True):
            assignment[i] = label
        views = self._views(names, items, assignment)
        rest = [i for i, label in enumerate(assignment) if label == UNASSIGNED]
        for i, label in zip(rest, self._classify_all([items[i] for i in rest], views), strict=True):
            assignment[i] = label
        used = [label for label in range(len(names)) if label in assignment]
        return Clustering(
            tuple(names[label] for label in used), tuple(used.index(label) for label in assignment)
        )

    def classify(self, items: Sequence[str], types: Sequence[TypeView]) -> list[int]:
        """Return the index of the type of each of up to `Prompter.at_once` items.

        If the model's reply is unusable, these are the nearest types.
        """
        if len(types) == 1:
            return [0] * len(items)

        def ask(share: float) -> list[int] | None:
            completion = self.prompter.ask(
                "classify",
                numbers_form(len(items), len(types)),
                40 + 16 * len(items),
                what=self.what,
                types=types,
                length=EXAMPLE,
                items=self._fitted(items, share, taken=len(types) * (EXAMPLE + NAME_LENGTH)),
            )
            if completion.value is None:
                return None
            return [number - 1 for number in field_values(completion.value)]

        labels = fit_context_or_none(ask)
        if labels is not None:
            return labels
        return [nearest(self.embedder.embed([item])[0], types) for item in items]

    def _fitted(self, items: Sequence[str], share: float, taken: int = 0) -> list[str]:
        """Return the items within a question's room, of which `taken` characters are used."""
        room = self.budget.room(share) - OVERHEAD - taken - MARKUP * len(items)
        return fitted([Passage(item) for item in items], room, "")

    def _classify_all(self, items: Sequence[str], types: Sequence[TypeView]) -> list[int]:
        size = self.prompter.at_once
        chunks = [items[i : i + size] for i in range(0, len(items), size)]
        labels = map_concurrently(
            lambda chunk: self.classify(chunk, types), chunks, self.concurrency
        )
        return [label for chunk_labels in labels for label in chunk_labels]

    def _types(self, items: Sequence[str]) -> tuple[list[str], list[int]]:
        """Return the names of types, and each item's label; no names if the reply is unusable.

        An item in no type, or in several, is UNASSIGNED.
        """
        most = max(2, round(math.sqrt(len(items))))

        def ask(share: float) -> Any:
            return self.prompter.ask(
                "cluster",
                types_form(len(items), most),
                200 + 8 * len(items),
                what=self.what,
                items=self._fitted(items, share),
                fewest=2,
                most=most,
            ).value

        form = fit_context_or_none(ask)
        if form is None:
            return [], []
        types = _named_types(form.types)
        claims = [
            [label for label, (_, m) in enumerate(types) if i in m] for i in range(len(items))
        ]
        labels = [c[0] if len(c) == 1 else UNASSIGNED for c in claims]
        return [name for name, _ in types], labels

    def _views(
        self, names: Sequence[str], items: Sequence[str], assignment: Sequence[int]
    ) -> list[TypeView]:
        """Return the types with their members so far; without members, its name is the centre."""
        views = []
        for label, name in enumerate(names):
            members = [items[i] for i, at in enumerate(assignment) if at == label]
            views.append(TypeView.of(name, members, self.embedder.embed(members or [name])))
        return views


def _named_types(types: Sequence[Any]) -> list[tuple[str, set[int]]]:
    """Return the types of a reply: unique names, with the indices of the members."""
    members: dict[str, set[int]] = {}
    for entry in types:
        name = " ".join(entry.name.split())[:NAME_LENGTH] or "unnamed"
        unique, number = name, 2
        while unique in members:
            unique, number = f"{name} ({number})", number + 1
        members[unique] = {number - 1 for number in entry.members}
    return list(members.items())
