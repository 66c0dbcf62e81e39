"""Features: what a state says, and which actions no fact tells apart."""

import pytest

from ldm.reason.features import Situation, key, role_of
from ldm.reason.vocabulary import Vocabulary, between
from ldm.types import Past

ROOM = (
    "You see a mug 1, a drawer 1, a drawer 2, and a desk 1.\nYour task is to: put a hot mug on desk"
)
GOAL = "put a hot mug on desk"
KNOWN = Vocabulary(
    verbs=frozenset({"go", "open", "put", "slice", "prepare"}),
    things=frozenset({"mug", "desk", "drawer", "carrot", "meal"}),
    frames=frozenset({"go to _", "open _", "put _ on _"}),
)


def situation(goal: str = GOAL, past: Past = (), sight: str = ROOM) -> Situation:
    return Situation(KNOWN, goal, "", past, sight)


def row_of(now: Situation, *actions: str) -> list[int]:
    return now.rows(actions).of_action


def test_hashes_do_not_depend_on_the_process() -> None:
    assert key("go to _", 3) == 0xA6A7700912B60603
    assert key("go to _", 4) == 0xA6A7700912B60604


def test_things_that_no_fact_tells_apart_share_a_row() -> None:
    first, second, desk = row_of(situation(), "open drawer 1", "open drawer 2", "open desk 1")
    assert first == second != desk
    opened: Past = ((ROOM, "open drawer 1"),)
    first, second = row_of(situation(past=opened, sight="It is empty."), *DRAWERS)
    assert first != second


DRAWERS = ("open drawer 1", "open drawer 2")


@pytest.mark.parametrize(
    ("goal", "roles"),
    [
        (GOAL, [("desk",), ("mug",)]),  # "hot" stands nowhere but in the goal and its echo
        ("put mug on desk, ORD-123 please", [("desk",), ("mug",)]),
        ("mug. desk", [("desk",), ("mug",)]),
    ],
)
def test_things_of_the_goal(goal: str, roles: list[tuple[str, ...]]) -> None:
    assert situation(goal).roles == roles


def test_role_of_a_name_needs_all_words_of_one_of_the_two() -> None:
    roles = [("red", "box"), ("key",)]
    names = [("box",), ("red", "box", "2"), ("blue", "box"), ("key", "1")]
    assert [role_of(name, roles) for name in names] == [1, 1, 0, 2]


RECIPE = "You read:\n\nDirections:\nslice the carrot\nprepare meal\n\nYou are here."


@pytest.mark.parametrize(
    ("past", "sight", "known"),
    [
        ((("You are here.", "read book"),), RECIPE, True),
        ((("You are here.", "read book"), (RECIPE, "go on")), "You are here.", True),
        # What stays in sight is a state, and so is what was there at first.
        (((RECIPE, "read book"),), RECIPE, False),
        ((("You are here.", "read book"), (RECIPE, "go on")), RECIPE, False),
        ((), RECIPE, False),
    ],
)
def test_what_was_read_on_the_way_is_followed_like_the_goal(
    past: Past, sight: str, known: bool
) -> None:
    now = situation("make it", past, sight)
    assert (("slice", "the", "carrot") in now.instructions) == known
    assert (("carrot",) in now.roles) == known


def test_facts_of_a_structured_text_are_those_that_recur() -> None:
    known = Vocabulary(
        thresholds=(("price", (50.0, 90.0)),), recurring=frozenset({"price<=90", "id=ord-#"})
    )
    assert known.facts('{"price": 60, "id": "ORD-77", "note": "x"}') == ("price<=90", "id=ord-#")
    assert known.facts("no facts") == ()


def test_thresholds_are_between_numbers() -> None:
    assert between([1, 3, 3, 9]) == (2.0, 6.0)
    many = between(list(range(1000)))
    assert len(many) <= 12
    assert list(many) == sorted(many)


def test_pattern_names_the_part_in_the_goal() -> None:
    assert situation().pattern("put mug 1 on drawer 1") == ("put _ on _", ("r2", "drawer"))


def test_surface_is_as_the_latest_text_spells_it() -> None:
    now = situation(past=(("A Red Box.", "look"),), sight="A RED BOX.")
    assert now.surface(("red", "box")) == "RED BOX"
    assert now.surface(("blue", "box")) == "blue box"
