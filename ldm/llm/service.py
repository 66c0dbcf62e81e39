"""Single requests to a server: with http_timeout.py, the only module that imports `openai`."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ldm.errors import LdmError
from ldm.llm import Message
from ldm.llm.answers import QUOTE_LENGTH, Fault, refusal, reply_in
from ldm.llm.calls import Request, ServerReply
from ldm.llm.capabilities import CONSTRAINTS, Capabilities, context_in
from ldm.llm.structured import strict_schema, with_json_instruction
from ldm.text import bare_url, guard, redacted, url_secrets
from ldm.types import stable_hash

if TYPE_CHECKING:
    import openai
    from openai import OpenAI

    from ldm.llm.http_timeout import DeadlineClient

T = TypeVar("T")

IDEMPOTENCY = "Idempotency-Key"
#: Timeout of the list of models in seconds; not every server has one.
LISTING_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Connection:
    """A model server. Its key is never shown, and redacted from everything the server says.

    base_url: "" for the package's default. timeout: maximum seconds of a whole response; one that
    falls silent midway may take twice as long. Reasoning models and slow machines need many.
    """

    base_url: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    timeout: float = 300.0

    @property
    def display_url(self) -> str:
        """The URL to show, without user, password and query."""
        return bare_url(self.base_url) if self.base_url else "the openai package's default"

    def secrets(self) -> tuple[str, ...]:
        """Return the key, and the secrets in the URL."""
        return (self.api_key, *url_secrets(self.base_url))


class Service:
    """Sends requests to one server. Thread-safe; `close` it when done."""

    def __init__(self, connection: Connection, *, connections: int = 64) -> None:
        """Open a client. connections: maximum requests on the wire."""
        import httpx2
        import openai

        # At every reply the package looks `httpx` up among the modules, and mistakes one that
        # another thread has begun to import for a complete one: so it is imported now.
        with suppress(ImportError):
            importlib.import_module("httpx")

        self.connection = connection
        guard(connection.secrets())
        self._client = openai.OpenAI(
            base_url=connection.base_url or None,
            api_key=connection.api_key or "none",  # local servers need none
            max_retries=0,  # the client retries: two layers of retries would multiply
            timeout=httpx2.Timeout(connection.timeout, connect=min(10.0, connection.timeout)),
            http_client=_http_client(connection, connections),
        )

    def close(self) -> None:
        """Close all connections; requests in flight fail."""
        self._client.close()

    def send(
        self,
        request: Request,
        capabilities: Capabilities,
        max_tokens: int | None,
        *,
        unusable: int = 0,
    ) -> ServerReply:
        """Return the server's reply, or raise Fault and nothing else.

        unusable: number of final faults of this call so far; each changes the Idempotency-Key, or a
        gateway that honours the header would return the same unusable response again.
        """
        import httpx2

        key = idempotency_key(request, capabilities, max_tokens, unusable)

        def reply(client: OpenAI) -> ServerReply:
            # Not chat.completions.create, which takes a millisecond longer, and whose typed result
            # hides the fault of a bad response.
            response = client.post(
                "/chat/completions" if capabilities.chat else "/completions",
                cast_to=httpx2.Response,
                body=request_body(request, capabilities, max_tokens),
                options={"headers": {IDEMPOTENCY: key}},
            )
            return reply_in(json_of(response.content), request, capabilities)

        return self.ask(reply)

    def ask(self, action: Callable[[OpenAI], T]) -> T:
        """Return the result of an action on the client, or raise Fault and nothing else."""
        import openai

        fault: Fault
        try:
            return action(self._client)
        except Fault as error:
            fault = error
        except openai.APITimeoutError as error:
            what = f"no complete answer within {self.connection.timeout:g} s"
            fault = Fault("again", what, billed=_was_sent(error))
        except openai.APIStatusError as error:
            content = error.response.content
            try:
                body = json.loads(content)
            except (ValueError, RecursionError):
                body = content.decode(errors="replace")
            fault = refusal(error.status_code, body, error.response.headers)
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            reason = redacted(str(cause)) or type(cause).__name__
            fault = Fault("again", f"no connection ({reason})", True, billed=_was_sent(error))
        except (openai.OpenAIError, ValueError) as error:  # ValueError: a body that is not UTF-8
            fault = Fault(
                "again", f"an unreadable answer ({type(error).__name__})", final=True, billed=True
            )
        except Exception as error:  # the package's own faults are no reason to lose an episode
            what = redacted(f"{type(error).__name__}: {error}")[:QUOTE_LENGTH]
            fault = Fault("again", f"an error inside the openai package ({what})")
        # Outside of the handler, so that no chained exception can show the server's message.
        raise fault

    def context(self, model: str) -> int | None:
        """Return the model's context length in tokens, or None if the server does not state it."""
        import httpx2

        with suppress(Exception):  # no readable list: nothing depends on it
            response = self._client.get(
                "/models", cast_to=httpx2.Response, options={"timeout": LISTING_TIMEOUT}
            )
            return context_in(json_of(response.content), model)
        return None


def _http_client(connection: Connection, connections: int) -> DeadlineClient:
    """Return the HTTP client for a server, by the proxies of the environment."""
    import httpx2

    from ldm.llm.http_timeout import DeadlineClient

    host = urlsplit(connection.base_url).hostname or "api.openai.com"
    socks = any(url.startswith("socks") for url in getproxies().values())
    try:
        return DeadlineClient(
            seconds=connection.timeout,
            limits=httpx2.Limits(
                max_connections=connections, max_keepalive_connections=connections
            ),
            trust_env=not (socks and proxy_bypass(host)),
        )
    except ImportError as error:
        raise LdmError(
            "The environment names a SOCKS proxy.",
            "Install the package socksio, or add the server to NO_PROXY.",
        ) from error
    except OSError as error:
        named = [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ]
        raise LdmError(
            f"The certificates of {' and '.join(named) or 'this system'} cannot be read: {error}.",
            "Correct the variable, or unset it to use the certificates that come with Python.",
        ) from error


def _was_sent(error: openai.APIConnectionError) -> bool:
    """Return whether the request reached the server, which may charge for it."""
    import httpx2

    early = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
    return not isinstance(error.__cause__, early)


def json_of(body: bytes) -> Any:
    """Return the JSON of a response, or raise Fault.

    Half surrogate pairs pass, which servers send of a reply cut off within a character; `encodable`
    replaces them.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        fault = Fault("again", "an answer that is not JSON (cut off?)", final=True, billed=True)
    raise fault  # outside of the handler, so that no chained exception can show the response


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
            schema, strict = strict_schema(request.schema, refused)
            json_schema = {"name": "reply", "schema": schema, "strict": strict}
            body["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        else:
            messages = with_json_instruction(messages, request.schema)
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
