"""What completes a sub-goal must have been seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ldm.reason import Notes
from ldm.reason.progress import in_words, noted
from ldm.reason.proofs import proves, shown_by
from ldm.types import History
from tests.cases import cases

SEEN = (
    "On the desk 1, you see a mug 2, and a pen 1.",
    "[B07D6JNW7D]\nPocket T-Shirt for Men, Slim Fit\n$12.99",
)


@pytest.mark.parametrize(
    ("proof", "proven"),
    cases(__file__, "most_of_its_words_and_all_numbers_stood_in_one_observation"),
)
def test_most_of_its_words_and_all_numbers_stood_in_one_observation(
    proof: str, proven: bool
) -> None:
    assert shown_by(proof, SEEN) is proven


@pytest.mark.parametrize(
    ("proof", "proven"),
    [
        ("On the desk 1, you see a mug 2", True),
        ("a pen 1 on the desk 1", False),  # it was seen, and has nothing to do with a mug
        ("a mug 3", False),
    ],
)
def test_a_proof_is_about_the_sub_goal(proof: str, proven: bool) -> None:
    assert proves(proof, "find a mug; a mug is in view", SEEN) is proven


PARTS = ("find a mug", "clean it", "put it on the shelf")
NOTES = Notes("to do: find a mug; clean it; put it on the shelf", sub_goals=PARTS)


class TestTicks:
    def test_need_a_proof(self) -> None:
        notes = noted(NOTES, "", "", 2, 4)
        assert notes.proofs == ()
        assert notes.assessment == NOTES.assessment
        proven = noted(NOTES, "", "mug 2", 1, 4)
        assert proven.proofs == ("mug 2",)
        assert proven.assessment == "complete: find a mug; to do: clean it; put it on the shelf"

    def test_stay_without_another_proof(self) -> None:
        proven = noted(NOTES, "", "mug 2", 1, 4)
        assert noted(proven, "", "", 1, 5) == replace(proven, steps=5)
        assert noted(proven, "", "", 3, 5).proofs == ("mug 2",)

    def test_are_taken_back_where_a_sub_goal_turns_out_not_to_be_complete(self) -> None:
        proven = noted(NOTES, "", "mug 2", 2, 4)
        assert noted(proven, "", "", 0, 6).assessment == NOTES.assessment


@pytest.mark.parametrize(
    ("assessment", "words"),
    cases(__file__, "a_history_that_no_model_has_written_is_no_text_for_a_model"),
)
def test_a_history_that_no_model_has_written_is_no_text_for_a_model(
    assessment: str, words: bool
) -> None:
    history = History(assessment, "go to desk 1")
    assert in_words(history) == (history.text if words else "")
