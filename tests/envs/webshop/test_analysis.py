from pathlib import Path

import pytest

from ldm.envs.lucene.search import LONGEST_WORD, STOP_WORDS, stem, tokens
from tests.envs.webshop.conftest import lines


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


WORDS = (
    "us caresses ponies agreed plastered hopping falling filing trekked happy relational assembly"
    " incredibly technology effective adoption controll sky"
)
STEMS = (
    "us caress poni agre plaster hop fall file trek happi relat assembl incred technolog effect"
    " adopt control sky"
)


def test_some_stems() -> None:
    assert [stem(word) for word in WORDS.split()] == STEMS.split()
