import pytest

from ldm.worlds.alfworld.games import entity_names, goal_of, observation, opening, translate


def test_an_opening_loses_its_banner_and_its_empty_lines() -> None:
    text = "-= Welcome to TextWorld, ALFRED! =-\n\nA room.\n\nYour task is to: rest."
    assert opening(text) == "A room.\nYour task is to: rest."
    assert opening(opening(text)) == opening(text)
    assert goal_of(text) == "rest."
    assert goal_of("A room.") == ""


@pytest.mark.parametrize(
    ("text", "remainder"),
    [
        ("You arrive at loc 12. On the desk 1, you see a pen.", "On the desk 1, you see a pen."),
        ("You arrive at drawer 1. The drawer 1 is closed.", "The drawer 1 is closed."),
        (opened := "You open the drawer 1. The drawer 1 is open.", opened),
        ("\nNothing happens.", "Nothing happens."),
    ],
)
def test_an_observation_does_not_tell_of_the_arrival(text: str, remainder: str) -> None:
    assert observation(text) == remainder


def test_things_of_a_type_are_numbered_from_the_last_id() -> None:
    names = {"mug_bar_3": "mug 1", "mug_bar_1": "mug 2", "sink_bar_1": "sink 1"}
    names |= {"sink_bar_1_bar_sinkbasin": "sinkbasin 1", "agent1": "agent1"}
    assert entity_names([*names, "mug_bar_1"]) == names


@pytest.mark.parametrize(
    ("put", "move"),
    [("put mug 1 in/on desk 12", "move mug 1 to desk 12"),
     ("You put the mug 1 in/on the desk 1.", "You move the mug 1 to the desk 1."),
     ("go to desk 1", "go to desk 1"), ("move to desk 1", "move to desk 1"),
     ("put mug in/on desk", "put mug in/on desk")],
)  # fmt: skip
def test_the_dialects_translate_into_each_other(put: str, move: str) -> None:
    assert translate(put, "move") == move == translate(move, "move")
    assert translate(move, "put") == put == translate(put, "put")
