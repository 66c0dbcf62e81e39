"""The task kind of a goal, learned from the goals that the memory knows the kinds of.

Embeddings are no help here: "cool some egg" is nearer to "heat some egg" than to "cool a pan". So
the words decide, by logistic regression.
"""

from __future__ import annotations

from collections.abc import Sequence


class KindClassifier:
    """Goal → kind."""

    def __init__(self, goals: Sequence[str], kinds: Sequence[str]) -> None:
        """Learn from n goals and their n kinds, in any order."""
        examples = sorted(set(zip(goals, kinds, strict=True)))
        self._only = examples[0][1] if len({kind for _, kind in examples}) == 1 else None
        if self._only is None:
            from sklearn.feature_extraction.text import CountVectorizer
            from sklearn.linear_model import LogisticRegression
            from sklearn.pipeline import make_pipeline

            # Single letters count as words: "put a pen" and "put two pens" are different kinds.
            counts = CountVectorizer(token_pattern=r"\w+", binary=True)  # noqa: S106
            self._model = make_pipeline(counts, LogisticRegression(max_iter=1000))
            self._model.fit([goal for goal, _ in examples], [kind for _, kind in examples])

    def __call__(self, goal: str) -> str:
        """The most probable kind of `goal`."""
        return self._only if self._only is not None else str(self._model.predict([goal])[0])
