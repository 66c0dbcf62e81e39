"""Make trajectories of what other programs have recorded, as far as their messages go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ldm.envs.field_errors import FieldError
from ldm.types import Origin, Step, Task, Trajectory, stable_hash


@dataclass(frozen=True, slots=True)
class Assumed:
    """What is assumed of recordings that do not say it; those of ours say everything.

    env, split, kind: of the task, see `ldm.types.Task`. Without an environment such recordings are
    refused. score: of each episode, in [0, 1].
    """

    env: str = ""
    split: str = "recorded"
    kind: str = ""
    origin: Origin = "agent"
    score: float = 0.0

    def unless(self, *descriptions: SelfDescription | None) -> Assumed:
        """Return this with what recordings say instead; the last of them counts most."""
        stated: dict[str, Any] = {}
        for one in filter(None, descriptions):
            texts = {"env": one.env, "split": one.split, "kind": one.kind}
            stated |= {name: text for name, text in texts.items() if isinstance(text, str)}
            if type(one.score) in (int, float) and 0 <= one.score <= 1:
                stated["score"] = float(one.score)
        return replace(self, **stated)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfDescription:
    """What a recording may say of itself, in the words of `Assumed`.

    Others use such names for purposes of their own: a value of another type says nothing.
    """

    env: Any = None
    split: Any = None
    kind: Any = None
    score: Any = None


#: Where nothing is assumed.
NOTHING = Assumed()


@dataclass(frozen=True, slots=True)
class Heard:
    """A text that the agent was given. call: the id of the call that it answers, "" for none."""

    text: str
    call: str = ""


@dataclass(frozen=True, slots=True)
class Acted:
    """Something that the agent did, or only thought where `action` is "". call: its id, if any."""

    action: str
    thought: str = ""
    call: str = ""


def trajectory(
    turns: Iterable[Heard | Acted], assumed: Assumed, where: str, name: str = ""
) -> Trajectory:
    """Return the trajectory that the turns of a recording make.

    The first text that was heard is the goal; what else was heard before the first action is the
    opening, or the goal again where that is all. An answer goes to the call that it names, or to
    the last action.
    where: the field that errors name. name: of the task; "" for a hash of its goal.
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
    steps[last] = replace(steps[last], reward=assumed.score)
    task = Task(name or stable_hash(goal), assumed.env, assumed.split, goal, assumed.kind)
    opening = "\n".join(before[1:] or before)
    success = assumed.score >= 1
    return Trajectory(task, opening, tuple(steps), assumed.score, success, assumed.origin)


def call_text(name: str, arguments: str) -> str:
    """Return a call of a tool as one action. arguments: their JSON."""
    return name if arguments.strip() in ("", "{}") else f"{name} {arguments}"
