"""Frames: what an action is apart from what fills its slots."""

import pytest

from ldm.reason.reading import words
from ldm.reason.vocabulary import read_command, stem


@pytest.mark.parametrize(
    ("action", "frame", "fillers"),
    [
        ("take mug 1 from desk 2", "take _ from _", ("mug 1", "desk 2")),
        ("go north", "go _", ("north",)),
        ("look", "look", ()),
        ("use piece of paper", "use _", ("piece of paper",)),
        ("put the red ball in it", "put the _ in it", ("red ball",)),
        (
            '{"tool": "get_order", "args": {"order_id": "ORD-12"}}',
            "tool get_order, args.order_id _",
            ("ORD-12",),
        ),
        ('{"tool": "reply", "args": {"template": "eta"}}', "tool reply, args.template eta", ()),
        ("", "", ()),
    ],
)
def test_an_action_is_a_frame_with_fillers(
    action: str, frame: str, fillers: tuple[str, ...]
) -> None:
    command = read_command(action)
    assert (command.frame, command.fillers) == (frame, tuple(map(words, fillers)))


@pytest.mark.parametrize(
    ("action", "surfaces", "expected"),
    [
        ("take mug 1 from desk 2", ["Cup 3", "shelf 1"], "take Cup 3 from shelf 1"),
        ('{"tool": "get", "id": "ORD-12"}', ["ORD-99"], '{"tool": "get", "id": "ORD-99"}'),
        ("look", [], "look"),
    ],
)
def test_slots_are_filled_as_spelt(action: str, surfaces: list[str], expected: str) -> None:
    assert read_command(action).filled(surfaces) == expected


def test_a_verb_and_its_participle_share_a_stem() -> None:
    assert "sliced".startswith(stem("slice"))
    assert "fried".startswith(stem("fry"))
