"""The vote of the recalls on the next action: one ballot each, counted in several ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ldm.reason import Agreement
from ldm.types import Outcome, Recall

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


def voters(observation: str, recalls: Sequence[Recall]) -> Sequence[int]:
    """Return the places of the recalls with an observation, or of all if none has one.

    Some recorded steps hold an action alone. observation: the present one; if it is empty, all
    recalls vote.
    """
    everyone = range(len(recalls))
    if not observation.strip():
        return everyone
    return [i for i in everyone if recalls[i].tuple.observation.strip()] or everyone


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

    def ranked(self) -> list[tuple[str, float]]:
        """Return the actions by descending votes (> 0); ties keep the candidates' order."""
        votes = self._votes()
        return _ranked(self.texts, [votes[group] for group in self.groups])

    def opposed(self) -> frozenset[str]:
        """Return the actions with more votes against them than for them."""
        votes = self._votes()
        return frozenset(
            text for text, group in zip(self.texts, self.groups, strict=True) if votes[group] < 0
        )

    def alternatives(self) -> list[tuple[str, float]]:
        """Rank as `ranked` does, but count each group as one action, with all its votes.

        Going to the third drawer instead of the second is no alternative worth a branch, as long as
        nothing is known of either; the first of a group stands for all.
        """
        single = self._votes()
        votes = [0.0] * len(single)
        for group in self.groups:
            votes[group] += single[group]
        return _ranked(self._firsts(), votes)

    def support(self) -> tuple[Agreement, ...]:
        """Rank as `ranked` does, with each action's share of all votes and its supporters.

        A recall supports all actions that it fits best; one that votes against its action supports
        none.
        """
        supporters: Counter[int] = Counter()
        for ballot in self.ballots:
            if ballot.weight > 0:
                supporters.update(ballot.likeness.nearest)
        votes = self.ranked()
        group_of = dict(zip(self.texts, self.groups, strict=True))
        total = sum(vote for _, vote in votes) or 1.0
        return tuple(
            Agreement(text, vote / total, supporters[group_of[text]]) for text, vote in votes
        )

    def followers(self, action: str) -> tuple[int, ...] | None:
        """Return the places of the ballots whose recalled action `action` resembles most.

        Other candidates may resemble it as much. Ballots against the action do not count. Return
        None if it is no candidate.
        """
        if action not in self.texts:
            return None
        mine = self.groups[self.texts.index(action)]
        return tuple(
            place
            for place, ballot in enumerate(self.ballots)
            if ballot.weight > 0
            and ballot.likeness.best >= FOLLOWED
            and mine in ballot.likeness.nearest
        )

    def agreement(self) -> Agreement:
        """Return the action with most votes; each recall votes for the candidate most like its own.

        As in `alternatives`, a group counts as one action. A recall that fits several groups
        equally is divided among them, and one that fits none supports none. A vote against lowers
        the share of the action that it fits, and supports none.
        """
        firsts = self._firsts()
        shares, supporters = [0.0] * len(firsts), [0] * len(firsts)
        for ballot in self.ballots:
            nearest = ballot.likeness.nearest
            for group in nearest:
                shares[group] += ballot.weight / len(nearest)
                supporters[group] += ballot.weight > 0
        if not any(supporters):
            return Agreement("", 0.0, 0)
        most = max(range(len(shares)), key=lambda group: (round(shares[group], 9), -group))
        if shares[most] <= 0:
            return Agreement("", 0.0, 0)
        total = sum(ballot.weight for ballot in self.ballots if ballot.weight > 0)
        return Agreement(firsts[most], shares[most] / total, supporters[most])

    def _votes(self) -> list[float]:
        """Return the votes for a candidate of each group."""
        votes = [0.0] * (max(self.groups, default=-1) + 1)
        for ballot in self.ballots:
            weight = ballot.weight
            for group, like in ballot.likeness.pairs:
                votes[group] += weight * like
        return votes

    def _firsts(self) -> list[str]:
        """Return the first candidate of each group."""
        firsts: list[str] = []
        for text, group in zip(self.texts, self.groups, strict=True):
            if group == len(firsts):
                firsts.append(text)
        return firsts


def _ranked(texts: Sequence[str], votes: Sequence[float]) -> list[tuple[str, float]]:
    rounded = [-round(vote, 9) for vote in votes]
    order = sorted(range(len(texts)), key=rounded.__getitem__)
    return [(texts[i], votes[i]) for i in order if votes[i] > 0]
