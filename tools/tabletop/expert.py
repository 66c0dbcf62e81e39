"""An expert that plans each kind exactly, and puts right what a noisy hand did wrong.

It sees where things are, as a camera would, and takes one of the actions that are possible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ldm.errors import LdmError
from ldm.types import Step, Task, Trajectory
from ldm.worlds.tabletop.actions import Move, normal
from ldm.worlds.tabletop.environment import Tabletop, game_of
from ldm.worlds.tabletop.kinds import IN_PLACE, KINDS, PLACES, STAND, Kind
from ldm.worlds.tabletop.kinds import target as pyramid_target
from ldm.worlds.tabletop.scene import BLOCK, Pose, Poses, Scene

#: Places of the three rings, the largest first; None beside the stand.
_Rings = tuple[str | None, ...]
_DONE: _Rings = ("darker brown side",) * 3


def solve(env: Tabletop, task: Task) -> Trajectory:
    """Return the expert's episode of a task. Raise LdmError where it does not succeed."""
    episode = attempt(env, task)
    if not episode.success:
        raise LdmError(f"The expert did not solve {task.id}.", "Play it step by step.")
    return episode


def attempt(env: Tabletop, task: Task) -> Trajectory:
    """Return the expert's episode of a task, solved or not; it ends where the expert is stuck."""
    kind, scene = KINDS[task.kind], game_of(task).scene
    now = env.reset(task)
    opening, steps, score = now.observation, [], 0.0
    while not now.done:
        listed = sorted(kind.commands(scene, env.poses))
        action = _CHOICES[task.kind](kind, scene, env.poses, listed)
        if action is None:
            break
        now = env.step(action)
        score += now.reward
        steps.append(Step(action, now.observation, now.reward, valid=now.valid))
    success = score > 1 - 1e-9
    score = min(1.0, max(0.0, score))
    return Trajectory(task, opening, tuple(steps), score, success, origin="expert")


_Choice = Callable[[Kind, Scene, Poses, Sequence[str]], str | None]


def _first(kind: Kind, scene: Scene, poses: Poses, listed: Sequence[str]) -> str | None:
    """Return the first action: each listed one puts a thing where it belongs."""
    return next(iter(listed), None)


def _same_colour(kind: Kind, scene: Scene, poses: Poses, listed: Sequence[str]) -> str | None:
    """Return the first action that puts a block into a bowl of its colour."""
    matching = (f"put the {t.colour} blocks in a {t.colour} bowl" for t in scene.things)
    return next((action for action in matching if action in listed), None)


def _next_ring(kind: Kind, scene: Scene, poses: Poses, listed: Sequence[str]) -> str | None:
    """Return the first move of a shortest solution, by breadth-first search.

    What is not straight is first put down again where it is.
    """
    where = kind.whereabouts(scene, poses)
    start = tuple(next((place for place in STAND if place in text), None) for text in where)
    for thing, text, place in zip(scene.things, where, start, strict=True):
        again = f"move the {thing.name} to the {place}"
        if text.endswith("straight") and again in listed:
            return again
    moves: dict[_Rings, tuple[int, str]] = {}
    queue, visited = deque([start]), {start}
    while queue:
        rings = queue.popleft()
        for ring, place in _legal(rings):
            after = (*rings[:ring], place, *rings[ring + 1 :])
            if after not in visited:
                visited.add(after)
                queue.append(after)
                moves[after] = moves.get(rings, (ring, place))
    if _DONE not in moves:
        return None  # not even the physics leaves a larger ring on a smaller one
    ring, place = moves[_DONE]
    return f"move the {scene.things[ring].name} to the {place}"


def _legal(rings: _Rings) -> list[tuple[int, str]]:
    """Return the moves that the rules allow; a ring with a higher number is smaller."""
    moves = []
    for ring, home in enumerate(rings):
        smaller = rings[ring + 1 :]
        if home is None or home not in smaller:
            moves += [(ring, place) for place in STAND if place not in (home, *smaller)]
    return moves


def _next_block(kind: Kind, scene: Scene, poses: Poses, listed: Sequence[str]) -> str | None:
    """Return an action for the first place of the pyramid that has no block and can get one.

    A block that is askew in that place is put there again; else the first one that is in none.
    """
    moves = {action: kind.understand(normal(action), scene, poses) for action in listed}
    targets = [pyramid_target(scene, place) for place in PLACES]
    settled = {n for n, pose in enumerate(poses) if any(_near(pose, t, IN_PLACE) for t in targets)}
    for target in targets:
        if any(_near(pose, target, IN_PLACE) for pose in poses):
            continue
        askew = [n for n, pose in enumerate(poses) if _near(pose, target, BLOCK)]
        for block in askew or [n for n in range(len(poses)) if n not in settled]:
            for action, move in moves.items():
                fits = isinstance(move, Move) and _near(move.target, target, 1.5 * IN_PLACE)
                if fits and isinstance(move, Move) and move.thing == block:
                    return action
    return None


def _near(pose: Pose, target: Pose, distance: float) -> bool:
    return pose.distance(target) <= distance and abs(pose.z - target.z) <= BLOCK / 4


_CHOICES: dict[str, _Choice] = {
    "assembling_kits": _first,
    "towers_of_hanoi": _next_ring,
    "put_block_in_bowl": _same_colour,
    "packing_shapes": _first,
    "stack_block_pyramid": _next_block,
}
