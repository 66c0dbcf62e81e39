"""How recalls decide together: each gives its ballot on what could be done now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ldm.reasoner import Agreement


@dataclass(frozen=True, slots=True)
class Ballot:
    """How one recall votes. voice: its say, in (0, 1]. likeness: one per candidate, in [0, 1]."""

    voice: float
    likeness: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Poll:
    """The candidates, in their order, and a ballot per recall.

    texts: the actions. sorts: one per candidate; equal for those that no recall can tell apart.
    """

    texts: tuple[str, ...]
    sorts: tuple[Hashable, ...]
    ballots: tuple[Ballot, ...]

    def ranked(self) -> list[tuple[str, float]]:
        """Actions with their votes (> 0), most first; ties keep the order of the candidates."""
        return _ranked(self.texts, self._votes())

    def alternatives(self) -> list[tuple[str, float]]:
        """As `ranked`, but actions that no recall can tell apart are one, with all their votes.

        To go to the third drawer instead of the second is no alternative worth a branch, as long
        as nothing is known of either; the first of them stands for all.
        """
        votes: dict[Hashable, float] = {}
        for sort, vote in zip(self.sorts, self._votes(), strict=True):
            votes[sort] = votes.get(sort, 0.0) + vote
        firsts = self._firsts()
        return _ranked([firsts[sort] for sort in votes], list(votes.values()))

    def support(self) -> tuple[Agreement, ...]:
        """As `ranked`: each with its share of all votes, and how many recalls come nearest to it.

        A recall that fits several actions equally well counts for each of them.
        """
        supporters: Counter[str] = Counter()
        for ballot in self.ballots:
            best = round(max(ballot.likeness, default=0.0), 9)
            supporters.update(
                text
                for text, like in zip(self.texts, ballot.likeness, strict=True)
                if round(like, 9) == best > 0
            )
        votes = self.ranked()
        total = sum(vote for _, vote in votes) or 1.0
        return tuple(Agreement(text, vote / total, supporters[text]) for text, vote in votes)

    def agreement(self) -> Agreement:
        """What the recalls, each carried over to the candidate most like it, agree on.

        As in `alternatives`, actions that cannot be told apart are one. A recall that fits several
        others equally well is divided among them, and one that fits none agrees with nobody.
        """
        shares: dict[Hashable, float] = dict.fromkeys(self.sorts, 0.0)
        supporters: Counter[Hashable] = Counter()
        for ballot in self.ballots:
            likeness = {
                sort: round(like, 9) for sort, like in zip(self.sorts, ballot.likeness, strict=True)
            }
            best = max(likeness.values(), default=0.0)
            chosen = [sort for sort, like in likeness.items() if like == best > 0]
            supporters.update(chosen)
            for sort in chosen:
                shares[sort] += ballot.voice / len(chosen)
        if not supporters:
            return Agreement("", 0.0, 0)
        order = {sort: place for place, sort in enumerate(shares)}
        most = max(shares, key=lambda sort: (round(shares[sort], 9), -order[sort]))
        total = sum(ballot.voice for ballot in self.ballots)
        return Agreement(self._firsts()[most], shares[most] / total, supporters[most])

    def _votes(self) -> list[float]:
        return [sum(b.voice * b.likeness[i] for b in self.ballots) for i in range(len(self.texts))]

    def _firsts(self) -> dict[Hashable, str]:
        firsts: dict[Hashable, str] = {}
        for sort, text in zip(self.sorts, self.texts, strict=True):
            firsts.setdefault(sort, text)
        return firsts


def _ranked(texts: Sequence[str], votes: Sequence[float]) -> list[tuple[str, float]]:
    order = sorted(range(len(texts)), key=lambda i: -round(votes[i], 9))
    return [(texts[i], votes[i]) for i in order if votes[i] > 0]
