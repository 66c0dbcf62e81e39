"""A generator of seeded games that follow ALFWorld's rules, for use without its data.

A household is one room with about half the places and objects of an official one; its problem is
PDDL that the official engine plays too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ldm.types import stable_seed
from ldm.worlds.alfworld.games import KINDS, Game
from tools.alfworld.room_types import (
    CLEANABLE,
    CONTAINERS,
    COOLABLE,
    HEATABLE,
    LAMP,
    OPENABLE,
    PLACES,
    ROOMS,
    STATIONS,
    Room,
)

_DISTRACTORS = (10, 18)
_CHANGED = {"clean": CLEANABLE, "heat": HEATABLE, "cool": COOLABLE}
#: Task texts, as in the official games: {0} is the object, {1} where it goes, or the lamp.
_TASKS = {
    "pick": ("put a {0} in {1}", "put some {0} on {1}"),
    "look": ("look at {0} under the {1}", "examine the {0} with the {1}"),
    "clean": ("put a clean {0} in {1}", "clean some {0} and put it in {1}"),
    "heat": ("put a hot {0} in {1}", "heat some {0} and put it in {1}"),
    "cool": ("put a cool {0} in {1}", "cool some {0} and put it in {1}"),
    "pick2": ("put two {0} in {1}", "find two {0} and put them in {1}"),
}
_FOLDERS = {kind: folder for folder, kind in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Household:
    """A room with what is in it, and a task.

    places: ids of receptacles, the type first. where: object id → receptacle id.
    target: the type of place where the object goes, or the lamp.
    """

    number: int
    kind: str
    object: str
    target: str
    places: tuple[str, ...]
    where: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """Task and trial folder, as the official games are named."""
        parts = (self.object, "None", self.target, str(self.number))
        return f"{_FOLDERS[self.kind]}-{'-'.join(parts)}/trial_1"


def generate(split: str, per_kind: int, *, seed: int) -> list[Game]:
    """Return `per_kind` games of each of the six kinds, each in its own household, sorted by id."""
    games = []
    for index in range(per_kind * len(KINDS)):
        kind = list(KINDS.values())[index % len(KINDS)]
        rng = random.Random(stable_seed("household", split, seed, index))
        household = _furnish(rng, index + 1, kind)
        words = rng.choice(_TASKS[kind]).format(household.object.lower(), household.target.lower())
        problem = _problem(household)
        games.append(Game(f"{split}/{household.name}", kind, f"{words}.", problem))
    return sorted(games, key=lambda game: game.id)


def type_of(name: str) -> str:
    """Return the type in an id: "Mug_bar_2" → "Mug", "Sink_bar_1_bar_SinkBasin" → "SinkBasin"."""
    first, _, rest = name.partition("_bar_")
    return rest.partition("_bar_")[2] or first


def _furnish(rng: random.Random, number: int, kind: str) -> Household:
    room = rng.choice([room for room in ROOMS if kind in room.kinds])
    places = _places(room, rng, lamp=kind == "look")
    types = {type_of(place) for place in places}
    object_type = rng.choice([o for o in room.objects if _possible(o, kind, types)])
    goals = [p for p in PLACES[object_type] if p in types and p != STATIONS.get(kind)]
    target = LAMP if kind == "look" else rng.choice(goals)
    copies = rng.choice((2, 3)) if kind == "pick2" else rng.choice((1, 1, 2))
    other_types = [o for o in room.objects if o != object_type and types & set(PLACES[o])]
    distractors = rng.choices(other_types, k=rng.randint(*_DISTRACTORS))
    where: list[tuple[str, str]] = []
    counts: dict[str, int] = {}

    def place_object(name: str, avoiding: str = "") -> None:
        counts[name] = counts.get(name, 0) + 1
        candidates = [p for p in places if type_of(p) in PLACES[name] and type_of(p) != avoiding]
        weights = [1 / (1 + PLACES[name].index(type_of(p))) for p in candidates]
        where.append((f"{name}_bar_{counts[name]}", rng.choices(candidates, weights)[0]))

    for _ in range(copies):
        place_object(object_type, avoiding=target)
    if kind == "look":
        place_object(LAMP)
    for name in distractors:
        place_object(name)
    return Household(number, kind, object_type, target, places, tuple(sorted(where)))


def _places(room: Room, rng: random.Random, *, lamp: bool) -> tuple[str, ...]:
    """Return ids of a room's receptacles; a lamp needs one of the places that can hold it."""
    names = []
    for name, (fewest, most) in room.places.items():
        least = max(fewest, 1) if lamp and name in PLACES[LAMP] else fewest
        for i in range(1, rng.randint(least, most) + 1):
            basin = name.endswith("Basin")
            first = name.removesuffix("Basin")
            names.append(f"{first}_bar_{i}_bar_{name}" if basin else f"{name}_bar_{i}")
    return tuple(names)


def _possible(name: str, kind: str, types: set[str]) -> bool:
    """Return whether the task can change the object, and the object has two usual places."""
    usual = types & set(PLACES[name]) - {STATIONS.get(kind)}
    return name in _CHANGED.get(kind, PLACES) and len(usual) > 1


def _goal(household: Household) -> str:
    """Return the goal in PDDL, in the form that the official games give it."""
    kind, thing, place = household.kind, household.object, household.target
    place_type = f"(receptacleType ?r {place}Type)"
    if kind == "look":
        return (
            "(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and "
            f"(objectType ?ot {place}Type) (toggleable ?ot) (isToggled ?ot) "
            "(receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r))) "
            f"(exists (?o - object ?a - agent) (and (objectType ?o {thing}Type) (holds ?a ?o))))"
        )
    if kind == "pick2":
        first, second = (
            f"(objectType {name} {thing}Type) {place_type} (inReceptacle {name} ?r)"
            for name in ("?o1", "?o2")
        )
        return (
            f"(exists (?r - receptacle) (exists (?o1 - object) (and {first} "
            f"(exists (?o2 - object) (and (not (= ?o1 ?o2)) {second})))))"
        )
    changed = {
        "clean": "(cleanable ?o) (isClean ?o)",
        "heat": "(heatable ?o) (isHot ?o)",
        "cool": "(coolable ?o) (isCool ?o)",
    }.get(kind, "")
    return (
        f"(exists (?r - receptacle) (exists (?o - object) (and {changed} "
        f"(objectType ?o {thing}Type) {place_type} (inReceptacle ?o ?r))))"
    )


def _problem(household: Household) -> str:
    objects = [name for name, _ in household.where]
    object_types = sorted({type_of(name) for name in objects})
    place_types = sorted({type_of(name) for name in household.places})
    locations = {place: f"loc_bar_{i}" for i, place in enumerate(household.places, start=1)}
    start = f"loc_bar_{len(locations) + 1}"
    # The domain names these types in its actions, so they must exist in every problem.
    named_places = sorted({*place_types, "SinkBasinType", "MicrowaveType", "FridgeType"})
    declared = [
        _declare(["agent1"], "agent"),
        _declare([*locations.values(), start], "location"),
        _declare([_typed(name) for name in object_types], "otype"),
        _declare(["KnifeType", "ButterKnifeType"], "otype", without=object_types),
        _declare(sorted({_typed(name) for name in named_places}), "rtype"),
        _declare(objects, "object"),
        _declare(household.places, "receptacle"),
    ]
    facts = [
        f"atLocation agent1 {start}",
        *_place_facts(locations),
        *(
            f"canContain {p}Type {o}Type"
            for o in object_types
            for p in PLACES[o]
            if p in place_types
        ),
    ]
    for name, place in household.where:
        facts += _object_facts(name, place, locations[place])
    return "\n".join(
        (
            f"(define (problem household_{household.number})",
            "(:domain alfred)",
            f"(:objects {' '.join(filter(None, declared))})",
            "(:init " + " ".join(f"({fact})" for fact in facts) + ")",
            f"(:goal {_goal(household)}))",
        )
    )


def _typed(name: str) -> str:
    return name if name.endswith("Type") else f"{name}Type"


def _declare(names: Sequence[str], kind: str, without: Sequence[str] = ()) -> str:
    declared = [name for name in names if name.removesuffix("Type") not in without]
    return f"{' '.join(declared)} - {kind}" if declared else ""


def _place_facts(locations: dict[str, str]) -> list[str]:
    facts = []
    for place, location in locations.items():
        facts.append(f"receptacleType {place} {type_of(place)}Type")
        facts.append(f"receptacleAtLocation {place} {location}")
        if type_of(place) in OPENABLE:
            facts.append(f"openable {place}")
    return facts


def _object_facts(name: str, place: str, location: str) -> list[str]:
    kind = type_of(name)
    properties = {
        "pickupable": kind != LAMP,
        "toggleable": kind == LAMP,
        "isReceptacleObject": kind in CONTAINERS,
        "cleanable": kind in CLEANABLE,
        "heatable": kind in HEATABLE,
        "coolable": kind in COOLABLE,
    }
    return [
        f"objectType {name} {kind}Type",
        f"inReceptacle {name} {place}",
        f"objectAtLocation {name} {location}",
        *(f"{fact} {name}" for fact, holds in properties.items() if holds),
    ]
