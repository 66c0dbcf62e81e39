"""Process the engine's texts as the published runners do, and name the things in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

BANNER = "-= Welcome to TextWorld, ALFRED! =-"
TASK = "Your task is to: "
NOTHING = "Nothing happens."
#: The answer to `help`, which the new grammar has.
HELP = (
    "Available commands:\n"
    "  look:                             look around your current location\n"
    "  inventory:                        check your current inventory\n"
    "  go to (receptacle):               move to a receptacle\n"
    "  open (receptacle):                open a receptacle\n"
    "  close (receptacle):               close a receptacle\n"
    "  take (object) from (receptacle):  take an object from a receptacle\n"
    "  move (object) to (receptacle):  place an object in or on a receptacle\n"
    "  examine (something):              examine a receptacle or an object\n"
    "  use (object):                     use an object\n"
    "  heat (object) with (receptacle):  heat an object using a receptacle\n"
    "  clean (object) with (receptacle): clean an object using a receptacle\n"
    "  cool (object) with (receptacle):  cool an object using a receptacle\n"
    "  slice (object) with (object):     slice an object using a sharp object\n"
)

_ARRIVAL = re.compile(r"\AYou arrive at [^.\n]+\. ")


def opening(feedback: str) -> str:
    """Return the engine's introduction without its banner: the room, then a line with the task."""
    paragraphs = [part.strip() for part in feedback.split("\n\n")]
    return "\n".join(part for part in paragraphs if part and part != BANNER)


def observation(feedback: str) -> str:
    """Return an answer of the engine without the sentence on where the agent has arrived.

    The old grammar names a location there ("You arrive at loc 5."), the new one the receptacle,
    which the next sentence names again.
    """
    return _ARRIVAL.sub("", feedback.strip())


def goal_of(text: str) -> str:
    """Return the text after "Your task is to: " on its line, or ""."""
    _, marker, rest = text.partition(TASK)
    return rest.split("\n", 1)[0].strip() if marker else ""


def entity_names(ids: Iterable[str]) -> dict[str, str]:
    """Return the readable name of each thing of a game: "mug_bar__plus_02…" → "mug 1".

    Things of a type are numbered by their ids in descending order, as the published games are. An
    id without a position ("agent1") keeps its own name.
    """
    types = {name: _type_of(name) for name in sorted(set(ids))}
    numbers = Counter(kind for kind in types.values() if kind)
    names = {}
    for name, kind in types.items():
        names[name] = f"{kind} {numbers[kind]}" if kind else name
        numbers[kind] -= 1
    return names


def _type_of(name: str) -> str:
    kind, separator, _ = name.partition("_bar_")
    if not separator:
        return ""
    return kind + "basin" if "basin" in name else kind
