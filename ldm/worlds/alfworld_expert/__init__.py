"""An expert on ALFWorld's games, to record episodes for a memory (LDM², arXiv 2312.08402, §4.3).

It explores as a person would: it knows the usual places of things (`expert.toml`), not where they
are. It visits likely places first, opens what is closed and remembers what it sees.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from ldm.envs._base import facts
from ldm.episode import Agent, Episode, EpisodeOver
from ldm.errors import LdmError
from ldm.types import Card, Positive, stable_seed

#: The usual places of objects, and where things are cleaned, heated and cooled.
FACTS = facts(__file__, "expert.toml")
PLACES = {name.lower(): places.lower().split() for name, places in FACTS["places"].items()}

#: "put a hot egg in fridge.", "look at bowl under the desklamp."
_GOAL = re.compile(r"\b(?:an?|some|two|the|at) (?:(?:clean|hot|cool) )?(\w+) .*?(\w+)\W*$", re.I)
_NAMED = re.compile(r"\b([a-z]+ \d+)\b")
_NOISE = 1.5


@dataclass(frozen=True, slots=True)
class ExpertOptions:
    """Options of the expert."""

    budget: Annotated[Positive, "Steps of a trial"] = 100
    trials: Annotated[Positive, "Attempts at a task, each in another order of places"] = 5


class ExpertAgent(Agent):
    """Searches for things where they usually are, to be recorded (ALFWorld)."""

    name = "expert"
    paper = "recordings for LDM², arXiv 2312.08402, §4.3"
    Options = ExpertOptions
    options: ExpertOptions

    @classmethod
    def check(cls, card: Card, options: Any) -> None:
        """Raise LdmError for another environment than ALFWorld."""
        if card.name != "alfworld":
            raise LdmError(
                f"The expert knows ALFWorld's households, not {card.name}.",
                "Record with an agent that works there: `ldm agents`.",
            )

    def budget(self, card: Card) -> int:
        return self.options.budget

    def solve(self, episode: Episode) -> None:
        """Play trials until the task is done; the last one stands."""
        for number in range(self.options.trials):
            seed = stable_seed("expert", self._resources.seed + number, episode.task_id)
            with episode.trial():
                _Person(episode, random.Random(seed)).work()
            if episode.now.done:
                return


@dataclass
class _Person:
    """The expert in one trial, with what it has seen and done."""

    episode: Episode
    rng: random.Random
    places: list[str] = field(default_factory=list)
    contents: dict[str, list[str]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    here: str = ""

    def work(self) -> None:
        """Do the task; the trial ends with it, or given up where something is not found."""
        kind, opening = self.episode.kind, self.episode.now.observation
        self.places = _NAMED.findall(opening.partition("\n")[0])
        goal = _GOAL.search(self.episode.goal)
        thing, target = (name.lower() for name in goal.groups()) if goal else ("", "")
        if kind == "look":
            self.fetch(thing)
            self.do(f"use {self.search('desklamp')}")
        place = self.choose(target)
        for _ in range(2 if kind == "pick2" else 1):
            held = self.fetch(thing, avoiding=place)
            if kind in FACTS["stations"]:
                station = self.choose(FACTS["stations"][kind].lower())
                self.go(station)
                self.do(f"{kind} {held} with {station}")
            self.go(place, opening=True)
            self.do(f"move {held} to {place}")

    def do(self, action: str) -> str:
        """Act, remember what is seen in the place, and return the observation."""
        answer = self.episode.act(self.episode.localize(action)).observation
        if " you see " in answer:
            self.contents[self.here] = _NAMED.findall(answer.split(" you see ", 1)[1])
        return answer

    def go(self, place: str, *, opening: bool = False) -> None:
        """Go to a place; with `opening`, open it where it is closed."""
        if self.here != place:
            self.here = place
            if self.do(f"go to {place}").endswith(" is closed."):
                self.closed.add(place)
        if opening and place in self.closed:
            self.do(f"open {place}")
            self.closed.discard(place)

    def choose(self, kind: str) -> str:
        """Return one of the places of a type; give up without one."""
        fitting = _of(kind, self.places)
        if not fitting:
            raise EpisodeOver("gave_up")
        return self.rng.choice(fitting)

    def search(self, kind: str, *, avoiding: str = "") -> str:
        """Go where a thing of a type is, a place that is remembered or one after the other.

        Return the thing's name; give up if there is none.
        """
        likely = PLACES.get(kind, [])

        def rank(place: str) -> float:
            name = place.split(maxsplit=1)[0]
            order = likely.index(name) if name in likely else len(likely) + 2
            return order + self.rng.gauss(0.0, _NOISE)

        others = [place for place in self.places if place != avoiding]
        known = [place for place in others if _of(kind, self.contents.get(place, ()))]
        new = (place for place in others if place not in self.contents)
        for place in known[:1] or sorted(new, key=rank):
            self.go(place, opening=True)
            if there := _of(kind, self.contents.get(place, ())):
                return there[0]
        raise EpisodeOver("gave_up")

    def fetch(self, kind: str, *, avoiding: str = "") -> str:
        """Find a thing of a type and pick it up; return its name."""
        held = self.search(kind, avoiding=avoiding)
        self.do(f"take {held} from {self.here}")
        self.contents[self.here].remove(held)
        return held


def _of(kind: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.split()[0] == kind]
