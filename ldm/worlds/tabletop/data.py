"""Check what can be played: that MuJoCo is there, and the tasks of all splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.errors import LdmError
from ldm.records import Problem
from ldm.worlds.tabletop.card import CARD
from ldm.worlds.tabletop.physics import World, version
from ldm.worlds.tabletop.tasks import ENV, SPLITS, Game, games

#: Metres by which a thing that rests may have moved when its scene is laid out.
_MOVED = 0.001


@dataclass(frozen=True, slots=True)
class Report:
    """What can be played.

    mujoco: its version. goals: how many actions there are. splits: tasks by kind.
    problems: tasks whose things do not lie where they were laid out.
    """

    mujoco: str
    goals: int
    splits: Mapping[str, Mapping[str, int]]
    problems: tuple[Problem, ...]

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text."""
        yield f"Tabletop: MuJoCo {self.mujoco}, {self.goals} different actions; no data needed"
        for split, counts in self.splits.items():
            kinds = ", ".join(f"{kind} {count}" for kind, count in counts.items())
            yield f"  {split}: {sum(counts.values())} tasks ({kinds})"

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "env": ENV,
            "mujoco": self.mujoco,
            "goals": self.goals,
            "splits": {split: dict(counts) for split, counts in self.splits.items()},
            "problems": [
                {"file": p.file, "line": p.line, "field": p.field, "message": p.message}
                for p in self.problems
            ],
        }


def check(path: Path | None = None) -> Report:
    """Lay out the scene of every task, and look whether it rests.

    Raise LdmError if MuJoCo is not installed, or a path is given: there are no data to check.
    """
    if path is not None:
        raise LdmError(
            f"The tabletop has no data, so {path} cannot be checked.", "Leave the path out."
        )
    listed = {split: games(split) for split in SPLITS}
    return Report(
        mujoco=version(),
        goals=len(CARD.goals),
        splits={
            split: dict(Counter(game.task.kind for game in own)) for split, own in listed.items()
        },
        problems=tuple(
            Problem(split, number, game.task.id, "does not rest as it was laid out")
            for split, own in listed.items()
            for number, game in enumerate(own, 1)
            if not _rests(game)
        ),
    )


def _rests(game: Game) -> bool:
    poses = World(game.scene).start().poses
    pairs = zip(game.scene.things, poses, strict=True)
    return all(pose.distance(thing.start) < _MOVED for thing, pose in pairs)
