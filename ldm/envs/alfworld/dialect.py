"""The two verbs of ALFWorld: games before 0.4 say "put X in/on Y", later ones "move X to Y".

Agents and memories built on one silently fail with the other, so both are understood everywhere.
"""

from __future__ import annotations

import re
from typing import Literal

Dialect = Literal["put", "move"]

# "mug 1", or "(object)" in the list of commands that the new grammar's `help` prints.
_THING = r"(?:[a-z]+ \d+|\([a-z]+\))"
_FORMS = {
    "put": (rf"\bput (the )?({_THING}) in/on (the )?({_THING})", r"put \1\2 in/on \3\4"),
    "move": (rf"\bmove (the )?({_THING}) to (the )?({_THING})", r"move \1\2 to \3\4"),
}
_TEMPLATE = re.compile(r"action\s+PutObject\s*\{\s*template\s*::\s*\"(\w+) ")


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
