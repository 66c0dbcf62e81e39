"""Detours of recorded searches: in a house where a key is looked for, box by box."""

from collections.abc import Iterator, Sequence

import pytest

from ldm.reason.detours import without_detours
from ldm.reason.vocabulary import Lesson, vocabulary_of

GOAL = "bring the key to the gate"
ROOM = "You see box 1, box 2, box 3, box 4, and a gate 1."
FOUND = {
    "look into box 1": "In box 1 is dust.",
    "look into box 2": "In box 2 is a spoon 1.",
    "shake box 2": "Nothing falls out.",
    "look into box 3": "In box 3 is a key 1.",
    "take key 1 from box 3": "You hold it.",
    "open gate 1 with key 1": "Done.",
}


def lessons(
    found: dict[str, str], possible: Sequence[str] | None = None, weight: float = 1.0
) -> Iterator[Lesson]:
    """Yield the steps of two episodes, the second of which searches no more than it needs to."""
    for episode, skipped in ("search", 0), ("short", len(found) - 3):
        past, text = tuple[tuple[str, str], ...](), ROOM
        for action in [*found][skipped:]:
            listed = None if possible is None else (*possible, action)
            yield Lesson(episode, GOAL, "bring", past, text, action, listed, weight)
            past, text = (*past, (text, action)), found[action]


@pytest.mark.parametrize("possible", [None, ("look into box 3",)])
def test_what_was_found_last_could_have_been_looked_into_first(
    possible: Sequence[str] | None,
) -> None:
    recorded = [*lessons(FOUND, possible)]
    better = without_detours(recorded, vocabulary_of(recorded))
    search, rest = better[:5], better[5:]
    assert [(one.action, one.weight) for one in search] == [
        ("look into box 1", 0.49), ("look into box 3", 0.2),
        ("look into box 2", 0.49), ("look into box 3", 0.2), ("look into box 3", 0.2),
    ]  # fmt: skip
    assert [len(one.past) for one in search] == [0, 0, 1, 1, 2]
    assert rest == recorded[3:]


@pytest.mark.parametrize(
    ("found", "possible", "weight"),
    [
        (FOUND, (), 1.0),  # box 3 could not be looked into before
        (FOUND, None, -0.25),  # the search failed
        ({one.replace("with key", "with spoon"): FOUND[one] for one in FOUND}, None, 1.0),
        ({**FOUND, "shake box 2": "Nothing falls out. Lamp 2 is lit.",
          "look into box 3": "In box 3 is a key 1. Lamp 2 is lit."}, None, 1.0),
    ],
)  # fmt: skip
def test_what_is_needed_lasts_or_was_not_possible_stays(
    found: dict[str, str], possible: Sequence[str] | None, weight: float
) -> None:
    recorded = [*lessons(found, possible, weight)]
    assert without_detours(recorded, vocabulary_of(recorded)) == recorded
