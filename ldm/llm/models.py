"""The language models of a run: which ones, with what limits, and the client that calls them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ldm.config import LIMITS, MODEL, Option
from ldm.errors import LdmError, RunStopped
from ldm.text import bare_url, counted

if TYPE_CHECKING:
    from ldm.llm import LLM
    from ldm.llm.client import Client
    from ldm.llm.meter import Account
    from ldm.llm.service import Connection

#: Model requests in flight at most, where nothing else is said.
CONCURRENCY = 16
#: Seconds that answers under way get to arrive when the run has stopped by itself, and when it was
#: interrupted.
LAST_ANSWERS = 60.0
GRACE = 2.0


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which models are called, and within which limits; run.json holds it.

    llm: the model that agents use. planner_llm, reasoner_llm: for planning and for LDM²'s reasoner,
    where they differ. cache: folder of recorded calls that runs share. replay: answer from this
    recording or run only. concurrency: requests in flight at most. max_usd, max_tokens, max_calls:
    what the run may cost. prices: a file that adds to the known prices. timeout: in seconds.
    """

    llm: Annotated[str | None, Option("Language model of agents.", MODEL)] = None
    planner_llm: Annotated[
        str | None, Option("Model for planning; default: --llm.", MODEL, rare=True)
    ] = None
    reasoner_llm: Annotated[
        str | None, Option("Model for LDM²'s reasoner; default: --llm.", MODEL, rare=True)
    ] = None
    cache: Annotated[
        str | None, Option("Folder of recorded calls, shared between runs.", MODEL, rare=True)
    ] = None
    replay: Annotated[
        str | None, Option("Answer from this recording or run alone.", MODEL, rare=True)
    ] = None
    concurrency: Annotated[
        int | None, Option(f"Requests in flight [{CONCURRENCY}].", MODEL, rare=True)
    ] = None
    max_usd: Annotated[float | None, Option("Stop before the run costs more USD.", LIMITS)] = None
    max_tokens: Annotated[
        int | None, Option("Stop before the run uses more tokens.", LIMITS, rare=True)
    ] = None
    max_calls: Annotated[
        int | None, Option("Stop before the run makes more calls.", LIMITS, rare=True)
    ] = None
    prices: Annotated[str | None, Option("File of further prices.", LIMITS, rare=True)] = None
    timeout: Annotated[float | None, Option("Seconds for a request [300].", LIMITS, rare=True)] = (
        None
    )

    @classmethod
    def recorded(cls, values: Mapping[str, Any], file: Path) -> ModelOptions:
        """Return the options in run.json (`file`). Raises RecordError where they do not fit."""
        from ldm import records

        return records.loads(json.dumps(values), cls, file=str(file))

    def resumed(self, changes: ModelOptions, run: str) -> ModelOptions:
        """Return these options with the `changes` for a resumed run; another model is refused."""
        merged = asdict(self)
        for field in fields(self):
            value = getattr(changes, field.name)
            if value is None:
                continue
            if field.name.endswith(("llm", "url")) and value != merged[field.name]:
                option = _option(field.name)
                raise LdmError(
                    f"{run} was started with {option} {merged[field.name]}, not {value}.",
                    "Omit the option, or start a new run.",
                )
            merged[field.name] = value
        return ModelOptions(**merged)

    def changed(self, changes: Mapping[str, str]) -> ModelOptions:
        """Return these options with others for a role: option → value.

        "@planner_llm" stands for the model that another option names, with its server. Raises
        LdmError where it names none.
        """
        values: dict[str, Any] = dict(changes)
        for name, value in changes.items():
            if not value.startswith("@"):
                continue
            other = value[1:]
            if not getattr(self, other, None):
                raise LdmError(
                    f"{_option(other)} names no model, and one is needed.",
                    f"Give {_option(other)}.",
                )
            values[name] = getattr(self, other)
            values[_url(name)] = getattr(self, _url(other))
        return replace(self, **values) if values else self

    def elsewhere(self) -> dict[str, str]:
        """Return role → URL of the roles that have a server of their own.

        Raises LdmError where one carries a password or a query, which would be recorded.
        """
        urls = {
            "llm": self.llm_base_url,
            "planner": self.planner_base_url,
            "reasoner": self.reasoner_base_url,
        }
        for role, url in urls.items():
            if url and (not url.startswith(("http://", "https://")) or bare_url(url) != url):
                raise LdmError(
                    f"The address of the server of the {role} is no plain URL.",
                    "It looks like http://127.0.0.1:11434/v1. Set its key as "
                    f"LDM_{role.upper()}_API_KEY.",
                )
        return {role: url for role, url in urls.items() if url}

    @property
    def configured(self) -> bool:
        """Whether a model is named, or a recording names it."""
        return bool(self.llm or self.reasoner_llm or self.replay)

    @property
    def in_flight(self) -> int:
        """How many requests may be under way at a time."""
        return self.concurrency or CONCURRENCY

    def of(self, called: Sequence[str]) -> dict[str, str]:
        """Return role → model of the roles that are `called`."""
        roles = self.roles()
        return {role: roles[role] for role in called}

    def roles(self) -> dict[str, str]:
        """Return role → model. Raises LdmError where no option and no recording names one."""
        llm = self.llm
        recorded: dict[str, str] = {}
        if self.replay:
            from ldm.llm.recording import Recording

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
    """The models of one run, behind one client that is made when the first is needed.

    Safe in several threads. `close` when the run is over.
    """

    def __init__(
        self,
        options: ModelOptions,
        connect: Callable[[], Connection],
        directory: Path | None = None,
        message: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Take what is needed to make the client.

        connect: says where models are; raises LdmError where nobody knows. directory: where calls
        are recorded, and what is known of the server; None: nowhere. message: takes a line for the
        user.
        """
        self.options = options
        self._connect = connect
        self._directory = directory
        self._message = message
        self._client: Client | None = None
        self._roles: dict[str, str] = {}
        self._lock = threading.Lock()

    def get(self, role: str) -> LLM:
        """Return the model of a role. Raises LdmError where it or its server is not named."""
        return self.client().model(self._roles[role], role)

    def client(self) -> Client:
        """Return the client, made at the first call. Raises LdmError as `get`."""
        with self._lock:
            if self._client is None:
                self._roles = self.options.roles()
                self._client = make_client(self.options, self._connect, self._directory)
            return self._client

    def accounts(self) -> list[Account]:
        """Return what was paid in this run so far; [] where no model was used."""
        return [] if self._client is None else self._client.accounts()

    def paid(self) -> float | None:
        """Return the US dollars paid in this run so far; None where a price is not known."""
        prices = [account.usd for account in self.accounts()]
        known = [price for price in prices if price is not None]
        return sum(known) if prices and len(known) == len(prices) else None

    def close(self, *, wait: bool = False) -> None:
        """Make no further call. wait: give the answers under way a while to arrive."""
        if self._client is None:
            return
        if wait and self._client.under_way:
            self._message(
                f"Waiting at most {LAST_ANSWERS:g} s for {self._client.under_way} answers under "
                "way, which are billed already; Ctrl-C leaves without them."
            )
        self._client.close(LAST_ANSWERS if wait else GRACE)


@contextmanager
def serving(
    options: ModelOptions,
    connect: Callable[[], Connection],
    directory: Path | None,
    message: Callable[[str], None],
    where: str = "",
) -> Iterator[Models]:
    """Open the models of one run, close them in the end, and say what they cost.

    connect, directory, message: as for `Models`. where: what the cost is of, e.g. " in this run".
    """
    models = Models(options, connect, directory, message)
    try:
        yield models
    except RunStopped:
        models.close(wait=True)
        raise
    finally:
        models.close()
        for line in account_lines(models.accounts(), where):
            message(line)


def make_client(
    options: ModelOptions, connect: Callable[[], Connection], directory: Path | None
) -> Client:
    """Return the client that the options describe; directory: as for `Models`."""
    from ldm.llm import capabilities, recording
    from ldm.llm.client import Client, ClientSetup, Server
    from ldm.llm.concurrency import ConcurrencyLimiter
    from ldm.llm.meter import CostLimits, Meter
    from ldm.llm.prices import load_prices
    from ldm.llm.service import Service

    concurrency = options.in_flight
    server = None
    if not options.replay:
        server = connect()
        server = replace(server, timeout=options.timeout or server.timeout)
    elsewhere = {}
    for role, url in options.elsewhere().items():
        if server is None:
            break
        other = server.at(role, url)
        file = None if directory is None else directory / f"{role}-{capabilities.FILE}"
        stated = capabilities.CapabilityStore(file, other.display_url)
        elsewhere[role] = Server(Service(other, connections=concurrency), stated)
    own = known = None
    if directory is not None:
        own, known = directory / recording.FILE, directory / capabilities.FILE
    store = capabilities.CapabilityStore(known, server.display_url if server else "")
    if options.replay:
        source = Path(options.replay)
        for file in sorted(
            (source if source.is_dir() else source.parent).glob(f"*{capabilities.FILE}")
        ):
            store.take(file)
    return Client(
        ClientSetup(
            service=Service(server, connections=concurrency) if server else None,
            recording=recording.Recording(
                own,
                cache=Path(options.cache) if options.cache else None,
                replay=Path(options.replay) if options.replay else None,
            ),
            meter=Meter(
                CostLimits(options.max_usd, options.max_tokens, options.max_calls),
                load_prices(Path(options.prices) if options.prices else None),
            ),
            limiter=ConcurrencyLimiter(concurrency),
            capabilities=store,
            elsewhere=elsewhere,
        )
    )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _url(name: str) -> str:
    """Return the option for the server of the role whose model `name` is."""
    return f"{name.removesuffix('_llm')}_base_url"


def listed(roles: Mapping[str, str]) -> str:
    """Return the models of roles, for messages."""
    if len(set(roles.values())) == 1:
        return next(iter(roles.values()))
    return ", ".join(f"{role} {model}" for role, model in roles.items())


def account_lines(accounts: Sequence[Account], where: str = "") -> list[str]:
    """Return a line for each role and model: what it cost."""
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
