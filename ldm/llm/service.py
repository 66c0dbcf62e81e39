"""One request on the wire and what came of it: the only module that knows `openai`."""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from ldm.llm.calls import Reply, Request
from ldm.llm.capabilities import CONSTRAINTS, Capabilities
from ldm.llm.meter import prompt_guess
from ldm.llm.structured import asking_for_json, strict_schema
from ldm.types import Usage, encodable, stable_hash

if TYPE_CHECKING:
    from openai import APIStatusError

#: What a server says of a request that the model has no room for, in its many words.
TOO_LONG = re.compile(
    r"context[ _](length|window|size)|maximum context|too many tokens|(prompt|input) is too long"
    r"|exceeds? the (available )?context|reduce the length",
    re.IGNORECASE,
)
NO_MONEY = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)
IDEMPOTENCY = "Idempotency-Key"
#: Characters of a server's own words that an error repeats.
QUOTED = 300

#: What to do about a fault: ask again later; leave a parameter out; tell the caller; stop the run.
Kind = Literal["again", "refused", "context", "stop"]


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the models are. The key is never shown, and cut out of whatever a server says.

    base_url: "" for the package's own default.
    timeout: seconds that an answer may take, however it comes; one that falls silent in its midst
    may take twice as long. Models that think, or run on a slow machine, need many.
    """

    base_url: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    timeout: float = 300.0

    @property
    def shown(self) -> str:
        """Scheme, host, port and path: no user, password or query."""
        return bare_url(self.base_url) if self.base_url else "the openai package's default"

    def redact(self, text: str) -> str:
        """`text` without the key and without what the URL carries of one."""
        secrets = [self.api_key]
        try:
            parts = urlsplit(self.base_url)
            pairs = [pair.partition("=") for pair in parts.query.split("&")]
            secrets += [parts.password or ""]
            secrets += [value for name, _, value in pairs if "version" not in name]
        except ValueError:
            secrets.append(self.base_url)
        for secret in sorted(filter(_telling, secrets), key=len, reverse=True):
            text = text.replace(secret, "[key]").replace(repr(secret)[1:-1], "[key]")
        return text


@dataclass(eq=False)
class Fault(Exception):
    """A request without a usable answer.

    kind: what to do. what: in words. down: the server itself seems to be away or overloaded.
    retry_after: seconds it asked to wait. refused: it said that this was too much (429).
    final: the server has done what it was asked, and under the same idempotency key would say the
    same again.
    """

    kind: Kind
    what: str
    down: bool = False
    retry_after: float | None = None
    refused: bool = False
    final: bool = False


class Service:
    """Sends requests to one server. Safe in several threads; `close` when done."""

    def __init__(self, connection: Connection, *, connections: int = 64) -> None:
        """connections: how many requests may be on the wire at a time."""
        import httpx2
        import openai

        from ldm.llm.bounded import BoundedClient

        self.connection = connection
        self._client = openai.OpenAI(
            base_url=connection.base_url or None,
            api_key=connection.api_key or "none",  # servers of one's own want none
            max_retries=0,  # ours are on: two layers of retries would multiply
            timeout=httpx2.Timeout(connection.timeout, connect=min(10.0, connection.timeout)),
            http_client=BoundedClient(
                bound=connection.timeout,
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
    ) -> Reply:
        """The server's reply. Raises Fault, and nothing else, where there is none.

        unusable: how many final faults this call met before; a new answer is wanted then. Else a
        gateway that knows the header Idempotency-Key gives, and bills, the same answer again.
        """
        import httpx2
        import openai

        fault: Fault
        try:
            # Not chat.completions.create: its walk through the request costs a millisecond a call,
            # and its typed answer hides what is wrong with a bad one.
            answer = self._client.post(
                "/chat/completions",
                cast_to=httpx2.Response,
                body=wire(request, capabilities, max_tokens),
                options={
                    "headers": {
                        IDEMPOTENCY: idempotency_key(request, capabilities, max_tokens, unusable)
                    }
                },
            )
            return self._reply(answer.content, request, capabilities)
        except Fault as found:
            fault = found
        except openai.APITimeoutError:
            fault = Fault("again", f"no complete answer within {self.connection.timeout:g} s")
        except openai.APIStatusError as error:
            fault = self._refusal(error)
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            why = self.connection.redact(str(cause)) or type(cause).__name__
            fault = Fault("again", f"no connection ({why})", down=True)
        except (openai.OpenAIError, ValueError) as error:  # ValueError: a body that is not UTF-8
            fault = Fault("again", f"an unreadable answer ({type(error).__name__})", final=True)
        # Outside of the handler, so that no chained exception can show what the server said.
        raise fault

    def _reply(self, body: bytes, request: Request, capabilities: Capabilities) -> Reply:
        try:
            answer = json.loads(body)
        except ValueError:
            raise Fault("again", "an answer that is not JSON (cut off?)", final=True) from None
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise Fault("again", "an answer without choices", final=True)
        message = choices[0].get("message")
        content = message.get("content") if isinstance(message, dict) else None
        text = self.connection.redact(encodable(content)) if isinstance(content, str) else ""
        if not capabilities.stop:
            text = _cut(text, request.stop)
        usage, estimated = _usage(answer.get("usage"), request, text)
        return Reply(text, str(choices[0].get("finish_reason") or ""), usage, estimated)

    def _refusal(self, error: APIStatusError) -> Fault:
        status, said = error.status_code, self._said(error)
        what = f"HTTP {status}: {said}" if said else f"HTTP {status}"
        if status == 413 or (status in (400, 422, 500) and TOO_LONG.search(said)):
            return Fault("context", what)
        if status in (401, 402, 403, 404) or (status == 429 and NO_MONEY.search(said)):
            return Fault("stop", what)
        if status in (408, 409, 429) or status >= 500:
            return Fault(
                "again",
                what,
                down=status in (429, 502, 503, 504),
                retry_after=retry_after(error.response.headers),
                refused=status == 429,
                final=status >= 500,
            )
        return Fault("refused", what)

    def _said(self, error: APIStatusError) -> str:
        """The server's own words, shortened, without the key."""
        body = error.body
        if isinstance(body, Mapping):
            inner = body.get("error", body)
            parts = inner if isinstance(inner, Mapping) else {"message": inner}
            said = " ".join(
                str(parts[name]) for name in ("message", "code", "param") if parts.get(name)
            )
        else:
            said = str(body or "")
        said = self.connection.redact(" ".join(said.split()))
        return said if len(said) <= QUOTED else said[:QUOTED] + "…"


def wire(request: Request, capabilities: Capabilities, max_tokens: int | None) -> dict[str, Any]:
    """The request as this server takes it; what it does not take is left out."""
    messages, sampling = request.messages, request.sampling
    body: dict[str, Any] = {"model": request.model}
    if request.schema is not None:
        if capabilities.structured == "json_schema":
            left_out = () if capabilities.constraints else CONSTRAINTS
            schema, strict = strict_schema(request.schema, left_out)
            named = {"name": "reply", "schema": schema, "strict": strict}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        else:
            messages = asking_for_json(messages, request.schema)
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
    """The same in every process for the same call in the same words, and for no other."""
    return stable_hash(request.key, repr(capabilities), max_tokens, unusable, length=32)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a Retry-After header asks for, given in seconds or as a date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        asked = headers.get("retry-after")
        if asked is None:
            return None
        if re.fullmatch(r"\d+(\.\d+)?", asked.strip()):
            return float(asked)
        when = email.utils.parsedate_to_datetime(asked)
        return max(0.0, when.timestamp() - time.time())
    except ValueError:
        return None


def bare_url(url: str) -> str:
    """Scheme, host, port and path of a URL: no user, password or query."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "set, but not a URL"
    if not parts.hostname:
        return "set, but not a URL"
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _telling(secret: str) -> bool:
    """Whether a text looks like a secret: "ollama" or "EMPTY" is none, and a word of its own."""
    return len(secret) >= 16 or (len(secret) >= 6 and any(map(str.isdigit, secret)))


def _cut(text: str, stop: tuple[str, ...]) -> str:
    """The text before the first stop sequence, for servers that do not look for it."""
    found = [at for at in (text.find(sequence) for sequence in stop) if at >= 0]
    return text[: min(found)] if found else text


def _usage(said: Any, request: Request, text: str) -> tuple[Usage, bool]:
    """(usage of one call, whether it is a guess because the server said nothing usable)."""

    def count(table: Any, name: str) -> int | None:
        value = table.get(name) if isinstance(table, Mapping) else None
        return value if isinstance(value, int) and value >= 0 else None

    prompt, completion = count(said, "prompt_tokens"), count(said, "completion_tokens")
    if prompt is None or completion is None:
        return Usage(1, prompt_guess(request), 0, len(text.encode()) // 4), True
    details = said.get("prompt_tokens_details")
    cached = min(prompt, count(details, "cached_tokens") or 0)
    return Usage(1, prompt, cached, completion), False
