"""Texts within a budget of characters: passages that an action or the goal refers to are kept.

Short texts stay whole, long ones share the rest of the room evenly. Within a text, long lines are
cut first: codes and prices are short. If that does not suffice, the least relevant pieces go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ldm.reason.pages import content_words, read_call, stem, tokens
from ldm.reason.reading import FUNCTION_WORDS, numbered, words

#: Minimum characters of a token on average: product codes and numbers are cut small.
TOKEN = 3
#: Characters below which a line is not cut while there are pieces to leave out.
LINE = 48
#: Minimum lines of a page, whose parts are lines and not sentences.
PAGE = 4
GAP = "[…]"
#: Characters of the gaps before and after a piece.
MARKS = 2 * len(GAP) + 3

#: Long lines are divided after commas, semicolons and ends of sentences.
_PIECE = re.compile(r"(?<=[,;.!?])\s+")
#: A line that is a label and nothing else; the lines below belong to it: a title, a price.
_LABEL = re.compile(r"\[[^\[\]]+\]")


@dataclass(frozen=True, slots=True)
class Passage:
    """A text to be shown. action: the next one, whose names in the text must remain."""

    text: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, kept or dropped as a whole: lines, or a part of line number `line`."""

    lines: tuple[str, ...]
    line: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def characters(tokens: int) -> int:
    """Return the minimum number of characters of so many tokens."""
    return tokens * TOKEN


def level(lengths: Sequence[int], room: int) -> int:
    """Return the maximum characters of each text so that all fit `room`."""
    left, count = max(0, room), len(lengths)
    for length in sorted(lengths):
        if length * count > left:
            return left // count
        left -= length
        count -= 1
    return max(lengths, default=0)


def fitted(passages: Sequence[Passage], room: int, goal: str) -> list[str]:
    """Return the texts of passages within `room` characters altogether."""
    most = level([len(one.text) for one in passages], room)
    return [excerpt(one.text, most, one.action, goal) for one in passages]


def excerpt(text: str, room: int, action: str = "", goal: str = "") -> str:
    """Return `text`, or its most relevant parts within `room` characters.

    action: the next one; the parts that it refers to have priority. goal: parts with its words come
    next.
    """
    if len(text) <= room:
        return text
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    most = level([len(line) for line in lines], room - len(lines))
    if len(lines) > 1 and most >= LINE:
        return "\n".join(_cut(line, most) for line in lines)
    pieces = [
        Piece(tuple(_cut(line, LINE) for line in group), number)
        for number, group in enumerate(_groups(lines))
    ]
    if len(lines) < PAGE:
        pieces = [
            Piece((_cut(part, room - MARKS),), number)
            for number, line in enumerate(lines)
            for part in _PIECE.split(line)
        ]
    return _joined(pieces, _chosen(pieces, room, action, goal))


def without_goal(opening: str, goal: str) -> str:
    """Return the opening without the lines that tell the goal, and without empty ones."""
    task = goal.casefold().rstrip(". ")
    lines = [line for line in opening.splitlines() if task not in line.casefold()]
    return "\n".join(line for line in lines if line.strip())


def referents(action: str) -> frozenset[str]:
    """Return the names that an action refers to, in lower case: a label, numbered things, or words.

    A label or thing is one name of several words; other actions have one name for each content word
    after the verb.
    """
    if call := read_call(action):
        return frozenset({call.label})
    rest = action.partition(" ")[2]
    things = frozenset(" ".join(entity) for entity in numbered(rest))
    return things or frozenset(w for w in words(rest) if w not in FUNCTION_WORDS and w.isalpha())


def _groups(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of a page in groups: a line that is a label, with those after it."""
    groups: list[list[str]] = []
    open_group = False
    for line in lines:
        alone = _LABEL.fullmatch(line) is not None
        if alone or "[" in line or not open_group:
            groups.append([line])
            open_group = alone
        else:
            groups[-1].append(line)
    return groups


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: max(0, length - 1)].rstrip(" ;,") + "…"


def _chosen(pieces: Sequence[Piece], room: int, action: str, goal: str) -> list[int]:
    """Return the places of the pieces that stay, in their order."""
    names, goal_words = referents(action), content_words(goal)

    def rank(place: int) -> tuple[int, int, int]:
        text = pieces[place].text
        if _names(text, names):
            return 0, 0, place
        return (1, 0, place) if place == 0 else (2, -len(goal_words & content_words(text)), place)

    left, chosen = room - len(GAP) - 1, []
    for place in sorted(range(len(pieces)), key=rank):
        cost = len(pieces[place].text) + len(GAP) + 2
        if cost <= left:
            chosen.append(place)
            left -= cost
    return sorted(chosen)


def _names(text: str, names: frozenset[str]) -> bool:
    padded = f" {' '.join(stem(word) for word in tokens(text))} "
    return any(f" {' '.join(stem(w) for w in tokens(name))} " in padded for name in names if name)


def _joined(pieces: Sequence[Piece], places: Sequence[int]) -> str:
    """Return the pieces at `places` with their line breaks, and marks for the others."""
    parts: list[str] = []
    before = -1
    for place in places:
        same_line = parts and pieces[place].line == pieces[before].line
        parts.append(" " if same_line else "\n" if parts else "")
        parts.append(f"{GAP} " if place != before + 1 else "")
        parts.append(pieces[place].text)
        before = place
    if before != len(pieces) - 1:
        parts.append(f" {GAP}" if parts else GAP)
    return "".join(parts)
