"""Evidence: how often a recalled action worked, and whether that still holds.

Counts are those of all tuples with the same goal, observation and action, and of feedback on them.
The probability of success weighs an outcome less for every newer one, and adds a little of what the
same action did lately in similar situations: where that contradicts few old successes, it wins
within a few episodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ldm.types import Evidence, Outcome

#: The weight of an outcome relative to that of the next newer one.
DISCOUNT = 0.7
#: The weight of the same action in similar situations, in outcomes.
SIMILAR = 2.0
#: By how much a situation may be less similar to the present one than the recalled one is.
MARGIN = 0.4


class Trial(NamedTuple):
    """One outcome of an action. order: of several at one time. success: in [0, 1].

    A tuple, because thousands are sorted at each recall.
    """

    time: float
    order: int
    success: float


def success_of(outcome: Outcome | None) -> float | None:
    """Return how far a tuple's episode succeeded, in [0, 1], or None if unknown."""
    if outcome is None:
        return None
    return 0.0 if outcome.is_warning else outcome.score


def weighed(
    own: Iterable[Trial], similar: Iterable[Trial] = (), *, now: float = 0.0, half_life: float = 0.0
) -> Evidence | None:
    """Return the evidence of an action, or None if nothing is known.

    own: of equal tuples, with feedback. similar: of the same action in similar situations, those of
        `own` included. now: seconds since 1970. half_life: seconds after which an outcome counts
        half in the probability; 0 for never.
    """
    trials = sorted(own)
    if not trials:
        return None
    succeeded = sum(one.success for one in trials)
    mine, worked = _discounted(trials, now, half_life)
    others, worked_there = _discounted(sorted(similar), now, half_life)
    prior = worked_there / others if others else 0.5
    weight = SIMILAR if others else 1e-9
    times = [one.time for one in trials if one.time]
    return Evidence(
        tried=len(trials),
        succeeded=round(succeeded, 6),
        failed=round(len(trials) - succeeded, 6),
        first=min(times, default=0.0),
        last=max(times, default=0.0),
        probability=(worked + weight * prior) / (mine + weight),
        last_failed=trials[-1].success < 0.5,
    )


def _discounted(trials: Sequence[Trial], now: float, half_life: float) -> tuple[float, float]:
    """Return the sum of weights of trials, oldest first, and that of their successes."""
    total = worked = 0.0
    for age, one in enumerate(reversed(trials)):
        weight = DISCOUNT**age
        if half_life and now and one.time:
            weight *= 0.5 ** (max(0.0, now - one.time) / half_life)
        total += weight
        worked += weight * one.success
    return total, worked
