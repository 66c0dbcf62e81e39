"""OpenTelemetry spans of language-model calls become trajectories, one a conversation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ldm.envs import formats
from ldm.envs.formats import Assumed
from ldm.interchange import otel
from ldm.records import Problem
from ldm.types import Step, Trajectory

KITCHEN = Assumed(env="kitchen", score=1.0)
GOAL = {"role": "user", "parts": [{"type": "text", "content": "Heat an egg."}]}
CALL = {
    "role": "assistant",
    "parts": [
        {"type": "reasoning", "content": "First the egg."},
        {"type": "text", "content": "I take it."},
        {"type": "tool_call", "id": "c1", "name": "take", "arguments": {"what": "egg"}},
    ],
}
RESPONSE = {"type": "tool_call_response", "id": "c1", "response": "You hold the egg."}
ANSWER = {"role": "tool", "parts": [RESPONSE]}
HEAT_CALL = {"type": "tool_call", "id": "c2", "name": "heat", "arguments": ""}
HEAT = {"role": "assistant", "parts": [HEAT_CALL]}
TAKEN = Step('take {"what": "egg"}', "You hold the egg.", thought="First the egg.\nI take it.")


def value(of: Any) -> dict[str, Any]:
    """Return a value as OTLP types it."""
    if isinstance(of, list):
        return {"arrayValue": {"values": [value(one) for one in of]}}
    if isinstance(of, dict):
        return {"kvlistValue": {"values": attributes(of)}}
    return {"stringValue": of}


def attributes(of: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value(one)} for name, one in of.items()]


def span(trace: str = "t1", events: Sequence[Any] = (), **of: Any) -> dict[str, Any]:
    named = {name.replace("__", "."): one for name, one in of.items()}
    fields = {"attributes": attributes(named), "events": list(events)}
    return {"traceId": trace, "name": "chat", **fields}


def exported(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": list(spans)}]}]}


def called(*given: Any, answered: Any = (), trace: str = "t1", **more: Any) -> dict[str, Any]:
    """Return the span of a call, its messages as JSON in a text, as most SDKs write them."""
    messages = {"gen_ai__input__messages": json.dumps(given)}
    if answered:
        messages["gen_ai__output__messages"] = json.dumps([answered])
    return span(trace, **messages, **more)


def read(tmp_path: Path, *lines: Any, name: str = "a.jsonl") -> list[Trajectory | Problem]:
    path = tmp_path / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert formats.format_of(path) == "otel"
    return list(otel.read(path, KITCHEN))


def test_the_span_with_most_messages_is_the_episode(tmp_path: Path) -> None:
    first = called(GOAL, answered=CALL)
    second = called(GOAL, CALL, ANSWER, answered=HEAT)
    answer = {"gen_ai__tool__call__id": "c2", "gen_ai__tool__call__result": "It is hot."}
    tool = span(gen_ai__tool__name="heat", **answer)
    other = {"traceId": "t1", "name": "GET /", "attributes": []}
    # In whatever order and on whatever lines: exporters write in parts.
    later = exported(second, first)
    for lines in ([exported(first, second, tool, other)], [exported(tool), later]):
        (made,) = read(tmp_path, *lines)
        assert isinstance(made, Trajectory)
        assert (made.task.id, made.task.goal) == ("t1", "Heat an egg.")
        assert made.steps == (TAKEN, Step("heat", "It is hot.", reward=1.0))


def test_conversations_are_told_apart(tmp_path: Path) -> None:
    spans = [
        called(GOAL, answered=CALL, gen_ai__conversation__id="a"),
        called(GOAL, CALL, ANSWER, answered=HEAT, gen_ai__conversation__id="a", trace="t2"),
        called(GOAL, answered=HEAT, gen_ai__conversation__id="b"),
        called(GOAL, answered=HEAT, trace="t3"),
    ]
    made = read(tmp_path, exported(*spans))
    lengths = [(t.task.id, len(t.steps)) for t in made if isinstance(t, Trajectory)]
    assert lengths == [("a", 2), ("b", 1), ("t3", 1)]


def test_messages_may_be_values_and_not_texts_and_stand_in_an_event(tmp_path: Path) -> None:
    structured = {otel.INPUT: [GOAL], otel.OUTPUT: [CALL]}
    event = {"name": otel.DETAILS, "attributes": attributes(structured)}
    for one in (
        {"traceId": "t1", "attributes": attributes(structured)},
        {"traceId": "t1", "attributes": [], "events": [event]},
    ):
        (made,) = read(tmp_path, exported(one), name="a.json")
        assert isinstance(made, Trajectory)
        assert made.steps[0].action == 'take {"what": "egg"}'


def test_spans_as_pythons_sdk_prints_them_are_read(tmp_path: Path) -> None:
    messages = {otel.INPUT: json.dumps([GOAL]), otel.OUTPUT: json.dumps([HEAT])}
    line = {"name": "chat m", "context": {"trace_id": "0x1"}, "attributes": messages, "events": []}
    (made,) = read(tmp_path, line)
    assert isinstance(made, Trajectory)
    assert (made.task.id, made.steps[0].action) == ("0x1", "heat")


def test_an_answer_in_words_is_an_action(tmp_path: Path) -> None:
    message = {"role": "assistant", "parts": [{"type": "text", "content": "It is hot."}]}
    (made,) = read(tmp_path, exported(called(GOAL, answered=message)))
    assert isinstance(made, Trajectory)
    assert made.steps == (Step("It is hot.", "", reward=1.0),)


def test_spans_without_content_say_how_it_is_recorded(tmp_path: Path) -> None:
    (made,) = read(tmp_path, exported(span(gen_ai__operation__name="chat")))
    assert "no span of 1 holds messages" in str(made)
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in str(made)


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (span(gen_ai__input__messages="["), "a.jsonl:1:gen_ai.input.messages: not JSON"),
        (span(gen_ai__input__messages="7"), "gen_ai.input.messages: not a list of messages"),
        (called({"role": "user"}, answered=HEAT), "gen_ai.input.messages.0.parts: missing or no"),
        (called(GOAL), "gen_ai.input.messages: has no action"),
        ({"traceId": "t1", "attributes": 7}, "attributes: not a list of objects"),
        (called(GOAL, answered=HEAT, trace=""), "neither a conversation nor a trace is named"),
    ],
)
def test_what_does_not_fit_is_named(one: dict[str, Any], message: str, tmp_path: Path) -> None:
    made = read(tmp_path, exported(one))
    assert isinstance(made[0], Problem)
    assert message in str(made[0])
