"""Numbers with their nouns and short names, as messages say them."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: "1 goal", "2 goals", "1,200 goals".

    plural: where it is not the noun with an s, or with "ies" for a final consonant and y.
    """
    return f"{number:,} {noun if number == 1 else plural or _plural(noun)}"


def short(name: str) -> str:
    """Return a name without its module: "ToyEnv" for "tests.toy:ToyEnv"."""
    return name.rpartition(":")[2]


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"
