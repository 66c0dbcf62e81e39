"""What tuples are worth: how much more than usual was earned when they were recalled."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ldm.memory.additions import Feedback
from ldm.memory.recalls import Worth

#: Uses without gain that every utility starts with, so that one lucky use says little.
PRIOR = 2


@dataclass(slots=True)
class _Tally:
    """How often, and what that earned altogether."""

    uses: int = 0
    total: float = 0.0

    def add(self, reward: float) -> None:
        self.uses += 1
        self.total += reward

    @property
    def mean(self) -> float:
        return self.total / self.uses if self.uses else 0.0


class Tallies:
    """Feedback, counted. Changed by one thread at a time."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Tally] = defaultdict(_Tally)
        self._tuples: dict[str, dict[str, _Tally]] = {}

    def add(self, one: Feedback) -> None:
        """Count what came of some recalls."""
        self._kinds[one.kind].add(one.reward)
        for name in one.tuples:
            # Put in its place when it is complete: other threads read.
            of_kinds = {kind: _Tally(t.uses, t.total) for kind, t in self._of(name).items()}
            of_kinds.setdefault(one.kind, _Tally()).add(one.reward)
            self._tuples[name] = of_kinds

    def worth(self, tuple_id: str) -> Worth | None:
        """Return what is known of a tuple; None where nothing is.

        The utility is that of `ldm.run.credit.utilities`, in [-1, 1]: the mean gain over all
        feedback of the same kind of task, PRIOR uses without gain added.
        """
        of_kinds = self._of(tuple_id)
        uses = sum(tally.uses for tally in of_kinds.values())
        if not uses:
            return None
        total = sum(tally.total for tally in of_kinds.values())
        usual = sum(tally.uses * self._kinds[kind].mean for kind, tally in of_kinds.items())
        gain = (total - usual) / (PRIOR + uses)
        return Worth(uses, total / uses, round(min(1.0, max(-1.0, gain)), 6) + 0.0)

    def utilities(self) -> dict[str, float]:
        """Return the utility of each tuple that feedback is known of."""
        known = ((name, self.worth(name)) for name in sorted(self._tuples))
        return {name: worth.utility for name, worth in known if worth}

    def _of(self, tuple_id: str) -> dict[str, _Tally]:
        return self._tuples.get(tuple_id, {})
