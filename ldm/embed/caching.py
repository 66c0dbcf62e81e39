"""An embedder that computes each distinct text once and keeps vectors in memory and on disk."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ldm.embed.disk import VectorFile

#: Maximum vectors in memory; the texts of an episode repeat a lot.
CACHE_SIZE = 20_000


class Encoder(Protocol):
    """Compute vectors, called by one thread at a time."""

    name: str
    dimension: int

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, dimension) unit vectors, each with the same bits as for its text alone."""
        ...


class CachingEmbedder:
    """An embedder that asks an encoder only for texts that are new. Thread-safe."""

    def __init__(self, encoder: Encoder, stored: VectorFile | None = None) -> None:
        """Wrap `encoder`. stored: keeps vectors beyond this process."""
        self.encoder = encoder
        self.name = encoder.name
        self.dimension = encoder.dimension
        self._stored = stored
        self._cache: dict[str, NDArray[np.float32]] = {}
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors; cached ones have the same bits as computed ones."""
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        with self._lock:
            new = sorted({text for text in texts if text not in self._cache})
            if len(self._cache) + len(new) > CACHE_SIZE:
                self._cache.clear()
                new = sorted(set(texts))
            if new:
                self._cache.update(self._vectors(new))
            return np.stack([self._cache[text] for text in texts])

    def _vectors(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        known = self._stored.read(texts) if self._stored else {}
        new = [text for text in texts if text not in known]
        if new:
            computed = dict(zip(new, self.encoder.encode(new), strict=True))
            known.update(computed)
            if self._stored:
                self._stored.write(computed)
        return known
