"""Texts within a budget, which a model knows or is told: what an action refers to stays."""

import pytest

from ldm.policy import PolicyOptions
from ldm.reason.excerpts import characters, excerpt, referents
from ldm.reason.prompting import Budget, default_tokens
from tests.reason.scripted import Scripted

CODES = [f"B07D6JNW{n:02}" for n in range(10)]
TITLES = [
    f"Halvinde Shea Lip Balm, Long Lasting for Sun and Wind, in a tin, number {n}"
    for n in range(10)
]
RESULTS = "\n".join(
    ["[Back to Search]", "Page 1 (Total results: 50)", "[Next >]"]
    + [
        f"[{code}]\n{title}\n${n}.99"
        for n, (code, title) in enumerate(zip(CODES, TITLES, strict=True))
    ]
)
ROOM = (
    "You are in the middle of a room. Looking quickly around you, you see a bed 1, a desk 1, "
    "a drawer 6, a drawer 5, a drawer 4, a drawer 3, a dresser 1, a garbagecan 1, a shelf 3, "
    "a shelf 2, and a shelf 1."
)


class TestExcerpts:
    def test_are_the_text_where_there_is_room(self) -> None:
        assert excerpt(RESULTS, len(RESULTS)) == RESULTS

    @pytest.mark.parametrize("room", [150, 200, 300, 400, 600, 800, 1000])
    def test_keep_the_product_that_is_clicked_on(self, room: int) -> None:
        for code, number in zip(CODES, range(10), strict=True):
            text = excerpt(RESULTS, room, f"click[{code.lower()}]", "a shaving brush")
            assert len(text) <= room
            assert f"[{code}]" in text
            assert f"${number}.99" in text

    def test_cut_long_titles_before_codes_and_prices(self) -> None:
        text = excerpt(RESULTS, 850)
        for number, code in enumerate(CODES):
            assert f"[{code}]" in text
            assert f"${number}.99" in text

    @pytest.mark.parametrize("place", ["drawer 6", "drawer 3", "shelf 1"])
    def test_keep_the_place_that_is_gone_to_and_what_the_goal_names(self, place: str) -> None:
        text = excerpt(ROOM, 120, f"go to {place}", "put a mug on the bed")
        assert len(text) <= 120
        assert place in text
        assert "bed 1" in text
        assert "garbagecan" not in text

    def test_say_where_something_is_left_out(self) -> None:
        assert excerpt(ROOM, 100, "go to shelf 2").count("[…]") >= 2

    @pytest.mark.parametrize("room", [0, 1, 5, 20, 60])
    def test_never_fail_for_want_of_room(self, room: int) -> None:
        for text in (RESULTS, ROOM, "x" * 500, "", "\n\n"):
            assert len(excerpt(text, room, "go to shelf 2", "a bed")) <= max(room, len("[…]"))


@pytest.mark.parametrize(
    ("action", "names"),
    [
        ("click[B07D6JNW7D]", {"b07d6jnw7d"}),
        ("take mug 2 from desk 1", {"mug 2", "desk 1"}),
        ("craft 1 stick using planks", {"stick", "planks"}),
        ("look", set()),
    ],
)
def test_an_action_refers_to_a_label_to_things_or_to_words(action: str, names: set[str]) -> None:
    assert referents(action) == names


class Sized(Scripted):
    """A model that knows its context."""

    def __init__(self, tokens: int | None) -> None:
        super().__init__(lambda _: "")
        self._tokens = tokens

    def context(self) -> int | None:
        return self._tokens


@pytest.mark.parametrize(
    ("context", "tokens"),
    [(None, 6000), (8192, 6000), (4096, 3000), (2048, 1500), (512, 1000), (131072, 12000)],
)
def test_a_prompt_takes_three_quarters_of_a_context(context: int | None, tokens: int) -> None:
    assert default_tokens(context) == tokens
    assert Budget(Sized(context)).room() == characters(tokens)


def test_a_budget_that_is_given_stands() -> None:
    assert Budget(Sized(131072), 2000).room(0.5) == characters(1000)


def test_a_model_that_knows_nothing_of_its_context_gets_the_usual_budget() -> None:
    assert Budget(Scripted(lambda _: "")).room() == characters(6000)


def test_a_budget_that_no_prompt_fits_is_refused() -> None:
    assert PolicyOptions().prompt_tokens == 0
    with pytest.raises(ValueError, match="1000 or more"):
        PolicyOptions(prompt_tokens=999)
