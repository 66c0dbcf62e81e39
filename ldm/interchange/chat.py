"""Read and write chat messages: {"messages": [{"role", "content"}, …]}, one episode per line.

Logs may also hold the list of messages alone, and JSON files one episode or a list of them.

This is the format of fine-tuning. The user's messages are the goal and the observations, the
assistant's are the actions, and its last one ends the line. Read, too, are the content blocks of
Anthropic's messages, the items of OpenAI's Responses and results within calls; what cannot be read
is refused. See
https://platform.openai.com/docs/api-reference/fine-tuning/chat-input.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

from ldm import records
from ldm.envs.formats import NOTHING, Assumed, FieldError, parsed
from ldm.interchange import documents
from ldm.interchange.documents import (
    SUFFIX,
    Acted,
    Content,
    Heard,
    Part,
    SelfDescription,
    call_text,
    each,
    is_bare,
    parts_of,
    result_text,
    text_of,
)
from ldm.records import Problem
from ldm.types import Trajectory

SUFFIXES = (SUFFIX,)
SIGN = '"messages" with "role" and "content", also with calls of tools'
HEAD = None
#: Roles of instructions to the agent as such, which are not part of the task.
_INSTRUCTIONS = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    arguments: Any = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool. result, output, response: its answer, which some logs keep within it."""

    function: Function
    id: str = ""
    result: Any = None
    output: Any = None
    response: Any = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message, or an item of OpenAI's Responses, as far as it is read."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"] | None = None
    type: str = "message"
    content: Content = None
    reasoning_content: str | None = None
    tool_calls: tuple[Call, ...] | None = None
    function_call: Function | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    audio: Any = None
    name: str | None = None
    arguments: Any = None
    call_id: str | None = None
    output: Any = None
    summary: tuple[Part, ...] | None = None


@dataclass(frozen=True, slots=True)
class Line(SelfDescription):
    """An episode in messages. ldm: the trajectory that they were written from, if it was ours.

    conversation: what STATE-Bench and others call the messages.
    """

    messages: tuple[Message, ...] = ()
    conversation: tuple[Message, ...] = ()
    ldm: Trajectory | None = None


def detect(value: Any) -> bool:
    """Return whether a JSON value looks like an episode in chat messages."""
    names = ("messages", "conversation")
    listed = isinstance(value, dict) and any(isinstance(value.get(name), list) for name in names)
    return listed or is_bare(value)


def read(path: Path, assumed: Assumed = NOTHING) -> Iterator[Trajectory | Problem]:
    """Return an iterator over the trajectory in each line of a file, or the problem with it."""
    return each(path, parse, assumed)


def parse(
    text: str | bytes, file: str, number: int, assumed: Assumed = NOTHING
) -> Trajectory | Problem:
    """Return the trajectory in a line, or the problem with it."""
    if text.lstrip()[:1] in ("[", b"["):
        text = (b'{"messages": %s}' if isinstance(text, bytes) else '{"messages": %s}') % text
    return parsed(text, Line, lambda line: _trajectory(line, assumed), file, number)


def _trajectory(line: Line, assumed: Assumed) -> Trajectory:
    if line.ldm is not None:
        return _edited(line.ldm, line.messages)
    stated = documents.stated(assumed, line)
    messages = line.messages or line.conversation
    return documents.trajectory(_turns(messages), stated, "messages")


def write(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Write one trajectory per line to a JSONL file."""
    records.write(path, map(line_of, trajectories))


def line_of(trajectory: Trajectory) -> dict[str, Any]:
    """Return the line of a trajectory, as JSON values."""
    messages = [{"role": role, "content": text} for role, text in _spoken(trajectory)]
    return {"messages": messages, "ldm": records.plain(trajectory)}


def _first(goal: str, opening: str) -> str:
    """Return the first message, with goal and opening."""
    return f"{goal}\n\n{opening}"


def _spoken(trajectory: Trajectory) -> list[tuple[str, str]]:
    """Return the speakers and texts of a trajectory, the agent's last action at the end."""
    texts = [_first(trajectory.task.goal, trajectory.opening)]
    for step in trajectory.steps:
        texts += [step.action, step.observation] if step.action or step.observation else []
    last = max(1, len(texts) - 1)
    return list(zip(cycle(("user", "assistant")), texts[:last], strict=False))


def _edited(ours: Trajectory, messages: Sequence[Message]) -> Trajectory:
    """Return our own trajectory with the texts of its messages, which may have been edited.

    Raise FieldError if they do not fit it any more.
    """
    turns = [(i, m) for i, m in enumerate(messages) if m.role not in _INSTRUCTIONS]
    texts = [text_of(message.content, f"messages.{i}.content") for i, message in turns]
    expected = [role for role, _ in _spoken(ours)]
    if [message.role for _, message in turns] != expected:
        raise FieldError(
            "messages", f"should be {len(expected)} in turn, as the trajectory under `ldm` has them"
        )
    start = _first(ours.task.goal, "")
    if not texts[0].startswith(start):
        raise FieldError("messages", "do not begin with ldm.task.goal and an empty line")
    opening, *rest = texts[0].removeprefix(start), *texts[1:]
    remaining = iter(rest)
    steps = tuple(
        replace(
            step, action=next(remaining, step.action), observation=next(remaining, step.observation)
        )
        if step.action or step.observation
        else step
        for step in ours.steps
    )
    return replace(ours, opening=opening, steps=steps)


def _turns(messages: Sequence[Message]) -> Iterator[Heard | Acted]:
    """Yield the messages to the agent and its actions."""
    for place, message in enumerate(messages):
        where = f"messages.{place}"
        if message.role == "assistant":
            yield from _acts(message, where)
        elif message.role is None:
            yield _item(message, where)
        elif message.role not in _INSTRUCTIONS:
            yield from _heard(message, f"{where}.content")


def _item(item: Message, where: str) -> Heard | Acted:
    """Return the turn in an item of OpenAI's Responses that is no message."""
    if item.type == "function_call":
        return Acted(_called(item.name, item.arguments, where), "", item.call_id or "")
    if item.type == "function_call_output":
        return Heard(result_text(item.output, f"{where}.output"), item.call_id or "")
    if item.type == "reasoning":
        return Acted("", text_of(item.summary or (), f"{where}.summary"))
    if item.type == "message":
        raise FieldError(f"{where}.role", "a message needs a role")
    raise FieldError(f"{where}.type", f"an item of the type {item.type!r} cannot be read")


def _heard(message: Message, where: str) -> Iterator[Heard]:
    """Yield the texts and the results of calls in a message to the agent."""
    texts = []
    for place, part in enumerate(parts_of(message.content, where, "tool_result")):
        if part.type == "tool_result":
            answer = result_text(part.content, f"{where}.{place}.content")
            yield Heard(answer, part.tool_use_id or "")
        else:
            texts.append(part.text or "")
    yield Heard("\n".join(texts), message.tool_call_id or "")


def _acts(message: Message, where: str) -> Iterator[Heard | Acted]:
    """Yield the actions of the assistant's message; its text beside calls is a thought."""
    calls = list(message.tool_calls or ())
    if message.function_call:  # OpenAI's form of a single call before 2024
        calls.append(Call(message.function_call))
    if message.audio is not None:
        raise FieldError(f"{where}.audio", "sound cannot be read: put its text into content")
    thoughts, texts = [message.reasoning_content or ""], list[str]()
    for part in parts_of(message.content, f"{where}.content", "thinking", "tool_use"):
        if part.type == "tool_use":
            calls.append(Call(Function(part.name or "", part.input), part.id or ""))
        thoughts.append(part.thinking or "")
        texts.append(part.text or "")
    text = "\n".join(filter(None, [*texts, message.refusal]))
    thought = "\n".join(filter(None, [*thoughts, text if calls else ""]))
    if not calls:
        yield Acted(text.strip(), thought)
    for place, call in enumerate(calls):
        action = _called(call.function.name, call.function.arguments, where)
        yield Acted(action, thought, call.id)
        thought = ""  # the thought belongs to the first of several calls
        for field in ("result", "output", "response"):
            if (answer := getattr(call, field)) is not None:
                yield Heard(result_text(answer, f"{where}.tool_calls.{place}.{field}"), call.id)


def _called(name: str | None, arguments: Any, where: str) -> str:
    """Return a call as one action. arguments: JSON, which most logs hold as text."""
    if not name:
        raise FieldError(where, "a call of a tool without its name")
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
    return call_text(name, arguments)
