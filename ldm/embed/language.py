"""Judge whether an English model can read a text, by the words that its vocabulary lacks.

A WordPiece vocabulary holds the frequent words of its language whole, and divides others into
pieces. Of English prose, tool results, code and logs it holds most words of letters; of other
Latin languages few, and of other scripts none. Names such as saltshaker are in none, so a text with
the small words of English counts as English.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable

from ldm.errors import EmbedderWarning

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
LEAST = 0.02
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
            if unread >= UNREAD and english < LEAST:
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
