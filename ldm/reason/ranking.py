"""The candidates of a state with the probability that each is right."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates of a state, in their order.

    texts: the distinct actions.
    groups: the number of each candidate's group, from 0, in order of first occurrence. Nothing
        tells the candidates of a group apart.
    shares: the probability of each group, all its candidates together; they sum to 1, or to 0 if
        nothing is known.
    sure: how often the first one was right where left-out steps were decided so clearly.
    """

    texts: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    sure: float = 0.0

    @property
    def knows(self) -> bool:
        """Whether anything tells the candidates apart."""
        return any(self.shares)

    def ranked(self) -> list[tuple[str, float]]:
        """Return the candidates by descending share of one; ties keep their order."""
        if not self.knows:
            return []
        sizes = [0] * len(self.shares)
        for group in self.groups:
            sizes[group] += 1
        each = [self.shares[group] / sizes[group] for group in self.groups]
        order = sorted(range(len(each)), key=lambda i: -round(self.shares[self.groups[i]], 9))
        return [(self.texts[i], each[i]) for i in order if each[i] > 0]

    def alternatives(self) -> list[tuple[str, float]]:
        """Return the first candidate of each group by descending share of the group.

        Going to the third drawer instead of the second is no alternative worth a branch, as long as
        nothing is known of either.
        """
        if not self.knows:
            return []
        firsts: dict[int, str] = {}
        for text, group in zip(self.texts, self.groups, strict=True):
            firsts.setdefault(group, text)
        order = sorted(firsts, key=lambda group: (-round(self.shares[group], 9), group))
        return [(firsts[group], self.shares[group]) for group in order if self.shares[group] > 0]
