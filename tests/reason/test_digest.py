"""What an episode has brought to light is read off its record, short and whole."""

from __future__ import annotations

import pytest

from ldm.reason.digest import Digest, digest_of
from ldm.types import Past

AMPLE = 10_000
OFFICE = (
    "You are in an office. You see a desk 1, a drawer 10, a drawer 2, a drawer 1 and a shelf 1."
)


def episode(opening: str, *steps: tuple[str, str]) -> tuple[Past, str]:
    """The course and the present observation of steps (action, what came of it)."""
    observations = [opening, *(after for _, after in steps)]
    actions = [action for action, _ in steps]
    return tuple(zip(observations[:-1], actions, strict=True)), observations[-1]


def digest(opening: str, *steps: tuple[str, str], room: int = AMPLE, goal: str = "") -> Digest:
    course, now = episode(opening, *steps)
    return digest_of(goal, course, now, room)


class TestPlaces:
    def test_are_those_that_were_seen_with_what_was_there(self) -> None:
        result = digest(
            OFFICE,
            ("go to desk 1", "On the desk 1 you see a pen 1."),
            ("go to drawer 1", "The drawer 1 is closed."),
            ("open drawer 1", "In the drawer 1 you see nothing."),
        )
        assert result.places == (
            "desk 1: On the desk 1 you see a pen 1.",
            "drawer 1: In the drawer 1 you see nothing.",
        )
        assert result.steps == {1, 2, 3}

    def test_that_were_not_seen_are_named_in_the_order_of_their_numbers(self) -> None:
        result = digest(OFFICE, ("go to desk 1", "On the desk 1 you see a pen 1."))
        assert result.unseen == ("drawer 1", "drawer 2", "drawer 10", "shelf 1")

    def test_are_told_what_was_done_there_since(self) -> None:
        result = digest(
            OFFICE,
            ("open drawer 1", "In the drawer 1 you see a pen 1."),
            ("take pen 1 from drawer 1", "You take the pen 1 from the drawer 1."),
            ("close drawer 1", "You close the drawer 1."),
        )
        assert result.places == (
            "drawer 1: In the drawer 1 you see a pen 1.; then take pen 1 from drawer 1; "
            "then close drawer 1",
        )

    def test_keep_their_contents_when_they_are_closed_on_a_later_visit(self) -> None:
        result = digest(
            OFFICE,
            ("open drawer 1", "In the drawer 1 you see a pen 1."),
            ("go to desk 1", "On the desk 1 you see nothing."),
            ("go to drawer 1", "The drawer 1 is closed."),
        )
        assert (
            "drawer 1: In the drawer 1 you see a pen 1.; The drawer 1 is closed." in result.places
        )

    def test_are_told_anew_when_other_things_are_seen_there(self) -> None:
        result = digest(
            OFFICE,
            ("open drawer 1", "In the drawer 1 you see a pen 1."),
            ("go to desk 1", "On the desk 1 you see nothing."),
            ("go to drawer 1", "In the drawer 1 you see a letter 1."),
        )
        assert "drawer 1: In the drawer 1 you see a letter 1." in result.places

    def test_are_not_where_an_action_was_refused(self) -> None:
        result = digest(OFFICE, ("go to desk 1", "Nothing happens."))
        assert result == Digest()


LIST = "[Back]\nPage 1\n[B1]\nA blue shirt\n$5\n[B2]\nA red coat\n$90\n[B3]\nA blue cap\n$7"
SHIRT = "[Back]\n[< Prev]\nsize [S][L]\nA blue shirt\n[Features]\n[Buy]"
FEATURES = "[Back]\n[< Prev]\nIt is made of wool"
#: A product that was opened and read about.
READ = (
    ("search[shirt]", LIST),
    ("click[B1]", SHIRT),
    ("click[Features]", FEATURES),
    ("click[< Prev]", SHIRT),
)


class TestItems:
    def test_are_those_of_a_list_as_the_page_spells_them(self) -> None:
        result = digest("[Search]", ("search[shirt]", LIST))
        assert result.items == ("[B1] A blue shirt $5", "[B2] A red coat $90", "[B3] A blue cap $7")
        assert result.steps == {1}

    def test_say_whether_they_were_opened_and_what_was_read_and_chosen(self) -> None:
        result = digest("[Search]", *READ, ("click[L]", "You have clicked L."))
        assert result.items[0] == (
            "[B1] A blue shirt $5 (opened at step 2, read Features, chose L)"
        )
        assert result.items[1:] == ("[B2] A red coat $90", "[B3] A blue cap $7")

    def test_are_left_when_the_list_is_seen_again(self) -> None:
        result = digest(
            "[Search]",
            ("search[shirt]", LIST),
            ("click[B1]", SHIRT),
            ("click[< Prev]", LIST),
            ("click[B3]", SHIRT),
            ("click[S]", "You have clicked S."),
        )
        assert result.items[0].endswith("(opened at step 2)")
        assert result.items[2].endswith("(opened at step 4, chose S)")

    def test_that_were_opened_lack_words_of_the_goal_that_others_have(self) -> None:
        result = digest(
            "[Search]",
            *READ,
            ("click[< Prev]", LIST),
            ("click[B3]", "[Back]\nA blue cap\nsize [M]"),
            goal="a woollen red coat of wool in size L below 90 dollars",
        )
        # "woollen" and "dollars" stand nowhere, and 90 is a price: they tell no item from another.
        assert result.items == (
            "[B1] A blue shirt $5 (opened at step 2, read Features; not seen there: red, coat)",
            "[B2] A red coat $90",
            "[B3] A blue cap $7 (opened at step 6; not seen there: red, coat, wool, l)",
        )

    @pytest.mark.parametrize("back", ["click[Back]", "search[coat]"])
    def test_lack_what_only_other_pages_say(self, back: str) -> None:
        """The page of the search says the goal; one hit alone is no list."""
        goal, home = "buy a red coat of size 10.5", "[Search]\nbuy a red coat of size 10.5"
        page = home if back == "click[Back]" else "[Back]\n[B9]\nA red coat, size 10.5"
        steps = [("search[shirt]", LIST), ("click[B1]", SHIRT), (back, page)]
        assert digest(home, *steps, goal=goal).items[0] == (
            "[B1] A blue shirt $5 (opened at step 2; not seen there: red, coat)"
        )
        steps += [("search[coat]", LIST.replace("cap", "cap, 10.5"))]
        assert digest(home, *steps, goal=goal).items[0].endswith("not seen there: red, coat)")

    def test_are_still_open_where_the_same_was_said_of_another(self) -> None:
        choice = ("click[L]", "You have clicked L.")
        steps = [("search[shirt]", LIST), ("click[B1]", SHIRT), choice, ("click[< Prev]", LIST)]
        cap = SHIRT.replace("shirt", "cap")
        result = digest("[Search]", *steps, ("click[B3]", cap), choice)
        assert result.items[2].endswith("(opened at step 5, chose L)")

    def test_are_still_open_where_nothing_came_of_an_action(self) -> None:
        steps = [("search[shirt]", LIST), ("click[B1]", SHIRT), ("click[X]", "Invalid action!")]
        result = digest("[Search]", *steps, ("click[L]", "You have clicked L."))
        assert result.items[0].endswith("(opened at step 2, chose L)")

    def test_that_have_no_room_are_those_that_the_goal_does_not_mean(self) -> None:
        steps = (("search[shirt]", LIST), ("click[B2]", "[Back]\nA red coat"))
        result = digest("[Search]", *steps, room=103, goal="buy a blue shirt")
        assert result.items == (
            "[B1] A blue shirt $5",
            "[B2] A red coat $90 (opened at step 2; not seen there: blue, shirt)",
            "(1 other)",
        )
        assert result.steps == {1}

    def test_are_not_told_where_there_is_no_room(self) -> None:
        steps = (("go to desk 1", "On the desk 1 you see a pen 1."), ("look", LIST))
        assert digest(OFFICE, *steps, room=30) == Digest()


def test_prose_without_numbers_or_lists_has_nothing_to_tell() -> None:
    steps = (("get 4 string", "Got 4 string"), ("inventory", "Inventory: [string] (4)"))
    assert digest("Crafting commands:\ncraft 1 wool using 4 string", *steps) == Digest()
