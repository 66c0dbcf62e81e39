"""A request to a model, and the record of a call: a line of llm.jsonl."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, Literal

from ldm.llm import Message, Sampling
from ldm.types import Count, Seconds, Usage, stable_hash

#: Ways to get replies in JSON: by a schema, as any object, or by the prompt alone.
Mode = Literal["json_schema", "json_object", "prompt"]
#: Finish reasons of a reply that was cut off, by its bound or a filter, in each server's words.
CUT = re.compile("length|max_(?:output_)?tokens|context_window|filter|safety", re.IGNORECASE)
#: The error of a call without a usable response that may be billed all the same.
LOST = "lost"
SAMPLING = tuple(field.name for field in fields(Sampling))


@dataclass(frozen=True, slots=True)
class Request:
    """A caller's request, independent of the server's dialect.

    schema: the JSON Schema of the reply, None for free text.
    """

    model: str
    messages: tuple[Message, ...]
    schema: dict[str, Any] | None = None
    sampling: Sampling = Sampling()  # noqa: RUF009 - frozen
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """A hash of everything that may change the reply, and of nothing about the server."""
        sampling = self.sampling
        content = {  # like `asdict`, which takes ten times as long
            "model": self.model,
            "messages": [{"role": m.role, "content": m.content} for m in self.messages],
            "schema": self.schema,
            "sampling": {name: getattr(sampling, name) for name in SAMPLING},
            "max_tokens": self.max_tokens,
            "stop": self.stop,
        }
        return stable_hash(content, length=32)


@dataclass(frozen=True, slots=True)
class Call:
    """A line of llm.jsonl.

    role: the caller; "probe" is the client itself. finish: the server's reason for the end.
    mode: the way to get JSON, "" for free text.
    error: "", "context" for a request too long for the model's context, which costs nothing, or
    LOST, of which `text` says why and `usage` is the maximum.
    attempts: requests until the response. seconds: from the first request to the response.
    estimated: usage is a guess. paid: False if the reply was copied from the cache of another run.
    thoughts: what the model thought before it, where the server shows it. thinking: the tokens that
    it spent on that, shown or not.
    """

    key: str
    role: str
    request: Request
    text: str
    finish: str
    usage: Usage
    mode: str = ""
    error: str = ""
    attempts: Count = 1
    seconds: Seconds = 0.0
    estimated: bool = False
    paid: bool = True
    thoughts: str = ""
    thinking: Count = 0

    @property
    def cut(self) -> bool:
        """Whether the reply ended before its answer did, or before it began."""
        return not self.error and (CUT.search(self.finish) is not None or not self.text.strip())

    @property
    def whole(self) -> str:
        """The reply without a last line that was cut off: half an action is another action."""
        return self.text.rpartition("\n")[0] if self.cut else self.text
