"""Structured replies: JSON Schemas for servers, validation of replies, the repair of a bad one."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ldm.llm import Message
from ldm.text import value_in

#: Characters of a bad reply that are shown to the model for repair.
REPAIR_EXCERPT = 4000
#: Maximum characters read of a reply, and places at which an object may begin.
LONGEST_REPLY = 2**20
MOST_OBJECTS = 200
UNKNOWN_TO_STRICT = ("default", "title")


@dataclass(frozen=True)
class Form:
    """A type that replies must fit, with its pydantic adapter and its JSON Schema."""

    adapter: TypeAdapter[Any]
    schema: dict[str, Any]

    def read(self, text: str) -> tuple[Any, str]:
        """Return (value, "") of a reply, or (None, complaint).

        Fences and prose around the object are allowed, and so are numbers in quotes.
        """
        complaint = "there is no JSON object in it"
        for number, candidate in enumerate(_candidates(text)):
            try:
                return self.adapter.validate_python(candidate), ""
            except ValidationError as error:
                if number == 0:
                    complaint = _error_message(error)
        return None, complaint

    def write(self, value: Any) -> str:
        """Return the value as JSON in a fixed layout."""
        return self.adapter.dump_json(value).decode()


def _form_of(schema: Any) -> Form:
    """Return the form of a type. Raises ValueError if it is not written as a JSON object."""
    adapter = TypeAdapter(schema)
    json_schema = _without_docstrings(adapter.json_schema())
    if json_schema.get("type") != "object" and "$ref" not in json_schema:
        raise ValueError(f"{schema} is not written as a JSON object; wrap it in one")
    return Form(adapter, json_schema)


form_of: Callable[[Any], Form] = lru_cache(maxsize=1024)(_form_of)


def _without_docstrings(node: Any) -> Any:
    """Return the schema without docstrings of classes, which address readers of the code."""
    if isinstance(node, list):
        return [_without_docstrings(item) for item in node]
    if not isinstance(node, dict):
        return node
    excluded = {"description"} if node.get("type") == "object" else set()
    return {k: _without_docstrings(v) for k, v in node.items() if k not in excluded}


def strict_schema(
    schema: dict[str, Any], excluded: Collection[str] = ()
) -> tuple[dict[str, Any], bool]:
    """Return the schema for strict decoding and True, or the schema itself and False.

    In strict decoding every object lists and requires all its fields, which a mapping with free
    keys cannot. excluded: keywords that the server refuses.
    """
    has_free_keys = False

    def walk(node: Any) -> Any:
        nonlocal has_free_keys
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        fields = node.get("properties")
        walked = {
            k: walk(v)
            for k, v in node.items()
            if k not in {*UNKNOWN_TO_STRICT, *excluded, "properties"}
        }
        if isinstance(fields, dict):
            walked["properties"] = {name: walk(field) for name, field in fields.items()}
            walked["required"] = list(fields)
            walked["additionalProperties"] = False
        elif node.get("type") == "object":
            has_free_keys = True
        return walked

    walked = walk(schema)
    return (schema, False) if has_free_keys else (walked, True)


def with_json_instruction(
    messages: Sequence[Message], schema: dict[str, Any]
) -> tuple[Message, ...]:
    """Return the messages with the schema in words, for servers that do not enforce schemas."""
    instruction = (
        "Reply with one JSON object and nothing else, no explanation around it. "
        f"It has to be valid against this JSON Schema:\n{json.dumps(schema, ensure_ascii=False)}"
    )
    *before, last = messages
    if last.role == "user":
        return (*before, Message("user", f"{last.content}\n\n{instruction}"))
    return (*messages, Message("user", instruction))


def repair_messages(messages: Sequence[Message], reply: str, complaint: str) -> tuple[Message, ...]:
    """Return the messages of the one further request after an invalid reply."""
    excerpt = reply[:REPAIR_EXCERPT] or "(nothing)"
    instruction = (
        f"That reply cannot be used: {complaint}. Give the whole reply again, corrected, as one "
        "JSON object of the form that was asked for."
    )
    return (*messages, Message("assistant", excerpt), Message("user", instruction))


def _candidates(text: str) -> Iterator[dict[str, Any]]:
    """Yield every JSON object in a reply, the likeliest first."""
    plain, end = text[:LONGEST_REPLY], 0
    for _ in range(MOST_OBJECTS):
        if (start := plain.find("{", end)) < 0:
            return
        value, end = value_in(plain, start) or (None, start + 1)
        if isinstance(value, dict):
            yield value


def _error_message(error: ValidationError) -> str:
    """Return the problems by field, without the values, which the model sees in its reply."""
    problems = error.errors(include_url=False, include_input=False)[:5]
    return "; ".join(
        f"{'.'.join(str(part) for part in one['loc']) or 'the object'}: {one['msg']}"
        for one in problems
    )
