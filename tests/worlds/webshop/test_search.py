import math
import random
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from ldm.worlds.lucene import search
from ldm.worlds.lucene.search import (
    LONGEST_WORD,
    STOP_WORDS,
    TOP,
    Index,
    Indexer,
    decoded_length,
    encoded_length,
    stem,
    tokens,
)
from ldm.worlds.webshop.catalogue import Catalogue
from tests.worlds.webshop.conftest import lines

WORDS = [f"word{i}" for i in range(60)]


def index_of(texts: list[str]) -> Index:
    indexer = Indexer()
    for text in texts:
        indexer.add(text)
    return Index(indexer.finish(np.arange(len(texts), dtype=np.int32)))


def plainly(documents: list[Counter[str]], query: str) -> list[tuple[int, float]]:
    """BM25 written down directly, with lossy lengths, in double precision."""
    mean = sum(d.total() for d in documents) / len(documents)
    scores: dict[int, float] = defaultdict(float)
    for term, times in Counter(tokens(query)).items():
        having = [(number, d) for number, d in enumerate(documents) if term in d]
        idf = math.log(1 + (len(documents) - len(having) + 0.5) / (len(having) + 0.5))
        for number, document in having:
            length = decoded_length(encoded_length(document.total()))
            norm = search.K1 * (1 - search.B + search.B * length / mean)
            scores[number] += times * idf * document[term] / (document[term] + norm)
    return sorted(scores.items(), key=lambda one: (-one[1], one[0]))


def texts_of(number: int, seed: int) -> list[str]:
    """Documents whose words follow Zipf's law."""
    rng = random.Random(seed)
    weights = [1 / (i + 1) for i in range(len(WORDS))]
    return [" ".join(rng.choices(WORDS, weights, k=rng.randint(5, 60))) for _ in range(number)]


def test_rankings_and_scores_are_lucenes(catalogue: Catalogue, golden: Path) -> None:
    asins = [catalogue[i].asin for i in range(len(catalogue))]
    for row in lines(golden / "search.jsonl"):
        ranking = catalogue.index.scored(row["query"])
        assert [asins[number] for number, _ in ranking] == row["asins"], row["query"]
        assert [score for _, score in ranking] == row["raw_scores"], row["query"]


def test_lengths_are_exact_up_to_40_and_coarser_beyond() -> None:
    decoded = [decoded_length(encoded_length(n)) for n in range(100)]
    assert decoded[:41] == list(range(41))
    assert decoded[41] == 40
    assert all(0 <= n - d <= n // 8 for n, d in enumerate(decoded))
    assert decoded == sorted(decoded)
    assert encoded_length(2**31 - 1) == 255


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_the_formula(seed: int) -> None:
    texts = texts_of(200, seed)
    index = index_of(texts)
    documents = [Counter(tokens(text)) for text in texts]
    for text in texts[:20]:
        query = " ".join(text.split()[:6])
        ranking = index.scored(query)
        expected = plainly(documents, query)[:TOP]
        assert len(ranking) == len(expected)
        assert [score for _, score in ranking] == pytest.approx([score for _, score in expected])


def test_leaving_out_what_cannot_win_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = texts_of(3000, 7)
    index = index_of(texts)
    queries = [" ".join(text.split()[:8]) for text in texts[:60]]
    plain = [index.scored(query, 10) for query in queries]
    monkeypatch.setattr(search, "_LONG", 1)
    assert [index.scored(query, 10) for query in queries] == plain


def test_equal_scores_come_by_rank() -> None:
    indexer = Indexer()
    for _ in range(5):
        indexer.add("same words")
    index = Index(indexer.finish(np.array([4, 2, 0, 1, 3], dtype=np.int32)))
    assert index.search("words") == (2, 3, 1, 4, 0)
    assert index.search("words", 2) == (2, 3)


@pytest.mark.parametrize("query", ["", " ", "the of and", "unheard", "!!!"])
def test_a_query_without_known_words_finds_nothing(query: str) -> None:
    assert index_of(["red lamp", "blue lamp"]).search(query) == ()


def test_documents_are_counted_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = texts_of(100, 3)
    whole = index_of(texts)
    monkeypatch.setattr(search, "_BATCH", 7)
    monkeypatch.setattr(search, "_CACHED_TEXTS", 5)
    parts = index_of(texts)
    assert whole.arrays.keys() == parts.arrays.keys()
    for name, values in whole.arrays.items():
        assert np.array_equal(values, parts.arrays[name]), name


def test_words_are_analysed_as_by_lucene(golden: Path) -> None:
    for row in lines(golden / "analyzer_words.jsonl"):
        assert tokens(row["word"]) == row["tokens"], row["word"]


def test_texts_and_queries_are_analysed_as_by_lucene(golden: Path) -> None:
    for row in lines(golden / "search_docs.jsonl")[::4]:
        assert tokens(row["contents"]) == row["tokens"], row["id"]
    for row in lines(golden / "search.jsonl"):
        assert tokens(row["query"]) == row["tokens"], row["query"]


@pytest.mark.parametrize(
    ("text", "terms"),
    [("women's Shoes", ["women", "shoe"]), ("men’s", ["men"]), ("men`s", ["men", "s"]),
     ("the a-b", ["b"]), ("title:shoes under_score_word", ["title:sho", "under_score_word"]),
     ("60.00 dollars, 1,234 x", ["60.00", "dollar", "1,234", "x"]),
     ("café 16×24", ["café", "16", "24"]), ("東京 ★ ☆ 👨\u200d💼", ["東", "京", "★", "👨\u200d💼"]),
     ("", [])],
)  # fmt: skip
def test_some_words(text: str, terms: list[str]) -> None:
    assert tokens(text) == terms


def test_long_words_are_cut() -> None:
    assert [len(token) for token in tokens("x" * (2 * LONGEST_WORD + 3))] == [255, 255, 3]


def test_there_are_33_stop_words() -> None:
    assert len(STOP_WORDS) == 33
    assert tokens(" ".join(STOP_WORDS)) == []


INFLECTED = (
    "us caresses ponies agreed plastered hopping falling filing trekked happy relational assembly"
    " incredibly technology effective adoption controll sky"
)
STEMS = (
    "us caress poni agre plaster hop fall file trek happi relat assembl incred technolog effect"
    " adopt control sky"
)


def test_some_stems() -> None:
    assert [stem(word) for word in INFLECTED.split()] == STEMS.split()
