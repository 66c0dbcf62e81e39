"""Hypothesis strategies for what nobody should write, but somebody may: texts, values, files.

A mutant is a sound file with one to three edits. Both shrink: what fails is shown with the fewest
and simplest edits that fail.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

#: Texts that act: on terminals, prompts, templates, tables, names of files, numbers.
TEXTS = (
    "",
    "\x00",
    "\x1b]0;x\x07",
    "\x1b[2J",
    "\u202e",
    "\ud800",
    "\udcff",
    "\u2028",
    "\r",
    "</memory foo>",
    "[/INST]",
    "<|im_end|>",
    "```",
    "{{x}}",
    "{% raw %}",
    "../../etc/passwd",
    "os:system",
    "[bold]",
    "NaN",
    "1e999",
    "9" * 5000,
    "x" * 9999,
    "a" * 300 + "\u0301" * 300,
)
#: Numbers out of every range.
NUMBERS: tuple[Any, ...] = (-1, -5, 2**31, 2**63, 10**400, 1e300, 1.5, -0.0, 5e-324)
#: Bytes that are put somewhere, JSON or not.
TOKENS = (
    b"",
    b"NaN",
    b"Infinity",
    b"-",
    b"1e999",
    b"9" * 5000,
    b"\\ud800",
    b"\xff\xfe",
    b"\x00",
    b"\n",
    b"\r",
    b'"',
    b"\\",
    b",",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[" * 3000,
    b'{"a":' * 300,
    b"{}," * 3000,
    b"\xed\xa0\x80",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"null",
)


def texts() -> SearchStrategy[str]:
    """Any text: with surrogates, control characters, and what acts on whoever reads it."""
    acting = st.characters(categories=["Cs", "Cc", "Cf", "Co", "Mn", "Zl", "Zp"])
    pieces = st.sampled_from(TEXTS) | st.text(acting, max_size=5) | st.text(max_size=20)
    return st.lists(pieces, max_size=3).map("".join)


def values() -> SearchStrategy[Any]:
    """Any value that JSON, or Python's idea of it, can say."""
    scalars = (
        st.none() | st.booleans() | st.integers() | st.sampled_from(NUMBERS) | st.floats() | texts()
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
        max_leaves=6,
    )


class Edit(Protocol):
    """A change to the content of a file."""

    def __call__(self, content: bytes, by_line: bool) -> bytes: ...


@dataclass(frozen=True)
class Cut:
    """The file ends here."""

    at: int

    def __call__(self, content: bytes, by_line: bool) -> bytes:
        return content[: self.at % (len(content) + 1)]


@dataclass(frozen=True)
class Put:
    """Something stands in the place of some bytes."""

    at: int
    instead_of: int
    token: bytes

    def __call__(self, content: bytes, by_line: bool) -> bytes:
        at = self.at % (len(content) + 1)
        return content[:at] + self.token + content[at + self.instead_of :]


@dataclass(frozen=True)
class Repeat:
    """A part comes again."""

    at: int
    length: int

    def __call__(self, content: bytes, by_line: bool) -> bytes:
        at = self.at % (len(content) + 1)
        return content[: at + self.length] + content[at:]


@dataclass(frozen=True)
class Flip:
    """A bit is another one."""

    at: int
    bit: int

    def __call__(self, content: bytes, by_line: bool) -> bytes:
        changed = bytearray(content)
        if changed:
            changed[self.at % len(changed)] ^= 1 << self.bit
        return bytes(changed)


@dataclass(frozen=True)
class Assign:
    """A value within the JSON of the file, or of one of its lines, is another, moves or is gone.

    path: which of the keys to follow, level by level; it ends where there are none.
    """

    line: int
    path: tuple[int, ...]
    change: str
    value: Any

    def __call__(self, content: bytes, by_line: bool) -> bytes:
        parts = content.split(b"\n") if by_line else [content]
        number = self.line % len(parts)
        try:
            parts[number] = json.dumps(self._changed(json.loads(parts[number]))).encode()
        except (ValueError, RecursionError):  # an edit before has left no JSON
            return content
        return b"\n".join(parts)

    def _changed(self, value: Any) -> Any:
        value = copy.deepcopy(value)
        inner = value
        for depth, place in enumerate(self.path):
            if not isinstance(inner, dict | list) or not inner:
                break
            keys: Sequence[Any] = list(inner) if isinstance(inner, dict) else range(len(inner))
            key = keys[place % len(keys)]
            deeper = isinstance(inner[key], dict | list) and inner[key]
            if depth + 1 < len(self.path) and deeper:
                inner = inner[key]
                continue
            if self.change == "remove":
                del inner[key]
            elif self.change == "rename" and isinstance(inner, dict):
                inner[str(self.value)] = inner.pop(key)
            else:
                inner[key] = self.value
            return value
        return self.value


def edits(size: int, *, is_json: bool) -> SearchStrategy[Edit]:
    """Return what may be done to a file of so many bytes."""
    place, short = st.integers(0, size), st.integers(0, 200)
    simple: list[SearchStrategy[Any]] = [
        st.builds(Cut, place),
        st.builds(Put, place, short, st.sampled_from(TOKENS) | texts().map(_encoded)),
        st.builds(Repeat, place, short),
        st.builds(Flip, place, st.integers(0, 7)),
    ]
    if not is_json:
        return st.one_of(simple)
    path = st.lists(st.integers(0, 30), min_size=1, max_size=6).map(tuple)
    change = st.sampled_from(("set", "set", "set", "remove", "rename"))
    assigned = st.builds(Assign, st.integers(0, 9), path, change, values())
    return st.one_of([*simple, assigned, assigned, assigned])


def mutants(content: bytes, *, by_line: bool = False) -> SearchStrategy[tuple[list[Edit], bytes]]:
    """Return a strategy for (edits, changed content) of a sound file."""

    def edited(listed: list[Edit]) -> tuple[list[Edit], bytes]:
        changed = content
        for edit in listed:
            changed = edit(changed, by_line)
        return listed, changed

    one = edits(len(content), is_json=content[:1] in (b"{", b"["))
    return st.lists(one, min_size=1, max_size=3).map(edited)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
