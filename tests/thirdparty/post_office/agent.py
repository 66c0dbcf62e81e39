"""An agent that looks into one room after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ldm.agents import Resources
from ldm.agents.reporting import Measure, Reporting
from ldm.episode import Episode
from ldm.types import Card, EpisodeResult


@dataclass(frozen=True, slots=True)
class PostmanOptions:
    """budget: steps a trial may take. backwards: begin with the last room."""

    budget: int = 12
    backwards: bool = False


def rooms_entered(result: EpisodeResult) -> float | None:
    """Return how many rooms were entered; None where nothing was recorded."""
    return next(
        (float(note.data["entered"]) for note in result.notes if note.kind == "rooms"), None
    )


class Postman:
    """Asks in every room."""

    name = "postman"
    sees_reward = False
    needs: ClassVar[Sequence[str]] = ()
    paper: ClassVar[str] = "none"
    Options: ClassVar[type[PostmanOptions]] = PostmanOptions
    reporting: ClassVar[Reporting] = Reporting(
        measures=(Measure("rooms_entered", "rooms entered", rooms_entered),)
    )

    def __init__(self, options: PostmanOptions, resources: Resources) -> None:
        self.options = options

    def budget(self, card: Card) -> int:
        return self.options.budget

    def solve(self, episode: Episode) -> None:
        with episode.trial() as now:
            doors = [action for action in now.admissible or () if action.startswith("go to ")]
            delivery = f"give the letter to {episode.goal.removeprefix('deliver to ')}"
            for entered, door in enumerate(reversed(doors) if self.options.backwards else doors, 1):
                now = episode.act(door)
                if delivery in (now.admissible or ()):
                    episode.note("rooms", entered=entered)
                    episode.act(delivery)
