"""DEPS' ten tasks of ALFWorld (arXiv 2302.01560, Table 5), found among the games of a split.

The paper names neither split nor games. Table 6's averages weigh the kinds by how many of the ten
tasks each has: 3 pick, 2 clean, 2 cool, 1 heat, 1 pick2, 1 look.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ldm.types import Task, stable_hash

#: Games of a task.
EPISODES = 5
WEIGHTS: Mapping[str, int] = {"pick": 3, "clean": 2, "cool": 2, "heat": 1, "pick2": 1, "look": 1}


@dataclass(frozen=True, slots=True)
class PublishedTask:
    """One of the ten: its instruction, kind, object, place ("" for a lamp), and how many places."""

    number: int
    goal: str
    kind: str
    thing: str
    place: str
    places: int


TEN: Sequence[PublishedTask] = (
    PublishedTask(1, "put some soapbottle on garbagecan", "pick", "SoapBottle", "GarbageCan", 13),
    PublishedTask(2, "put a tissuebox in dresser", "pick", "TissueBox", "Dresser", 26),
    PublishedTask(3, "put some soapbar on drawer", "pick", "SoapBar", "Drawer", 15),
    PublishedTask(4, "put a clean soapbar in bathtubbasin", "clean", "SoapBar", "BathtubBasin", 16),
    PublishedTask(5, "clean some tomato and put it in fridge", "clean", "Tomato", "Fridge", 35),
    PublishedTask(6, "put a cool tomato in countertop", "cool", "Tomato", "CounterTop", 30),
    PublishedTask(7, "put a cool bread in countertop", "cool", "Bread", "CounterTop", 27),
    PublishedTask(8, "heat some cup and put it in cabinet", "heat", "Cup", "Cabinet", 36),
    PublishedTask(9, "find two cup and put them in cabinet", "pick2", "Cup", "Cabinet", 36),
    PublishedTask(10, "look at mug under the desklamp", "look", "Mug", "", 18),
)

_GAME = re.compile(r"(?:^|/)[a-z_]+-([A-Za-z]+)-[A-Za-z]+-([A-Za-z]+)-(\d+)/")


@dataclass(frozen=True, slots=True)
class Choice:
    """The games that stand for one of the ten. fits: "" where object and place are the same."""

    row: PublishedTask
    tasks: tuple[Task, ...]
    fits: str = ""


def choices(tasks: Sequence[Task], places: Callable[[Task], int]) -> Iterator[Choice]:
    """Yield the games of each of the ten, no game twice.

    places: how many places a game's room has. Where there is no game with object and place, it is
    games of the kind, those with the place first; where there is none of the kind either, none.
    """
    free = list(tasks)
    exact = {one.number: _fitting(one, free) for one in TEN}
    for own in exact.values():
        free = [task for task in free if task not in own]
    for row in TEN:
        own = exact[row.number]
        fits = ""
        if not own:
            fits = "no game has object and place"
            own = [task for task in free if task.kind == row.kind]
        ranked = sorted(
            own,
            key=lambda task: (
                _parts(task)[1] != row.place,
                abs(places(task) - row.places),
                stable_hash("deps10", task.id),
            ),
        )
        chosen = tuple(ranked[:EPISODES])
        free = [task for task in free if task not in chosen]
        yield Choice(row, chosen, fits)


def _fitting(row: PublishedTask, tasks: Sequence[Task]) -> list[Task]:
    parts = (row.thing, row.place)
    return [
        task
        for task in tasks
        if task.kind == row.kind
        and (_parts(task)[0], _parts(task)[1] if row.place else "") == parts
    ]


def _parts(task: Task) -> tuple[str, str]:
    """Return object and place of a game, by its id."""
    match = _GAME.search(task.id)
    return (match[1], match[2]) if match else ("", "")


def listing(chosen: Sequence[Choice]) -> str:
    """Return a task list for `ldm eval --tasks`, with a comment for each of the ten."""
    lines = []
    for one in chosen:
        about = f" ({one.fits}: games of the kind {one.row.kind})" if one.fits else ""
        lines.append(f"# {one.row.number}. {one.row.goal}{about}")
        lines += [task.id for task in one.tasks] or ["# none of this kind"]
    return "\n".join(lines) + "\n"


def places_in(opening: str) -> int:
    """Return how many places the first observation of a game lists."""
    line = next((line for line in opening.splitlines() if "you see" in line.casefold()), "")
    return len(re.findall(r"\ban? [a-z]+ \d+", line))
