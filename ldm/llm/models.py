"""The language models of a run: their names, their limits, and the client that calls them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

from ldm.config import LIMITS, MODEL, Option
from ldm.errors import LdmError, RunStopped
from ldm.text import counted

if TYPE_CHECKING:
    from ldm.llm import LLM
    from ldm.llm.client import Client
    from ldm.llm.meter import Account
    from ldm.llm.service import Connection

#: Default maximum of model requests in flight.
CONCURRENCY = 16
#: Seconds that responses in flight get to arrive after the run has stopped by itself, and after an
#: interruption.
LAST_ANSWERS = 60.0
GRACE = 2.0


#: Options that few need.
rare, limit = (partial(Option, group=group, rare=True) for group in (MODEL, LIMITS))


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The models to call, and their limits; run.json holds it.

    llm: the model of agents. planner_llm, reasoner_llm: the models for planning and for LDM²'s
    reasoner, if they differ. cache: folder of recorded calls that runs share. replay: answer from
    this recording or run only. concurrency: maximum requests in flight. max_usd, max_tokens,
    max_calls: maximum cost of the run. prices: a file that adds to the known prices. timeout: of a
    request, in seconds.
    """

    llm: Annotated[str | None, Option("Language model of agents.", MODEL)] = None
    planner_llm: Annotated[str | None, rare("Model for planning; default: --llm.")] = None
    reasoner_llm: Annotated[str | None, rare("Model for LDM²'s reasoner; default: --llm.")] = None
    cache: Annotated[str | None, rare("Folder of recorded calls, shared between runs.")] = None
    replay: Annotated[str | None, rare("Answer from this recording or run alone.")] = None
    concurrency: Annotated[int | None, rare(f"Requests in flight [{CONCURRENCY}].")] = None
    max_usd: Annotated[float | None, Option("Stop before the run costs more USD.", LIMITS)] = None
    max_tokens: Annotated[int | None, limit("Stop before the run uses more tokens.")] = None
    max_calls: Annotated[int | None, limit("Stop before the run makes more calls.")] = None
    prices: Annotated[str | None, limit("File of further prices.")] = None
    timeout: Annotated[float | None, limit("Seconds a request [300].")] = None

    @property
    def configured(self) -> bool:
        """Whether a model is named, or a recording names it."""
        return bool(self.llm or self.reasoner_llm or self.replay)

    @property
    def in_flight(self) -> int:
        """The maximum number of requests in flight."""
        return self.concurrency or CONCURRENCY

    def of(self, called: Sequence[str]) -> dict[str, str]:
        """Return role → model of the `called` roles."""
        roles = self.roles()
        return {role: roles[role] for role in called}

    def roles(self) -> dict[str, str]:
        """Return role → model. Raises LdmError if neither an option nor a recording names one."""
        llm = self.llm
        recorded: dict[str, str] = {}
        if self.replay:
            from ldm.llm.calls import Recording

            recorded = Recording(replay=Path(self.replay)).roles()
            llm = llm or recorded.get("llm") or next(iter(recorded.values()), None)
        llm = llm or self.reasoner_llm
        if llm is None:
            raise LdmError(
                "No LLM is configured.",
                "Name one with --llm MODEL and its server with OPENAI_BASE_URL (and "
                "OPENAI_API_KEY).",
            )
        return {
            "llm": llm,
            "planner": self.planner_llm or recorded.get("planner") or llm,
            "reasoner": self.reasoner_llm or recorded.get("reasoner") or llm,
        }


class Models:
    """The models of one run, behind one client that is made when first needed. Thread-safe.

    As a context it closes the client in the end, and reports the cost.
    """

    def __init__(
        self,
        options: ModelOptions,
        connect: Callable[[], Connection],
        directory: Path | None = None,
        message: Callable[[str], None] = lambda line: None,
        where: str = "",
    ) -> None:
        """Take the parts of the client.

        connect: returns the server, or raises LdmError if none is configured. directory: folder for
        recorded calls and the server's capabilities; None: nowhere. message: takes a line for the
        user. where: added to the report, e.g. " in this run".
        """
        self.options = options
        self._make = partial(make_client, options, connect, directory)
        self._message, self._where = message, where
        self._client: Client | None = None
        self._roles: dict[str, str] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None and issubclass(kind, RunStopped):
                self.close(LAST_ANSWERS)
        finally:
            self.close()
            for line in account_lines(self.accounts(), self._where):
                self._message(line)

    def get(self, role: str) -> LLM:
        """Return the model of a role. Raises LdmError if it or its server is not configured."""
        return self.client().model(self._roles[role], role)

    def client(self) -> Client:
        """Return the client, made at the first call. Raises LdmError as `get`."""
        with self._lock:
            if self._client is None:
                self._roles = self.options.roles()
                self._client = self._make()
            return self._client

    def accounts(self) -> list[Account]:
        """Return the cost of this run so far; [] if no model was used."""
        return [] if self._client is None else self._client.meter.accounts()

    def paid(self) -> float | None:
        """Return the US dollars paid in this run so far, or None if a price is unknown."""
        prices = [account.usd for account in self.accounts()]
        known = [price for price in prices if price is not None]
        return sum(known) if prices and len(known) == len(prices) else None

    def close(self, grace: float = GRACE) -> None:
        """Stop sending calls; give responses in flight some seconds to arrive."""
        if self._client is None:
            return
        if grace > GRACE and (in_flight := self._client.meter.in_flight):
            self._message(
                f"Waiting at most {grace:g} s for {in_flight} answers under way, which are billed "
                "already; Ctrl-C leaves without them."
            )
        self._client.close(grace)


def make_client(
    options: ModelOptions, connect: Callable[[], Connection], directory: Path | None
) -> Client:
    """Return the client for these options; directory: as for `Models`."""
    from ldm.llm import calls, capabilities
    from ldm.llm.client import Client
    from ldm.llm.meter import ConcurrencyLimiter, CostLimits, Meter, load_prices
    from ldm.llm.service import Service

    server = None if options.replay else connect()
    own = None if directory is None else directory / calls.FILE
    store = capabilities.CapabilityStore(
        directory and directory / capabilities.FILE, server.display_url if server else ""
    )
    if options.replay:
        source = Path(options.replay)
        store.take((source if source.is_dir() else source.parent) / capabilities.FILE)
    service = None
    if server is not None:
        server = replace(server, timeout=options.timeout or server.timeout)
        service = Service(server, connections=options.in_flight)
    cache, replay, prices = (
        Path(text) if text else None for text in (options.cache, options.replay, options.prices)
    )
    limits = CostLimits(options.max_usd, options.max_tokens, options.max_calls)
    recording = calls.Recording(own, cache=cache, replay=replay)
    meter, limiter = Meter(limits, load_prices(prices)), ConcurrencyLimiter(options.in_flight)
    return Client(service, recording, meter, limiter, store)


def listed(roles: Mapping[str, str]) -> str:
    """Return the models of roles, for messages."""
    if len(set(roles.values())) == 1:
        return next(iter(roles.values()))
    return ", ".join(f"{role} {model}" for role, model in roles.items())


def accounts_in(directory: Path) -> list[Account]:
    """Return the cost of the calls recorded in a run's directory, at known prices.

    Raises LdmError if a line is invalid.
    """
    from ldm.llm.calls import FILE, read_calls
    from ldm.llm.meter import CostLimits, Meter, load_prices

    if not (directory / FILE).is_file():
        return []
    meter = Meter(CostLimits(), load_prices())
    meter.take(read_calls(directory))
    return meter.accounts()


def account_lines(accounts: Sequence[Account], where: str = "") -> list[str]:
    """Return a line on the cost of each role and model."""
    lines = []
    for account in accounts:
        usage = account.usage
        price = "price unknown" if account.usd is None else f"{account.usd:.4f} USD"
        lines.append(
            f"Usage{where}: {account.role} ({account.model}): {counted(usage.calls, 'call')}, "
            f"{usage.prompt_tokens} prompt tokens ({usage.cached_tokens} cached), "
            f"{usage.completion_tokens} completion tokens, {price}."
        )
    return lines
