"""Expert episodes as conversations: {"game": …, "conversations": [{"from", "value"}, …]}.

The first human message is the game's introduction; then the expert's actions and the engine's
answers alternate. All end in success with the last action, whose answer was not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ldm.envs.alfworld import texts
from ldm.envs.alfworld.games import ENV, kind_of
from ldm.envs.fields import FieldError
from ldm.envs.formats import LINES
from ldm.interchange.documents import located
from ldm.records import Problem
from ldm.types import Step, Task, Trajectory

SUFFIXES = LINES
SIGN = '"game" and "conversations"'
HEAD = None
_SPEAKERS = ("human", "gpt")


def detect(value: Any) -> bool:
    """Return whether a JSON value looks like such a conversation."""
    return isinstance(value, dict) and {"game", "conversations"} <= value.keys()


def parse(line: Mapping[str, Any], file: str, number: int) -> Trajectory | Problem:
    """Return the trajectory in a line, or the problem with the line.

    The opening is the one that `ALFWorld.reset` returns for the same game. The last action earns
    the reward 1; an answer that was not recorded is "".
    """
    return located(lambda: _trajectory(line), file, number)


def _trajectory(line: Mapping[str, Any]) -> Trajectory:
    messages = _messages(line.get("conversations"))
    opening = texts.opening(messages[0])
    task = _task(line.get("game"), texts.goal_of(opening))
    actions = [text.strip() for text in messages[1::2]]
    answers = [texts.observation(text) for text in messages[2::2]]
    if len(answers) < len(actions):
        answers.append("")
    last = len(actions) - 1
    steps = tuple(
        Step(action, answer, reward=float(i == last), valid=answer != texts.NOTHING)
        for i, (action, answer) in enumerate(zip(actions, answers, strict=True))
    )
    return Trajectory(task, opening, steps, score=1.0, success=True, origin="expert")


def _task(game: object, goal: str) -> Task:
    if not isinstance(game, str):
        raise FieldError("game", "missing or not a text")
    if game.count("/") != 2:
        raise FieldError("game", f"not of the form split/task/trial: {game!r}")
    kind = kind_of(game)
    if not kind:
        raise FieldError("game", f"unknown task kind in the folder name {game.split('/')[1]!r}")
    if not goal:
        raise FieldError("conversations.0.value", f"has no line {texts.TASK!r}")
    return Task(id=game, env=ENV, split=game.split("/")[0], goal=goal, kind=kind)


def _messages(conversation: object) -> list[str]:
    """Return the texts of a conversation; raise FieldError if it is malformed.

    The human speaks first, the speakers take turns, and there is at least one action.
    """
    if not isinstance(conversation, Sequence) or isinstance(conversation, str):
        raise FieldError("conversations", "missing or not a list")
    messages = []
    for i, message in enumerate(conversation):
        path = f"conversations.{i}"
        if not isinstance(message, Mapping):
            raise FieldError(path, "not an object with from and value")
        speaker = _SPEAKERS[i % 2]
        if message.get("from") != speaker:
            raise FieldError(f"{path}.from", f"should be {speaker!r}, as speakers take turns")
        text = message.get("value")
        if not isinstance(text, str) or not text.strip():
            raise FieldError(f"{path}.value", "missing, empty or not a text")
        messages.append(text)
    if len(messages) < 2:
        raise FieldError("conversations", "has no action")
    return messages
