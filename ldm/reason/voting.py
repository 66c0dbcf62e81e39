"""The vote of the recalls on the next action: one ballot each, counted in several ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ldm.reason.ranking import Ranking
from ldm.types import Outcome

#: The value of a recall that earned nothing more. With 0, hence votes in proportion to the score,
#: training goals of WebShop scored less: such sessions show the way as well as others.
LEAST_VOICE = 0.5


def voice_of(outcome: Outcome | None) -> float:
    """Return the value of a recall's vote by its outcome: from LEAST_VOICE to 1 by the score.

    An unknown outcome counts 1, and so does a failure kept on request: without any reward, a score
    of 0 says nothing. A failure kept as a warning counts -1.
    """
    if outcome is None or outcome.score <= 0 <= outcome.value:
        return 1.0
    return -1.0 if outcome.value < 0 else LEAST_VOICE + (1 - LEAST_VOICE) * outcome.value


#: From this reach on, only nearly identical goals recall a tuple.
NEARBY = 0.9
#: The minimum likeness of an action to a recalled one that it follows.
FOLLOWED = 0.5


class Likeness(NamedTuple):
    """The likeness of the candidates to a recalled action.

    pairs: number of a group, and the likeness of its candidates, in (0, 1]; 0 for others. best: the
    maximum, rounded; 0 without any. nearest: the groups that reach it.
    """

    pairs: tuple[tuple[int, float], ...]
    best: float
    nearest: tuple[int, ...]

    @classmethod
    def of(cls, values: Iterable[tuple[int, float]]) -> Likeness:
        """Return the likeness of groups, given as (number, likeness in [0, 1])."""
        pairs = tuple((group, like) for group, like in values if like)
        rounded = [round(like, 9) for _, like in pairs]
        best = max(rounded, default=0.0)
        nearest = tuple(
            group for (group, _), like in zip(pairs, rounded, strict=True) if like == best > 0
        )
        return cls(pairs, best, nearest)


class Ballot(NamedTuple):
    """The vote of one recall. weight: in [-1, 1] without 0; below 0 it is a vote against."""

    weight: float
    likeness: Likeness


@dataclass(frozen=True, slots=True)
class Poll:
    """The candidates, in their order, and a ballot per recall.

    texts: the distinct actions.
    groups: the number of each candidate's group, from 0, in order of first occurrence. No recall
        can tell the candidates of a group apart.
    """

    texts: tuple[str, ...]
    groups: tuple[int, ...]
    ballots: tuple[Ballot, ...]

    def ranking(self) -> Ranking:
        """Return the candidates with their shares of the votes."""
        votes, sizes = self._votes(), Counter(self.groups)
        shares = [max(0.0, vote) * sizes[group] for group, vote in enumerate(votes)]
        total = sum(shares) or 1.0
        best = max(votes, default=0.0) / (
            sum(v * sizes[g] for g, v in enumerate(votes) if v > 0) or 1
        )
        return Ranking(self.texts, self.groups, tuple(s / total for s in shares), max(0.0, best))

    def _votes(self) -> list[float]:
        """Return the votes for a candidate of each group."""
        votes = [0.0] * (max(self.groups, default=-1) + 1)
        for ballot in self.ballots:
            weight = ballot.weight
            for group, like in ballot.likeness.pairs:
                votes[group] += weight * like
        return votes
