"""The types of a memory's indices, made and found with a model or without (LDM² §3.2, Eq. 7–8, 3).

A model's replies are checked: every text ends up in exactly one type. Without a model, types are
clusters of embeddings, named by their terms, and the notes on a trajectory an assessment and a
summary extracted from its actions.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.embed import Embedder
from ldm.parallel import map_concurrently
from ldm.reason import TYPES_BY_FALLBACK, Clustering, Notes, TypeView
from ldm.reason.excerpts import Passage, fitted
from ldm.reason.prompting import OVERHEAD, Budget
from ldm.reason.reading import FUNCTION_WORDS, kind_of, words
from ldm.reason.replies import Prompter, field_values, fit_context_or_none, numbers_form, types_form
from ldm.reason.vocabulary import read_command
from ldm.types import stable_seed

#: Maximum number of types in a clustering.
MOST_TYPES = 12
TERMS_IN_A_NAME = 3


def cluster(texts: Sequence[str], vectors: NDArray[np.floating]) -> Clustering:
    """Partition n distinct texts with vectors (n, dimension) into about √(n/2) types.

    The largest cluster is split in two until there are enough, which keeps the sizes about equal.
    """
    count = max(1, min(MOST_TYPES, round(math.sqrt(len(texts) / 2))))
    if count == 1:
        labels = np.zeros(len(texts), int)
    else:
        from sklearn.cluster import BisectingKMeans  # takes two seconds in a new process

        model = BisectingKMeans(
            count, bisecting_strategy="largest_cluster", random_state=0, n_init=3, copy_x=False
        )
        vectors = vectors.astype(np.float64)  # a copy, which takes the place of the original
        labels = model.fit_predict(vectors)
    # Types are numbered by their first member, so that their order says nothing about the solver.
    order = {label: i for i, label in enumerate(dict.fromkeys(labels.tolist()))}
    assignment = tuple(order[label] for label in labels.tolist())
    return Clustering(_names(texts, assignment), assignment)


def nearest(vector: NDArray[np.float32], types: Sequence[TypeView]) -> int:
    """Return the index of the type with the centroid nearest a (dimension,) vector."""
    centroids = np.stack([view.centroid for view in types])
    return int(nearest_of_each(vector, centroids, np.array([len(types)]))[0])


def nearest_of_each(
    vector: NDArray[np.float32], centroids: NDArray[np.float32], sizes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each of several groups the row of the (n, dimension) centroid nearest a vector.

    Similarities are rounded, so that the last bits of a sum decide nothing; ties go to the first.

    sizes: of the groups, which lie one after the other.
    """
    similar, firsts = np.round(np.vecdot(centroids, vector), 6), np.cumsum(sizes) - sizes
    best = np.flatnonzero(similar == np.repeat(np.maximum.reduceat(similar, firsts), sizes))
    return best[np.searchsorted(best, firsts)]


def _names(texts: Sequence[str], assignment: Sequence[int]) -> tuple[str, ...]:
    """Name each type by its most characteristic terms: frequent in it and rare in the others."""
    counts = [Counter[str]() for _ in range(max(assignment) + 1)]
    for text, label in zip(texts, assignment, strict=True):
        terms = (w for w in words(text) if w not in FUNCTION_WORDS and not w.isdigit())
        counts[label].update(set(terms))
    spread = Counter(term for count in counts for term in count)
    names: dict[str, None] = {}
    for count in counts:

        def rank(term: str, count: Counter[str] = count) -> tuple[float, str]:
            return -count[term] * math.log(1 + len(counts) / spread[term]), term

        name = ", ".join(sorted(count, key=rank)[:TERMS_IN_A_NAME]) or "other"
        names[_unique(name, names)] = None
    return tuple(names)


def _unique(name: str, names: Container[str]) -> str:
    """Return a name that is not among others, with a number if it is."""
    numbered = (f"{name} ({number})" for number in itertools.count(2))
    return next(one for one in itertools.chain([name], numbered) if one not in names)


#: Actions of a summary, the latest ones.
SUMMARY_LENGTH = 12


def running_notes(goal: str, actions: Iterable[str]) -> Iterator[Notes]:
    """Yield notes before the first action and after each, which is read once.

    The assessment has the verbs used on each thing that the goal names, the summary the actions.
    """
    used = {word: dict[str, None]() for word in words(goal) if word not in FUNCTION_WORDS}
    texts: list[str] = []

    def notes() -> Notes:
        assessed = (f"{word}: {', '.join(verbs) or 'not yet'}" for word, verbs in used.items())
        earlier = len(texts) - SUMMARY_LENGTH
        dropped = [f"({earlier} earlier)"] if earlier > 0 else []
        return Notes("; ".join(assessed), "; ".join([*dropped, *texts[-SUMMARY_LENGTH:]]))

    yield notes()
    for action in actions:
        command = read_command(action)
        texts.append(command.text)
        if command.verb in used:
            used[command.verb]["done"] = None
        for filler in command.fillers:
            used.get(kind_of(filler)[-1], {})[command.verb] = None
        yield notes()


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
        (a small model puts all items into each type), the types are those of `cluster`.
        """
        if len(items) <= 1:
            return Clustering(tuple(item[:NAME_LENGTH] for item in items), (0,) * len(items))
        sample = list(range(len(items)))
        if len(items) > SAMPLE:
            sample = sorted(random.Random(stable_seed(*items)).sample(sample, SAMPLE))
        names, labels = self._types([items[i] for i in sample])
        if 2 * labels.count(UNASSIGNED) > len(labels) or not names:
            self.prompter.count(TYPES_BY_FALLBACK)
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
        members[_unique(name, members)] = {number - 1 for number in entry.members}
    return list(members.items())
