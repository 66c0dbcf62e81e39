from pathlib import Path

import pytest

from ldm.worlds.hotpotqa import library
from ldm.worlds.hotpotqa.library import MOST_PARTIAL, exact, f1, normalized, reward
from tools.hotpotqa.goldens import lines


def test_all_official_pairs_have_the_same_scores(golden: Path) -> None:
    count = 0
    for row in lines(golden / "pairs.jsonl"):
        prediction, gold = row["prediction"], row["gold"]
        assert normalized(prediction) == row["normalized_prediction"]
        assert normalized(gold) == row["normalized_gold"]
        assert exact(prediction, gold) == row["em"]
        scores = (row["precision"], row["recall"], row["f1"])
        assert library.precision_recall_f1(prediction, gold) == scores, row
        count += 1
    assert count == 500


@pytest.mark.parametrize(
    ("text", "words"),
    [("The Beatles", "beatles"), ("A.", ""), ("co-operate", "cooperate"), ("A-ha", "aha"),
     ("  An  apple, a day ", "apple day"), ("Zürich–Basel", "zürich–basel")],
)  # fmt: skip
def test_words_that_are_compared(text: str, words: str) -> None:
    assert normalized(text) == words
    assert normalized(words) == words


def test_yes_and_no_are_right_or_wrong_as_a_whole() -> None:
    assert f1("yes, both", "yes") == 0
    assert f1("no answer", "noanswer") == 0
    assert f1("yes", "Yes!") == 1


def test_only_an_exact_match_earns_everything() -> None:
    assert f1("Smith John", "John Smith") == 1
    assert reward("Smith John", "John Smith", partial=True) == MOST_PARTIAL
    assert reward("Smith John", "John Smith", partial=False) == 0
    assert reward("john SMITH.", "John Smith", partial=True) == 1
    assert reward("John", "John Smith", partial=True) == pytest.approx(2 / 3)
    # Two answers of the official set have no words but articles and punctuation.
    assert reward("the", "The The", partial=True) == 1
    assert f1("the", "The The") == 0
