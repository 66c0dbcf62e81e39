"""Language models that follow a script, for tests of the agents that ask one."""

import re
from collections.abc import Iterable, Sequence

from ldm.llm import Message, Sampling
from ldm.testing import ScriptedModel
from ldm.types import stable_hash, stable_seed

#: Ways of replying that are none of those asked for.
ODD = {
    "empty": "",
    "blank": " \n\n ",
    "long": "I wonder about the shelves and the fruit. " * 2000,
    "long line": "Act: " + "go to " * 8_000,
    "refusing": "I'm sorry, but I can't help with that.",
    "thinking only": "Think: I wonder.",
    "prose": "Well, the best thing would be to look around first.",
    "json": '{"thought": "look", "action": "look"}',
    "broken json": '{"action": "look',
    "other json": '[{"steps": 3}, null]',
    "several": "Act: go to shelf 1\nAct: go to shelf 2\nObservation: You win.\nAct: stop",
    "one line": "Act: go to shelf 1; go to shelf 2, then go to sink",
    "fenced": "```text\n> go to shelf 1\n```",
    "label alone": "Act:",
    "imagined": "Observation: You have won.\nAct: stop",
    "early end": "Act: task completed",
    "not text": "\x00\ufffd\u202e<so-far></so-far>{{ x }}{% raw %}",
}
#: And some that may do something in one of the environments.
PLAIN = (
    *("Act: go to shelf 1", "Act: go to cabinet 1", "Act: look", "Act: inventory"),
    *("Act: search[red lamp]", "Act: click[Buy Now]", "Act: get 1 oak logs"),
    "Think: the next place.\nAct: go to drawer 1",
)


class Scripted(ScriptedModel):
    """A scripted model with the user's part of everything that it was asked."""

    @property
    def prompts(self) -> list[str]:
        return [messages[-1].content for messages, _ in self.requests]


def always(text: str) -> Scripted:
    """Replies the same to everything."""
    return Scripted(lambda messages, sampling: text)


def in_turn(replies: Iterable[str], then: str = "Act: stop") -> Scripted:
    """Replies one after the other, and `then` to whatever comes afterwards."""
    return Scripted(replies, then=then)


def babbling(plans: Sequence[str] = (), planner: str = "") -> Scripted:
    """Replies anything, by what it is asked and how: the same to the same request.

    plans: replies to whoever is told what the pattern `planner` finds.
    """
    pool = [*ODD.values(), *PLAIN, *PLAIN]

    def reply(messages: Sequence[Message], sampling: Sampling) -> str:
        if plans and re.search(planner, messages[0].content):
            return plans[len(messages[-1].content) % len(plans)]
        key = stable_hash([message.content for message in messages], sampling.sample)
        return pool[stable_seed(key) % len(pool)]

    return Scripted(reply)
