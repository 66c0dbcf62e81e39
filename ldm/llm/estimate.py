"""The cost of model calls before they are paid: extrapolated from a sample, or a bound."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.llm.models import ModelOptions, listed

if TYPE_CHECKING:
    from ldm.llm.prices import Price
    from ldm.types import Usage

#: The number of items measured.
SAMPLE = 6


@dataclass(frozen=True, slots=True)
class Estimate:
    """A total: its expected value and 95 % prediction interval; high is None if unknown."""

    expected: float
    low: float
    high: float | None


def extrapolate(sample: Sequence[float], total: int) -> Estimate:
    """Estimate the total over `total` items of which `sample` was measured (at least one).

    The interval is Student's for the sum of the remaining items: their mean is uncertain, and so
    is each of them.
    """
    measured, remaining = sum(sample), total - len(sample)
    if remaining <= 0:
        return Estimate(measured, measured, measured)
    expected = measured + remaining * statistics.fmean(sample)
    if len(sample) < 2:
        return Estimate(expected, measured, None)
    from scipy.stats import t

    spread = statistics.stdev(sample) * math.sqrt(remaining + remaining**2 / len(sample))
    half = float(t.ppf(0.975, len(sample) - 1)) * spread
    return Estimate(expected, max(measured, expected - half), expected + half)


def cost_lines(usages: Sequence[Usage], total: int, options: ModelOptions, items: str) -> list[str]:
    """Return lines on the cost of `total` items, given the `usages` of some of them.

    items: their noun, e.g. "tasks".
    """
    prices = _prices(options)
    measured = {
        "model calls": [float(usage.calls) for usage in usages],
        "tokens": [float(usage.tokens) for usage in usages],
    }
    if prices:  # of several models the highest, so that no promise is broken
        measured["USD"] = [max(price.of(usage) for price in prices) for usage in usages]
    lines = [f"Measured on {len(usages)} of {total} {items}; all of them will take about"]
    for unit, values in measured.items():
        estimate = extrapolate(values, total)
        digits = 4 if unit == "USD" else 0
        high = "unknown" if estimate.high is None else f"{estimate.high:,.{digits}f}"
        interval = f"95 % prediction interval {estimate.low:,.{digits}f} to {high}"
        lines.append(f"  {estimate.expected:,.{digits}f} {unit} ({interval})")
    unknown = f"  The price of {listed(options.roles())} is unknown; --prices FILE gives it."
    return lines if prices else [*lines, unknown]


def _prices(options: ModelOptions) -> list[Price]:
    """Return the prices of all models; [] if one is unknown."""
    from ldm.llm.prices import load_prices, price_of

    table = load_prices(Path(options.prices) if options.prices else None)
    roles = options.roles()
    prices = [price_of(roles[role], table) for role in roles]
    known = [price for price in prices if price is not None]
    return known if len(known) == len(prices) else []
