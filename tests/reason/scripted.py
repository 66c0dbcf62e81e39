"""A language model that says what a test has written down, and a reasoner with its own types."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from ldm.llm import Message
from ldm.reason import TypeView
from ldm.reason.offline import OfflineReasoner
from ldm.testing import ScriptedModel
from ldm.types import History, Past, Recall, StateActionTuple
from tests.embedder import BagOfWords

#: A reply: its text, or a value to be written as JSON.
Reply = str | dict[str, Any]


class Scripted(ScriptedModel):
    """Replies with `reply`, which is told the last message."""

    def __init__(self, reply: Callable[[str], Reply], room: int = 0) -> None:
        super().__init__(lambda messages, _: reply(messages[-1].content), room=room or None)

    @property
    def prompts(self) -> list[Sequence[Message]]:
        return [messages for messages, _ in self.requests]


def a_recall(
    goal: str, past: Past, observation: str, action: str, similarity: float = 0.9, **other: Any
) -> Recall:
    """Return a recalled tuple of an expert; other: fields of the tuple that matter to a test."""
    fields = {"history": History(past=past), "task_id": "train/1", "trajectory_id": "t"}
    source = StateActionTuple(
        goal=goal,
        observation=observation,
        action=action,
        kind="pick",
        env="room",
        split="train",
        source="",
        step=len(past),
        **{"origin": "expert", **fields, **other},
    )
    return Recall(source, similarity, "pick-1", "a", "b")


class Contrary(OfflineReasoner):
    """Puts everything into the last type, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(BagOfWords())
        self.questions: list[tuple[str, tuple[TypeView, ...]]] = []

    def classify_goal(self, goal: str, types: Sequence[TypeView]) -> int:
        self.questions.append((goal, tuple(types)))
        return len(types) - 1

    def classify_observation(self, observation: str, types: Sequence[TypeView]) -> int:
        self.questions.append((observation, tuple(types)))
        return len(types) - 1


def in_turn(*replies: Reply) -> Callable[[str], Reply]:
    """One reply after the other; asking for more is an error."""
    left = list(replies)
    return lambda _: left.pop(0)


def items_in(question: str) -> list[str]:
    """The numbered items of a prompt for types."""
    match = re.search(r"<items>\n(.*?)\n</items>", question, re.DOTALL)
    assert match is not None
    return [line.partition(". ")[2] for line in match[1].splitlines()]
