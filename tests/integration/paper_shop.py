"""The shop and the bathroom of LDM²'s Table 3, and scripted models that imitate what they see."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ldm.types import Card, Task, TimeStep
from tests.integration.paper_world import NOTHING, Scene, imitating, last
from tests.reason.scripted import Reply


@dataclass(frozen=True)
class Product:
    """rewards: what buying it earns, by the options chosen, joined by commas."""

    code: str
    details: str
    rewards: Mapping[str, float]
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def page(self, chosen: Sequence[str]) -> str:
        options = [
            f"{name}\n  " + "".join(f"[[{v}]]" if v in chosen else f"[{v}]" for v in values)
            for name, values in self.options.items()
        ]
        return "\n".join(["[Back to Search]", "[< Prev]", *options, self.details, "[Buy Now]"])


@dataclass(frozen=True)
class Errand:
    """What is to be bought, and the products that a search shows."""

    goal: str
    products: tuple[Product, ...]


class Shop(Scene[Errand]):
    """A shop with one search for each errand."""

    card = Card(name="shop", rules="You are shopping.", actions=("search[WORDS]", "click[VALUE]"))
    chosen: tuple[str, ...] = ()

    def task(self, name: str) -> Task:
        return Task(name, "shop", name.partition("/")[0], self.layout[name].goal, "buy")

    def reset(self, task: Task) -> TimeStep:
        self.errand, self.open, self.chosen = self.layout[task.id], "", ()
        return TimeStep(f"WebShop\nInstruction:\n{task.goal}\n[Search]")

    def step(self, action: str) -> TimeStep:
        products = {one.code: one for one in self.errand.products}
        pressed = action.removeprefix("click[").removesuffix("]")
        opened = products.get(self.open)
        if action.startswith("search[") or (pressed == "< Prev" and opened is not None):
            self.open, self.chosen = "list", ()
        elif self.open == "list" and pressed in products:
            self.open, opened = pressed, products[pressed]
        elif opened is not None and pressed == "Buy Now":
            score = opened.rewards.get(", ".join(self.chosen), 0.0)
            return TimeStep("Thank you for shopping with us!", score, done=True)
        elif opened is not None and any(pressed in values for values in opened.options.values()):
            self.chosen = (*self.chosen, pressed)
        else:
            return TimeStep(NOTHING, valid=False)
        return TimeStep(self._page(products))

    def _page(self, products: Mapping[str, Product]) -> str:
        if self.open != "list":
            return products[self.open].page(self.chosen)
        listed = [f"[{one.code}]\n{one.details}" for one in products.values()]
        return "\n".join(["[Back to Search]", "Page 1", *listed])


def shopper(question: str) -> Reply:
    """Answer as somebody who shops as the people in the prompt did.

    A product that lacks something is left only where somebody in the prompt left theirs.
    """
    return imitating(question, _shopping, _page_type, ("find it", "buy it"))


def _page_type(text: str) -> str:
    if "[Search]" in text:
        return "searches"
    return "products" if "[< Prev]" in text else "results"


def _shopping(question: str) -> list[str]:
    now, did = last(question, "now"), last(question, "notes-so-far")
    goal = last(question, "task")
    examples = re.findall(r"^task: (.*)\n(?:.*\n)*?action: (.*)", question, re.MULTILINE)
    if "[Search]" in now:
        return [f"search[{re.sub('^.*? a |^.*?need |[,.].*$', '', goal)}]"]
    if "[< Prev]" not in now:
        codes = [f"click[{code}]" for code in re.findall(r"^\[([A-Z0-9]{3})\]", now, re.MULTILINE)]
        same = [action for task, action in examples if task == goal and action in codes]
        return list(dict.fromkeys([*same, *(one for one in codes if one not in did)]))
    if "click[< Prev]" in [action for _, action in examples] and _lacks(now, goal):
        return ["click[< Prev]"]
    for line in now.splitlines():
        values = re.findall(r"\[([^\[\]]+)\]", line) if line.startswith("  ") else []
        if values and "[[" not in line:
            return [f"click[{max(values, key=lambda value: _fit(value, goal))}]"]
    return ["click[Buy Now]"]


def _fit(text: str, goal: str) -> int:
    return len(set(re.findall(r"[\w.]+", text)) & set(re.findall(r"[\w.]+", goal)))


def _lacks(page: str, goal: str) -> bool:
    """Whether some demand of the goal, its parts between commas, is nowhere on a page."""
    demands = goal.partition("for a ")[2].partition(", and price")[0].split(", ")
    return any(demand.strip() not in page for demand in demands)


class Bathroom(Scene[str]):
    """A room where two soapbars, or other things, lie on the countertop and none in a cabinet."""

    PLACES = ("cabinet 1", "cabinet 2", "cabinet 3", "cabinet 4", "countertop 1", "garbagecan 1")

    card = Card(
        name="bathroom",
        rules="You are in a bathroom.",
        actions=("go to PLACE", "open PLACE", "take OBJECT from PLACE", "put OBJECT in/on PLACE"),
    )
    at, held = "", ""
    left: tuple[str, ...] = ()

    def task(self, name: str) -> Task:
        goal = f"put two {self.layout[name]} in garbagecan."
        return Task(name, "bathroom", name.partition("/")[0], goal, "pick2")

    def reset(self, task: Task) -> TimeStep:
        thing = self.layout[task.id]
        self.at, self.held, self.left = "", "", (f"{thing} 1", f"{thing} 3")
        listed = ", ".join(f"a {place}" for place in self.PLACES)
        return TimeStep(f"You are in the middle of a room, you see {listed}. {task.goal}")

    def step(self, action: str) -> TimeStep:
        observation = self._answer(action)
        done = not self.left and not self.held
        return TimeStep(observation, float(done), done, valid=observation != NOTHING)

    def _answer(self, action: str) -> str:
        if action.startswith("go to ") and action[6:] in self.PLACES:
            self.at = action[6:]
            if self.at.startswith("cabinet"):
                return f"The {self.at} is closed."
            lying = ", ".join(f"a {thing}" for thing in self._lying())
            return f"On the {self.at}, you see {lying or 'nothing'}."
        if action == f"open {self.at}":
            return f"You open the {self.at}. In it, you see nothing."
        thing = action.partition(" from ")[0].removeprefix("take ")
        if action == f"take {thing} from {self.at}" and thing in self._lying():
            self.held, self.left = thing, tuple(one for one in self.left if one != thing)
            return f"You pick up the {thing} from the {self.at}."
        if self.held and action == f"put {self.held} in/on {self.at}":
            put, self.held = self.held, ""
            return f"You put the {put} in/on the {self.at}."
        return NOTHING

    def _lying(self) -> tuple[str, ...]:
        return self.left if self.at == "countertop 1" else ()


def tidier(question: str) -> Reply:
    """Answer as somebody who goes, and opens, where most people in the prompt did."""
    return imitating(question, _tidying, _view_type, ("take one", "put two away"))


def _view_type(text: str) -> str:
    for words, name in (("middle of a room", "rooms"), ("closed", "closed places")):
        if words in text:
            return name
    return "empty places" if "you see nothing" in text else "things"


def _tidying(question: str) -> list[str]:
    now, did = last(question, "now"), last(question, "notes-so-far")
    thing = re.findall(r"put two (\w+) in", question)[-1]
    held = re.findall(rf"take ({thing} \d)", did)[len(re.findall(f"put {thing}", did)) :]
    if lying := re.search(rf"On the (.+?), you see a ({thing} \d)", now):
        return [f"take {lying[2]} from {lying[1]}"]
    if held and "garbagecan 1, you see" in now:
        return [f"put {held[0]} in/on garbagecan 1"]
    actions = re.findall(r"^action: ((?:go to|open) .*)", question, re.MULTILINE)
    fresh = [one for one in actions if held or one not in did or "countertop" in one]
    return [max(fresh or ["go to cabinet 2"], key=fresh.count)]
