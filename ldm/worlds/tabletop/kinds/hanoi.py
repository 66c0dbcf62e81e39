"""Towers of Hanoi: three rings move to the darker brown side, the largest one below."""

from __future__ import annotations

import random
from collections.abc import Iterator
from statistics import fmean

from ldm.worlds.tabletop.actions import NO_ACTION, Move, Refusal, listing, pattern
from ldm.worlds.tabletop.scene import (
    COLOURS,
    FLAT,
    Fixture,
    Layout,
    Pose,
    Poses,
    Scene,
    Thing,
    ring,
)

#: Length of the stand, and its places along it (Ravens: 0.12 apart).
_LENGTH = 0.36
PLACES = {"lighter brown side": -0.12, "middle of the stand": 0.0, "darker brown side": 0.12}
_DARK = "darker brown side"
#: A ring whose middle is nearer to a place than this is straight: its rod goes through the ring.
NEAR = 0.03
#: A ring that is nearer to a place than this is there, straight or not: half way to the next.
_THERE = 0.06
#: Largest first, as the rings lie on each other at the start.
_SIZES = ("large", "middle-sized", "small")
_RINGS = (ring(0.055), ring(0.045), ring(0.035))

_FORM = pattern("move the COLOR ring to the PLACE")


class Hanoi:
    """CLIPort's towers-of-hanoi."""

    name = "towers_of_hanoi"
    instruction = "Move the rings to the darker brown side."

    def draw(self, rng: random.Random) -> Scene:
        """Draw a stand with three rings on its lighter brown side, largest below."""
        stand = Layout(rng).spot(_LENGTH / 2)
        colours = rng.sample([colour for colour in COLOURS if colour != "brown"], len(_RINGS))
        start = stand.place(PLACES["lighter brown side"], 0.0)
        things = tuple(
            Thing(colour, "ring", form, FLAT, Pose(start.x, start.y, FLAT * (n + 0.5), start.yaw))
            for n, (colour, form) in enumerate(zip(colours, _RINGS, strict=True))
        )
        return Scene(things, (Fixture("stand", stand),))

    def opening(self, scene: Scene) -> str:
        """Name the places and the rings with their sizes."""
        rings = [f"{t.colour} ({size})" for t, size in zip(scene.things, _SIZES, strict=True)]
        places = listing([f"the {place}" for place in PLACES])
        return f"There is a stand with three places: {places}. There are 3 rings: {listing(rings)}."

    def whereabouts(self, scene: Scene, poses: Poses) -> list[str]:
        """Return the place of each ring, and the ring below it."""
        places = []
        for number, pose in enumerate(poses):
            place = self._place(scene, pose)
            stack = [] if place is None else self._stack(scene, poses, place)
            below = stack[stack.index(number) - 1] if stack and stack[0] != number else None
            on = "" if below is None else f"on the {scene.things[below].name} "
            askew = "" if self._straight(scene, pose) else ", but not straight"
            places.append(f"{on}on the {place}{askew}" if place else "beside the stand")
        return places

    def commands(self, scene: Scene, poses: Poses) -> list[str]:
        """List the moves that the rules of the game allow."""
        return [
            f"move the {thing.name} to the {place}"
            for number, thing in enumerate(scene.things)
            for place in PLACES
            if not (
                self._place(scene, poses[number]) == place and self._straight(scene, poses[number])
            )
            and self._against_rules(scene, poses, number, place) is None
        ]

    def understand(self, action: str, scene: Scene, poses: Poses) -> Move | Refusal:
        """Put a ring on a place, on the rings there."""
        match = _FORM.fullmatch(action)
        if match is None:
            return NO_ACTION
        colours = [thing.colour for thing in scene.things]
        if match["color"] not in colours:
            return Refusal(f"There is no {match['color']} ring here.")
        if match["place"] not in PLACES:
            return Refusal(f"The stand has no place that is called the {match['place']}.")
        number, place = colours.index(match["color"]), match["place"]
        refusal = self._against_rules(scene, poses, number, place)
        if refusal is not None:
            return refusal
        spot = scene.fixtures[0].pose.place(PLACES[place], 0.0)
        height = sum(other != number for other in self._stack(scene, poses, place))
        target = Pose(spot.x, spot.y, FLAT * (height + 0.5), poses[number].yaw)
        return Move(number, target, f"the {place}")

    def share(self, scene: Scene, poses: Poses) -> float:
        """Return the share of rings that are done: on the darker side, as is every larger one."""
        stack = self._stack(scene, poses, _DARK)
        done = [
            stack[number : number + 1] == [number]
            and self._straight(scene, pose)
            and abs(pose.z - FLAT * (number + 0.5)) < FLAT / 4
            for number, pose in enumerate(poses)
        ]
        return fmean(all(done[: number + 1]) for number in range(len(done)))

    def goals(self) -> Iterator[str]:
        """Yield each colour with each place."""
        for colour in COLOURS:
            if colour != "brown":
                yield from (f"move the {colour} ring to the {place}" for place in PLACES)

    def _place(self, scene: Scene, pose: Pose) -> str | None:
        stand = scene.fixtures[0].pose
        for place, along in PLACES.items():
            if stand.place(along, 0.0).distance(pose) <= _THERE:
                return place
        return None

    def _straight(self, scene: Scene, pose: Pose) -> bool:
        stand = scene.fixtures[0].pose
        return any(stand.place(x, 0.0).distance(pose) <= NEAR for x in PLACES.values())

    def _stack(self, scene: Scene, poses: Poses, place: str) -> list[int]:
        """Return the rings on a place, the lowest first."""
        there = [n for n, pose in enumerate(poses) if self._place(scene, pose) == place]
        return sorted(there, key=lambda number: poses[number].z)

    def _against_rules(self, scene: Scene, poses: Poses, number: int, place: str) -> Refusal | None:
        """Return which rule of the game a move breaks; a lower number is a larger ring."""
        ring_, home = scene.things[number], self._place(scene, poses[number])
        stack = [number] if home is None else self._stack(scene, poses, home)
        if stack[-1] != number:
            return Refusal(f"The {ring_.name} is under the {scene.things[stack[-1]].name}.")
        there = [other for other in self._stack(scene, poses, place) if other != number]
        if there and there[-1] > number:
            smaller = scene.things[there[-1]].name
            return Refusal(f"The {ring_.name} is larger than the {smaller} on the {place}.")
        return None
