"""A model that answers the questions of our own small world, for tests: its plan makes it look up.

It knows the articles by heart. Without a plan it guesses; with a plan that says to search it opens
both articles and gives the right answer. As a critic it says what the solution was.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from ldm.worlds.hotpotqa import HotpotQA
from ldm.worlds.hotpotqa.library import OWN_SPLITS, Question
from tests.agents import washer

PLAN = "1. Search the articles that the question names.\n2. Finish with the answer."
GUESS = "nobody knows"


@cache
def known() -> dict[str, Question]:
    """Question → what there is to know of it."""
    env = HotpotQA()
    listed = [one for split in OWN_SPLITS for _, one in env._listing(split).values()]
    return {one.text.strip(): one for one in listed}


def answer(contents: Sequence[str]) -> str:
    """The reply to the messages of a request."""
    what = washer.kind_of(contents)
    if what == "thought":
        return "Think: on with it."
    if what == "action":
        return f"Act: {action(contents)}"
    if what == "plan":
        return PLAN
    solution = washer.block("solution", contents)
    return f"The {what}: it should have searched. {solution}"


def action(contents: Sequence[str]) -> str:
    """The next action at the question in the messages."""
    question = known()[washer.block("task", contents)]
    if "Search the articles" not in washer.block("plan", contents):
        return f"finish[{GUESS}]"
    searched = len(re.findall(r"^Act: search", washer.block("so-far", contents), re.MULTILINE))
    if searched < len(question.titles):
        return f"search[{question.titles[searched]}]"
    return f"finish[{question.answer}]"


def reply(body: dict[str, Any]) -> str:
    """What a server says to the body of a request."""
    contents = [message["content"] for message in body["messages"]]
    return "Hello." if len(contents) == 1 else answer(contents)
