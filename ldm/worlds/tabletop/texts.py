"""Observations: the things, the effect of an action, and the present places."""

from __future__ import annotations

from ldm.worlds.tabletop.actions import Move
from ldm.worlds.tabletop.kinds import Kind
from ldm.worlds.tabletop.scene import Poses, Scene


def opening(kind: Kind, scene: Scene, poses: Poses) -> str:
    """Return the first observation: the things, their places, and the task."""
    places = whereabouts(kind, scene, poses)
    return f"{kind.opening(scene)}\n{places}\nTask: {kind.instruction}"


def whereabouts(kind: Kind, scene: Scene, poses: Poses) -> str:
    """Return the place of each thing, in a sentence."""
    places = zip(scene.things, kind.whereabouts(scene, poses), strict=True)
    return " ".join(f"The {thing.name} is {place}." for thing, place in places)


def carried(scene: Scene, move: Move, *, missed: bool) -> str:
    """Return the effect of a move, in a sentence."""
    name = scene.things[move.thing].name
    if missed:
        return f"You reach for the {name}, but the gripper does not get hold of it."
    return f"You carry the {name} to {move.goal} and let go."
