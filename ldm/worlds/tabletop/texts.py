"""Observations: the things, the effect of an action, and the present places."""

from __future__ import annotations

from ldm.worlds.tabletop.actions import Move
from ldm.worlds.tabletop.kinds import Kind
from ldm.worlds.tabletop.scene import Pose, Poses, Scene


def opening(kind: Kind, scene: Scene, poses: Poses, *, coordinates: bool) -> str:
    """Return the first observation: the things, their places, and the task."""
    lines = [kind.opening(scene)]
    if coordinates:
        lines.append(" ".join(f"The {f.title} is at {_at(f.pose)}." for f in scene.fixtures))
    lines.append(whereabouts(kind, scene, poses, coordinates=coordinates))
    return "\n".join([*lines, f"Task: {kind.instruction}"])


def whereabouts(kind: Kind, scene: Scene, poses: Poses, *, coordinates: bool) -> str:
    """Return the place of each thing, in a sentence."""
    sentences = []
    for thing, pose, place in zip(scene.things, poses, kind.whereabouts(scene, poses), strict=True):
        where = f"{place}, at {_at(pose)}" if coordinates else place
        sentences.append(f"The {thing.name} is {where}.")
    return " ".join(sentences)


def carried(scene: Scene, move: Move, *, missed: bool) -> str:
    """Return the effect of a move, in a sentence."""
    name = scene.things[move.thing].name
    if missed:
        return f"You reach for the {name}, but the gripper does not get hold of it."
    return f"You carry the {name} to {move.goal} and let go."


def _at(pose: Pose) -> str:
    """Return x and y in centimetres."""
    return f"({100 * pose.x:.1f}, {100 * pose.y:.1f})"
