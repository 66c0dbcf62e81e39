"""The kitchen of LDM²'s Table 3, and a scripted model that imitates what it is shown."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ldm.episode import EnvironmentBase
from ldm.types import Card, Step, Task, TimeStep, Trajectory
from tests.agents.decomposition.ideal import block
from tests.reason.scripted import Reply, items_in

PLACES = ("fridge 1", "shelf 1", *(f"cabinet {n}" for n in range(1, 7)), "countertop 1")
NOTHING = "Nothing happens."


class Kitchen(EnvironmentBase):
    """A kitchen where one thing lies in one place. layout: by task id, the thing and its place."""

    card = Card(
        name="kitchen",
        rules="You are in a kitchen.",
        actions=(
            *("go to PLACE", "take OBJECT from PLACE"),
            *("cool OBJECT with PLACE", "put OBJECT in/on PLACE"),
        ),
    )

    def __init__(self, layout: Mapping[str, tuple[str, str]]) -> None:
        self.layout = layout

    def protocol(self) -> Mapping[str, Any]:
        return {"environment": self.card.name}

    def tasks(self, split: str) -> Sequence[Task]:
        return [self.task(name) for name in self.layout if name.startswith(split)]

    def fork(self) -> Kitchen:
        return copy.copy(self)

    def close(self) -> None:
        """Nothing is open."""

    def task(self, name: str) -> Task:
        thing = self.layout[name][0].split()[0]
        goal = f"cool some {thing} and put it in cabinet."
        return Task(name, "kitchen", name.partition("/")[0], goal, "cool")

    def reset(self, task: Task) -> TimeStep:
        self.thing, self.place = self.layout[task.id]
        self.at, self.held, self.cool, self.done = "", False, False, False
        listed = ", ".join(f"a {place}" for place in PLACES)
        return TimeStep(f"You are in the middle of a room, you see {listed}. {task.goal}")

    def step(self, action: str) -> TimeStep:
        observation = self._answer(action)
        reward = float(self.done)
        return TimeStep(observation, reward, self.done, valid=observation != NOTHING)

    def _answer(self, action: str) -> str:
        thing = self.thing
        if action.startswith("go to ") and action[6:] in PLACES:
            self.at = action[6:]
            if self.held:
                return f"You bring the {thing} to the {self.at}."
            here = thing if self.place == self.at else "nothing"
            return f"On the {self.at}, you see {here}."
        if action == f"take {thing} from {self.at}" and self.place == self.at and not self.held:
            self.held = True
            return f"You pick up the {thing} from the {self.at}."
        if action == f"cool {thing} with fridge 1" and self.held and self.at == "fridge 1":
            self.cool = True
            return f"You cool the {thing} using the fridge 1."
        if action.startswith(f"put {thing} in/on cabinet") and self.held:
            self.done = self.cool and action.endswith(self.at)
            return f"You put the {thing} in/on the {self.at}."
        return NOTHING


def played(env: Kitchen, name: str, actions: Sequence[str]) -> Trajectory:
    """What somebody did, from the record of the actions; the last one ends the task."""
    task, steps = env.task(name), []
    opening = env.reset(task).observation
    for action in actions:
        now = env.step(action)
        steps.append(Step(action, now.observation, now.reward))
    assert now.done, name
    return Trajectory(task, opening, tuple(steps), now.reward, now.reward == 1.0, "human")


def people() -> list[Trajectory]:
    """What people did with other things: they looked into the fridge first, then on the shelf.

    Some went to a cabinet instead, so that what they did is not concentrated.
    """
    things = ("cup", "pan", "plate", "apple", "egg", "bowl", "tomato", "lettuce", "potato", "bread")
    places = ("shelf 1", "cabinet 1", "shelf 1", "cabinet 2", "shelf 1")
    env = Kitchen({f"human/{t}": (f"{t} 1", places[n % len(places)]) for n, t in enumerate(things)})
    episodes = []
    for name, (thing, place) in env.layout.items():
        search = ["go to fridge 1", f"go to {place}", f"take {thing} from {place}"]
        rest = ["go to fridge 1", f"cool {thing} with fridge 1", "go to cabinet 1"]
        episodes.append(played(env, name, [*search, *rest, f"put {thing} in/on cabinet 1"]))
    return episodes


def imitator(question: str) -> Reply:
    """Answer the paper's questions from what is in the prompt, as somebody who looks for a thing.

    Where something is to be found, do what somebody did at the same task, or what most did at
    similar ones, unless that was done; as alternatives, try the countertop and other places.
    """
    if "Summarise the course" in question:
        return {"summary": f"Did: {'; '.join(re.findall(r'done: (.*)', question))}."}
    if "types of about equal size" in question:
        return {"types": _types(items_in(question))}
    if "the number of its type" in question:
        return _classified(question)
    if "Which attempt" in question:
        attempts = re.findall(r"<attempt-\d>\n(.*?)</attempt", question, re.DOTALL)
        put = [n for n, text in enumerate(attempts, 1) if ": You put" in text]
        return {"item_1": (put or [1])[0]}
    if "first step in which" in question:
        better, other = (
            re.findall(r"^(\d+)\. (.*?):", part, re.MULTILINE) for part in question.split("<other>")
        )
        parting = next(one for one, two in zip(better, other, strict=False) if one != two)
        return {"item_1": int(parting[0])}
    plausible = _actions(question)
    weighed = zip(plausible, (0.4, 0.3, 0.2, 0.1), strict=False)
    return {
        "action": plausible[0],
        "actions": [{"action": action, "confidence": weight} for action, weight in weighed],
    }


def _types(items: Sequence[str]) -> list[dict[str, Any]]:
    """Sort into high-level types."""
    kinds: dict[str, list[int]] = {}
    for number, item in enumerate(items, 1):
        kinds.setdefault(_sort(item), []).append(number)
    return [{"name": name, "members": members} for name, members in kinds.items()]


def _classified(question: str) -> dict[str, Any]:
    types = re.findall(r"^(\d+)\. ([a-z ]+)", question, re.MULTILINE)
    numbers = {name.strip(): int(number) for number, name in types}
    return {
        f"item_{n}": numbers.get(_sort(item), 1) for n, item in enumerate(items_in(question), 1)
    }


def _sort(text: str) -> str:
    if "middle of a room" in text:
        return "rooms"
    return "empty places" if "you see nothing" in text else "things"


def _actions(question: str) -> list[str]:
    """Return the next action, and others worth trying, the most plausible first."""
    now, did = block("now", question), block("notes-so-far", question)
    if match := re.search(r"On the (.+?), you see (\w+ \d)\.", now):
        return [f"take {match[2]} from {match[1]}"]
    if taken := re.search(r"take (\w+ \d) from", did):
        place = "cabinet 1" if "cool " in did.partition("Did:")[2] else "fridge 1"
        act = "put {} in/on {}" if place == "cabinet 1" else "cool {} with {}"
        return [act.format(taken[1], place) if f"to the {place}." in now else f"go to {place}"]
    goal = block("task", question)
    examples = re.findall(r"^task: (.*)\n(?:.*\n)*?action: go to (.*)", question, re.MULTILINE)
    same = [place for task, place in examples if task == goal][::-1]
    counts = Counter(place for _, place in examples)
    most = sorted(counts, key=lambda place: (-counts[place], place))
    places = [place for place in [*same, *most, *PLACES] if f"go to {place}" not in did]
    first, *rest = dict.fromkeys(places)
    others = sorted(rest, key=lambda place: not place.startswith("countertop"))
    return [f"go to {place}" for place in (first, *others)]
