"""The collection of articles: the one that a title opens, and similar titles.

It replaces Wikipedia's search; `docs/decisions/hotpotqa.md` lists the differences.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import unescape

import numpy as np

from ldm.envs.cache import Compiled, value_at
from ldm.envs.lucene.search import Index, Indexer
from ldm.worlds.hotpotqa.questions import Article
from ldm.worlds.hotpotqa.world import MAY_REFER, SHOWN, Ambiguous, Page, Similar

#: A title counts as this many mentions in the text.
TITLE_WEIGHT = 10
#: With one of these no title matches, as on Wikipedia.
_NO_TITLE = re.compile(r"[\[\]{}<>|]")
_QUALIFIER = re.compile(r" \([^()]*\)$")
_QUOTES = {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "`": "'", "´": "'"}
_DASHES = dict.fromkeys("‐‑‒–—―−", "-")
_TO_ASCII = str.maketrans({**_QUOTES, **_DASHES})
_ENCLOSING = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"))


def _typed(title: str) -> str:
    text = " ".join(unicodedata.normalize("NFC", unescape(title)).replace("_", " ").split())
    return text[:1].upper() + text[1:]


def _without_case(title: str) -> str:
    return _typed(title).lower()


def _without_accents(title: str) -> str:
    letters = unicodedata.normalize("NFKD", _without_case(title).translate(_TO_ASCII))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _without_punctuation(title: str) -> str:
    text = _without_accents(title)
    return " ".join("".join(c if c.isalnum() else " " for c in text).split())


#: Normal forms in which equal titles are the same, the strictest first.
STAGES: tuple[Callable[[str], str], ...] = (
    _typed,
    _without_case,
    _without_accents,
    _without_punctuation,
)


class Compiler:
    """Builder of the arrays of a `Collection` from articles that are added one by one."""

    def __init__(self) -> None:
        self._indexer = Indexer()
        self._texts: dict[str, int] = {}
        self._keys: list[list[int]] = [[] for _ in STAGES]
        self._bases: list[list[int]] = [[] for _ in STAGES]
        self._qualified: list[int] = []
        self._digest = hashlib.sha256()
        self._conflicts: dict[str, None] = {}

    def add(self, article: Article) -> bytes:
        """Add an article and return its line of text; b"" if its title is already there."""
        title, sentences = article
        line = json.dumps([title, sentences], ensure_ascii=False).encode() + b"\n"
        text = _number(line.decode())
        if title in self._texts:
            if self._texts[title] != text:
                self._conflicts[title] = None
            return b""
        self._texts[title] = text
        self._digest.update(line)
        base = _QUALIFIER.sub("", title)
        if base != title:
            self._qualified.append(len(self._texts) - 1)
        for stage, keys, bases in zip(STAGES, self._keys, self._bases, strict=True):
            keys.append(_number(stage(title)))
            if base != title:
                bases.append(_number(stage(base)))
        self._indexer.add(" ".join([*[title] * TITLE_WEIGHT, *sentences]))
        return line

    @property
    def conflicts(self) -> list[str]:
        """The titles that came again with another text, each once."""
        return list(self._conflicts)

    def finish(self) -> tuple[dict[str, np.ndarray], str]:
        """Return the arrays and the digest of all articles."""
        order = np.arange(len(self._texts), dtype=np.int32)
        arrays = self._indexer.finish(order)
        qualified = np.array(self._qualified, dtype=np.int32)
        for number in range(len(STAGES)):
            for name, keys, places in (
                ("title", self._keys[number], order),
                ("base", self._bases[number], qualified),
            ):
                values = np.array(keys, dtype=np.uint64)
                sequence = np.argsort(values, kind="stable")
                arrays[f"{name}_keys_{number}"] = values[sequence]
                arrays[f"{name}_places_{number}"] = places[sequence]
        return arrays, self._digest.hexdigest()[:16]


class Collection:
    """Articles by title. Nothing in it changes, so environments and threads share it."""

    def __init__(self, compiled: Compiled) -> None:
        self._arrays: Mapping[str, np.ndarray] = compiled.arrays
        self._text = compiled.text
        self._index = Index(compiled.arrays)

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, place: int) -> Article:
        ends = self._arrays["text_ends"]
        start = int(ends[place - 1]) if place else 0
        title, sentences = value_at(self._text, start, int(ends[place]))
        return title, tuple(sentences)

    def ask(self, query: str) -> Page | Similar | Ambiguous:
        """Return the article with this title, or the titles to choose from.

        The first of STAGES in which a title equals the query decides, ties by the order of the
        articles; enclosing quotation marks come off if nothing equals it.
        """
        place = self.place(query)
        if place is not None:
            title, sentences = self[place]
            text = "".join(sentences)
            if MAY_REFER not in text:
                return Page.of((text.strip(),))
            return Ambiguous(self._with_similar(self._qualified(title), query))
        meant = () if _NO_TITLE.search(query) else self._qualified(query)
        if len(meant) > 1:
            return Ambiguous(self._with_similar(meant, query))
        return Similar(self._with_similar((), query))

    def place(self, query: str) -> int | None:
        """Return the number of the article that a query opens, or None."""
        if _NO_TITLE.search(query):
            return None
        for text in _unquoted(query):
            for number, stage in enumerate(STAGES):
                key = stage(text)
                for place in self._with_key("title", number, key):
                    if stage(self[place][0]) == key:
                        return place
        return None

    def _qualified(self, name: str) -> tuple[int, ...]:
        """Return the articles called NAME (…) by the first of STAGES that any of them equals."""
        for number, stage in enumerate(STAGES):
            key = stage(name)
            places = self._with_key("base", number, key)
            same = [p for p in places if stage(_QUALIFIER.sub("", self[p][0])) == key]
            if same and key:
                return tuple(same)
        return ()

    def _with_key(self, name: str, number: int, key: str) -> Sequence[int]:
        """Return the numbers of the articles whose key has this hash, in order."""
        keys = self._arrays[f"{name}_keys_{number}"]
        value = np.uint64(_number(key))
        low, high = np.searchsorted(keys, value), np.searchsorted(keys, value, side="right")
        places: list[int] = self._arrays[f"{name}_places_{number}"][low:high].tolist()
        return places if key else ()

    def _with_similar(self, first: Sequence[int], query: str) -> tuple[str, ...]:
        """Return SHOWN titles: of the first articles, then of those with the query's words."""
        places = list(first[:SHOWN])
        for place in self._index.search(query, SHOWN + len(places)):
            if len(places) < SHOWN and place not in places:
                places.append(place)
        return tuple(self[place][0] for place in places)


def _unquoted(query: str) -> Iterator[str]:
    yield query
    text = query.strip()
    for left, right in _ENCLOSING:
        if len(text) > 1 and text.startswith(left) and text.endswith(right):
            yield text[1:-1]


def _number(key: str) -> int:
    """Return 64 bits that depend on the key alone."""
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest())
