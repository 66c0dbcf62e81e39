"""An expert for our own shop that buys as a careful person would.

It knows the instruction and what the pages show, never the goal's hidden fields: it searches a few
key words, opens what looks right, reads on where the title does not say enough, goes back where
something is missing, chooses the options that were asked for, minds the price, and buys.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ldm.episode import Environment
from ldm.errors import LdmError
from ldm.types import Step, Task, TimeStep, Trajectory, stable_seed

#: Products that it opens at most before it settles for the best one.
PATIENCE = 4
#: How often it types a word on an option, and how often it reads on without need.
_OPTION_TYPED, _CURIOUS = 0.4, 0.2

_CAP = re.compile(r",? and price lower than (\d+\.\d\d) dollars")
_PRODUCT = re.compile(r"^\[([A-Z0-9]{10})\] *\n(.+)\n\$(\d+\.\d+)", re.MULTILINE)
_GROUP = re.compile(r"^([^\[\n]*?) ?(\[.+\]) *$", re.MULTILINE)
_VALUE = re.compile(r"\[+([^\[\]]+)\]+")
_PRICE = re.compile(r"^Price: \$(\d+\.\d+)", re.MULTILINE)
_WORD = re.compile(r"[a-z0-9]+(?:[.'-][a-z0-9]+)*")
#: Words with which people ask, and with which they lead up to an option.
_ASKED_WITH = """i am looking for need find me would like to buy please help get can you show want
it be and a an the that is which has have with in of on size color style should quantity package
flavor scent tastes smells pattern item name set pair"""
_ASKING = frozenset(_ASKED_WITH.split())


@dataclass(frozen=True, slots=True)
class Offer:
    """A product in the results. price: the least that it costs, in dollars."""

    asin: str
    title: str
    price: float


def solve(env: Environment, task: Task, *, seed: int) -> Trajectory:
    """The expert's session for one task, with the score that it earned.

    The environment has to show bracket pages. Raises LdmError where it shows others.
    """
    person = _Person(env, task, random.Random(stable_seed("shopper", seed, task.id)))
    person.shop()
    score = person.now.reward
    return Trajectory(
        task,
        person.opening,
        tuple(person.steps),
        score=score,
        success=score >= 1.0,
        origin="expert",
    )


def words(text: str) -> list[str]:
    """The words of `text` in lower case, without a plural's s."""
    found = _WORD.findall(text.lower())
    return [w[:-1] if len(w) > 3 and w.endswith("s") and w[-2] != "s" else w for w in found]


def key_words(instruction: str) -> list[str]:
    """What an instruction is about: its words without those of asking, each once."""
    asked = {w for text in _ASKING for w in words(text)}
    return list(dict.fromkeys(w for w in words(_CAP.sub("", instruction)) if w not in asked))


@dataclass
class _Person:
    """What the expert has seen and done in a session."""

    env: Environment
    task: Task
    rng: random.Random
    steps: list[Step] = field(default_factory=list)
    opened: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.now: TimeStep = self.env.reset(self.task)
        self.opening = self.now.observation
        if "[Search]" not in self.opening:
            raise LdmError(
                "The expert reads pages in brackets only.", "Leave the observation mode as it is."
            )
        cap = _CAP.search(self.task.goal)
        self.cap = float(cap[1]) if cap else math.inf
        # Options are told last, each with its name; what comes before says what the thing is.
        thing = self.task.goal.partition(": ")[0].rpartition(" with ")[0] or self.task.goal
        self.keys = key_words(self.task.goal)
        self.thing = [key for key in self.keys if key in key_words(thing)]

    def do(self, action: str) -> str:
        """Carry out an action and look at what comes."""
        self.now = self.env.step(action)
        if not self.now.valid:
            raise LdmError(f"The expert's {action} is not possible.", f"Task {self.task.id}.")
        shown = "" if self.now.done else self.now.observation
        self.steps.append(Step(action, shown, reward=self.now.reward))
        return self.now.observation

    def shop(self) -> None:
        """Search, compare, choose and buy."""
        shown = self.do(f"search[{' '.join(self.query())}]")
        for attempt in range(PATIENCE):
            offer = self.best(self.offers(shown))
            if offer is None and attempt == 0 and "[Next >]" in shown:
                shown = self.do("click[Next >]")
                offer = self.best(self.offers(shown))
            if offer is None:
                break
            page = self.do(f"click[{offer.asin}]")
            missing = self.missing(offer, page)
            self.opened[offer.asin] = len(missing) + (self.price(page) > self.cap)
            if not self.opened[offer.asin]:
                self.buy(page)
                return
            shown = self.do("click[< Prev]")
        self.settle(shown)

    def query(self) -> list[str]:
        """What the thing is, and now and then a word on an option."""
        typed = {*self.thing, *(k for k in self.keys if self.rng.random() < _OPTION_TYPED)}
        return [key for key in self.keys if key in typed]

    def offers(self, shown: str) -> list[Offer]:
        return [Offer(asin, title, float(price)) for asin, title, price in _PRODUCT.findall(shown)]

    def best(self, offers: Iterable[Offer]) -> Offer | None:
        """The offer whose title says most of what is wanted, of those not too dear nor opened."""
        fresh = [o for o in offers if o.price <= self.cap and o.asin not in self.opened]

        def said(offer: Offer) -> int:
            return len(set(self.keys) & set(words(offer.title)))

        fitting = [o for o in fresh if 3 * said(o) >= max(map(said, fresh))]
        return max(fitting, key=said) if fitting else None

    def missing(self, offer: Offer, page: str) -> list[str]:
        """Key words that neither title nor options nor, where it reads on, the text account for."""
        known = set(words(offer.title)) | {w for v in self.wanted(page) for w in words(v)}
        left = [key for key in self.keys if key not in known]
        if any(key not in self.thing for key in left):
            return left  # an option is not on offer: no use in reading on
        if left or self.rng.random() < _CURIOUS:
            left = self.read("Features", left)
        if left and self.rng.random() < 0.5:
            left = self.read("Description", left)
        return left

    def read(self, name: str, left: Sequence[str]) -> list[str]:
        """Those of the key words that a sub-page does not hold either."""
        told = set(words(self.do(f"click[{name}]")))
        self.do("click[< Prev]")
        return [key for key in left if key not in told]

    def wanted(self, page: str) -> list[str]:
        """The values to choose on a product's page: of each option the longest one asked for."""
        instruction = _CAP.sub("", self.task.goal)
        asked = f" {' '.join(words(instruction))} "
        found = []
        for name, values in _GROUP.findall(page):
            offered = _VALUE.findall(values)
            named = [v for v in offered if f" {' '.join(words(v))} " in asked]
            # "size: 4" is plainer than a 4 somewhere.
            told = [v for v in named if f"{name}: {v}" in instruction]
            if name and named:
                found.append(max(told or named, key=len))
        return found

    def price(self, page: str) -> float:
        found = _PRICE.search(page)
        return float(found[1]) if found else 0.0

    def buy(self, page: str) -> None:
        for value in self.wanted(page):
            self.do(f"click[{value}]")
        self.do("click[Buy Now]")

    def settle(self, shown: str) -> None:
        """Nothing fits in all respects: buy what came nearest."""
        if not self.opened:
            found = self.offers(shown)
            if not found:
                raise LdmError(f"The expert finds nothing for {self.task.id}.", "Change the query.")
            nearest = found[0].asin
        else:
            nearest = min(self.opened, key=lambda asin: self.opened[asin])
        if not any(offer.asin == nearest for offer in self.offers(shown)):
            shown = self.do("click[< Prev]")
        self.buy(self.do(f"click[{nearest}]"))
