"""Steps that the official environment took with what it was served, and scores that it gave."""

from collections import Counter
from pathlib import Path

import pytest

from ldm.worlds.hotpotqa import library
from ldm.worlds.hotpotqa.library import MOST_PARTIAL, exact, f1, normalized, reward
from ldm.worlds.hotpotqa.world import MAY_REFER, SHOWN, Page, Reading, apply_action
from tools.hotpotqa.goldens import Served, compare, lines


def test_every_official_step_replays(golden: Path) -> None:
    comparisons = list(compare(golden))
    different = [one for one in comparisons if one.category == "different"]
    assert not different, different[0]
    counts = Counter(one.category for one in comparisons)
    assert counts.total() == 3_365
    assert counts["equal"] >= 2_850, counts
    assert counts["backslash"] <= 110, counts


def test_another_answer_is_noticed(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ldm.worlds.hotpotqa.world.SHOWN", 4)
    assert any(one.category == "different" for one in compare(golden))


def test_every_official_page_is_divided_alike(golden: Path) -> None:
    counts = Counter[str]()
    for row in lines(golden / "pages.jsonl"):
        if "exception" in row or any("\\" in text for text in row["paragraphs"]):
            counts["backslash"] += 1
            continue
        counts["equal"] += 1
        if any(MAY_REFER in text for text in row["paragraphs"]):
            assert row["ambiguous"]
            continue
        page = Page.of(tuple(row["paragraphs"]))
        assert list(page.sentences) == row["sentences"], row["title"]
        assert " ".join(page.sentences[:SHOWN]) == row["observation"]
    assert counts["equal"] > 100
    assert counts["backslash"] < 20


def test_a_miss_keeps_what_is_open() -> None:
    page = Page.of(("One two three. Four five six.",))
    reading = apply_action("lookup[four]", Reading(page), Served([]).ask).reading
    missed = Served([{"kind": "results", "titles": ["A", "B's", 'C "d"']}]).ask
    reply = apply_action("search[x]", reading, missed)
    assert reply.text == "Could not find x. Similar: ['A', \"B's\", 'C \"d\"']."
    assert reply.reading == reading
    assert apply_action("lookup[four]", reading, missed).text == "No more results.\n"
    assert apply_action("lookup[Four]", reading, missed).text == "(Result 1 / 1) Four five six.."


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
