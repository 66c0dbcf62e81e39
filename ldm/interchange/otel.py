"""Read OpenTelemetry spans of language-model calls, by the conventions for GenAI.

A file is OTLP as JSON, as the collector's file exporter and SDKs write it, one object or one per
line ({"resourceSpans": …}), or a span per line as Python's SDK prints it ({"context", "attributes",
…}). A span of a call holds all messages that the model was given (gen_ai.input.messages) and what
it answered (gen_ai.output.messages): of each conversation (gen_ai.conversation.id, else the trace)
the span with most of them is the episode. Answers of tools after it are in spans of their own. Such
files are read, and not written. See https://opentelemetry.io/docs/specs/semconv/gen-ai/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ldm.envs.fields import FieldError
from ldm.envs.formats import NOTHING, Assumed
from ldm.interchange import foreign
from ldm.interchange.documents import SUFFIX, documents
from ldm.interchange.foreign import Acted, Heard, call_text
from ldm.records import Problem
from ldm.text import parse_json
from ldm.types import Trajectory

SUFFIXES = (SUFFIX,)
SIGN = '"resourceSpans", or "context" and "attributes", with gen_ai.input.messages'
HEAD = re.compile(rb'"resourceSpans"\s*:\s*\[')
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
CONVERSATION = "gen_ai.conversation.id"
#: The event that holds messages that are not on the span.
DETAILS = "gen_ai.client.inference.operation.details"
TOOL, CALL_ID, RESULT = "gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.call.result"
#: Parts of a message that are thoughts.
THOUGHTS = ("reasoning", "thinking")
#: The depth to which values of attributes are read.
DEPTH = 20


@dataclass(slots=True)
class _Conversation:
    """The spans of one conversation.

    messages: of the span with most of them. line: of that span. tools: call → its answer.
    """

    line: int
    messages: list[Any] = field(default_factory=list)
    tools: dict[str, str] = field(default_factory=dict)


def detect(value: Any) -> bool:
    """Return whether a JSON value looks like spans."""
    if not isinstance(value, dict):
        return False
    span = isinstance(value.get("context"), dict) and "attributes" in value and "name" in value
    return span or isinstance(value.get("resourceSpans"), list)


def read(path: Path, assumed: Assumed = NOTHING) -> Iterator[Trajectory | Problem]:
    """Yield the trajectory of each conversation in a file, and problems with its lines.

    Spans of other work are left out; spans without any messages are a problem.
    """
    conversations: dict[str, _Conversation] = {}
    spans = 0
    for document in documents(path):
        if isinstance(document, Problem):
            yield document
            continue
        number, text = document
        value = parse_json(text, str(path), number)
        if isinstance(value, Problem):
            yield value
            continue
        try:
            for span in _spans(value):
                spans += 1
                _add(conversations, span, number)
        except FieldError as error:
            yield Problem(str(path), number, error.field, str(error))
    for name, one in conversations.items():
        if one.messages:
            yield _trajectory(name, one, str(path), assumed)
    if spans and not any(one.messages for one in conversations.values()):
        yield Problem(
            str(path),
            1,
            INPUT,
            f"no span of {spans} holds messages: record content where the spans are made, in"
            " Python with OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        )


def _trajectory(name: str, one: _Conversation, file: str, assumed: Assumed) -> Trajectory | Problem:
    try:
        turns = [*_turns(one.messages)]
        answered = {turn.call for turn in turns if isinstance(turn, Heard)}
        calls = [turn.call for turn in turns if isinstance(turn, Acted) and turn.call]
        turns += [
            Heard(one.tools[call], call)
            for call in calls
            if call in one.tools and call not in answered
        ]
        return foreign.trajectory(turns, assumed, INPUT, name)
    except FieldError as error:
        return Problem(file, one.line, error.field, str(error))


def _spans(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the spans in a JSON value, their attributes as plain values."""
    if not isinstance(value, dict):
        raise FieldError("", "not an object of spans")
    if "resourceSpans" not in value:
        context = value.get("context")
        trace = context.get("trace_id", "") if isinstance(context, dict) else ""
        yield _span(value, trace, lambda one: _mapping(one, "attributes"))
        return
    for resource in _list(value["resourceSpans"], "resourceSpans"):
        for scope in _list(resource.get("scopeSpans"), "resourceSpans.scopeSpans"):
            for span in _list(scope.get("spans"), "resourceSpans.scopeSpans.spans"):
                yield _span(span, span.get("traceId", ""), _attributes)


def _span(
    span: Mapping[str, Any], trace: Any, read: Callable[[Any], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return a span with its events. read: returns attributes as plain values."""
    events = _list(span.get("events"), "events")
    return {
        "trace": trace,
        "attributes": read(span.get("attributes")),
        "events": [(event.get("name"), read(event.get("attributes"))) for event in events],
    }


def _add(conversations: dict[str, _Conversation], span: Mapping[str, Any], number: int) -> None:
    """Add a span of a model's or a tool's call to its conversation."""
    attributes = dict(span["attributes"])
    for name, of_event in span["events"]:
        if name == DETAILS:
            attributes |= of_event
    if not any(name in attributes for name in (INPUT, OUTPUT, TOOL)):
        return
    name = attributes.get(CONVERSATION) or span["trace"]
    if not isinstance(name, str) or not name:
        raise FieldError(CONVERSATION, "neither a conversation nor a trace is named")
    one = conversations.setdefault(name, _Conversation(number))
    if TOOL in attributes:
        call, result = attributes.get(CALL_ID), attributes.get(RESULT)
        if isinstance(call, str) and result is not None:
            one.tools[call] = _text(result)
        return
    messages = [*_messages(attributes, INPUT), *_messages(attributes, OUTPUT)[:1]]
    if len(messages) >= len(one.messages):
        one.messages, one.line = messages, number


def _messages(attributes: Mapping[str, Any], name: str) -> list[Any]:
    """Return messages of a span, which may be recorded as JSON in a text."""
    value = attributes.get(name, [])
    if isinstance(value, str):
        value = parse_json(value, "")
        if isinstance(value, Problem):
            raise FieldError(name, value.message)
    if not isinstance(value, list):
        raise FieldError(name, "not a list of messages")
    return value


def _turns(messages: Sequence[Any]) -> Iterator[Heard | Acted]:
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
            raise FieldError(f"{INPUT}.{place}.parts", "missing or not a list")
        parts = [part for part in message["parts"] if isinstance(part, dict)]
        if message.get("role") == "assistant":
            yield from _acts(parts)
        elif message.get("role") != "system":
            for part in parts:
                if part.get("type") == "tool_call_response":
                    # Earlier conventions called it result.
                    answer = part.get("response", part.get("result", ""))
                    yield Heard(_text(answer), _name(part.get("id")))
                elif text := _name(part.get("content")):
                    yield Heard(text)


def _acts(parts: Sequence[Mapping[str, Any]]) -> Iterator[Acted]:
    """Yield the actions of the model's message; its text beside calls is a thought."""
    calls = [part for part in parts if part.get("type") == "tool_call"]
    thought = "\n".join(_name(p.get("content")) for p in parts if p.get("type") in THOUGHTS)
    spoken = "\n".join(_name(p.get("content")) for p in parts if p.get("type") == "text").strip()
    if not calls:
        if spoken or thought:
            yield Acted(spoken, thought)
        return
    thought = "\n".join(filter(None, (thought, spoken)))
    for call in calls:
        arguments = call.get("arguments") or ""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield Acted(call_text(_name(call.get("name")), text), thought, _name(call.get("id")))
        thought = ""  # the thought belongs to the first of several calls


def _name(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _list(value: Any, name: str) -> list[Mapping[str, Any]]:
    """Return a list of objects; raise FieldError for another value."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise FieldError(name, "not a list of objects")
    return value


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FieldError(name, "no object")
    return value


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of OTLP, a list of keys and typed values, as plain values."""
    return {_name(one.get("key")): _plain(one.get("value")) for one in _list(value, "attributes")}


def _plain(value: Any, depth: int = 0) -> Any:
    if not isinstance(value, dict) or depth > DEPTH:
        return None
    if "arrayValue" in value:
        held = _mapping(value["arrayValue"], "arrayValue").get("values")
        return [_plain(one, depth + 1) for one in _list(held, "arrayValue.values")]
    if "kvlistValue" in value:
        held = _mapping(value["kvlistValue"], "kvlistValue").get("values")
        listed = _list(held, "kvlistValue.values")
        return {_name(one.get("key")): _plain(one.get("value"), depth + 1) for one in listed}
    return next(iter(value.values()), None)
