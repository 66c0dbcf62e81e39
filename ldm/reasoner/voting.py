"""The vote of the recalls on what to do now: one ballot each, counted in several ways."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ldm.reasoner import Agreement
from ldm.types import Outcome, Recall

#: What a recall counts that earned nothing more. With 0, hence votes in proportion to what was
#: earned, training goals of WebShop scored less: such sessions know the way as well as others.
LEAST_VOICE = 0.5


def voice_of(outcome: Outcome | None) -> float:
    """Return what a recall's vote counts by its outcome: from LEAST_VOICE to 1 by what was earned.

    An unknown outcome counts 1, and so does a failure that is in the memory on request: where
    nothing was rewarded, a score of 0 says nothing. A failure kept as a warning counts -1.
    """
    if outcome is None or outcome.score <= 0 <= outcome.value:
        return 1.0
    return -1.0 if outcome.value < 0 else LEAST_VOICE + (1 - LEAST_VOICE) * outcome.value


def voters(observation: str, recalls: Sequence[Recall]) -> Sequence[int]:
    """Return the places of the recalls that saw something, where there is any; else all.

    Of some recorded steps only the action is known; what it was an answer to, nobody can tell.
    observation: the present one; where it is empty, all count.
    """
    everyone = range(len(recalls))
    if not observation.strip():
        return everyone
    return [i for i in everyone if recalls[i].tuple.observation.strip()] or everyone


#: From this reach on, hardly any goal but the same recalls a tuple.
NEARBY = 0.9

#: An action follows a recalled one that it is at least so like; below, hardly a vote was cast.
FOLLOWED = 0.5


@dataclass(frozen=True, slots=True)
class Ballot:
    """The vote of one recall.

    weight: of this vote, in [-1, 1] without 0; below 0 it is a vote against.
    likeness: for each candidate how alike it is to the recalled action, in [0, 1].
    """

    weight: float
    likeness: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Poll:
    """The candidates, in their order, and a ballot per recall.

    texts: the actions.
    groups: one per candidate; equal for candidates that no recall can tell apart.
    """

    texts: tuple[str, ...]
    groups: tuple[Hashable, ...]
    ballots: tuple[Ballot, ...]

    def ranked(self) -> list[tuple[str, float]]:
        """Return actions with their votes (> 0), most first; ties keep the candidates' order."""
        return _ranked(self.texts, self._votes())

    def opposed(self) -> frozenset[str]:
        """Return the actions with more votes against them than for them."""
        return frozenset(
            text for text, vote in zip(self.texts, self._votes(), strict=True) if vote < 0
        )

    def alternatives(self) -> list[tuple[str, float]]:
        """Rank as `ranked` does, but count each group as one action, with all its votes.

        To go to the third drawer instead of the second is no alternative worth a branch, as long
        as nothing is known of either; the first of a group stands for all.
        """
        votes: dict[Hashable, float] = {}
        for group, vote in zip(self.groups, self._votes(), strict=True):
            votes[group] = votes.get(group, 0.0) + vote
        firsts = self._firsts()
        return _ranked([firsts[group] for group in votes], list(votes.values()))

    def support(self) -> tuple[Agreement, ...]:
        """Rank as `ranked` does, with each action's share of all votes and its supporters.

        A recall supports the action that it fits best, and all of several that it fits equally;
        one that votes against its action supports none.
        """
        supporters: Counter[str] = Counter()
        for ballot in self.ballots:
            if ballot.weight < 0:
                continue
            best = round(max(ballot.likeness, default=0.0), 9)
            supporters.update(
                text
                for text, like in zip(self.texts, ballot.likeness, strict=True)
                if round(like, 9) == best > 0
            )
        votes = self.ranked()
        total = sum(vote for _, vote in votes) or 1.0
        return tuple(Agreement(text, vote / total, supporters[text]) for text, vote in votes)

    def followers(self, action: str) -> tuple[int, ...] | None:
        """Return the places of the ballots to whose recalled action `action` is the most alike.

        Other candidates may be as much alike. A ballot against it is none. None where it is no
        candidate, so that no ballot says anything of it.
        """
        if action not in self.texts:
            return None
        mine = self.texts.index(action)
        return tuple(
            place
            for place, ballot in enumerate(self.ballots)
            if ballot.weight > 0
            and round(ballot.likeness[mine], 9) == round(max(ballot.likeness), 9) >= FOLLOWED
        )

    def agreement(self, *, counted: bool = False) -> Agreement:
        """Return the action that most recalls come to, each by the candidate most like its own.

        As in `alternatives`, a group counts as one action. A recall that fits several groups
        equally well is divided among them, and one that fits none supports none. A vote against
        lessens the share of the action that it fits, and supports none.

        counted: whether each ballot counts as one, not by its weight.
        """
        weights = [
            math.copysign(1.0, ballot.weight) if counted else ballot.weight
            for ballot in self.ballots
        ]
        shares: dict[Hashable, float] = dict.fromkeys(self.groups, 0.0)
        supporters: Counter[Hashable] = Counter()
        for ballot, weight in zip(self.ballots, weights, strict=True):
            likeness = {
                group: round(like, 9)
                for group, like in zip(self.groups, ballot.likeness, strict=True)
            }
            best = max(likeness.values(), default=0.0)
            nearest = [group for group, like in likeness.items() if like == best > 0]
            if ballot.weight > 0:
                supporters.update(nearest)
            for group in nearest:
                shares[group] += weight / len(nearest)
        if not supporters:
            return Agreement("", 0.0, 0)
        order = {group: place for place, group in enumerate(shares)}
        most = max(shares, key=lambda group: (round(shares[group], 9), -order[group]))
        if shares[most] <= 0:
            return Agreement("", 0.0, 0)
        total = sum(weight for weight in weights if weight > 0)
        return Agreement(self._firsts()[most], shares[most] / total, supporters[most])

    def _votes(self) -> list[float]:
        return [sum(b.weight * b.likeness[i] for b in self.ballots) for i in range(len(self.texts))]

    def _firsts(self) -> dict[Hashable, str]:
        firsts: dict[Hashable, str] = {}
        for group, text in zip(self.groups, self.texts, strict=True):
            firsts.setdefault(group, text)
        return firsts


def _ranked(texts: Sequence[str], votes: Sequence[float]) -> list[tuple[str, float]]:
    order = sorted(range(len(texts)), key=lambda i: -round(votes[i], 9))
    return [(texts[i], votes[i]) for i in order if votes[i] > 0]
