"""WordLlama: a text's vector is the mean of its tokens' vectors, looked up in a table.

The package `wordllama` has table and tokenizer. Its code is not imported, because it configures
Python's logging, and its loader looks for the tokenizer on the network.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldm.embed import STATIC, installed
from ldm.embed.pieces import LIMIT, Token, cut
from ldm.errors import LdmError

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
INSTALL = 'Install it: pip install "ldm-memory[static]".'
#: The token whose vector stands for a text without tokens.
UNKNOWN = 0


class StaticEmbedder:
    """The table of WordLlama, with 32,000 tokens. Immutable and thread-safe."""

    name = STATIC

    def __init__(self) -> None:
        """Read the table. Raises LdmError if the package is missing or damaged."""
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        folder = installed("wordllama")
        if folder is None:
            raise LdmError(
                f"The embedder {STATIC!r} needs a package that is not installed.", INSTALL
            )
        try:
            [table] = load_file(folder / WEIGHTS).values()
            self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        except Exception as error:  # both libraries raise kinds of their own, even bare ones
            raise LdmError(
                f"The embedder {STATIC!r} in {folder} cannot be loaded: {error}",
                "Install the version that ldm is tested with: pip install wordllama==0.4.0.post1.",
            ) from error
        self._table = table.astype(np.float32)
        self.dimension = int(table.shape[1])

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts of any length."""
        out = np.empty((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            # One by one: the tokenizer's own threads cannot survive a fork.
            group = cut(text, LIMIT, self._divided)
            piece = group.pieces[0] if text else ""
            ids = self._tokenizer.encode(piece, add_special_tokens=False).ids
            vector = self._table[ids or [UNKNOWN]].mean(axis=0)
            out[row] = group.marked(vector / max(np.linalg.norm(vector), np.float32(1e-12)))
        return out

    def _divided(self, text: str) -> list[Token]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return [
            (*at, one != UNKNOWN) for at, one in zip(encoding.offsets, encoding.ids, strict=True)
        ]
