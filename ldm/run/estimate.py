"""The cost of model calls before they are paid: extrapolated from a sample, or a bound."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from ldm.llm.meter import load_prices, price_of
from ldm.llm.models import ModelOptions, listed
from ldm.types import Usage

#: The number of items measured.
SAMPLE = 6


def extrapolate(sample: Sequence[float], total: int) -> tuple[float, float, float | None]:
    """Return (expected, low, high) of the total over `total` items, of which some were measured.

    The 95 % prediction interval is Student's for the sum of the remaining items: their mean is
    uncertain, and so is each of them. One item says nothing of it.
    """
    measured, remaining = sum(sample), total - len(sample)
    if remaining <= 0:
        return measured, measured, measured
    expected = measured + remaining * statistics.fmean(sample)
    if len(sample) < 2:
        return expected, measured, None
    from scipy.stats import t

    spread = statistics.stdev(sample) * math.sqrt(remaining + remaining**2 / len(sample))
    half = float(t.ppf(0.975, len(sample) - 1)) * spread
    return expected, max(measured, expected - half), expected + half


def cost_lines(usages: Sequence[Usage], total: int, options: ModelOptions, items: str) -> list[str]:
    """Return lines on the cost of `total` items, given the `usages` of some of them.

    items: their noun, e.g. "tasks".
    """
    table = load_prices(Path(options.prices) if options.prices else None)
    listing = [price_of(model, table) for model in options.roles().values()]
    prices = [price for price in listing if price is not None]
    measured = {
        "model calls": [float(usage.calls) for usage in usages],
        "tokens": [float(usage.tokens) for usage in usages],
    }
    if len(prices) == len(listing):  # of several models the highest, so that no promise is broken
        measured["USD"] = [max(price.of(usage) for price in prices) for usage in usages]
    lines = [f"Measured on {len(usages)} of {total} {items}; all of them will take about"]
    for unit, values in measured.items():
        expected, low, high = extrapolate(values, total)
        digits = 4 if unit == "USD" else 0
        end = "unknown" if high is None else f"{high:,.{digits}f}"
        interval = f"95 % prediction interval {low:,.{digits}f} to {end}"
        lines.append(f"  {expected:,.{digits}f} {unit} ({interval})")
    unknown = f"  The price of {listed(options.roles())} is unknown; --prices FILE gives it."
    return lines if "USD" in measured else [*lines, unknown]
