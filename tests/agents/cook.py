"""A model that can cook, for tests: it knows how to keep house, and believes in toasters.

It reads nothing but its prompts. As a player it heats in a toaster until its plan names another
appliance; as a critic it sees in an attempt what did not heat, and as a planner it writes down
what the critic found.
"""

import json
import re
from typing import Any

from tests.agents.scripted import Scripted
from tests.agents.washer import block

HABIT = "toaster"


def cook() -> Scripted:
    """The model; the same reply to the same prompt."""
    return Scripted(lambda messages, sampling: answer([message.content for message in messages]))


def reply(body: dict[str, Any]) -> str:
    """What it replies to a request of a client, the first of which tries the server out."""
    contents = [message["content"] for message in body["messages"]]
    if "Greet me" in contents[-1]:
        return json.dumps({"greeting": "hello", "language": "English"})
    return answer(contents)


def answer(contents: list[str]) -> str:
    system, question = contents[0], contents[-1]
    if question.startswith("How should that be put right"):
        return revision("\n".join(contents))
    if "You look back at an attempt" in system:
        asks_for_flaw = "Which steps of the plan" in question
        return flaw(question) if asks_for_flaw else summary(question)
    if "You improve a plan" in system:
        return improved(question)
    if "You put an action" in system:
        sentence = block("said", [question])
        return f"Act: {sentence.removeprefix('try to ')}"
    both = play(system, question)
    thought, _, action = both.partition("\n")
    if question.endswith("begins with Think:"):
        return thought
    return action if question.endswith("begins with Act:") else both


def summary(question: str) -> str:
    if "The task was accomplished" in question:
        return "The object was found, heated and put away."
    return "The object was found and taken, but it could not be heated."


def flaw(question: str) -> str:
    if re.search(r"no place called toaster|toaster \d+ is not made for heating", question):
        return "The toaster does not heat here."
    return "None."


def revision(question: str) -> str:
    if "The toaster does not heat here." in question:
        return "Step 3: heat the object with a microwave."
    return "Keep it."


def improved(question: str) -> str:
    match = re.search(r"heat the object with a (\w+)", question)
    appliance = "microwave" if "with a microwave" in question else match[1] if match else HABIT
    return (
        "Here is the plan:\n"
        "1. Find the object.\n2. Take it.\n"
        f"3. Heat it: heat the object with a {appliance}.\n4. Put it at its place.\n\nGood luck!"
    )


def play(system: str, question: str) -> str:
    """The next thought and action of a household task of the kind heat."""
    plan = block("plan", [system])
    match = re.search(r"heat the object with a (\w+)", plan)
    appliance = f"{match[1] if match else HABIT} 1"
    goal = re.search(
        r"(?:heat some|a hot) (\w+)(?: and put it)? in (\w+)", block("task", [question])
    )
    assert goal
    kind, place = goal.groups()
    trace = re.sub(r"\nThink: .*\Z", "", block("so-far", [question]))
    places = re.findall(r"\ba ([a-z]+ \d+)", trace.split("Act:")[0])
    acts = re.findall(r"^Act: (.*)$", trace, re.MULTILINE)
    last = trace.rsplit("Observation: ", 1)[-1]
    objects = re.findall(rf"You pick up the ({kind} \d+)", trace)
    if not objects:
        here = re.search(rf"\ba ({kind} \d+)", last)
        if acts and here:
            at = acts[-1].removeprefix("go to ").removeprefix("open ")
            return say("I see it.", f"take {here[1]} from {at}")
        if last.endswith("is closed."):
            return say("It is closed.", f"open {acts[-1].removeprefix('go to ')}")
        visited = {act.removeprefix("go to ") for act in acts if act.startswith("go to ")}
        unseen = [name for name in places if name not in visited]
        return say("Step 1: I look for it.", f"go to {(unseen or places)[0]}")
    carried = objects[0]
    if f"heat {carried} with {appliance}" not in acts or "You heat the" not in trace:
        if f"go to {appliance}" not in acts:
            return say("Step 3: I heat it.", f"go to {appliance}")
        return say("Step 3: I heat it.", f"try to heat {carried} with {appliance}")
    target = next(name for name in places if name.split()[0] == place)
    if acts[-1] == f"go to {target}" and last.endswith("is closed."):
        return say("It is closed.", f"open {target}")
    if acts[-1] not in (f"go to {target}", f"open {target}"):
        return say("Step 4: I put it away.", f"go to {target}")
    return say("Step 4: I put it away.", f"put {carried} in/on {target}")


def say(thought: str, action: str) -> str:
    return f"Think: {thought}\nAct: {action}"
