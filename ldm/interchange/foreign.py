"""Make trajectories of the messages that other programs have recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ldm.envs.formats import Assumed, FieldError
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
