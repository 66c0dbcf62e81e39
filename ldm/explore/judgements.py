"""The values of a verdict: a judgement for each candidate, and comparisons of goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Literal

from ldm.explore.candidates import Remembered
from ldm.explore.trials import Played
from ldm.memory import BatchIndex, IndexedTuple
from ldm.reason.voting import NEARBY

#: Smaller differences of scores count as none.
TOLERANCE = 1e-9
#: The gain of all goals, in standard errors, that suffices for kinds without a gain of their own.
SURE = 2.0

Part = Literal["practice", "improvement"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The gate's finding on a candidate of one goal.

    trajectories: the episode that is remembered, or the path whose last part is an improvement.
    tuples: their number. wins, losses: the number of neighbours whose score rose or fell with it.
    refused: why it is left out, "" if it is kept.
    """

    task: str
    learnt: Part
    trajectories: tuple[str, ...]
    tuples: int
    wins: int = 0
    losses: int = 0
    refused: str = ""

    def tried(self, gains: Sequence[float]) -> Judgement:
        """Return the judgement after a trial alone. gains: of the neighbours' scores."""
        lost = -fmean(gains) if gains else 0.0
        why = f"{len(gains)} goals like it lose {lost:.3f}" if lost > TOLERANCE else ""
        return replace(
            self,
            wins=sum(gain > TOLERANCE for gain in gains),
            losses=sum(gain < -TOLERANCE for gain in gains),
            refused=self.refused or why,
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The scores of some goals without candidates of one sort, and with them.

    learnt: the sort. kind: of the goals, "" for all kinds. reach, plain: see `Remembered`. before,
    after: one score per goal. saved: the number of steps that each goal's episode saves with them.
    steps: the mean number, with them. chosen: whether they join the memory.
    """

    learnt: Part
    kind: str
    reach: float
    before: tuple[float, ...]
    after: tuple[float, ...]
    steps: float
    chosen: bool = False
    plain: bool = False
    saved: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        learnt: Part,
        kind: str,
        how: Remembered,
        before: Sequence[Played],
        after: Sequence[Played],
    ) -> Comparison:
        """Compare two results of the same goals."""
        return cls(
            learnt,
            kind,
            how.reach,
            tuple(one.score for one in before),
            tuple(one.score for one in after),
            fmean(one.steps for one in after),
            plain=how.plain,
            saved=tuple(b.steps - a.steps for b, a in zip(before, after, strict=True)),
        )

    @property
    def gains(self) -> tuple[float, ...]:
        """The difference for each goal."""
        return tuple(after - before for before, after in zip(self.before, self.after, strict=True))

    @property
    def difference(self) -> float:
        """The mean difference."""
        return fmean(self.after) - fmean(self.before)

    @property
    def error(self) -> float:
        """The standard error of the mean difference; 0 for a single goal."""
        return _error(self.gains)

    @property
    def holds(self) -> bool:
        """Whether the goals gain at least one standard error.

        The mean of a few games can be above zero although large losses oppose the gains. If nothing
        changes, nothing is known of other goals, which suffices for nearly identical ones.
        """
        least = -TOLERANCE if self.reach >= NEARBY else TOLERANCE
        return self.difference >= max(least, self.error - TOLERANCE)

    def holds_among(self, others: Sequence[Comparison]) -> bool:
        """Return whether the goals gain, or are likely to, as the goals of all kinds do.

        A few goals say little by themselves, and nothing if all of them are solved anyway: then
        shorter episodes are to be learnt (LDM² §5.2). If all goals together gain at least SURE
        standard errors, or save steps as surely without a loss, these goals count as gaining unless
        they lose more than one standard error.

        others: the comparisons of all kinds of goals, this one included.
        """
        gains = [gain for one in others for gain in one.gains]
        saved = [steps for one in others for steps in one.saved]
        shorter = _is_sure(saved) and fmean(gains) >= -TOLERANCE
        sure = _is_sure(gains) or shorter
        return self.holds or (sure and self.difference >= -self.error - TOLERANCE)

    @property
    def unproven(self) -> str:
        """The gain or loss of the goals, in words, for a refusal."""
        if self.difference < -TOLERANCE:
            return f"lose {-self.difference:.3f}"
        if self.difference <= TOLERANCE:
            return "gain nothing"
        return f"gain {self.difference:.3f}, less than the standard error of {self.error:.3f},"

    @property
    def is_kept_practice(self) -> bool:
        """Whether this practice joins the memory."""
        return self.chosen and self.learnt == "practice"


def _error(differences: Sequence[float]) -> float:
    """Return the standard error of the mean; 0 for fewer than two differences."""
    return stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else 0.0


def _is_sure(differences: Sequence[float]) -> bool:
    """Return whether the mean is above 0 by at least SURE standard errors."""
    return bool(differences) and fmean(differences) >= max(TOLERANCE, SURE * _error(differences))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's result.

    rows, batches: to be added. before, after: the score of each goal without all of them and with
    them, without its own; empty if nothing was played.
    """

    rows: tuple[IndexedTuple, ...]
    batches: tuple[BatchIndex, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()

    @property
    def gains(self) -> tuple[float, ...]:
        """The difference that the additions make for each goal."""
        return tuple(after - before for before, after in zip(self.before, self.after, strict=True))
