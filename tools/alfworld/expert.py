"""An expert for ALFWorld's games, our own and the official ones, that explores as a person would.

It knows the task and the usual places of things, not where they are: it visits likely places
first, opens what is closed, remembers what it sees, and never looks into the game's state.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from ldm.episode import Environment
from ldm.errors import LdmError
from ldm.types import Step, Task, TimeStep, Trajectory, stable_seed
from tools.alfworld.room_types import LAMP, PLACES, STATIONS

_NAMED = re.compile(r"\b([a-z]+ \d+)\b")
_ROOM = "Looking quickly around you, you see "
_NOISE = 1.5


def solve(env: Environment, task: Task, *, seed: int) -> Trajectory:
    """Return the expert's episode of a task. Raise LdmError where it fails."""
    _, folder, _ = task.id.split("/")
    _, object_type, _, target, _ = folder.split("-")
    person = _Person(env, random.Random(stable_seed("expert", seed, task.id)))
    opening = person.begin(task)
    if task.kind == "look":
        person.fetch(object_type)
        person.search(LAMP)
        person.do(f"use {person.nearest(LAMP.lower())}")
    else:
        place = person.choose(target.lower())
        for _ in range(2 if task.kind == "pick2" else 1):
            held = person.fetch(object_type, avoiding=place)
            if task.kind in STATIONS:
                station = person.choose(STATIONS[task.kind].lower())
                person.go(station)
                person.do(f"{task.kind} {held} with {station}")
            person.go(place, opening=True)
            person.do(f"move {held} to {place}")
    if not person.now.done:
        raise LdmError(
            f"The expert did not solve {task.id}.", "Look for what differs in its household."
        )
    return Trajectory(
        task, opening, tuple(person.steps), score=person.now.reward, success=True, origin="expert"
    )


@dataclass
class _Person:
    """The expert in one episode, with what it has seen and done."""

    env: Environment
    rng: random.Random
    places: list[str] = field(default_factory=list)
    contents: dict[str, list[str]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    here: str = ""
    steps: list[Step] = field(default_factory=list)
    now: TimeStep = field(default_factory=lambda: TimeStep(""))

    def begin(self, task: Task) -> str:
        """Start the task and note its places; return the opening."""
        opening = self.env.reset(task).observation
        self.places = _NAMED.findall(opening.split(_ROOM, 1)[1].split("\n", 1)[0])
        return opening

    def do(self, action: str) -> str:
        """Act, remember what is seen in the place, and return the observation.

        Nothing is done once the task is: another thing may lie where it belongs already.
        """
        if self.now.done:
            return ""
        action = self.env.localize(action)
        self.now = self.env.step(action)
        now = self.now
        self.steps.append(Step(action, now.observation, now.reward, valid=now.valid))
        if " you see " in now.observation:
            self.contents[self.here] = _NAMED.findall(now.observation.split(" you see ", 1)[1])
        return now.observation

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
        """Return one of the places of a type. Raise LdmError without one."""
        fitting = [place for place in self.places if place.split()[0] == kind]
        if not fitting:
            raise LdmError(f"The room has no {kind}.", "Leave the game out.")
        return self.rng.choice(fitting)

    def nearest(self, kind: str) -> str:
        """Return the first thing of a type in the present place. Raise LdmError without one."""
        for name in self.contents.get(self.here, ()):
            if name.split()[0] == kind:
                return name
        raise LdmError(f"The expert sees no {kind}.", "Try another seed.")

    def search(self, object_type: str, *, avoiding: str = "") -> None:
        """Go to a place that has an object of the type: one remembered, else place after place."""
        kind = object_type.lower()

        def has(place: str) -> bool:
            return any(name.split()[0] == kind for name in self.contents.get(place, ()))

        remembered = [place for place in self.places if place != avoiding and has(place)]
        if remembered:
            self.go(remembered[0])
            return
        likely = [place.lower() for place in PLACES.get(object_type, ())]
        unlikely = float(len(likely) + 2)
        order = sorted(
            (place for place in self.places if place not in self.contents and place != avoiding),
            key=lambda place: (
                _rank(place.split()[0], likely, unlikely) + self.rng.gauss(0.0, _NOISE)
            ),
        )
        for place in order:
            self.go(place, opening=True)
            if has(place):
                return
        raise LdmError(f"The expert found no {kind}.", "Look for what differs in the household.")

    def fetch(self, object_type: str, *, avoiding: str = "") -> str:
        """Find an object of the type and pick it up; return its name."""
        self.search(object_type, avoiding=avoiding)
        held = self.nearest(object_type.lower())
        self.do(f"take {held} from {self.here}")
        self.contents[self.here].remove(held)
        return held


def _rank(kind: str, likely: list[str], unlikely: float) -> float:
    return float(likely.index(kind)) if kind in likely else unlikely
