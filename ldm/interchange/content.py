"""Read the content of a message: a text, or parts of which some are texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message; images and sounds have no text."""

    type: str
    text: str | None = None


#: None where a message is a call of a tool only.
Content = str | tuple[Part, ...] | None


def text_of(content: str | Sequence[Part] | None) -> str:
    """Return the text of a message; a part that is no text is named in brackets."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(f"[{part.type}]" if part.text is None else part.text for part in content)
