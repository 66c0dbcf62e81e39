"""A language model that follows a script, for tests of agents and reasoners."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack

from ldm.errors import ContextTooLong
from ldm.llm import GREEDY, CallOptions, Completion, Message, Sampling
from ldm.llm.answers import form_of
from ldm.types import Usage

#: A reply: its text, or an object that is written as JSON.
Reply = str | Mapping[str, Any]


class ScriptedModel:
    """Replies as the script says, and keeps the requests.

        model = ScriptedModel(["Act: look", "Act: take mug"], then="Act: stop")

    As with a real model, a reply ends at a stop sequence, and is malformed if it does not fit the
    schema. requests: (messages, sampling) of each request; schemas: its schema or None.
    """

    name = "scripted"

    def __init__(
        self,
        script: Iterable[Reply] | Callable[[Sequence[Message], Sampling], Reply],
        *,
        then: Reply | None = None,
        room: int | None = None,
    ) -> None:
        """Take the replies in order, or a function of messages and sampling.

        then: the reply to all further requests; None makes them fail. room: maximum characters of a
        request; a longer one raises ContextTooLong.
        """
        if not callable(script):
            replies = iter(script)
            self._reply: Callable[[Sequence[Message], Sampling], Reply | None] = (
                lambda messages, sampling: next(replies, then)
            )
        else:
            self._reply = script
        self._room = room
        self.requests: list[tuple[Sequence[Message], Sampling]] = []
        self.schemas: list[type[Any] | None] = []

    def complete(self, messages: Sequence[Message], **options: Unpack[CallOptions]) -> Completion:
        """Return the scripted reply; a token is four characters."""
        size = sum(len(message.content) for message in messages)
        if self._room is not None and size > self._room:
            raise ContextTooLong("There is no room for the request.", "Shorten it.")
        schema, sampling = options.get("schema"), options.get("sampling", GREEDY)
        self.requests.append((messages, sampling))
        self.schemas.append(schema)
        reply = self._reply(messages, sampling)
        assert reply is not None, "the script has no further reply"
        text = reply if isinstance(reply, str) else json.dumps(reply)
        for mark in options.get("stop", ()):
            text = text.partition(mark)[0]
        usage = Usage(1, size // 4, 0, len(text) // 4)
        if schema is None:
            return Completion(text, usage)
        value, _ = form_of(schema).read(text)
        return Completion(text, usage, value, malformed=value is None)
