"""Read actions of any world as frames with slots: "take _ from _" filled by "mug 1" and "desk 2".

An action is a command in words, a call verb[argument], or a tool call in JSON. A frame knows how it
is written, so that other fillers can be put into its slots.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ldm.reason.reading import FUNCTION_WORDS, TOKEN, Words, leaves, words

#: Words of a value of a call above which it is free text: a slot, not part of the frame.
FREE_TEXT = 6
#: Words above which an action is free text, which is not filled anew.
PROSE = 20

_PRESS = re.compile(r"\s*(\w+)\s*\[(.*)\]\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """An action: its frame, the fillers of its slots, and where they stand in its text.

    spans: (start, end) of each filler; () if they are not all found.
    """

    text: str
    frame: str
    fillers: tuple[Words, ...]
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def verb(self) -> str:
        """Its first word."""
        return self.frame.partition(" ")[0]

    def filled(self, surfaces: Sequence[str]) -> str:
        """Return its text with other fillers, given as they are spelt."""
        if not self.spans:
            return self.text
        text, end = "", 0
        for (start, stop), surface in zip(self.spans, surfaces, strict=True):
            text, end = text + self.text[end:start] + surface, stop
        return text + self.text[end:]


@lru_cache(200_000)
def read_command(action: str) -> Command:
    """Read an action; a slot is a run of words that are not closed-class, but for the first."""
    if action.lstrip()[:1] == "{":
        return _call(action)
    if match := _PRESS.fullmatch(action):
        label = words(match[2])
        return Command(action, f"{match[1].lower()} [_]", (label or ("",),), (match.span(2),))
    tokens = [(m[0], *m.span()) for m in TOKEN.finditer(action.lower())]
    if len(tokens) > PROSE:
        return Command(action, " ".join(word for word, *_ in tokens), ())
    frame = [tokens[0][0]] if tokens else []
    fillers: list[Words] = []
    spans: list[tuple[int, int]] = []
    run: list[tuple[str, int, int]] = []
    for token in (*tokens[1:], ("the", 0, 0)):
        if token[0] in FUNCTION_WORDS and not (token[0] == "of" and run):
            if run:
                fillers.append(tuple(word for word, _, _ in run))
                spans.append((run[0][1], run[-1][2]))
                frame.append("_")
                run = []
            frame.append(token[0])
        else:
            run.append(token)
    return Command(action, " ".join(frame[:-1]), tuple(fillers), tuple(spans))


def _call(action: str) -> Command:
    """Read a JSON call: names and free texts are fillers, all else is the frame."""
    frame, fillers = [], []
    spans: list[tuple[int, int]] = []
    for path, value in leaves(action):
        read = words(value)
        if read and (any(map(str.isdigit, value)) or len(read) > FREE_TEXT):
            frame.append(f"{path} _")
            fillers.append(read)
            start = action.find(value, spans[-1][1] if spans else 0)
            spans.append((start, start + len(value)))
        else:
            frame.append(f"{path} {value}")
    named = [piece for piece in frame if not piece.endswith(" _")] or frame
    return Command(
        action,
        ", ".join([*named, *(p for p in frame if p not in named)]),
        tuple(fillers),
        tuple(spans) if all(start >= 0 for start, _ in spans) else (),
    )


def stem(verb: str) -> str:
    """Return the beginning that a verb shares with its participle: "slice", "sliced"."""
    return verb[:-1] if len(verb) > 2 and verb[-1] in "ey" else verb
