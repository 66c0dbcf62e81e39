"""Single requests to a server: with http_timeout.py, the only module that imports `openai`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies, proxy_bypass

import httpx2

from ldm.errors import LdmError
from ldm.llm import Message, answers
from ldm.llm.answers import Fault
from ldm.llm.calls import Call, Request
from ldm.llm.capabilities import CONSTRAINTS, Capabilities, context_in
from ldm.text import bare_url, guard, redacted, url_secrets
from ldm.types import stable_hash

if TYPE_CHECKING:
    from ldm.llm.http_timeout import DeadlineClient

DEFAULT_URL = "https://api.openai.com/v1"
IDEMPOTENCY = "Idempotency-Key"
#: Timeout of the list of models in seconds; not every server has one.
LISTING_TIMEOUT = 10.0
#: What gateways send to keep a connection alive, and other lines before a stream's data.
_BEFORE = re.compile(rb"\A(?:\s|(?::|event:|id:)[^\n]*\n)*")


@dataclass(frozen=True, slots=True)
class Connection:
    """A model server. Its key is never shown, and redacted from everything the server says.

    base_url: "" for OpenAI's. timeout: maximum seconds of a whole response; one that
    falls silent midway may take twice as long. Reasoning models and slow machines need many.
    """

    base_url: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    timeout: float = 300.0

    @property
    def display_url(self) -> str:
        """The URL to show, without user, password and query."""
        return bare_url(self.base_url or DEFAULT_URL)

    def secrets(self) -> tuple[str, ...]:
        """Return the key, and the secrets in the URL."""
        return (self.api_key, *url_secrets(self.base_url))


class Service:
    """Sends requests to one server. Thread-safe; `close` it when done."""

    def __init__(self, connection: Connection, *, connections: int = 64) -> None:
        """Open a client. connections: maximum requests on the wire."""
        # At every reply the package looks `httpx` up among the modules, and mistakes one that
        # another thread has begun to import for a complete one: so it is imported now.
        import httpx  # noqa: F401
        import openai

        self.connection = connection
        guard(connection.secrets())
        try:
            self._url = httpx2.URL(connection.base_url or DEFAULT_URL)
        except httpx2.InvalidURL:
            raise LdmError(
                "The model server's URL is not valid.", "Correct OPENAI_BASE_URL."
            ) from None
        self._client = openai.OpenAI(
            base_url=self._url,
            api_key=connection.api_key or "none",  # local servers need none
            max_retries=0,  # the client retries: two layers of retries would multiply
            timeout=httpx2.Timeout(connection.timeout, connect=min(10.0, connection.timeout)),
            http_client=_http_client(connection, self._url.host, connections),
        )

    def close(self) -> None:
        """Close all connections; requests in flight fail."""
        self._client.close()

    def send(
        self,
        role: str,
        request: Request,
        capabilities: Capabilities,
        max_tokens: int | None,
        unusable: int,
    ) -> Call:
        """Return the call with the server's reply, or raise Fault and nothing else.

        unusable: number of final faults of this call so far; each changes the Idempotency-Key, or a
        gateway that honours the header would return the same unusable response again.
        """
        key = idempotency_key(request, capabilities, max_tokens, unusable)
        place = "/chat/completions" if capabilities.chat else "/completions"
        body = request_body(request, capabilities, max_tokens)
        content = self.ask(place, body, headers={IDEMPOTENCY: key})
        return answers.reply_in(content, role, request, capabilities)

    def ask(self, place: str, body: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Return the JSON of a response, or raise Fault and nothing else.

        place: below the server's URL. body: in JSON; None to get what is there. options: of the
        request, for the package.
        """
        import openai

        # The package would put what is below the URL behind its query.
        url = str(self._url.copy_with(path=self._url.path.rstrip("/") + place))
        client = self._client
        send: Any = client.get if body is None else partial(client.post, body=body)
        fault: Fault
        try:
            # Not chat.completions.create, which takes a millisecond longer, and whose typed result
            # hides the fault of a bad response.
            return json_of(send(url, cast_to=httpx2.Response, options=options).content)
        except Fault as error:
            fault = error
        except openai.APIStatusError as error:
            content = error.response.content
            try:
                problem = json.loads(content)
            except (ValueError, RecursionError):
                problem = content.decode(errors="replace")
            fault = answers.refusal(error.status_code, problem, error.response.headers)
        except Exception as error:  # on the wire, or the package's own
            fault = _dropped(error.__cause__ or error, self.connection.timeout)
        # Outside of the handler, so that no chained exception can show the server's message.
        raise fault

    def context(self, model: str) -> int | None:
        """Return the model's context length in tokens, or None if the server does not state it."""
        with suppress(Fault):  # no readable list: nothing depends on it
            return context_in(self.ask("/models", timeout=LISTING_TIMEOUT), model)
        return None


def _http_client(connection: Connection, host: str, connections: int) -> DeadlineClient:
    """Return the HTTP client for a server, by the proxies of the environment."""
    from ldm.llm.http_timeout import DeadlineClient

    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
    socks = any(proxy.startswith("socks") for proxy in getproxies().values())
    try:
        trusted = not (socks and proxy_bypass(host))
        return DeadlineClient(seconds=connection.timeout, limits=limits, trust_env=trusted)
    except (ImportError, ValueError) as error:
        raise LdmError(
            "The environment names a SOCKS proxy, or one of an unknown kind.",
            "Install the package socksio, correct HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, or add the "
            "server to NO_PROXY.",
        ) from error
    except OSError as error:
        named = [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ]
        raise LdmError(
            f"The certificates of {' and '.join(named) or 'this system'} cannot be read: {error}.",
            "Correct the variable, or unset it to use the certificates that come with Python.",
        ) from error


def _dropped(error: BaseException, seconds: float) -> Fault:
    """Return the fault of a request without a response; what was sent may be charged for."""
    if isinstance(error, httpx2.DecodingError):
        what = f"an unreadable answer ({redacted(str(error))})"
        return Fault("again", what, final=True, billed=True)
    early = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
    sent = not isinstance(error, early)
    if isinstance(error, httpx2.TimeoutException):
        return Fault("again", f"no complete answer within {seconds:g} s", billed=sent)
    on_wire = isinstance(error, httpx2.TransportError)
    what = "no connection" if on_wire else "an error inside the openai package"
    reason = redacted(str(error))[: answers.QUOTE_LENGTH] or type(error).__name__
    return Fault("again", f"{what} ({reason})", down=on_wire, billed=sent and on_wire)


def json_of(body: bytes) -> Any:
    """Return the JSON of a response, or raise Fault.

    Half surrogate pairs pass, which servers send of a reply cut off within a character; `encodable`
    replaces them.
    """
    body = _BEFORE.sub(b"", body)
    try:
        return _joined(body) if body.startswith(b"data:") else json.loads(body)
    except (ValueError, RecursionError, TypeError, AttributeError):
        fault = Fault("again", "an answer that is not JSON (cut off?)", final=True, billed=True)
    raise fault  # outside of the handler, so that no chained exception can show the response


def _joined(body: bytes) -> dict[str, Any]:
    """Return the response that a server streamed unasked, as if it had come at once.

    One that broke off has no choices: half an action is another action.
    """
    whole, finish, response = dict[str, list[Any]](), "", dict[str, Any]()
    for part in map(json.loads, re.findall(rb"(?m)^data: *(\{.*)", body)):
        response |= {name: value for name, value in part.items() if value}
        for choice in part.get("choices") or ():
            delta = choice.get("delta") or choice.get("message") or {"content": choice.get("text")}
            if not choice.get("index"):
                finish = choice.get("finish_reason") or finish
                for name in filter(delta.get, delta):
                    whole.setdefault(name, []).append(delta[name])
    message = {"message": whole, "finish_reason": finish}
    return response | {"choices": [message] if finish or b"[DONE]" in body else []}


def request_body(
    request: Request, capabilities: Capabilities, max_tokens: int | None
) -> dict[str, Any]:
    """Return the JSON body of a request, without the parameters that the server refuses."""
    messages, sampling = request.messages, request.sampling
    if not capabilities.system:
        messages = _without_system(messages)
    body: dict[str, Any] = {"model": request.model}
    if request.schema is not None:
        if capabilities.structured == "json_schema":
            refused = () if capabilities.constraints else CONSTRAINTS
            schema, strict = answers.strict_schema(request.schema, refused)
            json_schema = {"name": "reply", "schema": schema, "strict": strict}
            body["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        else:
            messages = answers.with_json_instruction(messages, request.schema)
            if capabilities.structured == "json_object":
                body["response_format"] = {"type": "json_object"}
    if capabilities.chat:
        body["messages"] = [{"role": m.role, "content": m.content} for m in messages]
    else:
        labelled = len(messages) > 1
        turns = [f"{m.role.title()}: {m.content}" if labelled else m.content for m in messages]
        body["prompt"] = "\n\n".join([*turns, *(["Assistant:"] if labelled else [])])
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


def _without_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages with system text in the first user message, and roles that alternate."""
    merged: list[Message] = []
    for message in messages:
        role = "user" if message.role == "system" else message.role
        if merged and merged[-1].role == role:
            merged[-1] = Message(role, f"{merged[-1].content}\n\n{message.content}")
        else:
            merged.append(Message(role, message.content))
    return tuple(merged)


def idempotency_key(
    request: Request, capabilities: Capabilities, max_tokens: int | None, unusable: int
) -> str:
    """Return a key that is unique to a request body, and equal in every process."""
    return stable_hash(request.key, repr(capabilities), max_tokens, unusable, length=32)
