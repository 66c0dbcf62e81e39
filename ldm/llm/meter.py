"""The cost of calls, and limits that stop a run before it costs more."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ldm.errors import BudgetSpent, LdmError
from ldm.llm.calls import LOST, Call, Request
from ldm.llm.prices import Price, price_of
from ldm.types import Usage

#: Tokens that a server's chat template may add to a request, and to each of its messages.
TEMPLATE_TOKENS = 64
MESSAGE_TOKENS = 8


@dataclass(frozen=True, slots=True)
class CostLimits:
    """The maximum cost of a run, earlier attempts included; None is no limit."""

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None

    @property
    def need_bounds(self) -> bool:
        """Whether the length of each reply must be bounded in its request."""
        return self.usd is not None or self.tokens is not None


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


class Meter:
    """Adds up the cost of calls, and admits a call only if it cannot exceed the limits."""

    def __init__(self, limits: CostLimits, prices: Mapping[str, Price]) -> None:
        self.limits = limits
        self._prices = prices
        self._paid = Usage()
        self._usd = 0.0
        self._accounts: dict[tuple[str, str], Account] = {}
        self._reserved: list[Reservation] = []
        self._shut = False
        self._changed = threading.Condition()

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

    def reserve(self, request: Request, max_tokens: int | None) -> Reservation | None:
        """Reserve the maximum cost of a call until `settle`; return None once the meter is shut.

        Wait as long as calls in flight may turn out cheaper and leave room. Raises BudgetSpent if
        none is in flight.
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
                return None
            self._reserved.append(reserved)
        return reserved

    def shut(self) -> None:
        """Admit no more calls, and wake those that wait."""
        with self._changed:
            self._shut = True
            self._changed.notify_all()

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
        self._accounts[call.role, model] = Account(
            call.role,
            model,
            before.usage + call.usage,
            None if usd is None or before.usd is None else before.usd + usd,
        )

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
