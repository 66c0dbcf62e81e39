"""Expert episodes as conversations: {"game": …, "conversations": [{"from", "value"}, …]}.

The first human message is the game's introduction; then the expert's actions and the engine's
answers alternate. All end in success with the last action, whose answer was not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ldm.envs.formats import LINES, Assumed, FieldError, Text, read_as
from ldm.records import Problem
from ldm.types import Step, Task, Trajectory
from ldm.worlds.alfworld import games
from ldm.worlds.alfworld.games import ENV, kind_of

SUFFIXES = LINES
SIGN = '"game" and "conversations"'
_SPEAKERS = ("human", "gpt")


def detect(value: Any) -> bool:
    """Return whether a JSON value looks like such a conversation."""
    return isinstance(value, dict) and {"game", "conversations"} <= value.keys()


@dataclass(frozen=True, slots=True)
class Message:
    speaker: Annotated[Literal["human", "gpt"], Field(validation_alias="from")]
    value: Text


@dataclass(frozen=True, slots=True)
class Conversation:
    """A line of a file: the introduction, at least one action, and their answers."""

    game: str
    conversations: Annotated[tuple[Message, ...], Field(min_length=2)]


def read(path: Path, assumed: Assumed) -> Iterator[Trajectory | Problem]:
    """Yield the trajectory in each line, or the problem with the line.

    The opening is the one that `ALFWorld.reset` returns for the same game. The last action earns
    the reward 1; an answer that was not recorded is "".
    """
    return read_as(path, Conversation, _trajectory)


def _trajectory(line: Conversation) -> Trajectory:
    messages = [message.value for message in line.conversations]
    for i, message in enumerate(line.conversations):
        if message.speaker != (speaker := _SPEAKERS[i % 2]):
            raise FieldError(
                f"conversations.{i}.from", f"should be {speaker!r}, as speakers take turns"
            )
    opening = games.opening(messages[0])
    task = _task(line.game, games.goal_of(opening))
    actions = [text.strip() for text in messages[1::2]]
    answers = [games.observation(text) for text in messages[2::2]]
    if len(answers) < len(actions):
        answers.append("")
    last = len(actions) - 1
    steps = tuple(
        Step(action, answer, reward=float(i == last), valid=answer != games.NOTHING)
        for i, (action, answer) in enumerate(zip(actions, answers, strict=True))
    )
    return Trajectory(task, opening, steps, score=1.0, success=True, origin="expert")


def _task(game: str, goal: str) -> Task:
    if game.count("/") != 2:
        raise FieldError("game", f"not of the form split/task/trial: {game!r}")
    kind = kind_of(game)
    if not kind:
        raise FieldError("game", f"unknown task kind in the folder name {game.split('/')[1]!r}")
    if not goal:
        raise FieldError("conversations.0.value", f"has no line {games.TASK!r}")
    return Task(id=game, env=ENV, split=game.split("/", maxsplit=1)[0], goal=goal, kind=kind)
