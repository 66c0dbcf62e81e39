"""BM25 search as computed by Lucene, with the text analysis of its EnglishAnalyzer.

Rankings depend on Lucene's lossy one-byte document lengths and single-precision weights: with exact
lengths, most of the official rankings would differ. The index consists of a few arrays that can be
memory-mapped, so that worker processes share them.

Text is split into words by the rules of UAX #29 as implemented by Lucene's standard tokenizer;
possessive endings are removed, case is folded, 33 stop words are dropped, and the rest is stemmed
with Porter's algorithm (Program 14(3), 1980) with its author's two later changes: words of up to
two letters are not stemmed, and in step 2 -bli becomes -ble and -logi becomes -log. Snowball's
"porter" has neither, and undoubles fewer consonants.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import regex

from ldm.envs._base import facts

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
    suffix = max((s for s in _FACTS["step_4"] if word.endswith(s)), key=len, default="")
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
    return sum(vowel and not next_vowel for vowel, next_vowel in pairwise(_vowels(word)))


def _ends_double(word: str) -> bool:
    return len(word) >= 2 and word[-1] == word[-2] and not _vowels(word)[-1]


def _ends_cvc(word: str) -> bool:
    """Return whether `word` ends in consonant, vowel, consonant except w, x, y, as in "hop"."""
    return len(word) >= 3 and _vowels(word)[-3:] == [False, True, False] and word[-1] not in "wxy"


#: Lucene splits longer words into pieces of this many UTF-16 units.
LONGEST_WORD = 255
STOP_WORDS = frozenset(_FACTS["stop_words"])


@cache
def _word() -> regex.Pattern[str]:
    """Return the pattern of a word, based on the Word_Break property of its characters."""
    follow = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*+"

    def one(of: str) -> str:
        return f"(?:{of}{follow})"

    extend = one(r"\p{WB=ExtendNumLet}")
    katakana = one(r"\p{WB=Katakana}")
    number = one(r"\p{WB=Numeric}")
    hebrew = one(r"\p{WB=Hebrew_Letter}")
    letter = one(r"[\p{WB=ALetter}\p{WB=Hebrew_Letter}]")
    in_word = one(r"[\p{WB=MidLetter}\p{WB=MidNumLet}\p{WB=Single_Quote}]")
    in_number = one(r"[\p{WB=MidNum}\p{WB=MidNumLet}\p{WB=Single_Quote}]")
    run = (
        rf"(?:{hebrew}(?:{one(chr(39))}|{one(chr(34))}{hebrew})"
        rf"|{number}(?:(?:{extend}*|{in_number}){number})*"
        rf"|{letter}(?:(?:{extend}*|{in_word}){letter})*)+"
    )
    stretch = rf"(?:{katakana}(?:{extend}*{katakana})*|{run})"
    word = rf"{extend}*{stretch}(?:{extend}+{stretch})*{extend}*"
    ideograph = one(r"[\p{Script=Han}\p{Script=Hiragana}]")
    complex_script = one(r"\p{Line_Break=Complex_Context}") + "+"
    picture = f"[{_FACTS['pictures']}]"
    emoji = (
        r"(?:\p{Regional_Indicator}{2}"
        r"|[0-9#*]\uFE0F?\u20E3"
        rf"|{picture}[\uFE0F\p{{Emoji_Modifier}}]*(?:\u200D{picture}[\uFE0F\p{{Emoji_Modifier}}]*)*)"
    )
    return regex.compile(rf"{emoji}|{complex_script}|{word}|{ideograph}")


def tokens(text: str) -> list[str]:
    """Return the terms of `text` in order."""
    terms = []
    for match in _word().finditer(text):
        whole = match.group()
        for start in range(0, len(whole), LONGEST_WORD):
            word = whole[start : start + LONGEST_WORD]
            if len(word) >= 2 and word[-2] in "'\u2019\uff07" and word[-1] in "sS":
                word = word[:-2]
            # Java folds the capital dotted I to a plain i.
            word = word.replace("İ", "i").lower()
            if word not in STOP_WORDS:
                terms.append(stem(word))
    return terms


K1, B = 0.9, 0.4
#: Maximum number of results of a search.
TOP = 50

#: Documents whose terms are counted together while indexing.
_BATCH = 5_000
#: Texts between blanks whose terms are cached while indexing.
_CACHED_TEXTS = 2_000_000
#: A postings list longer than this is read only if its documents can still matter.
_LONG = 4_096
#: Postings are sorted, rather than all documents scanned, if they are this many times fewer.
_SPARSE = 50
#: Query terms whose position is cached.
_CACHED_PLACES = 100_000


def encoded_length(length: int) -> int:
    """Return Lucene's one byte for a length: exact up to 40, then three bits of mantissa."""
    if length < 32:
        return length
    rest = length - 24
    shift = rest.bit_length() - 4
    return 24 + ((rest >> shift) & 0x07 | (shift + 1) << 3)


def decoded_length(byte: int) -> int:
    """Return the length that a byte encodes."""
    if byte < 32:
        return byte
    bits, shift = (byte - 24) & 0x07, ((byte - 24) >> 3) - 1
    return 24 + ((bits | 8) << shift)


class Indexer:
    """Builder of the arrays of an `Index` from documents that are added one by one."""

    def __init__(self) -> None:
        self._vocabulary: dict[str, int] = {}
        self._numbers: dict[str, tuple[int, ...]] = {}
        self._terms = array("i")
        self._ends = array("q", [0])
        self._parts: list[csr_array] = []
        self._lengths = array("q")

    def add(self, text: str) -> None:
        """Add the next document."""
        # No word contains a blank, so the texts between blanks can be cached.
        pieces = text.split()
        if len(self._numbers) >= _CACHED_TEXTS:
            self._numbers.clear()
        vocabulary = self._vocabulary
        # Sorted, since the order of a set differs from process to process.
        for piece in sorted(set(pieces).difference(self._numbers)):
            numbers = (vocabulary.setdefault(term, len(vocabulary)) for term in tokens(piece))
            self._numbers[piece] = tuple(numbers)
        self._terms.extend(chain.from_iterable(map(self._numbers.__getitem__, pieces)))
        self._lengths.append(len(self._terms) - self._ends[-1])
        self._ends.append(len(self._terms))
        if len(self._ends) > _BATCH:
            self._count()

    def finish(self, ranks: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays.

        A term's weight is divided by the divisor, computed in single precision as by Lucene.
        ranks: the rank of each document among those with the same score (int32).
        """
        from scipy.sparse import csr_array, vstack

        self._count()
        names, self._numbers = sorted(self._vocabulary), {}
        places = np.argsort([self._vocabulary[name] for name in names])
        self._parts = [  # all terms are known only now
            csr_array((one.data, places[one.indices], one.indptr), (one.shape[0], len(names)))
            for one in self._parts
        ]
        postings = vstack(self._parts, "csc")
        ends, documents = postings.indptr[1:].astype(np.int64), postings.indices.astype(np.int32)
        encoded = [name.encode() for name in names]
        norms = _inverse_norms(sum(self._lengths) / max(1, len(self._lengths)))
        own = norms[[encoded_length(length) for length in self._lengths]]
        divisors = np.float32(1) + postings.data.astype(np.float32) * own[documents]
        return {
            "term_bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8),
            "term_ends": np.cumsum([len(name) for name in encoded], dtype=np.int64),
            "posting_ends": ends,
            "documents": documents,
            "divisors": divisors,
            "largest": _largest(divisors, postings.indptr[:-1]),
            "ranks": ranks.astype(np.int32),
        }

    def _count(self) -> None:
        """Count each term in each document added since the last call, to keep no repeats."""
        from scipy.sparse import csr_array

        terms, ends = np.array(self._terms), np.array(self._ends)
        shape = len(ends) - 1, max(1, len(self._vocabulary))
        part = csr_array((np.ones(len(terms), np.int32), terms, ends), shape)
        part.sum_duplicates()
        self._parts.append(part)
        self._terms, self._ends = array("i"), array("q", [0])


class Index:
    """Full-text index of documents."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the arrays that `Indexer.finish` makes."""
        self.arrays = arrays
        self._place = lru_cache(_CACHED_PLACES)(self._position)

    def __len__(self) -> int:
        return len(self.arrays["ranks"])

    def search(self, query: str, top: int = TOP) -> tuple[int, ...]:
        """Return the numbers of the best documents, best first; equal scores by rank."""
        results = self.scored(query, top)
        return tuple(document for document, _ in results)

    def scored(self, query: str, top: int = TOP) -> list[tuple[int, float]]:
        """Return (number, score) of the best documents, best first."""
        lists = []
        for term, times in Counter(tokens(query)).items():
            if (place := self._place(term.encode())) is not None:
                lists.append(_Postings.of(self, place, times))
        # Terms with the highest weight first: the others can then add only little.
        lists.sort(key=lambda postings: (-postings.most, len(postings.documents)))
        documents, sums = self._sum(lists, top)
        scores = sums.astype(np.float32)
        if len(scores) > top:
            best = scores >= _least_of_best(scores, top)
            documents, scores = documents[best], scores[best]
        order = np.lexsort((self.arrays["ranks"][documents], -scores))[:top]
        return [(int(documents[i]), float(scores[i])) for i in order]

    def _sum(self, lists: list[_Postings], top: int) -> tuple[np.ndarray, np.ndarray]:
        """Return documents that can be among the best, ascending, with their sums of scores."""
        sums = np.zeros(len(self))
        rest = math.fsum(postings.most for postings in lists)
        for i, postings in enumerate(lists):
            if i and len(postings.documents) > _LONG:
                candidates = self._touched(sums, lists[:i])
                if len(candidates) >= top:
                    least = _least_of_best(sums[candidates], top)
                    # A document with none of the terms so far can no longer be among the best.
                    if rest < least * (1 - 1e-6):
                        return _finish(candidates, sums[candidates], lists[i:], top)
            sums[postings.documents] += postings.scores()
            rest -= postings.most
        candidates = self._touched(sums, lists)
        return candidates, sums[candidates]

    def _touched(self, sums: np.ndarray, lists: list[_Postings]) -> np.ndarray:
        """Return the documents with any of these terms, ascending, by the cheaper method."""
        if _SPARSE * sum(len(postings.documents) for postings in lists) < len(self):
            parts = [postings.documents for postings in lists]
            return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int32)
        return np.flatnonzero(sums != 0)

    def _position(self, term: bytes) -> int | None:
        """Return the position of `term` among the sorted terms."""
        ends, text = self.arrays["term_ends"], self.arrays["term_bytes"]

        def at(place: int) -> bytes:
            return text[ends[place - 1] if place else 0 : ends[place]].tobytes()

        place = bisect_left(range(len(ends)), term, key=at)
        return place if place < len(ends) and at(place) == term else None


class _Postings(NamedTuple):
    """The documents that contain one term of a query.

    weight: Lucene's idf times its count in the query. most: the largest score from this term.
    """

    documents: np.ndarray
    divisors: np.ndarray
    weight: np.float32
    most: float

    @classmethod
    def of(cls, index: Index, place: int, times: int) -> _Postings:
        ends = index.arrays["posting_ends"]
        part = slice(int(ends[place - 1]) if place else 0, int(ends[place]))
        documents = index.arrays["documents"][part]
        frequency = len(documents)
        idf = np.float32(math.log(1 + (len(index) - frequency + 0.5) / (frequency + 0.5)))
        weight = np.float32(times) * idf
        most = float(weight - weight / index.arrays["largest"][place])
        return cls(documents, index.arrays["divisors"][part], weight, most)

    def scores(self, at: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return Lucene's score of the documents at these positions, in single precision."""
        return np.asarray(self.weight - self.weight / self.divisors[at])


def _largest(divisors: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the largest divisor of each term."""
    if not len(starts):
        return divisors
    return np.asarray(np.maximum.reduceat(divisors, starts))


def _least_of_best(values: np.ndarray, top: int) -> np.floating[Any]:
    """Return the smallest of the `top` largest values."""
    place = len(values) - top
    least: np.floating[Any] = np.partition(values, place)[place]
    return least


def _inverse_norms(mean: float) -> np.ndarray:
    """Return 1 / (k1 · (1 - b + b · length / mean)) of each encoded length, as in Lucene."""
    one, k1, b = np.float32(1), np.float32(K1), np.float32(B)
    lengths = np.array([decoded_length(byte) for byte in range(256)], dtype=np.float32)
    return np.asarray(one / (k1 * ((one - b) + b * lengths / np.float32(mean))))


def _finish(
    documents: np.ndarray, sums: np.ndarray, lists: list[_Postings], top: int
) -> tuple[np.ndarray, np.ndarray]:
    """Add the scores of the remaining terms to the documents that can still be among the best."""
    rest = math.fsum(postings.most for postings in lists)
    for postings in lists:
        candidates = sums + rest >= _least_of_best(sums, top) * (1 - 1e-6)
        documents, sums = documents[candidates], sums[candidates]
        at = np.searchsorted(postings.documents, documents)
        at_most = np.minimum(at, len(postings.documents) - 1)
        there = postings.documents[at_most] == documents
        sums[there] += postings.scores(at_most[there])
        rest -= postings.most
    return documents, sums
