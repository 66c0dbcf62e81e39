"""Types of goals and observations without a model: clusters of embeddings, named by their terms.

They replace the paper's clustering by a language model (LDM² §3.2, Eq. 7–8).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldm.reason import Clustering, TypeView
from ldm.reason.reading import FUNCTION_WORDS, words

#: Maximum number of types in a clustering.
MOST_TYPES = 12
TERMS_IN_A_NAME = 3


def cluster(texts: Sequence[str], vectors: NDArray[np.floating]) -> Clustering:
    """Partition n distinct texts with vectors (n, dimension) into about √(n/2) types.

    The largest cluster is split in two until there are enough, which keeps the sizes about equal.
    """
    from sklearn.cluster import BisectingKMeans

    count = max(1, min(MOST_TYPES, round(math.sqrt(len(texts) / 2))))
    if count == 1:
        labels = np.zeros(len(texts), int)
    else:
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
    """Return the index of the type with the centroid nearest a (dimension,) vector.

    Similarities are rounded, so that the last bits of a sum decide nothing; ties go to the first.
    """
    return int(np.argmax(np.round(np.stack([view.centroid for view in types]) @ vector, 6)))


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
        unique = name
        while unique in names:
            unique = f"{name} ({sum(n.startswith(name) for n in names) + 1})"
        names[unique] = None
    return tuple(names)
