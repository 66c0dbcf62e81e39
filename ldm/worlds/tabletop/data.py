"""Check that MuJoCo is installed, and that the scene of every task rests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ldm.envs.metadata import DataCheck
from ldm.records import Problem
from ldm.worlds.tabletop.environment import CARD, ENV, SPLITS, Game, games
from ldm.worlds.tabletop.physics import World, version

#: Metres by which a thing that rests may move when its scene is laid out.
_MOVED = 0.001


def check(path: Path | None = None) -> DataCheck:
    """Count the tasks, and name those whose things do not rest where they were laid out.

    path: ignored, as scenes are drawn. Raise LdmError if MuJoCo is not installed.
    """
    facts = {"mujoco": version(), "actions": len(CARD.goals)}
    splits, problems = dict[str, dict[str, int]](), list[Problem]()
    for split in SPLITS:
        listed = games(split)
        splits[split] = dict(Counter(game.task.kind for game in listed))
        for number, game in enumerate(listed, 1):
            if not _rests(game):
                fault = "does not rest as it was laid out"
                problems.append(Problem(split, number, game.task.id, fault))
    return DataCheck(ENV, None, splits, facts, tuple(problems))


def _rests(game: Game) -> bool:
    poses = World(game.scene).start().poses
    pairs = zip(game.scene.things, poses, strict=True)
    return all(pose.distance(thing.start) < _MOVED for thing, pose in pairs)
