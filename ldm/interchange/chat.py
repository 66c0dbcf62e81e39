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
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ldm import records
from ldm.envs.formats import NOTHING, A, Assumed, FieldError, R, parsed
from ldm.records import Problem
from ldm.text import parse_json, read_bytes, read_lines
from ldm.types import Step, Task, Trajectory, stable_hash


class Heard(NamedTuple):
    """A text to the agent. call: the id of the call that it answers, or ""."""

    text: str
    call: str = ""


class Acted(NamedTuple):
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


def call_text(name: str, arguments: Any) -> str:
    """Return a call of a tool as one action. arguments: their JSON, or what it stands for."""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments or {}, ensure_ascii=False)
    return name if arguments.strip() in ("", "{}") else f"{name} {arguments}"


SUFFIX = ".json"

#: Types of parts that are a text, a thought, or neither text nor JSON.
_TEXTS = ("text", "input_text", "output_text", "summary_text", "reasoning_text")
_THOUGHTS = ("thinking", "reasoning")
_MEDIA = re.compile("image|audio|video|screenshot|document")
#: Fields that hold what is not read, where a step without it would be another one; and lists of
#: what may have such fields.
_UNREAD = re.compile(r"\w*attachments|files|parts|toolInvocations|(audio|image|video)s?")
_HOLDERS = ("messages", "conversation", "tool_calls")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message: a text, a thought, a refusal, a call of a tool or its result."""

    type: str
    text: str | None = None
    thinking: Any = None
    refusal: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None


#: None for a message that only calls a tool.
Content = str | tuple[Part, ...] | None


def parts_of(content: Content, where: str, *types: str) -> Iterator[Part]:
    """Yield the parts of a message at the field `where`.

    Raise FieldError for one that is neither a text nor of these types, such as an image: a step
    without it would be another one.
    """
    for place, part in enumerate(content if isinstance(content, tuple) else ()):
        if part.type not in types and (part.text is None or part.type not in _TEXTS):
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
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if all(map(_is_part, listed)):
        return text_of(tuple(Part(one["type"], one.get("text")) for one in listed), where)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_part(value: Any) -> bool:
    """Return whether a value is a text of a message, or what no text can stand for."""
    kind = value.get("type") if isinstance(value, dict) else None
    is_text = kind in _TEXTS and isinstance(value.get("text"), str)
    return is_text or (isinstance(kind, str) and _MEDIA.search(kind) is not None)


def each(
    path: Path, parse: Callable[[bytes, str, int, A], R | Problem], assumed: A
) -> Iterator[R | Problem]:
    """Yield the result of `parse(document, file, number, assumed)` for each document of a file.

    These are its lines, or the items of a JSON file's list. A file that is not JSON is one problem.
    Raise LdmError if it cannot be read.
    """
    documents: Iterable[tuple[int, bytes]] = read_lines(path)
    if path.suffix == SUFFIX:
        value = parse_json(read_bytes(path), str(path))
        if isinstance(value, Problem):
            yield value
            return
        items = value if isinstance(value, list) and not is_bare(value) else [value]
        documents = enumerate((json.dumps(one, ensure_ascii=False).encode() for one in items), 1)
    for number, document in documents:
        yield parse(document, str(path), number, assumed)


def is_bare(value: Any) -> bool:
    """Return whether a JSON value is a list of chat messages, or of items of OpenAI's Responses."""
    listed = value if isinstance(value, list) else []
    signs = [one.get("role", one.get("type")) if isinstance(one, dict) else None for one in listed]
    return bool(signs) and all(isinstance(sign, str) for sign in signs)


SUFFIXES = (SUFFIX,)
SIGN = '"messages" with "role" and "content", also with calls of tools'
#: Roles of instructions to the agent as such, which are not part of the task.
_INSTRUCTIONS = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    arguments: Any = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Fields in which logs keep the answer to a call, within it or in a message of its own."""

    result: Any = None
    results: Any = None
    output: Any = None
    response: Any = None
    observation: Any = None
    error: Any = None

    def answers(self, where: str, call: str, *more: str) -> Iterator[Heard]:
        """Yield the answers. call: the id of the call. more: further fields that hold one."""
        for name in (*(one.name for one in fields(Answered)), *more):
            if (answer := getattr(self, name)) is not None:
                yield Heard(result_text(answer, f"{where}.{name}"), call)


@dataclass(frozen=True, slots=True)
class Call(Answered):
    """A call of a tool."""

    function: Function
    id: str = ""
    content: Any = None


@dataclass(frozen=True, slots=True)
class Message(Answered):
    """One message, or an item of OpenAI's Responses, as far as it is read."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"] | None = None
    type: str = "message"
    content: Content = None
    reasoning_content: Any = None
    reasoning: Any = None
    thinking: Any = None
    reasoning_details: tuple[Mapping[str, Any], ...] | None = None
    tool_calls: tuple[Call, ...] | None = None
    function_call: Function | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    name: str | None = None
    arguments: Any = None
    input: Any = None
    call_id: str | None = None
    summary: Any = None


@dataclass(frozen=True, slots=True)
class Line:
    """An episode in messages. ldm: the trajectory that they were written from, if it was ours.

    conversation: what STATE-Bench and others call the messages. env, split, kind, score: replace
    those of `Assumed`; other programs may use these names for other purposes, so that a value of
    another type is ignored.
    """

    messages: tuple[Message, ...] = ()
    conversation: tuple[Message, ...] = ()
    ldm: Trajectory | None = None
    env: Any = None
    split: Any = None
    kind: Any = None
    score: Any = None


def stated(assumed: Assumed, line: Line) -> Assumed:
    """Return `assumed` with the values that a line states."""
    texts = {"env": line.env, "split": line.split, "kind": line.kind}
    values: dict[str, Any] = {k: text for k, text in texts.items() if isinstance(text, str)}
    if type(line.score) in (int, float) and 0 <= line.score <= 1:
        values["score"] = float(line.score)
    return replace(assumed, **values)


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

    def made(line: Line) -> Trajectory:
        _refuse_unread(parse_json(text, file))
        return _trajectory(line, assumed)

    return parsed(text, Line, made, file, number)


def _refuse_unread(value: Any, where: str = "") -> None:
    """Raise FieldError if a line, a message or a call has a field of _UNREAD that is not empty."""
    for name, part in value.items() if isinstance(value, dict) else ():
        if part and _UNREAD.fullmatch(name):
            raise FieldError(where + name, "cannot be read: put its text into content")
        for place, one in enumerate(part or () if name in _HOLDERS else ()):
            _refuse_unread(one, f"{where}{name}.{place}.")


def _trajectory(line: Line, assumed: Assumed) -> Trajectory:
    if line.ldm is not None:
        return _own(line.ldm, line.messages)
    if line.messages and line.conversation:
        raise FieldError("conversation", "stands beside `messages`: leave one of them out")
    messages = line.messages or line.conversation
    return trajectory(_turns(messages), stated(assumed, line), "messages")


def write(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Write one trajectory per line to a JSONL file."""
    records.write(path, map(line_of, trajectories))


def line_of(trajectory: Trajectory) -> dict[str, Any]:
    """Return the line of a trajectory, as JSON values."""
    messages = [{"role": role, "content": text} for role, text in _spoken(trajectory)]
    return {"messages": messages, "ldm": records.plain(trajectory)}


def _spoken(trajectory: Trajectory) -> list[tuple[Literal["user", "assistant"], str]]:
    """Return the speakers and texts of a trajectory, the agent's last action at the end."""
    texts = [f"{trajectory.task.goal}\n\n{trajectory.opening}"]
    for step in trajectory.steps:
        texts += [step.action, step.observation] if step.action or step.observation else []
    last = max(1, len(texts) - 1)
    return list(zip(cycle(("user", "assistant")), texts[:last], strict=False))


def _own(ours: Trajectory, messages: Sequence[Message]) -> Trajectory:
    """Return our own trajectory. Raise FieldError if the messages say something else."""
    conversation = [message for message in messages if message.role not in _INSTRUCTIONS]
    if conversation != [Message(role, content=text) for role, text in _spoken(ours)]:
        raise FieldError(
            "messages", "are not those of the trajectory under `ldm`: remove it, and they are read"
        )
    return ours


def _turns(messages: Sequence[Message]) -> Iterator[Heard | Acted]:
    """Yield the messages to the agent and its actions."""
    for place, message in enumerate(messages):
        where = f"messages.{place}"
        if message.role is None or (message.type != "message" and message.content is None):
            yield from _item(message, where)
        elif message.role == "assistant" or message.tool_calls or message.function_call:
            yield from _acts(message, where)
        elif message.role not in _INSTRUCTIONS:
            yield from _heard(message, where)
        yield from message.answers(where, message.call_id or message.tool_call_id or "")


def _item(item: Message, where: str) -> Iterator[Acted]:
    """Yield the action or thought in an item of OpenAI's Responses that is no message."""
    if item.type in ("function_call", "custom_tool_call"):
        given = item.input if item.arguments is None else item.arguments
        yield Acted(_called(item.name, given, where), "", item.call_id or "")
    elif item.type == "reasoning":
        summary = result_text(item.summary, f"{where}.summary")
        yield Acted("", f"{summary}\n{text_of(item.content, where)}".strip())
    elif item.type == "message":
        raise FieldError(f"{where}.role", "a message needs a role")
    elif item.type not in ("function_call_output", "custom_tool_call_output"):
        raise FieldError(f"{where}.type", f"an item of the type {item.type!r} cannot be read")


def _heard(message: Message, where: str) -> Iterator[Heard]:
    """Yield the texts and the results of calls in a message to the agent."""
    texts = []
    for place, part in enumerate(parts_of(message.content, f"{where}.content", "tool_result")):
        if part.type == "tool_result":
            answer = result_text(part.content, f"{where}.content.{place}.content")
            yield Heard(part.text or answer, part.tool_use_id or "")
        else:
            texts.append(part.text or "")
    yield Heard("\n".join(texts), message.tool_call_id or "")


def _acts(message: Message, where: str) -> Iterator[Heard | Acted]:
    """Yield the actions of the assistant's message; its text beside calls is a thought."""
    calls = list(message.tool_calls or ())
    if message.function_call:  # OpenAI's form of a single call before 2024
        calls.append(Call(message.function_call))
    held = [message.reasoning_content, message.reasoning, message.thinking]
    if not any(held):  # OpenRouter's alone; what is encrypted nobody can read
        held += [one.get("text") or one.get("summary") for one in message.reasoning_details or ()]
    thoughts, texts = [result_text(one, where) for one in held], list[str]()
    types = (*_THOUGHTS, "tool_use", "refusal")
    for part in parts_of(message.content, f"{where}.content", *types):
        if part.type == "tool_use":
            calls.append(Call(Function(part.name or "", part.input), part.id or ""))
        thoughts.append(result_text(part.thinking, where))
        (thoughts if part.type in _THOUGHTS else texts).extend(
            [part.text or "", part.refusal or ""]
        )
    text = "\n".join(filter(None, [*texts, message.refusal]))
    thought = "\n".join(dict.fromkeys(filter(None, [*thoughts, text if calls else ""])))
    if not calls:
        yield Acted(text.strip(), thought)
    for place, call in enumerate(calls):
        action = _called(call.function.name, call.function.arguments, where)
        yield Acted(action, thought, call.id)
        thought = ""  # the thought belongs to the first of several calls
        yield from call.answers(f"{where}.tool_calls.{place}", call.id, "content")


def _called(name: str | None, arguments: Any, where: str) -> str:
    """Return a call as one action."""
    if not name:
        raise FieldError(where, "a call of a tool without its name")
    return call_text(name, arguments)
