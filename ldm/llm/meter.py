"""What calls cost, and limits that stop a run before it costs more."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ldm import records
from ldm.errors import BudgetSpent, LdmError
from ldm.llm.calls import Call, Request
from ldm.types import Usage

#: Tokens that a server's chat template may add to a request, and to each of its messages.
TEMPLATE_TOKENS = 64
MESSAGE_TOKENS = 8
#: What gateways put before OpenAI's models, and the date at the end of a model's name.
OPENAI = re.compile(r"^(.*/)?openai/")
VERSION = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{4}|\d{8})$")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    prompt: float
    cached: float
    completion: float

    def of(self, usage: Usage) -> float:
        """US dollars; cached tokens are part of the prompt's."""
        fresh = usage.prompt_tokens - usage.cached_tokens
        return (
            fresh * self.prompt
            + usage.cached_tokens * self.cached
            + usage.completion_tokens * self.completion
        ) / 1e6


def load_prices(file: Path | None = None) -> dict[str, Price]:
    """Model → price: the shipped table, with what `file` adds to it or changes.

    Raises LdmError where the file is not {"models": {NAME: [prompt, cached, completion]}}.
    """
    shipped = json.loads(resources.files("ldm.llm").joinpath("prices.json").read_text("utf-8"))
    prices = {model: Price(*values) for model, values in shipped["models"].items()}
    if file is None:
        return prices
    table = records.read_json(file)
    models = table.get("models") if isinstance(table, dict) else None
    if not isinstance(models, dict):
        raise LdmError(f"{file} has no field models.", _PRICES_REMEDY)
    for model, values in models.items():
        fits = isinstance(values, list) and len(values) == 3
        if not fits or not all(isinstance(v, int | float) and v >= 0 for v in values):
            raise LdmError(f"{file}: models.{model} is not three prices.", _PRICES_REMEDY)
        prices[model] = Price(*map(float, values))
    return prices


_PRICES_REMEDY = 'It should be {"models": {"NAME": [prompt, cached, completion]}}, in USD/10⁶.'


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The model's price, None where it is unknown: no guess is made that may be too low.

    A dated version (NAME-2025-04-14) costs what NAME does, and openai/NAME, as gateways call it,
    what OpenAI takes. A variant (NAME:free, NAME:1.5b) is another model with a price of its own.
    """
    for name in (model, OPENAI.sub("", model)):
        found = prices.get(name) or prices.get(VERSION.sub("", name))
        if found is not None:
            return found
    return None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may cost in all, earlier attempts included; None is no limit."""

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None

    @property
    def need_bounds(self) -> bool:
        """Whether the length of a reply must be bounded before it is asked for."""
        return self.usd is not None or self.tokens is not None


@dataclass(frozen=True, slots=True)
class Account:
    """What the calls of one role to one model cost; usd is None where the price is unknown."""

    role: str
    model: str
    usage: Usage
    usd: float | None


@dataclass(frozen=True, slots=True)
class Hold:
    """What is set aside for a call in flight."""

    calls: int
    tokens: int
    usd: float


class Meter:
    """Adds up what is paid, and admits a call only where it cannot exceed the limits."""

    def __init__(self, limits: Limits, prices: Mapping[str, Price]) -> None:
        self._limits = limits
        self._prices = prices
        self._paid = Usage()
        self._usd = 0.0
        self._accounts: dict[tuple[str, str], Usage] = {}
        self._held: list[Hold] = []
        self._shut = False
        self._changed = threading.Condition()

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def held(self) -> int:
        """How many calls are admitted and not settled."""
        return len(self._held)

    def check_price(self, model: str) -> None:
        """Raise LdmError where --max-usd is asked for and the model's price is unknown."""
        if self._limits.usd is not None and price_of(model, self._prices) is None:
            raise LdmError(
                f"The price of {model} is unknown, so --max-usd cannot be kept.",
                f'Give it with --prices FILE: {{"models": {{"{model}": [0.1, 0.1, 0.4]}}}} in USD '
                "per million prompt, cached and completion tokens; or use --max-tokens.",
            )

    def take(self, calls: Iterable[Call]) -> None:
        """Count recorded calls; only those that were paid in this run count."""
        for call in calls:
            if call.paid:
                self._count(call)

    def reserve(self, request: Request, max_tokens: int | None) -> Hold | None:
        """Set aside the most that the call can cost; `settle` gives it back.

        Waits where the calls in flight may leave room. None where the meter is shut meanwhile.
        Raises BudgetSpent where they cannot.
        """
        hold = self._most(request, max_tokens)
        with self._changed:
            while not self._shut and (said := self._exceeded(hold)):
                if not self._held:
                    raise BudgetSpent(said, "Resume with a higher limit to go on.")
                self._changed.wait()
            if self._shut:
                return None
            self._held.append(hold)
        return hold

    def shut(self) -> None:
        """Admit no call from now on, and send away those who wait."""
        with self._changed:
            self._shut = True
            self._changed.notify_all()

    def settled(self, seconds: float) -> bool:
        """Wait until every admitted call is settled, for `seconds` at most; whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._held, seconds)

    def settle(self, hold: Hold, call: Call | None) -> None:
        """Count `call` in place of what was set aside for it; None where nothing was answered."""
        with self._changed:
            self._held.remove(hold)
            if call is not None:
                self._count(call)
            self._changed.notify_all()

    def accounts(self) -> list[Account]:
        """What was paid, by role and model."""
        with self._changed:
            return [
                Account(role, model, usage, self._price(model, usage))
                for (role, model), usage in sorted(self._accounts.items())
            ]

    def _count(self, call: Call) -> None:
        model = call.request.model
        self._paid += call.usage
        self._usd += self._price(model, call.usage) or 0.0
        at = call.role, model
        self._accounts[at] = self._accounts.get(at, Usage()) + call.usage

    def _price(self, model: str, usage: Usage) -> float | None:
        price = price_of(model, self._prices)
        return None if price is None else price.of(usage)

    def _most(self, request: Request, max_tokens: int | None) -> Hold:
        prompt = prompt_bound(request)
        most = Usage(1, prompt, 0, max_tokens or 0)
        return Hold(1, prompt + (max_tokens or 0), self._price(request.model, most) or 0.0)

    def _exceeded(self, hold: Hold) -> str:
        limits, held = self._limits, [*self._held, hold]
        calls = self._paid.calls
        tokens = self._paid.prompt_tokens + self._paid.completion_tokens
        if limits.calls is not None and calls + sum(h.calls for h in held) > limits.calls:
            return f"{calls} model calls are made, of --max-calls {limits.calls}."
        if limits.tokens is not None and tokens + sum(h.tokens for h in held) > limits.tokens:
            return (
                f"{tokens} tokens are used; the next call could exceed --max-tokens "
                f"{limits.tokens}."
            )
        if limits.usd is not None and self._usd + sum(h.usd for h in held) > limits.usd:
            return (
                f"{self._usd:.4f} USD are spent; the next call could exceed --max-usd "
                f"{limits.usd:g}."
            )
        return ""


def prompt_bound(request: Request) -> int:
    """More tokens than the request's prompt can have: a token is at least one byte of UTF-8."""
    contents = sum(len(message.content.encode()) for message in request.messages)
    schema = len(json.dumps(request.schema).encode()) if request.schema else 0
    return contents + schema + MESSAGE_TOKENS * len(request.messages) + TEMPLATE_TOKENS


def prompt_guess(request: Request) -> int:
    """About how many tokens the request's prompt has, for servers that do not say."""
    return max(1, sum(len(message.content.encode()) for message in request.messages) // 4)
