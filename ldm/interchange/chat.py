"""Read and write chat messages: {"messages": [{"role", "content"}, …]}, one episode per line.

Logs may also hold the list of messages alone, and JSON files one episode or a list of them.

This is the format of fine-tuning. The user's messages are the goal and the observations, the
assistant's are the actions, and its last one ends the line. See
https://platform.openai.com/docs/api-reference/fine-tuning/chat-input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ldm import records
from ldm.envs.fields import FieldError
from ldm.envs.formats import NOTHING, Assumed
from ldm.interchange import foreign
from ldm.interchange.documents import SUFFIX, Content, each, is_bare, located, text_of
from ldm.interchange.foreign import Acted, Heard, SelfDescription, call_text
from ldm.interchange.remainder import (
    KEY,
    Remainder,
    StepRemainder,
    parsed,
    remainder,
    without_defaults,
)
from ldm.records import Problem
from ldm.types import Step, Trajectory

SUFFIXES = (SUFFIX,)
SIGN = '"messages" with "role" and "content", also with calls of tools'
HEAD = None
#: Roles of instructions to the agent as such, which are not part of the task.
_INSTRUCTIONS = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    function: Function
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message, as far as it is read."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content = None
    reasoning_content: str | None = None
    tool_calls: tuple[Call, ...] | None = None
    function_call: Function | None = None
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class ChatStep(StepRemainder):
    """Fields of a step that messages lack.

    silent: whether it has no message at all, as steps that only think; its action is "".
    """

    thought: str = ""
    silent: bool = False


@dataclass(frozen=True, slots=True)
class ChatRemainder(Remainder):
    """Fields of a trajectory that messages lack.

    steps: one each. end: the observation after the last action, which ends the messages.
    """

    steps: tuple[ChatStep, ...]
    end: str = ""


@dataclass(frozen=True, slots=True)
class Line(SelfDescription):
    messages: tuple[Message, ...]
    ldm: ChatRemainder | None = None


def detect(value: Any) -> bool:
    """Return whether a JSON value looks like an episode in chat messages."""
    return is_bare(value) or (isinstance(value, dict) and isinstance(value.get("messages"), list))


def read(path: Path, assumed: Assumed = NOTHING) -> Iterator[Trajectory | Problem]:
    """Return an iterator over the trajectory in each line of a file, or the problem with it."""
    return each(path, parse, assumed)


def parse(
    text: str | bytes, file: str, number: int, assumed: Assumed = NOTHING
) -> Trajectory | Problem:
    """Return the trajectory in a line, or the problem with it."""
    if text.lstrip()[:1] in ("[", b"["):
        text = (b'{"messages": %s}' if isinstance(text, bytes) else '{"messages": %s}') % text
    line = parsed(text, Line, file, number, {})
    if isinstance(line, Problem):
        return line
    if rest := line.ldm:
        return located(lambda: _ours(line.messages, rest), file, number)
    stated = foreign.stated(assumed, line)
    return located(
        lambda: foreign.trajectory(_turns(line.messages), stated, "messages"), file, number
    )


def write(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Write one trajectory per line to a JSONL file."""
    records.write(path, map(line_of, trajectories))


def line_of(trajectory: Trajectory) -> dict[str, Any]:
    """Return the line of a trajectory, as JSON values."""
    texts = [_first(trajectory.task.goal, trajectory.opening)]
    steps = []
    for step in trajectory.steps:
        silent = not (step.action or step.observation)
        texts += [] if silent else [step.action, step.observation]
        steps.append(
            without_defaults(
                ChatStep(step.reward, step.valid, step.recalls, step.followed, step.thought, silent)
            )
        )
    end = {"end": texts.pop()} if len(texts) > 1 else {}
    roles = ("user", "assistant")
    return {
        "messages": [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)],
        KEY: {**remainder(trajectory), "steps": steps, **end},
    }


def _first(goal: str, opening: str) -> str:
    """Return the first message, with goal and opening."""
    return f"{goal}\n\n{opening}"


def _ours(messages: Sequence[Message], rest: ChatRemainder) -> Trajectory:
    """Return the trajectory of a line of ours, which may have gained system prompts."""
    turns = [(i, m) for i, m in enumerate(messages) if m.role not in _INSTRUCTIONS]
    for place, (i, message) in enumerate(turns):
        role = ("user", "assistant")[place % 2]
        if message.role != role:
            raise FieldError(f"messages.{i}.role", f"should be {role!r}, as speakers take turns")
    texts = [text_of(message.content) for _, message in turns]
    spoken = sum(not step.silent for step in rest.steps)
    expected = 2 * spoken or 1
    if len(texts) != expected:
        raise FieldError("messages", f"{len(texts)} for {spoken} actions: should be {expected}")
    start = _first(rest.task.goal, "")
    if not texts[0].startswith(start):
        raise FieldError(
            f"messages.{turns[0][0]}.content",
            f"does not begin with the goal in {KEY}.task.goal and an empty line",
        )
    pairs = iter(zip(texts[1::2], [*texts[2::2], rest.end], strict=False))
    steps: list[Step] = []
    for one in rest.steps:
        action, answer = ("", "") if one.silent else next(pairs)
        steps.append(one.step(action, answer, one.thought))
    return rest.trajectory(texts[0].removeprefix(start), steps)


def _turns(messages: Sequence[Message]) -> Iterator[Heard | Acted]:
    """Yield the messages to the agent and its actions."""
    for message in messages:
        text = text_of(message.content)
        if message.role == "assistant":
            yield from _acts(message, text)
        elif message.role not in _INSTRUCTIONS:
            yield Heard(text, message.tool_call_id or "")


def _acts(message: Message, text: str) -> Iterator[Acted]:
    """Yield the actions of the assistant's message; its text beside calls is a thought."""
    calls = list(message.tool_calls or ())
    if message.function_call:  # OpenAI's form of a single call before 2024
        calls.append(Call(message.function_call))
    thought = message.reasoning_content or ""
    if not calls:
        yield Acted(text.strip(), thought)
        return
    thought = "\n".join(filter(None, (thought, text)))
    for call in calls:
        yield Acted(call_text(call.function.name, call.function.arguments), thought, call.id)
        thought = ""  # the thought belongs to the first of several calls
