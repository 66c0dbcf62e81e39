"""Ways: what leads back to something new is no repetition, and nobody goes in circles for ever."""

import pytest

from ldm.reason.relevance import learn
from ldm.reason.vocabulary import Lesson, vocabulary_of
from ldm.reason.ways import Ways
from ldm.types import Past

HALL = "You are in the hall.\nA way leads north.\nA way leads east.\nThere is a closed box."
OPEN = HALL.replace("closed", "open")
ATTIC = "You are in the attic.\nA way leads south.\nThere is dust.\nThere is a chair."
STUDY = "You are in the study.\nA way leads west.\nThere is a desk.\nThere is a lamp."
NORTH, BACK = (HALL, "go north"), (ATTIC, "go south")
EAST, WEST = (HALL, "go east"), (STUDY, "go west")


@pytest.mark.parametrize(
    ("past", "sight", "repeats"),
    [
        ((NORTH, BACK), OPEN, {"go north": 1, "go east": 0}),  # the hall, known by most lines
        ((NORTH, BACK, NORTH), ATTIC, {"go south": 0}),  # the way to what was not tried
        ((EAST, WEST, NORTH, BACK), HALL, {"go north": 2, "go east": 2}),  # nothing is left
        (((HALL, "open box"), ("Empty.", "go north"), BACK), HALL, {"go north": 1}),  # a message
        ((*(NORTH, BACK) * 4, NORTH), ATTIC, {"go south": 5}),  # the hall was left in vain
    ],
)
def test_repeats_of_moves(past: Past, sight: str, repeats: dict[str, float]) -> None:
    now = Ways(past, sight, ("go north", "go south", "go east", "go west"))
    assert {move: now.repeats(move) for move in repeats} == repeats


def test_moves_are_learnt_and_nothing_is_done_for_ever() -> None:
    steps = (HALL, "open box"), (OPEN, "go north"), BACK, EAST, (STUDY, "take lamp"), WEST
    lessons = [Lesson(str(i), "goal", "", steps[:n], *steps[n]) for i in range(4) for n in range(6)]
    # No episode goes on after "go west".
    assert vocabulary_of(lessons).moves == {"go north", "go south", "go east"}
    rule, past = learn(lessons), list[tuple[str, str]]()
    for _ in range(30):
        now = rule.situation("goal", "", tuple(past), ATTIC)
        past.append((ATTIC, rule.rank(now, ("go south", "sing", "dance")).ranked()[0][0]))
    done = [action for _, action in past]
    assert min(map(done.count, ("go south", "sing", "dance"))) >= 5
