"""An embedder that computes each distinct text once and keeps vectors in memory and on disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ldm.embed.forking import ForkLock
from ldm.errors import LdmError

if TYPE_CHECKING:
    from ldm.embed import Embedder
    from ldm.embed.disk import VectorFile

#: Maximum vectors in memory; the texts of an episode repeat a lot.
CACHE_SIZE = 20_000
#: Maximum deviation of a vector's length from 1; others are scaled.
UNIT = 1e-3


class CachingEmbedder:
    """An embedder that asks another only for texts that are new. Thread-safe.

    The other computes for one thread at a time. Texts in the cache wait for none.
    """

    def __init__(
        self,
        source: Embedder,
        stored: VectorFile | None = None,
        *,
        on_disk: bool = True,
        size: int = CACHE_SIZE,
    ) -> None:
        """Wrap `source`.

        stored: keeps vectors beyond this process. on_disk: whether it may. size: the maximum number
            of vectors in memory.
        """
        self._size = size
        self.on_disk = on_disk
        self.source = source
        self.name = source.name
        self._stored = stored
        self._cache: dict[str, NDArray[np.float32]] = {}
        self._computing = ForkLock()

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self.source.dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors; cached ones have the same bits as computed ones.

        Raises LdmError if the source does not return a finite vector for each text.
        """
        known = self._known(texts)
        if len(known) < len(set(texts)):
            with self._computing:
                known |= self._known(text for text in texts if text not in known)
                new = sorted({text for text in texts if text not in known})
                known |= self._vectors(new)
                surplus = len(self._cache) + len(new) - self._size
                for text in list(islice(self._cache, max(0, surplus))):
                    del self._cache[text]
                self._cache |= {text: known[text] for text in new[: self._size]}
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return np.stack([known[text] for text in texts])

    def _known(self, texts: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        cached = ((text, self._cache.get(text)) for text in texts)
        return {text: vector for text, vector in cached if vector is not None}

    def _vectors(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        known = self._stored.read(texts) if self._stored else {}
        new = [text for text in texts if text not in known]
        if new:
            computed = dict(zip(new, self._computed(new), strict=True))
            known.update(computed)
            if self._stored:
                self._stored.write(computed)
        return known

    def _computed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.asarray(self.source.embed(texts), np.float32)
        shape = (len(texts), self.dimension)
        if vectors.shape != shape or not np.isfinite(vectors).all():
            raise LdmError(
                f"The embedder {self.name!r} returned an array of shape {vectors.shape} for"
                f" {len(texts)} texts, or one with infinite values.",
                f"It must return {shape}, a finite vector for each text.",
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if (np.abs(lengths - 1) > UNIT).any():
            vectors = vectors / np.maximum(lengths, np.float32(1e-12))
        return vectors
