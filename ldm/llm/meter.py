"""The prices of calls, limits that stop a run before it costs more, and calls in flight."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ldm.errors import BudgetSpent, LdmError, RunStopped
from ldm.llm.calls import LOST, Call, Request
from ldm.text import read_json
from ldm.types import Usage

if TYPE_CHECKING:
    from genai_prices.types import MatchLogic, ModelPrice, TieredPrices

    Rate = Decimal | TieredPrices


class Gate:
    """Admits what may pass, until it is shut."""

    def __init__(self) -> None:
        self._shut: RunStopped | None = None
        self._changed = threading.Condition()

    def shut(self, reason: RunStopped) -> None:
        """Admit nothing more, and wake those that wait."""
        with self._changed:
            self._shut = reason
            self._changed.notify_all()


class ConcurrencyLimiter(Gate):
    """Admits at most `limit` requests at a time, and fewer for a while after a refusal.

    A refusal (429) halves the width, once for all requests that were in flight together, and holds
    new requests back for as long as the server asked; every response widens it a little.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self._width = float(limit)
        self._in_flight = 0
        self._closed_until = 0.0
        self._last_narrowed = 0.0

    @property
    def width(self) -> int:
        """The present maximum of requests in flight."""
        return max(1, int(self._width))

    def enter(self) -> float:
        """Wait for a slot and return the time of entry, for `narrow`; `leave` frees the slot.

        Raises the reason once the limiter is shut.
        """
        with self._changed:
            while not self._shut:
                wait = self._closed_until - time.monotonic()
                if wait <= 0 and self._in_flight < self.width:
                    self._in_flight += 1
                    return time.monotonic()
                self._changed.wait(wait if wait > 0 else None)
            raise self._shut

    def leave(self) -> None:
        """Free the slot of a finished request."""
        with self._changed:
            self._in_flight -= 1
            self._changed.notify()

    def widen(self) -> None:
        """Widen after a response, by about one slot per round of requests."""
        with self._changed:
            before = self.width
            self._width = min(float(self.limit), self._width + 1.0 / self._width)
            if self.width > before:
                self._changed.notify_all()

    def narrow(self, entered: float, seconds: float) -> None:
        """Narrow after the refusal of a request that entered at `entered`; pause for `seconds`.

        Only the first refusal of a round counts, because the others carry no information.
        """
        with self._changed:
            now = time.monotonic()
            if entered > self._last_narrowed:
                self._width = max(1.0, self._width / 2)
                self._last_narrowed = now
            self._closed_until = max(self._closed_until, now + seconds)


#: Tokens that a server's chat template may add to a request, and to each of its messages.
TEMPLATE_TOKENS = 64
MESSAGE_TOKENS = 8


class CostLimits(NamedTuple):
    """The maximum cost of a run, earlier attempts included; None is no limit."""

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """The cost of one role's calls to one model; usd is None if the price is unknown."""

    role: str
    model: str
    usage: Usage
    usd: float | None


class Reservation(NamedTuple):
    """The maximum cost of a call in flight."""

    usage: Usage
    usd: float


class Meter(Gate):
    """Adds up the cost of calls, and admits a call only if it cannot exceed the limits."""

    def __init__(self, limits: CostLimits, prices: Mapping[str, Price]) -> None:
        super().__init__()
        self.limits = limits
        self._prices = prices
        self._paid = Usage()
        self._usd = 0.0
        self._accounts: dict[tuple[str, str], Account] = {}
        self._reserved: list[Reservation] = []

    @property
    def in_flight(self) -> int:
        """The number of calls admitted and not settled."""
        return len(self._reserved)

    def check_price(self, model: str) -> None:
        """Raise LdmError if there is a limit in dollars and the model's price is unknown."""
        if self.limits.usd is not None and price_of(model, self._prices) is None:
            raise LdmError(
                f"The price of {model} is unknown, so --max-usd cannot be enforced.",
                f'Give it with --prices FILE: {{"models": {{"{model}": [0.1, 0.1, 0.4]}}}} in USD '
                "per million prompt, cached and completion tokens; or use --max-tokens.",
            )

    def take(self, calls: Iterable[Call]) -> None:
        """Count the recorded calls that were paid in this run."""
        with self._changed:
            for call in calls:
                if call.paid:
                    self._count(call)

    def reserve(self, request: Request, max_tokens: int | None) -> Reservation:
        """Reserve the maximum cost of a call until `settle`.

        Wait as long as calls in flight may turn out cheaper and leave room. Raises BudgetSpent if
        none is in flight, and the reason once the meter is shut.
        """
        most = Usage(1, prompt_bound(request), 0, max_tokens or 0)
        price = price_of(request.model, self._prices)
        reserved = Reservation(most, 0.0 if price is None else price.most(most))
        with self._changed:
            while not self._shut and (excess := self._excess(reserved)):
                if not self._reserved:
                    raise BudgetSpent(excess, "Raise the limit.")
                self._changed.wait()
            if self._shut:
                raise self._shut
            self._reserved.append(reserved)
        return reserved

    def settle(self, reserved: Reservation, call: Call | None) -> None:
        """Count `call` in place of what was reserved for it; None if it cost nothing."""
        with self._changed:
            self._reserved.remove(reserved)
            if call is not None:
                self._count(call)
            self._changed.notify_all()

    def accounts(self) -> list[Account]:
        """Return the cost by role and model."""
        with self._changed:
            return [account for _, account in sorted(self._accounts.items())]

    def _count(self, call: Call) -> None:
        model = call.request.model
        price = price_of(model, self._prices)
        usd = None if price is None else price.of(call.usage)
        self._paid += call.usage
        self._usd += usd or 0.0
        if call.error == LOST:  # it counts in the limits, as a bill may come
            return
        before = self._accounts.get((call.role, model), Account(call.role, model, Usage(), 0.0))
        usage = before.usage + call.usage
        paid = None if usd is None or before.usd is None else before.usd + usd
        self._accounts[call.role, model] = Account(call.role, model, usage, paid)

    def _excess(self, reservation: Reservation) -> str:
        """Return a message on the limit that the call could exceed, or ""."""
        limits, reserved = self.limits, [*self._reserved, reservation]
        calls, tokens = self._paid.calls, self._paid.tokens
        most = tokens + sum(one.usage.tokens for one in reserved)
        if limits.calls is not None and calls + len(reserved) > limits.calls:
            return f"{calls} model calls of --max-calls {limits.calls} are used up."
        if limits.tokens is not None and most > limits.tokens:
            used, option = f"{tokens} tokens are used", f"--max-tokens {limits.tokens}"
            return f"{used}; the next call could exceed {option}."
        if limits.usd is not None and self._usd + sum(one.usd for one in reserved) > limits.usd:
            used, option = f"{self._usd:.4f} USD are spent", f"--max-usd {limits.usd:g}"
            return f"{used}; the next call could exceed {option}."
        return ""


def prompt_bound(request: Request) -> int:
    """Return an upper bound on the prompt's tokens: a token is at least one byte of UTF-8."""
    contents = sum(len(message.content.encode()) for message in request.messages)
    schema = len(json.dumps(request.schema).encode()) if request.schema else 0
    return contents + schema + MESSAGE_TOKENS * len(request.messages) + TEMPLATE_TOKENS


def prompt_guess(request: Request) -> int:
    """Return a rough number of the prompt's tokens, for servers that report none."""
    return max(1, sum(len(message.content.encode()) for message in request.messages) // 4)


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
    """US dollars per million tokens, with tiers if long prompts cost more."""

    prompt: Rate
    cached: Rate
    completion: Rate

    def of(self, usage: Usage) -> float:
        """Return the cost in US dollars; cached tokens are part of the prompt's.

        The mean prompt of several calls decides whether they are long: price calls one by one if
        the exact sum matters.
        """
        return self._at(usage.prompt_tokens / max(1, usage.calls), usage)

    def most(self, usage: Usage) -> float:
        """Return the maximum cost of calls with this total usage, in US dollars."""
        return self._at(usage.prompt_tokens, usage)

    def _at(self, prompt: float, usage: Usage) -> float:
        """Return the cost by the rates for prompts of so many tokens."""
        from genai_prices.types import calc_unit_price

        own = (
            (self.prompt, usage.prompt_tokens - usage.cached_tokens),
            (self.cached, usage.cached_tokens),
            (self.completion, usage.completion_tokens),
        )
        return float(sum(calc_unit_price(rate, n, math.ceil(prompt), 10**6) for rate, n in own))


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
        prices[model] = Price(*(Decimal(str(value)) for value in values))
    return prices


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """Return the model's price, or None if unknown: a guess might be too low.

    A dated version (NAME-2025-04-14) costs as much as NAME, and openai/NAME, the gateways' name,
    as much as at OpenAI. A variant (NAME:free, NAME:1.5b) is another model with its own price.
    """
    names = (name for one in (model, OPENAI.sub("", model)) for name in (one, VERSION.sub("", one)))
    return next((prices[name] for name in names if name in prices), None)


def _packaged_prices() -> Iterator[tuple[str, Price]]:
    """Yield (name, price) of OpenAI's models, by the exact names that the package lists.

    The package also matches by the beginning of a name; a local server's model could match that.
    """
    # The data of the module, not of the package's snapshot, which an updater may replace; imported
    # here, as commands that ask no model do not need it.
    from genai_prices.data import providers

    provider = next(provider for provider in providers if provider.id == "openai")
    now = datetime.now(tz=UTC)
    for model in provider.models:
        if (price := _price(model.get_prices(now))) is None:
            continue
        for name in {model.id, *_exact_names(model.match)}:
            is_ours = provider.model_match is not None and provider.model_match.is_match(name)
            if is_ours and not UNPRICED.search(name):
                yield name, price


def _exact_names(match: MatchLogic) -> Iterator[str]:
    """Yield the full names in a rule of the package."""
    from genai_prices import types

    if isinstance(match, types.ClauseEquals):
        yield match.equals
    elif isinstance(match, types.ClauseOr):
        for clause in match.or_:
            yield from _exact_names(clause)


def _price(listed: ModelPrice) -> Price | None:
    """Return the package's price as ours, or None unless prompt and completion are priced."""
    prompt, completion = listed.input_mtok, listed.output_mtok
    if prompt is None or completion is None:
        return None
    cached = prompt if listed.cache_read_mtok is None else listed.cache_read_mtok
    written = prompt if listed.cache_write_mtok is None else listed.cache_write_mtok
    return Price(written, cached, completion)
