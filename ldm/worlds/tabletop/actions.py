"""Results of parsing an action: one pick-and-place, or the reason why it is impossible."""

from __future__ import annotations

import re
from typing import NamedTuple

from ldm.worlds.tabletop.scene import Pose, Poses, Scene

LOOK = "look"
#: Longer texts are no action; patterns are not tried on them.
_LONGEST = 200


class Move(NamedTuple):
    """One pick-and-place. thing: its number. target: of its centre. goal: the place in words."""

    thing: int
    target: Pose
    goal: str


class Refusal(NamedTuple):
    """The reason why an action is impossible, as a sentence."""

    reason: str


NO_ACTION = Refusal("That is not one of the actions here.")


def normal(action: str) -> str:
    """Return an action in lower case, with single blanks and without a full stop."""
    return " ".join(action.lower().split()).rstrip(" .") if len(action) <= _LONGEST else ""


def pattern(form: str) -> re.Pattern[str]:
    """Return the pattern of a form of the grammar, as "put the COLOR block in the PLACE".

    Words in capitals match any words, in groups with their names in lower case. Articles and
    plurals do not count.
    """
    words = []
    for word in form.split():
        if word.isupper():
            words.append(rf"(?P<{word.lower()}>[a-z]+(?: [a-z]+)*)")
        elif word in ("the", "a"):
            words.append("(?:the|a|an)")
        elif word.endswith(("block", "blocks", "bowl")):
            words.append(f"{word.removesuffix('s')}s?")
        else:
            words.append(re.escape(word))
    return re.compile(" ".join(words))


def listing(names: list[str]) -> str:
    """Return names as "a, b and c"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def there_are(what: str, names: list[str]) -> str:
    """Return the sentence that counts and names some things: "There are 2 rings: a and b."."""
    return f"There are {len(names)} {what}: {listing(names)}."


def reachable(scene: Scene, poses: Poses, number: int) -> Refusal | None:
    """Return why the hand cannot pick a thing; None if it can."""
    lower, here = scene.things[number], poses[number]
    for other, thing in enumerate(scene.things):
        there = poses[other]
        above = there.z - here.z > 0.6 * (lower.height + thing.height) / 2
        reach = 0.85 * (lower.half_width + thing.half_width)
        if other != number and above and here.distance(there) < reach:
            return Refusal(f"The {lower.name} is under the {thing.name}.")
    return None
