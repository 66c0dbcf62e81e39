"""A request to a model, and the record of a call: a line of llm.jsonl."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from ldm.llm import Message, Sampling
from ldm.types import Usage, stable_hash

#: How a server is made to answer in JSON: by the schema, as any object, or by asking for it.
Mode = Literal["json_schema", "json_object", "prompt"]
SAMPLING = tuple(field.name for field in fields(Sampling))


@dataclass(frozen=True, slots=True)
class Request:
    """What the caller asked for, whatever it looks like on the wire.

    schema: the JSON Schema that the reply must fit, None for free text.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    model: str
    messages: tuple[Message, ...]
    schema: dict[str, Any] | None = None
    sampling: Sampling = Sampling()  # noqa: RUF009 - frozen
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Equal for equal requests: all that may change the reply, and nothing of the server."""
        sampling = self.sampling
        said = {  # as `asdict` has it, which takes ten times as long
            "model": self.model,
            "messages": [{"role": m.role, "content": m.content} for m in self.messages],
            "schema": self.schema,
            "sampling": {name: getattr(sampling, name) for name in SAMPLING},
            "max_tokens": self.max_tokens,
            "stop": self.stop,
        }
        return stable_hash(said, length=32)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. finish: why it ended, in the server's word. estimated: usage is a guess."""

    text: str
    finish: str
    usage: Usage
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A line of llm.jsonl.

    role: who called; "probe" is the client itself. mode: how JSON was asked for, "" for free text.
    error: "" or "context", for a request that the model has no room for (it costs nothing).
    attempts: requests sent until an answer came. seconds: from the first of them to the answer.
    paid: False where the reply was copied from the cache of another run.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    key: str
    role: str
    request: Request
    text: str
    finish: str
    usage: Usage
    mode: str = ""
    error: str = ""
    attempts: int = 1
    seconds: float = 0.0
    estimated: bool = False
    paid: bool = True
