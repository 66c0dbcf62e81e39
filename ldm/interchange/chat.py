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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, TypeVar

from ldm import records
from ldm.envs.formats import NOTHING, Assumed, FieldError, parsed
from ldm.records import Problem
from ldm.text import parse_json, read_bytes, read_lines
from ldm.types import Step, Task, Trajectory, stable_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfDescription:
    """Fields of a recording that replace those of `Assumed`.

    Other programs may use these names for other purposes: a value of another type is ignored.
    """

    env: Any = None
    split: Any = None
    kind: Any = None
    score: Any = None


def stated(assumed: Assumed, *descriptions: SelfDescription | None) -> Assumed:
    """Return `assumed` with the values that recordings state; the last description wins."""
    values: dict[str, Any] = {}
    for one in filter(None, descriptions):
        texts = {"env": one.env, "split": one.split, "kind": one.kind}
        values |= {name: text for name, text in texts.items() if isinstance(text, str)}
        if type(one.score) in (int, float) and 0 <= one.score <= 1:
            values["score"] = float(one.score)
    return replace(assumed, **values)


@dataclass(frozen=True, slots=True)
class Heard:
    """A text to the agent. call: the id of the call that it answers, or ""."""

    text: str
    call: str = ""


@dataclass(frozen=True, slots=True)
class Acted:
    """An action, or only a thought if `action` is "". call: the id of a call, or ""."""

    action: str
    thought: str = ""
    call: str = ""


def trajectory(
    turns: Iterable[Heard | Acted], assumed: Assumed, where: str, name: str = ""
) -> Trajectory:
    """Return the trajectory of a recording's turns.

    The first text to the agent is the goal; the others before the first action are the opening,
    which is the goal again without any. An answer belongs to the call that it names, or to the last
    action.
    where: the field in errors. name: the task's id; "" for a hash of its goal.
    Raise FieldError if there is no environment, goal or action.
    """
    before: list[str] = []
    acts: list[tuple[Acted, list[str]]] = []
    heard, by_call = before, dict[str, list[str]]()
    goal = ""
    for turn in turns:
        if isinstance(turn, Acted):
            acts.append((turn, []))
            if turn.action:
                heard = by_call[turn.call] = acts[-1][1]
        elif text := turn.text.strip():
            (by_call.get(turn.call, heard) if turn.call else heard).append(text)
            goal = goal or text
    if not assumed.env:
        raise FieldError(
            "env", "the messages name no environment: name it with `ldm import --env NAME`"
        )
    if not goal:
        raise FieldError(where, "no message to the agent states the goal")
    if not any(act.action for act, _ in acts):
        raise FieldError(where, "has no action")
    steps = [
        Step(act.action, "\n".join(answers), thought=act.thought)
        for act, answers in acts
        if act.action or act.thought
    ]
    last = max(number for number, step in enumerate(steps) if step.action)
    steps[last] = replace(steps[last], reward=assumed.score or 0.0)
    task = Task(name or stable_hash(goal), assumed.env, assumed.split, goal, assumed.kind)
    opening = "\n".join(before[1:] or before)
    return Trajectory(task, opening, tuple(steps), *earned(assumed.score), assumed.origin)


def earned(score: float | None) -> tuple[float, bool | None]:
    """Return the score and success of a recording, as in `Trajectory`; None if it is unknown."""
    return score or 0.0, None if score is None else score >= 1


def call_text(name: str, arguments: str) -> str:
    """Return a call of a tool as one action. arguments: their JSON."""
    return name if arguments.strip() in ("", "{}") else f"{name} {arguments}"


SUFFIX = ".json"

A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message: a text, a thought, a call of a tool or its result."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None


#: None for a message that only calls a tool.
Content = str | tuple[Part, ...] | None


def parts_of(content: Content, where: str, *types: str) -> Iterator[Part]:
    """Yield the parts of a message at the field `where`.

    Raise FieldError for one that neither has a text nor is of these types, such as an image: a step
    without it would be another one.
    """
    for place, part in enumerate(content if isinstance(content, tuple) else ()):
        if part.text is None and part.type not in types:
            raise FieldError(
                f"{where}.{place}", f"a part of the type {part.type!r} is not read here"
            )
        yield part
    if isinstance(content, str):
        yield Part("text", content)


def text_of(content: Content, where: str) -> str:
    """Return the text of a message; raise FieldError for a part that is something else."""
    return "\n".join(part.text or "" for part in parts_of(content, where))


def result_text(value: Any, where: str) -> str:
    """Return the answer of a tool: a text, the text of a message's parts, or JSON as it stands."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(one, dict) and "type" in one for one in value):
        parts = [Part(str(one["type"]), one.get("text")) for one in value]
        return text_of(tuple(parts), where)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def documents(path: Path) -> Iterator[tuple[int, bytes] | Problem]:
    """Yield (number from 1, JSON) of each line, or of each item of a JSON file's list.

    A file that is not JSON is one problem. Raise LdmError if it cannot be read.
    """
    if path.suffix != SUFFIX:
        yield from read_lines(path)
        return
    value = parse_json(read_bytes(path), str(path))
    if isinstance(value, Problem):
        yield value
        return
    several = isinstance(value, list) and not is_bare(value)
    for number, item in enumerate(value if several else [value], 1):
        yield number, json.dumps(item, ensure_ascii=False).encode()


def each(
    path: Path, parse: Callable[[bytes, str, int, A], R | Problem], assumed: A
) -> Iterator[R | Problem]:
    """Yield the result of `parse(document, file, number, assumed)` for each document of a file."""
    for document in documents(path):
        if isinstance(document, Problem):
            yield document
        else:
            number, text = document
            yield parse(text, str(path), number, assumed)


def is_bare(value: Any) -> bool:
    """Return whether a JSON value is a list of chat messages, or of items of OpenAI's Responses."""
    if not isinstance(value, list) or not value:
        return False
    return all(
        isinstance(one, dict) and isinstance(one.get("role", one.get("type")), str) for one in value
    )


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
    own = stated(assumed, line)
    messages = line.messages or line.conversation
    return trajectory(_turns(messages), own, "messages")


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
