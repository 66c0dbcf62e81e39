"""A model that tidies the toy's shed, for tests: it washes fruit only if its plan says so.

It reads nothing but its prompts, and knows what a reflection and a new plan look like.
"""

import re
from collections.abc import Sequence
from typing import Any

from tests.toy import FRUIT

PLAN = "1. Find the fruit.\n2. Wash it at the sink.\n3. Put it in the basket."
IDLE = "1. Find the fruit.\n2. Put it in the basket."
#: How requests end.
ENDINGS = {
    "thought": "Your thought, in one line that begins with Think:",
    "action": "in one line that begins with Act:",
    "formalised": "The action:",
    "plan": "The numbered list alone:",
}


def kind_of(contents: Sequence[str]) -> str:
    """What the messages of a request ask for."""
    last = contents[-1]
    for what, ending in ENDINGS.items():
        if last.endswith(ending):
            return what
    if last.startswith("How should that be put right"):
        return "revision"
    return "flaw" if "Which steps of the plan" in last else "summary"


def block(tag: str, contents: Sequence[str]) -> str:
    """What stands between the tags in the messages."""
    match = re.search(rf"<{tag}>\n(.*?)\n</{tag}>", "\n".join(contents), re.DOTALL)
    return match[1] if match else ""


def action(contents: Sequence[str]) -> str:
    """The next action at the task in the messages."""
    task, plan, trace = (block(tag, contents) for tag in ("task", "plan", "so-far"))
    target = next(fruit for fruit in FRUIT if fruit in task)
    if f"You hold the {target}." not in trace:
        visited = re.findall(r"^Act: go to (shelf \d+)", trace, re.MULTILINE)
        things = trace.rpartition("Observation: ")[2].partition("On it you see: ")[2]
        if visited and target in things:
            return f"take {target} from {visited[-1]}"
        shelves = re.findall(r"shelf \d+", trace.partition("\nThink:")[0])
        return f"go to {next((s for s in shelves if s not in visited), shelves[0])}"
    if "Wash it" in plan and f"The {target} is clean." not in trace:
        return f"wash {target}" if "Act: go to sink" in trace else "go to sink"
    return f"put {target} in basket"


def answer(contents: Sequence[str], sample: int = 0) -> str:
    """The reply to the messages of a request.

    A plan from one attempt alone is a matter of luck, that is of the sample.
    """
    what = kind_of(contents)
    if what == "thought":
        return "Think: on with it."
    if what == "action":
        return f"Act: {action(contents)}"
    if what == "formalised":
        return f"Act: {block('said', contents)}"
    if what == "plan":
        one = contents[-1].count("<attempt>\n") == 1
        return IDLE if one and sample % 2 else PLAN
    return f"The {what}: it should have been washed."


def reply(body: dict[str, Any]) -> str:
    """What a server says to the body of a request."""
    contents = [message["content"] for message in body["messages"]]
    return "Hello." if len(contents) == 1 else answer(contents, body.get("seed", 0))
