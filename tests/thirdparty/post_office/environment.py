"""A house with rooms, where letters are delivered by hand."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from ldm.envs.metadata import Metadata, ShippedSplits
from ldm.episode import EnvironmentBase
from ldm.errors import LdmError
from ldm.types import Card, Step, Task, TimeStep, Trajectory


@dataclass(frozen=True, slots=True)
class Letter:
    """A letter for a person, and the room where that person is."""

    person: str
    room: str


ROOMS = ("attic", "cellar", "kitchen", "library", "studio")
SPLITS = ("demo_explore", "demo_test")
#: Who is where in the demo: the same people in both splits, so that a memory can help.
DEMO: tuple[Letter, ...] = (
    Letter("Ms Lark", "studio"),
    Letter("Mr Wren", "attic"),
    Letter("Ms Finch", "library"),
    Letter("Mr Crane", "cellar"),
    Letter("Ms Heron", "kitchen"),
    Letter("Mr Swift", "studio"),
    Letter("Ms Robin", "cellar"),
    Letter("Mr Stork", "attic"),
)


@dataclass(frozen=True, slots=True)
class PostOfficeOptions:
    start: Annotated[str, "The first room"] = "hall"


class PostOffice(EnvironmentBase):
    """Letters for people who are in the rooms of a house."""

    card = Card(
        name="post_office",
        rules="Each person is in some room. You carry one letter.",
        actions=("go to ROOM", "give the letter to PERSON"),
        kinds={"deliver": "give the letter to the person it is for"},
    )
    metadata = Metadata(shipped=ShippedSplits("demo_explore", "demo_test"), batch_size=4)
    default_split = "demo_test"
    train_splits = ("demo_explore",)
    Options = PostOfficeOptions
    options: PostOfficeOptions

    def __init__(self, options: PostOfficeOptions) -> None:
        super().__init__(options)
        self._place, self._person, self._done = "", "", True
        self._people: dict[str, str] = {}

    def protocol(self) -> Mapping[str, Any]:
        return {"environment": "post_office", "version": 1, "start": self.options.start}

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in SPLITS:
            raise LdmError(f"post_office has no split {split!r}.", f"Splits: {', '.join(SPLITS)}.")
        return [
            Task(f"{split}/{n}", "post_office", split, f"deliver to {letter.person}", "deliver")
            for n, letter in enumerate(DEMO)
        ]

    def reset(self, task: Task) -> TimeStep:
        self._people = {letter.person: letter.room for letter in DEMO}
        self._person = task.goal.removeprefix("deliver to ")
        self._place, self._done = self.options.start, False
        return self._answer(f"You are in the {self._place} with a letter. Rooms: {_listed(ROOMS)}.")

    def step(self, action: str) -> TimeStep:
        if action not in self._admissible():
            return self._answer("That is not possible.", valid=False)
        if action.startswith("go to "):
            self._place = action.removeprefix("go to ")
            return self._answer(f"You are in the {self._place}. Here: {_listed(self._present())}.")
        self._done = True
        delivered = action.endswith(f" {self._person}")
        return self._answer("The letter is gone.", reward=float(delivered))

    def fork(self) -> PostOffice:
        return copy.copy(self)  # no state is changed in place

    def close(self) -> None:
        self._done = True

    def _present(self) -> list[str]:
        return [person for person, room in self._people.items() if room == self._place]

    def _admissible(self) -> tuple[str, ...]:
        if self._done:
            return ()
        doors = (f"go to {room}" for room in ROOMS if room != self._place)
        return (*doors, *(f"give the letter to {person}" for person in self._present()))

    def _answer(self, text: str, *, reward: float = 0.0, valid: bool = True) -> TimeStep:
        return TimeStep(text, reward, self._done, self._admissible(), valid)


def expert_episodes(count: int = 6) -> list[Trajectory]:
    """Return what someone who knows where everyone is does with the first letters of the demo."""
    env = PostOffice(PostOfficeOptions())
    rooms = {letter.person: letter.room for letter in DEMO}
    trajectories = []
    for task in env.tasks("demo_explore")[:count]:
        person = task.goal.removeprefix("deliver to ")
        opening, steps = env.reset(task).observation, []
        for action in (f"go to {rooms[person]}", f"give the letter to {person}"):
            answer = env.step(action)
            steps.append(Step(action, answer.observation, answer.reward))
        trajectories.append(Trajectory(task, opening, tuple(steps), 1.0, True, "expert"))
    return trajectories


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nobody"
