"""Process the engine's texts as the published runners do, and name the things in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Literal

BANNER = "-= Welcome to TextWorld, ALFRED! =-"
TASK = "Your task is to: "
NOTHING = "Nothing happens."

#: The two verbs of ALFWorld: games before 0.4 say "put X in/on Y", later ones "move X to Y". Agents
#: and memories built on one silently fail with the other, so both are understood everywhere.
Dialect = Literal["put", "move"]

# "mug 1", or "(object)" in the list of commands that the new grammar's `help` prints.
_THING = r"(?:[a-z]+ \d+|\([a-z]+\))"
_FORMS = {
    "put": (rf"\bput (the )?({_THING}) in/on (the )?({_THING})", r"put \1\2 in/on \3\4"),
    "move": (rf"\bmove (the )?({_THING}) to (the )?({_THING})", r"move \1\2 to \3\4"),
}
_TEMPLATE = re.compile(r"action\s+PutObject\s*\{\s*template\s*::\s*\"(\w+) ")
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


def translate(text: str, dialect: Dialect) -> str:
    """Return `text` (an action or an observation) with the placing verb of `dialect`."""
    other = "move" if dialect == "put" else "put"
    if f"{other} " not in text:  # most texts: looking for a word is faster than for a pattern
        return text
    return re.sub(_FORMS[other][0], _FORMS[dialect][1], text)


def dialect_of(grammar: str) -> Dialect:
    """Return the dialect of a grammar. Raise ValueError if it has neither."""
    template = _TEMPLATE.search(grammar)
    verb = template.group(1) if template else ""
    if verb == "put":
        return "put"
    if verb == "move":
        return "move"
    raise ValueError(f"the grammar places objects with the verb {verb!r}, neither put nor move")
