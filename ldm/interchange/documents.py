"""Read a file's documents, one per line or a list in a JSON file, and make trajectories of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ldm.envs.formats import Assumed, FieldError
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
