"""An expert for our own shop that buys as a careful person would.

It knows the instruction and the pages, never the goal's hidden fields: it searches for a few key
words, opens what looks right, reads on where the title is not enough, goes back where something is
missing, chooses the options in the instruction, keeps to the price cap, and buys.
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

#: Products that it opens at most before it buys the best of them.
PATIENCE = 4
#: How often it types a word of an option, and how often it reads on without need.
_TYPE_OPTION, _READ_ON = 0.4, 0.2

_CAP = re.compile(r",? and price lower than (\d+\.\d\d) dollars")
_PRODUCT = re.compile(r"^\[([A-Z0-9]{10})\] *\n(.+)\n\$(\d+\.\d+)", re.MULTILINE)
_GROUP = re.compile(r"^([^\[\n]*?) ?(\[.+\]) *$", re.MULTILINE)
_VALUE = re.compile(r"\[+([^\[\]]+)\]+")
_PRICE = re.compile(r"^Price: \$(\d+\.\d+)", re.MULTILINE)
_WORD = re.compile(r"[a-z0-9]+(?:[.'-][a-z0-9]+)*")
#: Words of requests that name neither the product nor its traits.
_REQUEST_WORDS = """i am looking for need find me would like to buy please help get can you show
want it be and a an the that is which has have with in of on size color style should quantity
package flavor scent tastes smells pattern item name set pair"""
_STOP_WORDS = frozenset(_REQUEST_WORDS.split())


@dataclass(frozen=True, slots=True)
class Offer:
    """A product in the results. price: its lowest one, in dollars."""

    asin: str
    title: str
    price: float


def solve(env: Environment, task: Task, *, seed: int) -> Trajectory:
    """Return the expert's session for one task, with the score that it earned.

    The environment has to show bracket pages. Raise LdmError where it shows others.
    """
    person = Person(env, task, random.Random(stable_seed("shopper", seed, task.id)))
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
    """Return the words of `text` in lower case, without a plural's s."""
    matches = _WORD.findall(text.lower())
    return [w[:-1] if len(w) > 3 and w.endswith("s") and w[-2] != "s" else w for w in matches]


def key_words(instruction: str) -> list[str]:
    """Return the words of an instruction without those of a request, each once."""
    stop_words = {w for text in _STOP_WORDS for w in words(text)}
    return list(dict.fromkeys(w for w in words(_CAP.sub("", instruction)) if w not in stop_words))


@dataclass
class Person:
    """The expert in one session, with what it has seen and done."""

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
        # Options come last, each with its name; what comes before them describes the thing.
        thing = self.task.goal.partition(": ")[0].rpartition(" with ")[0] or self.task.goal
        self.keys = key_words(self.task.goal)
        self.thing = [key for key in self.keys if key in key_words(thing)]

    def do(self, action: str) -> str:
        """Carry out an action and return the page that it leads to."""
        self.now = self.env.step(action)
        if not self.now.valid:
            raise LdmError(f"The expert's {action} is invalid.", f"Play {self.task.id} by hand.")
        observation = "" if self.now.done else self.now.observation
        self.steps.append(Step(action, observation, reward=self.now.reward))
        return self.now.observation

    def shop(self) -> None:
        """Search, compare, choose and buy."""
        results = self.do(f"search[{' '.join(self.query())}]")
        for attempt in range(PATIENCE):
            offer = self.best(self.offers(results))
            if offer is None and attempt == 0 and "[Next >]" in results:
                results = self.do("click[Next >]")
                offer = self.best(self.offers(results))
            if offer is None:
                break
            page = self.do(f"click[{offer.asin}]")
            missing = self.missing(offer, page)
            self.opened[offer.asin] = len(missing) + (self.price(page) > self.cap)
            if not self.opened[offer.asin]:
                self.buy(page)
                return
            results = self.do("click[< Prev]")
        self.settle(results)

    def query(self) -> list[str]:
        """Return the words for the thing, and now and then a word of an option."""
        query_words = {*self.thing, *(k for k in self.keys if self.rng.random() < _TYPE_OPTION)}
        return [key for key in self.keys if key in query_words]

    def offers(self, results: str) -> list[Offer]:
        return [
            Offer(asin, title, float(price)) for asin, title, price in _PRODUCT.findall(results)
        ]

    def best(self, offers: Iterable[Offer]) -> Offer | None:
        """Return the unopened, affordable offer whose title has most key words, if any."""
        candidates = [o for o in offers if o.price <= self.cap and o.asin not in self.opened]

        def key_count(offer: Offer) -> int:
            return len(set(self.keys) & set(words(offer.title)))

        fitting = [o for o in candidates if 3 * key_count(o) >= max(map(key_count, candidates))]
        return max(fitting, key=key_count) if fitting else None

    def missing(self, offer: Offer, page: str) -> list[str]:
        """Return the key words in neither title nor options nor, where it reads on, the text."""
        covered = set(words(offer.title)) | {w for v in self.choices(page) for w in words(v)}
        keys = [key for key in self.keys if key not in covered]
        if any(key not in self.thing for key in keys):
            return keys  # an option is not on offer: no use in reading on
        return self.read(keys) if keys or self.rng.random() < _READ_ON else keys

    def read(self, keys: Sequence[str]) -> list[str]:
        """Return those of `keys` that the features do not hold either.

        All that our shop's descriptions tell of a product's traits stands there too.
        """
        page_words = set(words(self.do("click[Features]")))
        self.do("click[< Prev]")
        return [key for key in keys if key not in page_words]

    def choices(self, page: str) -> list[str]:
        """Return the values to choose on a page: of each option the longest in the instruction."""
        instruction = _CAP.sub("", self.task.goal)
        request = f" {' '.join(words(instruction))} "
        values = []
        for name, value_text in _GROUP.findall(page):
            offered_values = _VALUE.findall(value_text)
            mentioned = [v for v in offered_values if f" {' '.join(words(v))} " in request]
            # "size: 4" is clearer evidence than a 4 somewhere.
            with_name = [v for v in mentioned if f"{name}: {v}" in instruction]
            if name and mentioned:
                values.append(max(with_name or mentioned, key=len))
        return values

    def price(self, page: str) -> float:
        match = _PRICE.search(page)
        return float(match[1]) if match else 0.0

    def buy(self, page: str) -> None:
        for value in self.choices(page):
            self.do(f"click[{value}]")
        self.do("click[Buy Now]")

    def settle(self, results: str) -> None:
        """Buy what came nearest, as nothing fits in all respects."""
        if not self.opened:
            offers = self.offers(results)
            if not offers:
                raise LdmError(f"The expert finds nothing for {self.task.id}.", "Change its query.")
            nearest = offers[0].asin
        else:
            nearest = min(self.opened, key=lambda asin: self.opened[asin])
        if not any(offer.asin == nearest for offer in self.offers(results)):
            results = self.do("click[< Prev]")
        self.buy(self.do(f"click[{nearest}]"))
