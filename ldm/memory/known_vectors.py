"""An embedder that computes each text once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ldm.embed import Embedder
from ldm.memory.index import IndexedTuple

#: Called with (stage, done, total) to report progress.
OnProgress = Callable[[str, int, int], None]
#: Texts that are embedded at a time.
CHUNK = 256


class KnownVectors:
    """An embedder that remembers its results."""

    def __init__(
        self, embedder: Embedder, vectors: Mapping[str, NDArray[np.float32]] | None = None
    ) -> None:
        """Wrap `embedder`; vectors: its known results by text."""
        self.name = embedder.name
        self.dimension = embedder.dimension
        self._embedder = embedder
        self.vectors = dict(vectors or {})

    def prepare(self, texts: Sequence[str], on_progress: OnProgress) -> None:
        """Embed `texts`, in chunks."""
        for start in range(0, len(texts), CHUNK):
            self.embed(texts[start : start + CHUNK])
            on_progress("embed", min(start + CHUNK, len(texts)), len(texts))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, dimension) unit vectors, computing those of unknown texts."""
        new = [text for text in dict.fromkeys(texts) if text not in self.vectors]
        if new:
            self.vectors.update(zip(new, self._embedder.embed(new), strict=True))
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return np.stack([self.vectors[text] for text in texts])

    def embed_rows(
        self, rows: Sequence[IndexedTuple], on_progress: OnProgress = lambda *_: None
    ) -> NDArray[np.float32]:
        """Return (n, 2 · dimension): the goal and the observation vector of each row."""
        texts = {text for row in rows for text in (row.tuple.goal, row.tuple.observation)}
        self.prepare(sorted(texts), on_progress)
        goals = self.embed([row.tuple.goal for row in rows])
        return np.concatenate([goals, self.embed([row.tuple.observation for row in rows])], axis=1)
