"""Texts longer than a model's window: cut at token borders, embedded piece by piece, averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray


def cut(text: str, window: int, offsets: Callable[[str], Sequence[tuple[int, int]]]) -> list[str]:
    """Return `text`, cut into pieces of at most `window` tokens.

    offsets: returns where each token of a text begins and ends.
    """
    if len(text) <= window:  # a token has at least one character
        return [text or " "]
    places = offsets(text)
    starts = [places[i][0] for i in range(0, len(places), window)] or [0]
    borders = [0, *starts[1:], len(text)]
    return [text[a:b] for a, b in zip(borders, borders[1:], strict=False)]


def joined(groups: Sequence[Sequence[str]], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a unit vector for each group of pieces: their vectors averaged by length."""
    out = np.empty((len(groups), vectors.shape[1]), np.float32)
    start = 0
    for row, group in enumerate(groups):
        lengths = np.array([len(piece) for piece in group], np.float32)
        block = vectors[start : start + len(group)]
        out[row] = (lengths[:, None] * block).sum(axis=0) if len(group) > 1 else block[0]
        start += len(group)
    norms = np.linalg.norm(out, axis=1, keepdims=True)
    out /= np.maximum(norms, np.float32(1e-12))
    return out
