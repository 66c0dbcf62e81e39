"""Exact match and F1 of an answer, as HotpotQA's evaluation script computes them.

Yang et al., arXiv 1809.09600, §5; script `hotpot_evaluate_v1.py`.
"""

from __future__ import annotations

import re
import string
from collections import Counter

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
#: Answers that are right or wrong as a whole: sharing words with them earns nothing.
_WHOLE = frozenset({"yes", "no", "noanswer"})
#: The most that an answer earns that is no exact match: a success is a score of 1.
MOST_PARTIAL = 0.999


def normalized(answer: str) -> str:
    """Return the words that are compared: small letters, no ASCII punctuation, no articles."""
    words = answer.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", words).split())


def exact(answer: str, gold: str) -> bool:
    """Return whether two answers have the same normalized words."""
    return normalized(answer) == normalized(gold)


def f1(answer: str, gold: str) -> float:
    """Return the harmonic mean of precision and recall over words, in any order, in [0, 1].

    Two empty answers have 0, although they are an exact match, as in the script.
    """
    return precision_recall_f1(answer, gold)[2]


def precision_recall_f1(answer: str, gold: str) -> tuple[float, float, float]:
    """Return precision, recall and F1 over the words of both answers, each in [0, 1]."""
    ours, right = normalized(answer), normalized(gold)
    if ours != right and (ours in _WHOLE or right in _WHOLE):
        return 0.0, 0.0, 0.0
    answer_words, gold_words = ours.split(), right.split()
    common = (Counter(answer_words) & Counter(gold_words)).total()
    if not common:
        return 0.0, 0.0, 0.0
    precision, recall = common / len(answer_words), common / len(gold_words)
    return precision, recall, 2 * precision * recall / (precision + recall)


def reward(answer: str, gold: str, *, partial: bool) -> float:
    """Return the reward of an answer: 1 for an exact match.

    partial: another answer earns its F1, at most MOST_PARTIAL; without it, 0.
    """
    if exact(answer, gold):
        return 1.0
    return min(f1(answer, gold), MOST_PARTIAL) if partial else 0.0
