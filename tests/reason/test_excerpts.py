"""Texts within a budget: what an action refers to stays, whatever has to go."""

import pytest

from ldm.reason.excerpts import Passage, excerpt, fitted, level, referents

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


class TestLevels:
    @pytest.mark.parametrize(
        ("lengths", "room", "most"),
        [([], 10, 0), ([5], 10, 5), ([5, 5], 10, 5), ([2, 9, 9], 10, 4), ([9, 9], 0, 0)],
    )
    def test_are_as_high_as_room_allows(self, lengths: list[int], room: int, most: int) -> None:
        assert level(lengths, room) == most

    def test_leave_short_texts_whole(self) -> None:
        texts = fitted([Passage("short"), Passage("x " * 500), Passage("y " * 500)], 400, "")
        assert texts[0] == "short"
        assert sum(map(len, texts)) <= 400


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
