"""Select the parts of a text to embed: all of a short one, the telling ones of a long one.

At most LIMIT tokens of a text are embedded. Of a longer text's distinct sentences and lines these
are the ones at its beginning, at its end, and an even selection between. A model sees them in
pieces of its window, whose vectors are averaged. The parts that it cannot see, such as the rest of
a long text and characters outside its vocabulary, add a hash to the vector, so that different texts
have different vectors.

`Reader` judges whether an English model can read a text, by the words that its vocabulary lacks. A
WordPiece vocabulary holds the frequent words of its language whole, and divides others into pieces.
Of English prose, tool results, code and logs it holds most words of letters; of other Latin
languages few, and of other scripts none. Names such as saltshaker are in none, so a text with the
small words of English counts as English.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldm.errors import EmbedderWarning

#: Maximum tokens of a text.
LIMIT = 512
#: Characters beyond which a text has more tokens than that; it is not divided into tokens whole.
LONG = 40 * LIMIT
#: Characters that are looked at in a very long text, in so many samples.
SEEN, SAMPLES = 65_536, 16
#: A sentence or a line, or of a longer one the words within 80 characters.
UNIT = re.compile(r".{1,80}?(?:\n+|[.!?;]\s+|$)|.{40,80}(?=\s)|.{1,80}", re.DOTALL)
#: The length of the hash of a text that is not embedded whole, and bounds of that of unknown
#: characters, which grows with their share of a text. The vector has length 1.
TRACE, LEAST, MOST = 0.02, 0.1, 0.7
#: Characters of which each sequence of up to three is hashed, to find similar words.
HASHED = 1_000

#: Where a token begins and ends, and whether the model's vocabulary holds it.
Token = tuple[int, int, bool]


class Pieces(NamedTuple):
    """The pieces of a text to embed, and the parts of it that a model does not see.

    rest: a text that was not embedded whole, or "". unknown: its characters outside the vocabulary.
    """

    pieces: tuple[str, ...]
    rest: str = ""
    unknown: str = ""

    def vector(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the unit vector of the text from those of its pieces, averaged by length.

        Hashes of the parts that the model does not see are added.
        """
        lengths = np.array([len(piece) for piece in self.pieces], np.float32)
        out = (lengths[:, None] * vectors).sum(axis=0) if len(self.pieces) > 1 else vectors[0]
        vector = unit(out)
        if self.unknown:
            share = len(self.unknown) / sum(map(len, self.pieces))
            length = np.float32(np.clip(share, LEAST, MOST))
            vector = unit(vector + length * _hash(_sequences(self.unknown), len(vector)))
        if self.rest:
            vector = unit(vector + np.float32(TRACE) * _hash([self.rest], len(vector)))
        return vector


def cut(text: str, window: int, tokens: Callable[[str], Sequence[Token]]) -> Pieces:
    """Return the pieces of `text` to embed, each of at most `window` tokens.

    tokens: divides a text into tokens.
    """
    excerpt, parts_found = text, tokens(text) if len(text) <= LONG else None
    room = 8 * LIMIT
    while parts_found is None or len(parts_found) > LIMIT:
        excerpt = _telling(text, room)
        parts_found = tokens(excerpt)
        room = room * LIMIT // max(LIMIT, len(parts_found)) - 16
    rest = "" if excerpt is text else text
    unknown = "".join(excerpt[begin:end] for begin, end, known in parts_found if not known)
    starts = [parts_found[i][0] for i in range(0, len(parts_found), window)] or [0]
    borders = [0, *starts[1:], len(excerpt)]
    pieces = tuple(excerpt[a:b] for a, b in zip(borders, borders[1:], strict=False))
    return Pieces(pieces if excerpt else (" ",), rest, unknown)


def joined(groups: Sequence[Pieces], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vector of each text from the vectors of all their pieces, in order."""
    ends = np.cumsum([len(group.pieces) for group in groups])
    blocks = np.split(vectors, ends[:-1])
    return np.stack([group.vector(block) for group, block in zip(groups, blocks, strict=True)])


def _telling(text: str, room: int) -> str:
    """Return about `room` characters of a text: its beginning, its end and some between."""
    units = list(dict.fromkeys(unit.strip() for unit in UNIT.findall(_grams(text))))
    total, edge = sum(map(len, units)), room // 4
    share = (room - 2 * edge) / max(1, total - 2 * edge)
    selected, passed, chosen = [], 0, 0.0
    for unit in units:
        at_edge = passed + len(unit) <= edge or passed >= total - edge
        chosen += 0 if at_edge else len(unit) * share
        if at_edge or chosen >= len(unit):
            selected.append(unit)
            chosen -= 0 if at_edge else len(unit)
        passed += len(unit)
    return " ".join(selected)


def _grams(text: str) -> str:
    """Return `text`, or of a very long one samples at even distances, both ends included."""
    if len(text) <= SEEN:
        return text
    size = SEEN // SAMPLES
    starts = (number * (len(text) - size) // (SAMPLES - 1) for number in range(SAMPLES))
    return "\n".join(text[start : start + size] for start in starts)


def _sequences(text: str) -> list[str]:
    """Return the distinct sequences of one to three characters of a text, and the text."""
    part = text[:HASHED]
    parts_found = {part[i : i + size] for size in (1, 2, 3) for i in range(len(part) - size + 1)}
    return sorted({*parts_found, text})


def _hash(features: Iterable[str], dimension: int) -> NDArray[np.float32]:
    """Return the unit sum of one direction a feature; directions of two are about orthogonal."""
    total = np.zeros(dimension, np.float32)
    for feature in features:
        digest = hashlib.shake_256(feature.encode("utf-8", "surrogatepass")).digest(dimension)
        total += np.frombuffer(digest, np.uint8) - np.float32(127.5)
    return unit(total)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a vector, or (n, dimension) of them, with length 1."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.float32(1e-12)))


#: Bytes of distinct words that are judged together: some forty words, or a few short texts.
SAMPLE = 240
#: The share of a sample, repeats included, in words that the vocabulary lacks: a warning is due.
UNREAD = 0.6
#: Three or more words in a row: prose, not a list of names or code.
PROSE = re.compile(
    r"(?<!\S)(?:[^\W\d_]+[.,;:!?)]{0,2} ){2,}[^\W\d_]+(?=[.,;:!?)]{0,2}(?:\s|$))", re.MULTILINE
)
#: Words below four letters are in the vocabulary by chance.
WORD = re.compile(r"[a-zA-Z][a-z]{3,}")
LETTERS = re.compile(r"[^\W\d_]+")
#: Words of English prose that hardly another language has, and their least share in English.
ENGLISH = re.compile(r"\b(?:the|and|you|your|with|that|this|from|have|are|of)\b", re.IGNORECASE)
LEAST_ENGLISH = 0.02
MESSAGE = (
    "The default embedder reads English, and its vocabulary lacks {:.0%} of these words: such texts"
    " are compared by their characters, hardly by their meaning. For other languages name a"
    " multilingual sentence-transformers model, e.g. embedder="
    '"paraphrase-multilingual-MiniLM-L12-v2" (on the command line --embedder).'
)


class Reader:
    """A judge of the texts of this process; one of them warns, once."""

    warned = False

    def __init__(self, knows: Callable[[str], bool]) -> None:
        """Take a function that tells whether a vocabulary holds a word or character, whole."""
        self._knows = knows
        self._counts = Counter[tuple[str, bool]]()
        self._english = self._words = 0

    def see(self, texts: Iterable[str]) -> None:
        """Warn with EmbedderWarning if the vocabulary lacks most words of the latest texts."""
        for text in texts if not Reader.warned else ():
            self._counts.update(self._judged(text))
            sizes = {one: len(one[0].encode("utf-8", "replace")) for one in self._counts}
            if sum(sizes.values()) < SAMPLE:
                continue
            weights = {one: sizes[one] * count for one, count in self._counts.items()}
            unread = sum(weights[one] for one in weights if not one[1]) / sum(weights.values())
            english = self._english / max(1, self._words)
            self._counts.clear()
            self._english = self._words = 0
            if unread >= UNREAD and english < LEAST_ENGLISH:
                Reader.warned = True
                warnings.warn(MESSAGE.format(unread), EmbedderWarning, stacklevel=2)
                return

    def _judged(self, text: str) -> Iterable[tuple[str, bool]]:
        """Yield the words and signs of a text that tell, each with whether it is known."""
        for sign in set(text) if not text.isascii() else ():
            if not (sign.isascii() or sign.isalnum() or sign.isspace() or self._knows(sign)):
                yield sign, False
        folded = text if text.isascii() else _without_accents(text)
        for word in LETTERS.findall(folded) if not folded.isascii() else ():
            if not word.isascii():
                yield word, False
        for run in PROSE.findall(folded):
            words = LETTERS.findall(run)
            self._words += len(words)
            self._english += len(ENGLISH.findall(run))
            for word in words:
                if WORD.fullmatch(word):
                    yield word.lower(), self._knows(word.lower())


def _without_accents(text: str) -> str:
    """Return `text` as the tokenizer reads it: without accents."""
    parts = unicodedata.normalize("NFD", text)
    return "".join(sign for sign in parts if not unicodedata.combining(sign))
