"""Hypothesis strategies for hostile texts, values, and mutants of sound files."""

import json
import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

#: Characters that no output may hold.
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
#: Texts that act: on terminals, prompts, templates, tables, names of files, numbers.
TEXTS = (
    *("", "\x00", "\x1b]0;x\x07", "\x1b[2J", "\u202e", "\ud800", "\udcff", "\u2028", "\r"),
    *("</memory foo>", "[/INST]", "<|im_end|>", "```", "{{x}}", "{% raw %}", "[bold]"),
    *("../../etc/passwd", "os:system", "NaN", "1e999", "9" * 5000, "x" * 9999),
    "a" * 300 + "\u0301" * 300,
)
#: Numbers out of every range.
NUMBERS: tuple[Any, ...] = (-1, -5, 2**31, 2**63, 10**400, 1e300, 1.5, -0.0, 5e-324)
#: Bytes that are put somewhere, JSON or not.
TOKENS = (
    *(b"", b"NaN", b"Infinity", b"-", b"1e999", b"9" * 5000, b"\\ud800", b"\xff\xfe", b"\x00"),
    *(b"\n", b"\r", b'"', b"\\", b",", b"{", b"}", b"[", b"]", b"null", b"[" * 3000),
    *(b'{"a":' * 300, b"{}," * 3000, b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xef\xbb\xbf"),
)


def texts() -> SearchStrategy[str]:
    """Any text: with surrogates, control characters, and what acts on whoever reads it."""
    acting = st.characters(categories=["Cs", "Cc", "Cf", "Co", "Mn", "Zl", "Zp"])
    pieces = st.sampled_from(TEXTS) | st.text(acting, max_size=5) | st.text(max_size=20)
    return st.lists(pieces, max_size=3).map("".join)


def values() -> SearchStrategy[Any]:
    """Any value that JSON, or Python's idea of it, can say."""
    numbers = st.integers() | st.sampled_from(NUMBERS) | st.floats()
    return st.recursive(
        st.none() | st.booleans() | numbers | texts(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
        max_leaves=6,
    )


@st.composite
def mutants(draw: Callable[[Any], Any], content: bytes, by_line: bool) -> bytes:
    """The content of a sound file after one to three edits."""
    kinds = ["cut", "put", "repeat", "flip"]
    if content[:1] in (b"{", b"["):
        kinds += ["assign"] * 4
    for _ in range(draw(st.integers(1, 3))):
        kind, at = draw(st.sampled_from(kinds)), draw(st.integers(0, len(content)))
        if kind == "cut":
            content = content[:at]
        elif kind == "put":
            end = at + draw(st.integers(0, 200))
            content = content[:at] + draw(st.sampled_from(TOKENS)) + content[end:]
        elif kind == "repeat":
            content = content[: at + draw(st.integers(0, 200))] + content[at:]
        elif kind == "flip":
            flipped = bytes(one ^ 1 << draw(st.integers(0, 7)) for one in content[at : at + 1])
            content = content[:at] + flipped + content[at + 1 :]
        else:
            lines = content.split(b"\n") if by_line else [content]
            number = draw(st.integers(0, len(lines) - 1))
            lines[number] = draw(_assigned(lines[number]))
            content = b"\n".join(lines)
    return content


@st.composite
def _assigned(draw: Callable[[Any], Any], text: bytes) -> bytes:
    """JSON in which a value is another one, moved or gone."""
    try:
        root = [json.loads(text)]
    except (ValueError, RecursionError):  # an edit before has left no JSON
        return text
    inner: Any = root
    key: Any = 0
    for _ in range(draw(st.integers(1, 6))):
        if not isinstance(inner[key], dict | list) or not inner[key]:
            break
        inner = inner[key]
        key = draw(st.sampled_from(list(inner) if isinstance(inner, dict) else range(len(inner))))
    change = draw(st.sampled_from(("set", "set", "set", "remove", "rename")))
    if change == "remove":
        del inner[key]
    elif change == "rename" and isinstance(inner, dict):
        inner[draw(texts())] = inner.pop(key)
    else:
        inner[key] = draw(values())
    return json.dumps(root[0] if root else None).encode()
