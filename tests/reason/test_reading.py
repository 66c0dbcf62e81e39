"""Reading: words, lines, facts of structured texts, names in them, and the frames of actions."""

import pytest

from ldm.reason import reading
from ldm.reason.reading import words
from ldm.reason.vocabulary import read_command, stem


def test_lines_say_one_thing_each() -> None:
    text = "You see a mug 1, and a cup 2.\nIt costs 3.50; it is open: yes"
    assert reading.lines(text) == (
        ("you", "see", "a", "mug", "1"),
        ("and", "a", "cup", "2"),
        ("it", "costs", "3.50"),
        ("it", "is", "open"),
        ("yes",),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": {"b": [1, 2, 1]}, "c": null}', "a.b=1; a.b=2; c=null"),
        ('Answer:\n{"ok": true}', "ok=true"),
        ("Price: 40 EUR\nnothing here\n- size = L", "price=40 EUR; size=L"),
        ("| id | price |\n|---|---|\n| A | 4 |\n| B | 9 |", "id=A; price=4; id=B; price=9"),
        ("tool,ok,price\norders,true,40\nThree, two, one.", "tool=orders; ok=true; price=40"),
        ("<order id='7'><item>mug</item><item size='L'>cup</item></order>",
         "order.id=7; order.item=mug; order.item.size=L; order.item.text=cup"),
        ('level=warn price=40 note="late again"', "level=warn; price=40; note=late again"),
        ("You see a box.", ""), ("<order>unclosed", ""), ("<b>A</b> box", ""),
        ("Hello, dear, you", ""), ("<a>" * 9_000 + "</a>" * 9_000, ""),
    ],
)  # fmt: skip
def test_leaves(text: str, expected: str) -> None:
    assert "; ".join(f"{path}={value}" for path, value in reading.leaves(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("EUR 1,234.50", 1234.5), ("40 days", 40), ("-3 %", -3), ("3d", None)]
)
def test_numbers_may_have_a_unit(text: str, expected: float | None) -> None:
    assert reading.number(text) == expected


def test_prose_is_what_stands_around_json() -> None:
    assert reading.prose('Answer: {"ok": true} Done.') == "Answer:  Done."
    assert reading.prose("No JSON {here") == "No JSON {here"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ORD-15914", ("ord-#",)),
        ("finn906@mail.example", ("#@mail.example",)),
        ("ann@mail.example", ("#@mail.example",)),
        ("drawer 3", ("drawer",)),
        ("12", ("12",)),
        ("green ball", ("green", "ball")),
    ],
)
def test_identifiers_are_known_by_their_form(name: str, expected: reading.Words) -> None:
    assert reading.shape(reading.words(name)) == expected


def test_a_mention_has_two_words_in_a_row_of_a_longer_name() -> None:
    line = reading.words("the old red box is here")
    assert reading.mentioned(("red", "box"), line) == (2, 2)
    assert reading.mentioned(("large", "red", "box"), line) == (2, 2)
    assert reading.mentioned(("red", "ball"), line) is None
    assert reading.mentioned(("ball",), line) is None


def test_instances_are_names_with_their_numbers() -> None:
    text = "You see a mug 2, a mug 1, and a mug."
    assert reading.instances(("mug",), text) == (("mug", "2"), ("mug", "1"), ("mug",))


def test_words_beside_the_goal_leave_its_echo_out() -> None:
    text = "You see a mug 1.\nYour task is to: put a hot mug in cabinet."
    beside = reading.words_beside("put a hot mug in cabinet", text)
    assert "hot" not in beside
    assert {"mug", "task"} <= beside


def test_paragraphs_are_divided_by_blank_lines() -> None:
    text = "Directions:\nslice the carrot\n  \nYou are here."
    directions, place = reading.paragraphs(text)
    assert directions == (("directions",), ("slice", "the", "carrot"))
    assert place == (("you", "are", "here"),)
    assert reading.paragraphs('{"a": 1}') == ()


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
