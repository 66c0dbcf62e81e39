"""What the package asks of a language model. Implementations follow in this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ldm.types import Usage


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a reply is drawn; every field is part of a recording's key.

    sample: tells repeated draws of the same request apart.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's reply, with what it cost."""

    text: str
    usage: Usage


class LLM(Protocol):
    """A language model behind any service."""

    name: str

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        sampling: Sampling = ...,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        """The reply to `messages`; with a JSON `schema`, a text that is JSON of that schema."""
        ...
