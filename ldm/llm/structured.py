"""Replies of a given form: JSON Schemas out, validated values in, and the repair of a bad one."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ldm.llm import Message

FENCE = re.compile(r"```[a-zA-Z]*\s*\n?(.*?)```", re.DOTALL)
THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
#: Of a bad reply, this much is shown to the model that should repair it.
SHOWN = 4000
UNKNOWN_TO_STRICT = ("default", "title")


@dataclass(frozen=True)
class Form:
    """A type that replies must fit. adapter: pydantic's view of it. schema: as JSON Schema."""

    adapter: TypeAdapter[Any]
    schema: dict[str, Any]

    def read(self, text: str) -> tuple[Any, str]:
        """(value, "") of a reply, whatever surrounds its JSON; (None, what is wrong) of a bad one.

        Fences, thoughts and prose around the object are allowed, and so are numbers in quotes.
        """
        complaint = "there is no JSON object in it"
        for number, candidate in enumerate(_candidates(text)):
            try:
                return self.adapter.validate_python(candidate), ""
            except ValidationError as error:
                if number == 0:
                    complaint = _told(error)
        return None, complaint

    def write(self, value: Any) -> str:
        """The value as JSON: the same text however the reply was laid out."""
        return self.adapter.dump_json(value).decode()


def form_of(schema: Any) -> Form:
    """The form of a type. Raises ValueError where JSON would not write it as an object."""
    return _form_of(schema)


@lru_cache(maxsize=1024)
def _form_of(schema: Any) -> Form:
    adapter = TypeAdapter(schema)
    described = _undocumented(adapter.json_schema())
    if described.get("type") != "object" and "$ref" not in described:
        raise ValueError(f"{schema} is not written as a JSON object; wrap it in one")
    return Form(adapter, described)


def _undocumented(node: Any) -> Any:
    """The schema without docstrings of classes: they are for who reads the code, not for models."""
    if isinstance(node, list):
        return [_undocumented(item) for item in node]
    if not isinstance(node, dict):
        return node
    left_out = {"description"} if node.get("type") == "object" else set()
    return {k: _undocumented(v) for k, v in node.items() if k not in left_out}


def strict_schema(
    schema: dict[str, Any], left_out: Collection[str] = ()
) -> tuple[dict[str, Any], bool]:
    """The schema as servers want it for strict decoding, and whether it can be had so.

    left_out: keywords that the server refuses.

    There every object closes its list of fields and requires them all; a mapping with free keys
    cannot be said that way.
    """
    free = False

    def walk(node: Any) -> Any:
        nonlocal free
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        fields = node.get("properties")
        walked = {
            k: walk(v)
            for k, v in node.items()
            if k not in {*UNKNOWN_TO_STRICT, *left_out, "properties"}
        }
        if isinstance(fields, dict):
            walked["properties"] = {name: walk(field) for name, field in fields.items()}
            walked["required"] = list(fields)
            walked["additionalProperties"] = False
        elif node.get("type") == "object":
            free = True
        return walked

    walked = walk(schema)
    return (schema, False) if free else (walked, True)


def asking_for_json(messages: Sequence[Message], schema: dict[str, Any]) -> tuple[Message, ...]:
    """The messages, with the schema put into words for servers that do not enforce it."""
    wish = (
        "Reply with one JSON object and nothing else, no explanation around it. "
        f"It has to be valid against this JSON Schema:\n{json.dumps(schema, ensure_ascii=False)}"
    )
    *before, last = messages
    if last.role == "user":
        return (*before, Message("user", f"{last.content}\n\n{wish}"))
    return (*messages, Message("user", wish))


def asking_for_repair(
    messages: Sequence[Message], reply: str, complaint: str
) -> tuple[Message, ...]:
    """The messages of the one further request after a reply that does not fit."""
    shown = reply[:SHOWN] or "(nothing)"
    wish = (
        f"That reply cannot be used: {complaint}. Give the whole reply again, corrected, as one "
        "JSON object of the form that was asked for."
    )
    return (*messages, Message("assistant", shown), Message("user", wish))


def _candidates(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object in a reply, the likeliest first."""
    plain = THINKING.sub("", text)
    decoder = json.JSONDecoder(strict=False)  # a line break within a string is no reason to refuse
    for part in (plain, *FENCE.findall(plain)):
        start = part.find("{")
        while start >= 0:
            try:
                value, end = decoder.raw_decode(part, start)
            except (ValueError, RecursionError):
                end = start + 1
            else:
                if isinstance(value, dict):
                    yield value
            start = part.find("{", end)


def _told(error: ValidationError) -> str:
    """What is wrong, by field, without what was there: the model sees its own reply anyway."""
    problems = error.errors(include_url=False, include_input=False)[:5]
    return "; ".join(
        f"{'.'.join(str(part) for part in one['loc']) or 'the object'}: {one['msg']}"
        for one in problems
    )
