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
#: By how many standard errors all goals have to gain to carry the kinds that do not.
SURE = 2.0

Part = Literal["practice", "improvement"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the gate found about a candidate of one goal.

    trajectories: the episode that is remembered, or the path whose last part is an improvement.
    tuples: how many. wins, losses: on how many of its neighbours the score rose and fell with it.
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

    learnt: the sort. kind: of the goals, "" for all kinds. reach, plain: how the candidates are
    remembered. before, after: a score a goal. saved: by how many steps each goal's episode is
    shorter with them. steps: the mean number, with them. chosen: whether they join the memory.
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
        """Whether the goals gain, and at least one standard error.

        A mean of a few games can come out above zero where large losses stand against gains. If
        nothing changes, nothing is known of other goals: that is enough for nearly identical ones.
        """
        least = -TOLERANCE if self.reach >= NEARBY else TOLERANCE
        return self.difference >= max(least, self.error - TOLERANCE)

    def holds_among(self, others: Sequence[Comparison]) -> bool:
        """Return whether the goals gain, or may do so as others of the same kind of learning do.

        A few goals say little by themselves, and nothing where all of them are solved anyway: then
        shorter ways are to be learnt (LDM² §5.2). Where all goals together gain at least SURE
        standard errors, or save as many of steps and lose nothing, it takes more than one standard
        error of a loss to tell that these do not.

        others: the comparisons of all kinds of goals, this one included.
        """
        gains = [gain for one in others for gain in one.gains]
        saved = [steps for one in others for steps in one.saved]
        shorter = _is_sure(saved) and fmean(gains) >= -TOLERANCE
        sure = _is_sure(gains) or shorter
        return self.holds or (sure and self.difference >= -self.error - TOLERANCE)

    @property
    def unproven(self) -> str:
        """By how much the goals gain or lose, in words, for a refusal."""
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
    """Return the standard error of the mean; 0 for less than two differences."""
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
