"""An agent that looks into one room after the other."""

from dataclasses import dataclass
from typing import Annotated

from ldm.episode import Agent, Episode
from ldm.reporting import Measure, Reporting
from ldm.types import Card, EpisodeResult


@dataclass(frozen=True, slots=True)
class PostmanOptions:
    budget: Annotated[int, "Steps of a trial"] = 12
    backwards: Annotated[bool, "Begin with the last room"] = False


def rooms_entered(result: EpisodeResult) -> float | None:
    """Return how many rooms were entered, or None if nothing was recorded."""
    return next(
        (float(note.data["entered"]) for note in result.notes if note.kind == "rooms"), None
    )


class Postman(Agent):
    """Asks in every room."""

    name = "postman"
    Options = PostmanOptions
    options: PostmanOptions
    reporting = Reporting((Measure("rooms_entered", "rooms entered", rooms_entered),))

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
