"""Prices of models: those in the package `genai-prices`, and those in a user's file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.errors import LdmError
from ldm.text import read_json
from ldm.types import Usage

if TYPE_CHECKING:
    from genai_prices.types import MatchLogic, ModelPrice

#: The prefix of OpenAI's models at gateways, and the date at the end of a model's name.
OPENAI = re.compile(r"^(.*/)?openai/")
VERSION = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{4}|\d{8})$")
#: OpenAI's models that tokens alone do not price: open weights, which a local server may serve for
#: nothing, and models that search the web, which also bill each search.
UNPRICED = re.compile(r"^gpt-oss|-search|deep-research")
#: Maximum US dollars for a million tokens.
MOST = 1e6
FORMAT = 'Write {"models": {"NAME": [prompt, cached, completion]}}, in USD per million tokens.'


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens.

    above: (prompt tokens, the price of a call with a longer prompt), in ascending order, if long
    prompts cost more; it applies to all tokens of the call.
    """

    prompt: float
    cached: float
    completion: float
    above: tuple[tuple[int, Price], ...] = ()

    def of(self, usage: Usage) -> float:
        """Return the cost in US dollars; cached tokens are part of the prompt's.

        The mean prompt of several calls decides whether they are long: price calls one by one if
        the exact sum matters.
        """
        return self._reached(usage.prompt_tokens / max(1, usage.calls))[-1]._of(usage)

    def most(self, usage: Usage) -> float:
        """Return the maximum cost of calls with this total usage, in US dollars."""
        return max(rates._of(usage) for rates in self._reached(usage.prompt_tokens))

    def _reached(self, prompt: float) -> list[Price]:
        """Return the prices up to that of a prompt of so many tokens."""
        return [self, *(price for tokens, price in self.above if prompt > tokens)]

    def _of(self, usage: Usage) -> float:
        uncached = usage.prompt_tokens - usage.cached_tokens
        return (
            uncached * self.prompt
            + usage.cached_tokens * self.cached
            + usage.completion_tokens * self.completion
        ) / 1e6


def load_prices(file: Path | None = None) -> dict[str, Price]:
    """Return model → price: OpenAI's present prices, with the additions and changes of `file`.

    The prices come from the installed version of `genai-prices`, not from the network. Prompt
    tokens are priced as if all were written to the provider's cache, if that costs extra, because
    records do not tell. Call this in the main thread, before any worker.
    Raises LdmError if the file is not {"models": {NAME: [prompt, cached, completion]}}.
    """
    prices = dict(_packaged_prices())
    for name in list(prices):  # a dated version follows its model, also if `file` changes its price
        if (undated := VERSION.sub("", name)) != name and prices.get(undated) == prices[name]:
            del prices[name]
    if file is None:
        return prices
    table = read_json(file)
    models = table.get("models") if isinstance(table, dict) else None
    if not isinstance(models, dict):
        raise LdmError(f'{file} has no field "models".', FORMAT)
    for model, values in models.items():
        is_triple = isinstance(values, list) and len(values) == 3
        if not is_triple or not all(isinstance(v, int | float) and 0 <= v <= MOST for v in values):
            raise LdmError(f"{file}: the price of {model} must be a list of three numbers.", FORMAT)
        prompt, cached, completion = map(float, values)
        prices[model] = Price(prompt, cached, completion)
    return prices


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """Return the model's price, or None if unknown: a guess might be too low.

    A dated version (NAME-2025-04-14) costs as much as NAME, and openai/NAME, the gateways' name,
    as much as at OpenAI. A variant (NAME:free, NAME:1.5b) is another model with its own price.
    """
    for name in (model, OPENAI.sub("", model)):
        price = prices.get(name) or prices.get(VERSION.sub("", name))
        if price is not None:
            return price
    return None


def _packaged_prices() -> Iterator[tuple[str, Price]]:
    """Yield (name, price) of OpenAI's models, by the exact names that the package lists.

    The package also matches by the beginning of a name; a local server's model could match that.
    """
    # Takes half a second. The module, not the package's snapshot, which an updater may replace.
    from genai_prices.data import providers

    provider = next(provider for provider in providers if provider.id == "openai")
    now = datetime.now(tz=UTC)
    for model in provider.models:
        price = _price(model.get_prices(now))
        if price is None:
            continue
        for name in {model.id, *_exact_names(model.match)}:
            is_ours = provider.model_match is not None and provider.model_match.is_match(name)
            if is_ours and not UNPRICED.search(name):
                yield name, price


def _exact_names(match: MatchLogic) -> Iterator[str]:
    """Yield the full names in a rule of the package."""
    from genai_prices.types import ClauseEquals, ClauseOr

    if isinstance(match, ClauseEquals):
        yield match.equals
    elif isinstance(match, ClauseOr):
        for clause in match.or_:
            yield from _exact_names(clause)


def _price(listed: ModelPrice) -> Price | None:
    """Return the package's price as ours, or None unless prompt and completion are priced."""
    from genai_prices.types import TieredPrices, calc_unit_price

    prompt, completion = listed.input_mtok, listed.output_mtok
    if prompt is None or completion is None:
        return None
    cached = prompt if listed.cache_read_mtok is None else listed.cache_read_mtok
    written = prompt if listed.cache_write_mtok is None else listed.cache_write_mtok

    def at(tokens: int, above: tuple[tuple[int, Price], ...] = ()) -> Price:
        """Return the price of a call with so many prompt tokens."""
        rates = [
            float(calc_unit_price(rate, 1, tokens, 1)) for rate in (written, cached, completion)
        ]
        return Price(rates[0], rates[1], rates[2], above)

    starts = {
        tier.start
        for rate in (written, cached, completion)
        if isinstance(rate, TieredPrices)
        for tier in rate.tiers
    }
    return at(0, tuple((start, at(start + 1)) for start in sorted(starts)))
