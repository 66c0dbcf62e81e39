"""The vectors of a memory's texts, computed with a report of progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ldm.embed import Embedder
from ldm.memory.index import IndexedTuple

#: Called with (stage, done, total) to report progress.
OnProgress = Callable[[str, int, int], None]
#: Texts that are embedded at a time.
CHUNK = 256


def embed_texts(
    embedder: Embedder, texts: Sequence[str], on_progress: OnProgress = lambda *_: None
) -> dict[str, NDArray[np.float32]]:
    """Return the vectors of texts."""
    vectors: dict[str, NDArray[np.float32]] = {}
    for start in range(0, len(texts), CHUNK):
        part = texts[start : start + CHUNK]
        vectors.update(zip(part, embedder.embed(part), strict=True))
        on_progress("embed", len(vectors), len(texts))
    return vectors


def embed_rows(
    embedder: Embedder, rows: Sequence[IndexedTuple], on_progress: OnProgress = lambda *_: None
) -> Iterator[NDArray[np.float32]]:
    """Return the goal and the observation vector of each row, (2 · dimension,)."""
    tuples = [row.tuple for row in rows]
    texts = sorted({text for one in tuples for text in (one.goal, one.observation)})
    known = embed_texts(embedder, texts, on_progress)
    return (np.concatenate([known[one.goal], known[one.observation]]) for one in tuples)
