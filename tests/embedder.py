"""A tiny embedder for tests: words with fixed random directions, summed. No model, no wait."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ldm.embed.caching import PROBES
from ldm.types import stable_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray


class BagOfWords:
    """Texts that share words are near each other. calls: the texts of each call, in order."""

    def __init__(self, name: str = "bag-of-words", dimension: int = 24) -> None:
        self.name = name
        self.dimension = dimension
        self.calls: list[tuple[str, ...]] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append(tuple(texts))
        out = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            for word in [*re.findall(r"\w+", text.lower()), ""]:
                out[row] += _direction(word, self.dimension)
        norms: NDArray[np.float32] = np.linalg.norm(out, axis=1, keepdims=True)
        return out / norms


class Counting:
    """An embedder that keeps the texts that it had to compute."""

    def __init__(self, name: str = "bag-of-words", dimension: int = 24) -> None:
        self.words = BagOfWords(name, dimension)
        self.name, self.dimension = name, dimension
        self.computed: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.computed += [text for text in texts if text not in PROBES]
        return self.words.embed(texts)


@cache
def _direction(word: str, dimension: int) -> NDArray[np.float32]:
    generator = np.random.default_rng(stable_seed("word", word))
    return generator.standard_normal(dimension).astype(np.float32)
