"""The classifier of task kinds: logistic regression over the words of the memory's goals.

Embeddings do not separate kinds: "cool some egg" is nearer to "heat some egg" than to "cool a pan".
The weights are trained once per generation and stored in its snapshot, because scikit-learn takes
longer to load than a memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

#: Goals whose kinds are cached.
KEPT_GOALS = 10_000
#: Trained classifiers that are cached; views of a memory often have the same goals.
CLASSIFIERS = 32
#: Single letters are words, too: "put a pen" and "put two pens" are different kinds.
WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class KindWeights:
    """A trained classifier of k ≥ 1 kinds by n words.

    weights: (n, k), the weight of each word for each kind. intercepts: (k,).
    """

    kinds: tuple[str, ...]
    words: tuple[str, ...] = ()
    weights: tuple[tuple[float, ...], ...] = ()
    intercepts: tuple[float, ...] = ()


@lru_cache(CLASSIFIERS)
def trained(goals: frozenset[tuple[str, str]]) -> KindWeights:
    """Train on n ≥ 1 goals with their kinds.

    All kinds have the same weight, so that a kind with many goals does not attract those of others.
    """
    examples = sorted(goals)
    names = sorted({kind for _, kind in examples})
    if len(names) == 1:
        return KindWeights(tuple(names))
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    counter = CountVectorizer(token_pattern=WORD.pattern, binary=True)
    model = LogisticRegression(max_iter=1000, class_weight="balanced")
    model.fit(counter.fit_transform([g for g, _ in examples]), [kind for _, kind in examples])
    weights, intercepts = model.coef_, model.intercept_
    if len(names) == 2:
        weights, intercepts = [-weights[0], weights[0]], [-intercepts[0], intercepts[0]]
    return KindWeights(
        tuple(map(str, model.classes_)),
        tuple(counter.get_feature_names_out().tolist()),
        tuple(tuple(float(row[i]) for row in weights) for i in range(len(weights[0]))),
        tuple(float(one) for one in intercepts),
    )


class KindClassifier:
    """A function from a goal to its task kind.

    names: of the kinds.
    """

    def __init__(self, weights: KindWeights) -> None:
        self.names = weights.kinds
        self._weights = dict(zip(weights.words, weights.weights, strict=True))
        self._intercepts = weights.intercepts or (0.0,) * len(self.names)
        self._known: dict[str, str] = {}

    def __call__(self, goal: str) -> str:
        """Return the most probable kind of `goal`."""
        kind = self._known.get(goal)  # agents ask about the same goal at every step
        if kind is None:
            kind = self._most_probable(goal)
            if len(self._known) >= KEPT_GOALS:
                self._known.clear()
            self._known[goal] = kind
        return kind

    def _most_probable(self, goal: str) -> str:
        totals = list(self._intercepts)
        for word in sorted(set(WORD.findall(goal.lower()))):
            for i, weight in enumerate(self._weights.get(word, ())):
                totals[i] += weight
        return self.names[max(range(len(totals)), key=totals.__getitem__)]
