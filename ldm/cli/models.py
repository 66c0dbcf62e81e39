"""Models from options and environment variables; the place that names the concrete client."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldm.cli import output
from ldm.errors import LdmError, RunStopped

if TYPE_CHECKING:
    from ldm.llm import LLM
    from ldm.llm.client import Client
    from ldm.llm.meter import Account
    from ldm.llm.service import Connection

URL, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
CONCURRENCY = 16
#: Seconds that an answer may take; that those under way get to come when the run has stopped by
#: itself; and when it was interrupted.
TIMEOUT = 300.0
LAST_ANSWERS = 60.0
GRACE = 2.0

LlmName = Annotated[
    str | None,
    typer.Option("--llm", envvar="LDM_LLM", help="Language model that agents use."),
]
PlannerName = Annotated[
    str | None,
    typer.Option("--planner-llm", envvar="LDM_PLANNER_LLM", help="Model for planning; else --llm."),
]
ReasonerName = Annotated[
    str | None,
    typer.Option(
        "--reasoner-llm",
        envvar="LDM_REASONER_LLM",
        help="Model for LDM²'s reasoner; else --llm. Without either the offline one decides.",
    ),
]
CacheAt = Annotated[
    Path | None, typer.Option("--cache", help="Folder of recorded calls that runs share.")
]
ReplayOf = Annotated[
    Path | None, typer.Option("--replay", help="Answer from this recording or run only.")
]
Concurrency = Annotated[
    int | None,
    typer.Option(min=1, help=f"Model requests in flight at most; default {CONCURRENCY}."),
]
MaxUsd = Annotated[
    float | None, typer.Option(min=0.0, help="Stop before the run costs more US dollars.")
]
MaxTokens = Annotated[int | None, typer.Option(min=0, help="Stop before the run uses more tokens.")]
MaxCalls = Annotated[
    int | None, typer.Option(min=0, help="Stop before the run makes more model calls.")
]
Timeout = Annotated[
    float | None,
    typer.Option(min=1.0, help="Seconds that a model's answer may take; default 300."),
]
EstimateFirst = Annotated[
    bool, typer.Option("--estimate", help="Say what it will cost, from a small part of it; stop.")
]
PricesAt = Annotated[
    Path | None, typer.Option("--prices", help="File that adds to the table of prices.")
]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The options above, as given; run.json holds them."""

    llm: str | None = None
    planner_llm: str | None = None
    reasoner_llm: str | None = None
    cache: str | None = None
    replay: str | None = None
    concurrency: int | None = None
    max_usd: float | None = None
    max_tokens: int | None = None
    max_calls: int | None = None
    prices: str | None = None
    timeout: float | None = None

    @classmethod
    def given(cls, **options: Any) -> ModelOptions:
        """From the values of the options; paths are made absolute, so that resuming finds them."""
        for name, value in options.items():
            if isinstance(value, Path):
                options[name] = str(value.expanduser().absolute())
        return cls(**options)

    @classmethod
    def recorded(cls, values: Mapping[str, Any], file: Path) -> ModelOptions:
        """As run.json (`file`) holds them. Raises RecordError where they do not fit."""
        import json

        from ldm import records

        return records.loads(json.dumps(values), cls, file=str(file))

    def resumed(self, asked: ModelOptions, name: str) -> ModelOptions:
        """These, with what is asked for on resuming; another model is refused."""
        merged = asdict(self)
        for field in fields(self):
            value = getattr(asked, field.name)
            if value is None:
                continue
            if field.name.endswith("llm") and value != merged[field.name]:
                option = f"--{field.name.replace('_', '-')}"
                raise LdmError(
                    f"{name} was started with {option} {merged[field.name]}, not {value}.",
                    "Leave the option out, or start a new run.",
                )
            merged[field.name] = value
        return ModelOptions(**merged)

    @property
    def configured(self) -> bool:
        """Whether a model is named, or a recording names it."""
        return bool(self.llm or self.reasoner_llm or self.replay)

    @property
    def at_once(self) -> int:
        """How many requests may be in flight."""
        return self.concurrency or CONCURRENCY

    def named(self, called: Mapping[str, str]) -> dict[str, str]:
        """What run.json says of models: those of the roles `called`, and the server they are at."""
        return dict(called) if self.replay else {**called, "server": connection().shown}

    def roles(self) -> dict[str, str]:
        """Role → model. Raises LdmError where a replayed recording does not say which."""
        llm = self.llm
        recorded: dict[str, str] = {}
        if self.replay:
            from ldm.llm.recording import Recording

            recorded = Recording(replay=Path(self.replay)).roles()
            llm = llm or recorded.get("llm") or next(iter(recorded.values()), None)
        llm = llm or self.reasoner_llm
        if llm is None:
            raise LdmError(
                "No language model is named.",
                f"Name one with --llm MODEL and its server with {URL} (and {KEY}).",
            )
        return {
            "llm": llm,
            "planner": self.planner_llm or recorded.get("planner") or llm,
            "reasoner": self.reasoner_llm or recorded.get("reasoner") or llm,
        }


@contextmanager
def serving(options: ModelOptions, directory: Path | None, where: str = "") -> Iterator[Models]:
    """The models of one run, closed in the end; what they cost is said, however it ends.

    directory: as for `Models`. where: what the cost is of, e.g. " in this run".
    """
    models = Models(options, directory)
    try:
        yield models
    except RunStopped:
        models.close(wait=True)
        raise
    finally:
        models.close()
        say_accounts(models.accounts(), where)


class Models:
    """The models of one run, behind one client that is made when the first is asked for.

    Safe in several threads. `close` when the run is over.
    """

    def __init__(self, options: ModelOptions, directory: Path | None = None) -> None:
        """directory: where calls are recorded, and what is known of the server; None: nowhere."""
        self.options = options
        self._directory = directory
        self._client: Client | None = None
        self._roles: dict[str, str] = {}
        self._lock = threading.Lock()

    def get(self, role: str) -> LLM:
        """The model of a role. Raises LdmError where the settings do not name it or its server."""
        return self.client().model(self._roles[role], role)

    def client(self) -> Client:
        """The client, made at the first call. Raises LdmError as `get`."""
        with self._lock:
            if self._client is None:
                self._roles = self.options.roles()
                self._client = make_client(self.options, self._directory)
            return self._client

    def accounts(self) -> list[Account]:
        """What was paid in this run so far; [] where no model was used."""
        return [] if self._client is None else self._client.accounts()

    def close(self, *, wait: bool = False) -> None:
        """Make no further call. wait: a while for the answers under way."""
        if self._client is None:
            return
        if wait and self._client.under_way:
            output.say(
                f"Waiting {LAST_ANSWERS:g} s at most for {self._client.under_way} answers under "
                "way, which are billed already; Ctrl-C leaves without them."
            )
        self._client.close(LAST_ANSWERS if wait else GRACE)


def connection(timeout: float | None = None) -> Connection:
    """Where the environment variables say that models are.

    Raises LdmError where they say nothing, or what cannot be sent.
    """
    from ldm.llm.service import Connection

    url, key = os.environ.get(URL, "").strip(), os.environ.get(KEY, "").strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise LdmError(
            f"{KEY} holds a character that no key has: a blank, a line break or a letter that is "
            "not ASCII.",
            "Set it again; it may have been pasted with something around it.",
        )
    if not url and not key:
        raise LdmError(
            f"No model service is configured: neither {URL} nor {KEY} is set.",
            f"Set {KEY} for OpenAI, or {URL} for any other server, e.g. http://127.0.0.1:11434/v1.",
        )
    made = Connection(url, key, timeout or TIMEOUT)
    if url and not made.shown.startswith(("http://", "https://")):
        raise LdmError(f"{URL} is not a URL.", "It looks like http://127.0.0.1:11434/v1.")
    return made


def make_client(options: ModelOptions, directory: Path | None) -> Client:
    """The client that the options describe; see `Models`."""
    from ldm.llm import capabilities, recording
    from ldm.llm.client import Client, ClientSetup
    from ldm.llm.concurrency import ConcurrencyLimiter
    from ldm.llm.meter import CostLimits, Meter
    from ldm.llm.prices import load_prices
    from ldm.llm.service import Service

    concurrency = options.at_once
    where = None if options.replay else connection(options.timeout)
    own = known = None
    if directory is not None:
        own, known = directory / recording.FILE, directory / capabilities.FILE
    return Client(
        ClientSetup(
            service=Service(where, connections=concurrency) if where else None,
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
            capabilities=capabilities.CapabilityStore(known, where.shown if where else ""),
        )
    )


def listed(roles: Mapping[str, str]) -> str:
    """The models of roles, for messages."""
    if len(set(roles.values())) == 1:
        return next(iter(roles.values()))
    return ", ".join(f"{role} {model}" for role, model in roles.items())


def say_accounts(accounts: list[Account], where: str = "") -> None:
    """A line for each role and model: what it cost."""
    for account in accounts:
        usage = account.usage
        price = "price unknown" if account.usd is None else f"{account.usd:.4f} USD"
        output.say(
            f"Paid{where} for {account.role} ({account.model}): {usage.calls} calls, "
            f"{usage.prompt_tokens} prompt tokens ({usage.cached_tokens} cached), "
            f"{usage.completion_tokens} completion tokens, {price}."
        )
