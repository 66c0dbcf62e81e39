"""What model calls will cost, said before they are paid (--estimate)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.cli.models import ModelOptions, listed

if TYPE_CHECKING:
    from ldm.llm.calls import Request
    from ldm.llm.prices import Price
    from ldm.types import Usage

#: How many items are measured.
SAMPLE = 6


def measured(usages: Sequence[Usage], total: int, options: ModelOptions, what: str) -> list[str]:
    """Lines on what `total` items (`what`, e.g. "tasks") cost if these `usages` are of some."""
    from ldm.llm.estimate import extrapolate

    prices = _prices(options)
    found = {
        "model calls": [float(usage.calls) for usage in usages],
        "tokens": [float(usage.prompt_tokens + usage.completion_tokens) for usage in usages],
    }
    if prices:  # where the models differ, the dearest price: no promise is broken
        found["USD"] = [max(price.of(usage) for price in prices) for usage in usages]
    lines = [f"Measured on {len(usages)} of {total} {what}; all of them will take about"]
    for unit, values in found.items():
        estimate = extrapolate(values, total)
        digits = 4 if unit == "USD" else 0
        high = "unknown" if estimate.high is None else f"{estimate.high:,.{digits}f}"
        interval = f"95 % prediction interval {estimate.low:,.{digits}f} to {high}"
        lines.append(f"  {estimate.expected:,.{digits}f} {unit} ({interval})")
    return lines if prices else [*lines, _unknown(options)]


def at_most(requests: Sequence[Request], options: ModelOptions) -> list[str]:
    """Lines on the most that these requests, each with a bounded reply, can cost."""
    from ldm.llm.meter import prompt_bound
    from ldm.types import Usage

    prices = _prices(options)
    most = Usage()
    for request in requests:
        most += Usage(1, prompt_bound(request), 0, request.max_tokens or 0)
    said = (
        f"At most {most.calls} model call{'s' if most.calls > 1 else ''}, {most.prompt_tokens} "
        f"prompt tokens and {most.completion_tokens} completion tokens"
    )
    if not prices:
        return [f"{said}; nothing was sent.", _unknown(options)]
    return [f"{said}, {max(price.most(most) for price in prices):.4f} USD; nothing was sent."]


def _prices(options: ModelOptions) -> list[Price]:
    """The prices of all models that are called; [] where one is unknown."""
    from ldm.llm.prices import load_prices, price_of

    prices = load_prices(Path(options.prices) if options.prices else None)
    roles = options.roles()
    found = [price_of(roles[role], prices) for role in roles]
    known = [price for price in found if price is not None]
    return known if len(known) == len(found) else []


def _unknown(options: ModelOptions) -> str:
    return f"  The price of {listed(options.roles())} is unknown; --prices FILE gives it."
