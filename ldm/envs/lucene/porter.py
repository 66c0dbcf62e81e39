"""Porter's stemmer (Program 14(3), 1980) with its author's two later changes, as in Lucene.

The changes: words of up to two letters are not stemmed, and in step 2 -bli becomes -ble and -logi
becomes -log. Snowball's "porter" has neither, and undoubles fewer consonants.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ldm.envs._base import facts

_FACTS = facts(__file__)


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return the stem of a lower-case word."""
    if len(word) <= 2:
        return word
    word = _past_tense(_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    for step in ("step_2", "step_3"):
        word = _replaced(word, _FACTS[step])
    return _final_e(_step_4(word))


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _past_tense(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix):
            before = word.removesuffix(suffix)
            if not _has_vowel(before):
                return word
            if before.endswith(("at", "bl", "iz")):
                return before + "e"
            if _ends_double(before):
                return before if before[-1] in "lsz" else before[:-1]
            return before + "e" if _measure(before) == 1 and _ends_cvc(before) else before
    return word


def _replaced(word: str, suffixes: Mapping[str, str]) -> str:
    """Return `word` with its longest suffix replaced if the part before it has a measure."""
    suffix = max((s for s in suffixes if word.endswith(s)), key=len, default="")
    if suffix and _measure(before := word.removesuffix(suffix)) > 0:
        return before + suffixes[suffix]
    return word


def _step_4(word: str) -> str:
    endings = (s for s in _FACTS["step_4"] if word.endswith(s))
    suffix = max(endings, key=len, default="")
    before = word.removesuffix(suffix)
    if not suffix or (suffix == "ion" and not before.endswith(("s", "t"))):
        return word
    return before if _measure(before) > 1 else word


def _final_e(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_cvc(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _vowels(word: str) -> list[bool]:
    """Return whether each letter is a vowel; y is one after a consonant."""
    flags: list[bool] = []
    for letter in word:
        flags.append(letter in "aeiou" or (letter == "y" and bool(flags) and not flags[-1]))
    return flags


def _has_vowel(word: str) -> bool:
    return any(_vowels(word))


def _measure(word: str) -> int:
    """Return how often a vowel is followed by a consonant."""
    vowels = _vowels(word)
    return sum(
        vowel and not next_vowel for vowel, next_vowel in zip(vowels, vowels[1:], strict=False)
    )


def _ends_double(word: str) -> bool:
    return len(word) >= 2 and word[-1] == word[-2] and not _vowels(word)[-1]


def _ends_cvc(word: str) -> bool:
    """Return whether `word` ends in consonant, vowel, consonant except w, x, y, as in "hop"."""
    return len(word) >= 3 and _vowels(word)[-3:] == [False, True, False] and word[-1] not in "wxy"
