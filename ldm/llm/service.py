"""Single requests to a server: with http_timeout.py, the only module that imports `openai`."""

from __future__ import annotations

import email.utils
import importlib
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ldm.llm.calls import Request, ServerReply
from ldm.llm.capabilities import CONSTRAINTS, Capabilities, context_in
from ldm.llm.meter import prompt_guess
from ldm.llm.structured import strict_schema, with_json_instruction
from ldm.text import bare_url, guard, redacted, url_secrets
from ldm.types import Usage, encodable, stable_hash

if TYPE_CHECKING:
    from openai import OpenAI

T = TypeVar("T")

#: How servers say that a request is too long for the model's context.
TOO_LONG = re.compile(
    r"context[ _](length|window|size)|maximum context|too many tokens|(prompt|input) is too long"
    r"|exceeds? the (available )?context|reduce the length",
    re.IGNORECASE,
)
NO_MONEY = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)
IDEMPOTENCY = "Idempotency-Key"
#: Seconds that the list of models may take; it is a courtesy, and not every server has one.
LISTING_TIMEOUT = 10.0
#: Characters of a server's message that an error quotes.
QUOTE_LENGTH = 300

#: What to do about a fault: try again later; leave a parameter out; tell the caller; stop the run.
FaultKind = Literal["again", "refused", "context", "stop"]


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the models are. The key is never shown, and removed from what a server says.

    base_url: "" for the package's own default. keys: role → key of the server that its model is at,
    where that is another one (`ModelOptions.planner_base_url`).
    timeout: seconds that a whole response may take; one that falls silent midway may take twice as
    long. Reasoning models and slow machines need many.
    """

    base_url: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    timeout: float = 300.0
    keys: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    def at(self, role: str, url: str) -> Connection:
        """Return where the model of a role is, at a server of its own; our key stays here."""
        key = self.api_key if url == self.base_url else self.keys.get(role, "")
        return Connection(url, key, self.timeout)

    @property
    def display_url(self) -> str:
        """The URL to show: scheme, host, port and path, but no user, password or query."""
        return bare_url(self.base_url) if self.base_url else "the openai package's default"

    def secrets(self) -> tuple[str, ...]:
        """Return the key, and what the URL carries."""
        return (self.api_key, *self.keys.values(), *url_secrets(self.base_url))


@dataclass(eq=False)
class Fault(Exception):
    """A request without a usable response.

    kind: what to do. what: in words. down: the server itself seems unreachable or overloaded.
    retry_after: seconds it asks to wait. refused: it refused for too many requests (429).
    final: the server has processed the request, and would respond the same under the same
    idempotency key. status: of HTTP, 0 where there was no response.
    """

    kind: FaultKind
    what: str
    down: bool = False
    retry_after: float | None = None
    refused: bool = False
    final: bool = False
    status: int = 0


class Service:
    """Sends requests to one server. Safe in several threads; `close` when done."""

    def __init__(self, connection: Connection, *, connections: int = 64) -> None:
        """Open a client. connections: how many requests may be on the wire at a time."""
        import httpx2
        import openai

        from ldm.llm.http_timeout import DeadlineClient

        # At every reply the package looks for `httpx` among the modules, and takes one that another
        # thread has begun to import for a whole one: where it is installed it is whole from now on.
        with suppress(ImportError):
            importlib.import_module("httpx")

        self.connection = connection
        guard(connection.secrets())
        self._client = openai.OpenAI(
            base_url=connection.base_url or None,
            api_key=connection.api_key or "none",  # local servers need none
            max_retries=0,  # the client retries: two layers of retries would multiply
            timeout=httpx2.Timeout(connection.timeout, connect=min(10.0, connection.timeout)),
            http_client=DeadlineClient(
                seconds=connection.timeout,
                limits=httpx2.Limits(
                    max_connections=connections, max_keepalive_connections=connections
                ),
            ),
        )

    def close(self) -> None:
        """Close all connections; what is in flight fails."""
        self._client.close()

    def send(
        self,
        request: Request,
        capabilities: Capabilities,
        max_tokens: int | None,
        *,
        unusable: int = 0,
    ) -> ServerReply:
        """Return the server's reply. Raises Fault, and nothing else, where there is none.

        unusable: how many final faults this call met before; each changes the Idempotency-Key, or a
        gateway that knows this header would return the same unusable response again.
        """
        import httpx2

        key = idempotency_key(request, capabilities, max_tokens, unusable)

        def reply(client: OpenAI) -> ServerReply:
            # Not chat.completions.create: its walk through the request costs a millisecond a call,
            # and its typed result hides what is wrong with a bad response.
            response = client.post(
                "/chat/completions",
                cast_to=httpx2.Response,
                body=request_body(request, capabilities, max_tokens),
                options={"headers": {IDEMPOTENCY: key}},
            )
            return reply_in(json_of(response.content), request, capabilities)

        return self.ask(reply)

    def ask(self, action: Callable[[OpenAI], T]) -> T:
        """Return what an action gets from the server. Raises Fault, and nothing else."""
        import openai

        fault: Fault
        try:
            return action(self._client)
        except Fault as error:
            fault = error
        except openai.APITimeoutError:
            fault = Fault("again", f"no complete answer within {self.connection.timeout:g} s")
        except openai.APIStatusError as error:
            fault = refusal(error.status_code, error.body, error.response.headers)
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            reason = redacted(str(cause)) or type(cause).__name__
            fault = Fault("again", f"no connection ({reason})", down=True)
        except (openai.OpenAIError, ValueError) as error:  # ValueError: a body that is not UTF-8
            fault = Fault("again", f"an unreadable answer ({type(error).__name__})", final=True)
        except Exception as error:  # the package's own faults are no reason to lose an episode
            what = redacted(f"{type(error).__name__}: {error}")[:QUOTE_LENGTH]
            fault = Fault("again", f"an error inside the openai package ({what})")
        # Outside of the handler, so that no chained exception can show the server's message.
        raise fault

    def context(self, model: str) -> int | None:
        """Return the tokens of the model's context, None where the server's list does not say."""
        import httpx2

        with suppress(Exception):  # no list, or none that can be read: nothing depends on it
            response = self._client.get(
                "/models", cast_to=httpx2.Response, options={"timeout": LISTING_TIMEOUT}
            )
            return context_in(json_of(response.content), model)
        return None


def json_of(body: bytes) -> Any:
    """Return the JSON of a response, or raise Fault.

    Half surrogate pairs pass, which servers send of a reply cut off within a character; `encodable`
    replaces them.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        fault = Fault("again", "an answer that is not JSON (cut off?)", final=True)
    raise fault  # outside of the handler, so that no chained exception can show the response


def reply_in(content: Any, request: Request, capabilities: Capabilities) -> ServerReply:
    """Return the reply in a response's JSON. Raises Fault where there is none."""
    choices = content.get("choices") if isinstance(content, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Fault("again", "an answer without choices", final=True)
    message = choices[0].get("message")
    text = message.get("content") if isinstance(message, dict) else None
    text = redacted(encodable(text)) if isinstance(text, str) else ""
    if not capabilities.stop:
        text = _before_stop(text, request.stop)
    usage, estimated = _usage(content.get("usage"), request, text)
    finish = redacted(encodable(str(choices[0].get("finish_reason") or "")))
    return ServerReply(text, finish, usage, estimated)


def refusal(status: int, body: object, headers: Mapping[str, str]) -> Fault:
    """Return the fault of a response whose HTTP status is an error."""
    message = message_in(body)
    what = f"HTTP {status}: {message}" if message else f"HTTP {status}"
    if status == 413 or (status in (400, 422, 500) and TOO_LONG.search(message)):
        return Fault("context", what, status=status)
    if status in (401, 402, 403, 404) or (status == 429 and NO_MONEY.search(message)):
        return Fault("stop", what, status=status)
    if status in (408, 409, 429) or status >= 500:
        return Fault(
            "again",
            what,
            down=status in (429, 502, 503, 504),
            retry_after=retry_after(headers),
            refused=status == 429,
            final=status >= 500,
            status=status,
        )
    return Fault("refused", what, status=status)


def message_in(body: object) -> str:
    """Return the server's message in an error, shortened, without the key."""
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        parts = inner if isinstance(inner, Mapping) else {"message": inner}
        message = " ".join(
            str(parts[name]) for name in ("message", "code", "param") if parts.get(name)
        )
    else:
        message = str(body or "")
    message = redacted(" ".join(message.split()))
    return message if len(message) <= QUOTE_LENGTH else message[:QUOTE_LENGTH] + "…"


def request_body(
    request: Request, capabilities: Capabilities, max_tokens: int | None
) -> dict[str, Any]:
    """Return the JSON body of a request, without the parameters that this server refuses."""
    messages, sampling = request.messages, request.sampling
    body: dict[str, Any] = {"model": request.model}
    if request.schema is not None:
        if capabilities.structured == "json_schema":
            refused = () if capabilities.constraints else CONSTRAINTS
            schema, strict = strict_schema(request.schema, refused)
            json_schema = {"name": "reply", "schema": schema, "strict": strict}
            body["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        else:
            messages = with_json_instruction(messages, request.schema)
            if capabilities.structured == "json_object":
                body["response_format"] = {"type": "json_object"}
    body["messages"] = [{"role": m.role, "content": m.content} for m in messages]
    if capabilities.temperature:
        body["temperature"] = sampling.temperature
    if capabilities.top_p and sampling.top_p != 1.0:
        body["top_p"] = sampling.top_p
    seed = sampling.sample if sampling.seed is None else sampling.seed + sampling.sample
    if capabilities.seed and seed:
        body["seed"] = seed % 2**31
    if capabilities.stop and request.stop:
        body["stop"] = list(request.stop)
    if capabilities.max_tokens and max_tokens is not None:
        body[capabilities.max_tokens] = max_tokens
    return body


def idempotency_key(
    request: Request, capabilities: Capabilities, max_tokens: int | None, unusable: int
) -> str:
    """Return a key that is unique to this request body, and the same for it in every process."""
    return stable_hash(request.key, repr(capabilities), max_tokens, unusable, length=32)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a Retry-After header asks for, in seconds or as a date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        value = headers.get("retry-after")
        if value is None:
            return None
        if re.fullmatch(r"\d+(\.\d+)?", value.strip()):
            return float(value)
        date = email.utils.parsedate_to_datetime(value)
        return max(0.0, date.timestamp() - time.time())
    except ValueError:
        return None


def _before_stop(text: str, stop: tuple[str, ...]) -> str:
    """Return the text before the first stop sequence, for servers that take none."""
    places = [place for place in (text.find(sequence) for sequence in stop) if place >= 0]
    return text[: min(places)] if places else text


def _usage(reported: Any, request: Request, text: str) -> tuple[Usage, bool]:
    """Return (usage of one call, whether it is estimated for lack of a usable report)."""

    def count(table: Any, name: str) -> int | None:
        value = table.get(name) if isinstance(table, Mapping) else None
        return value if isinstance(value, int) and value >= 0 else None

    prompt, completion = count(reported, "prompt_tokens"), count(reported, "completion_tokens")
    if prompt is None or completion is None:
        return Usage(1, prompt_guess(request), 0, len(text.encode()) // 4), True
    details = reported.get("prompt_tokens_details")
    cached = min(prompt, count(details, "cached_tokens") or 0)
    return Usage(1, prompt, cached, completion), False
