"""A fake model server on the loopback address, with faults to order; also a program of its own.

    python -m tests.llm.server --latency 0.2

prints its base URL on the first line. It answers without a model: with what the schema asks for, or
with a word that depends on the messages alone.
"""

import argparse
import json
import random
import select
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from ldm.types import stable_hash

#: Every way in which a request can go wrong.
FAULTS = ("429", "500", "hang", "cut", "truncated", "no choices", "wrong schema", "context")


@dataclass
class Behaviour:
    """latency: seconds until an answer. rates: fault → how often, at the first sight of a request
    and at each further one, drawn by `seed`. structured: ways of asking for JSON that are enforced;
    others are refused, or `ignores` them. rejects: parameters refused with a 400. unbounded: no
    schema may bound a length or a number.
    status: answer everything with it, saying `complaint`.
    answer: the reply's text, given the body. hang: seconds that a hanging request hangs, and that
    one which is answered byte by byte ("dribble") takes.
    listing: what the list of models says; None: there is no such list.
    reply: (status, body, headers) of a response, given the request's body; None: the usual one.
    idempotent: a request whose Idempotency-Key was answered before gets that answer and is not
    billed; one whose first sending is still being worked at is refused with a 409.
    """

    latency: float = 0.0
    rates: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    structured: tuple[str, ...] = ("json_schema", "json_object")
    ignores: tuple[str, ...] = ()
    rejects: tuple[str, ...] = ()
    unbounded: bool = False
    answer: Callable[[dict[str, Any]], str] | None = None
    retry_after: str = "0.05"
    hang: float = 2.0
    usage: bool = True
    capacity: int = 10**6
    complaint: str = "it broke"
    status: int = 0
    idempotent: bool = False
    listing: Any = None
    reply: Callable[[dict[str, Any]], tuple[int, Any, dict[str, str]] | None] | None = None


class FakeServer:
    """`with FakeServer(Behaviour(…)) as server:` serves at `server.url`."""

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        self.behaviour = behaviour or Behaviour()
        self.outcomes: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.answered: Counter[str] = Counter()
        self.billed: list[dict[str, Any]] = []
        #: All requests after so many have to wait.
        self.hold_after: int | None = None
        self.headers: list[dict[str, str]] = []
        self.peak = 0
        self._in_flight = 0
        self._counts: Counter[str] = Counter()
        self._done: dict[str, str | None] = {}
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def draw(self, body: dict[str, Any]) -> str:
        """Which fault this request meets, "" for none: the same in every run."""
        key = stable_hash(body)
        with self._lock:
            self._counts[key] += 1
            number = self._counts[key]
        point = random.Random(f"{self.behaviour.seed} {key} {number}").random()
        for fault, rate in self.behaviour.rates.items():
            if fault == "context":  # the same request never fits
                if random.Random(f"{self.behaviour.seed} {key}").random() < rate:
                    return fault
            elif point < rate:
                return fault
            else:
                point -= rate
        return ""

    def begin(self, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, bool]:
        """Note a request; (its number, whether there is room for it)."""
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)
            self._in_flight += 1
            self.peak = max(self.peak, self._in_flight)
            return len(self.bodies), self._in_flight <= self.behaviour.capacity

    def first(self, key: str) -> bool:
        """Whether a request with this Idempotency-Key is to be worked at."""
        if not key or not self.behaviour.idempotent:
            return True
        with self._lock:
            if key in self._done:
                return False
            self._done[key] = None
            return True

    def worked(self, key: str, body: dict[str, Any], text: str | None) -> None:
        """The answer is worked out, and billed whoever may get it; None: there will be none."""
        with self._lock:
            if text is not None:
                self.billed.append(body)
            if key and self.behaviour.idempotent:
                self._done[key] = text
                if text is None:
                    del self._done[key]

    def forget(self) -> None:
        """Forget all answers, and bills."""
        with self._lock:
            self._done.clear()
            self.billed.clear()

    def end(self, body: dict[str, Any], outcome: str) -> None:
        """Note what became of a request."""
        with self._lock:
            self._in_flight -= 1
            self.outcomes[outcome] += 1
            if outcome == "answered":
                self.answered[stable_hash(body)] += 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what these tests are about."""


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Quiet."""

        def do_GET(self) -> None:
            listing = server.behaviour.listing
            self.send(404 if listing is None else 200, {} if listing is None else listing)

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length))
            number, room = server.begin(body, {k.lower(): v for k, v in self.headers.items()})
            while server.hold_after is not None and number > server.hold_after:
                time.sleep(0.002)
                if self.gone():
                    server.end(body, "abandoned")
                    return
            self.respond(body, room)

        def respond(self, body: dict[str, Any], room: bool) -> None:
            """Noted before it is sent: whoever has the answer can rely on it."""
            behaviour = server.behaviour
            own = behaviour.reply(body) if behaviour.reply else None
            if own is not None:
                server.end(body, str(own[0]))
                self.send(*own)
                return
            refusal = self.refusal(body, room)
            if refusal is not None:
                outcome, status, message, more = refusal
                server.end(body, outcome)
                self.send(status, {"error": {"message": message}}, more)
                return
            key = self.headers.get("Idempotency-Key", "")
            if not server.first(key):
                self.repeat(body, server._done[key])
                return
            fault = server.draw(body)
            if fault and fault != "wrong schema":
                # A cut connection loses an answer that was worked out.
                server.worked(key, body, self.text(body) if fault == "cut" else None)
                server.end(body, fault)
                self.fail(fault)
                return
            time.sleep(behaviour.latency)
            text = '{"nonsense": 1}' if fault else self.text(body)
            server.worked(key, body, text)
            gone = self.gone()
            server.end(body, "abandoned" if gone else "answered")
            if not gone:
                self.send(200, completion(body, text, behaviour.usage))

        def repeat(self, body: dict[str, Any], text: str | None) -> None:
            """Answer a request that was sent before, under the same key."""
            if text is None:
                server.end(body, "409")
                self.send(409, {"error": {"message": "the same request is being worked at"}})
                return
            server.end(body, "repeated")
            self.send(200, completion(body, text, server.behaviour.usage))

        def refusal(self, body: dict[str, Any], room: bool) -> tuple[Any, ...] | None:
            """(outcome, status, words, headers) for a request that is not worked at."""
            behaviour = server.behaviour
            if behaviour.status:
                return str(behaviour.status), behaviour.status, behaviour.complaint, {}
            if not room:
                return "429", 429, "slow down", {"Retry-After": "0.02"}
            for name in behaviour.rejects:
                if name in body:
                    message = f"Unsupported parameter: '{name}' is not supported with this model."
                    return "refused", 400, message, {}
            kind = body.get("response_format", {}).get("type", "")
            if kind and kind not in (*behaviour.structured, *behaviour.ignores):
                return "refused", 400, f"response_format of type {kind} is not available", {}
            schema = json.dumps(body.get("response_format", {}))
            if behaviour.unbounded and '"maxLength"' in schema:
                message = "Invalid schema for response_format: 'maxLength' is not permitted."
                return "refused", 400, message, {}
            return None

        def text(self, body: dict[str, Any]) -> str:
            behaviour = server.behaviour
            if behaviour.answer is not None:
                return behaviour.answer(body)
            kind = body.get("response_format", {}).get("type", "")
            if kind == "json_schema" and kind in behaviour.structured:
                return json.dumps(fitting(body["response_format"]["json_schema"]["schema"]))
            messages = json.dumps(body["messages"])
            if "JSON Schema:" in messages:
                texts = (message["content"] for message in body["messages"])
                (schema,) = (t.partition("JSON Schema:\n")[2] for t in texts if "JSON Schema:" in t)
                reply = json.dumps(fitting(json.loads(schema)))
                return reply if kind == "json_object" else f"Sure!\n```json\n{reply}\n```\n"
            return f"word {stable_hash(body['messages'], body.get('seed', 0), length=6)}"

        def fail(self, fault: str) -> None:
            behaviour = server.behaviour
            match fault:
                case "429":
                    wait = {"Retry-After": behaviour.retry_after}
                    self.send(429, {"error": {"message": "rate limit reached"}}, wait)
                case "500":
                    self.send(500, {"error": {"message": behaviour.complaint}})
                case "hang" | "dribble":
                    if fault == "dribble":
                        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                    limit = time.monotonic() + behaviour.hang
                    while time.monotonic() < limit and not self.gone():
                        if fault == "dribble":
                            self.wfile.write(b" ")
                        time.sleep(0.02)
                    self.close_connection = True
                case "cut":
                    linger = struct.pack("ii", 1, 0)  # a reset instead of a farewell
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"choi')
                    self.wfile.flush()
                    self.close_connection = True
                case "truncated":
                    self.send(200, b'{"id": "1", "choices": [{"message": {"role": "assis')
                case "no choices":
                    self.send(200, {"id": "1", "choices": [], "usage": {}})
                case "context":
                    message = "This model's maximum context length is 10 tokens."
                    error = {"message": message, "code": "context_length_exceeded"}
                    self.send(400, {"error": error})

        def gone(self) -> bool:
            """Whether the client has closed its end."""
            ready, _, _ = select.select([self.connection], [], [], 0)
            with suppress(OSError):
                return bool(ready) and not self.connection.recv(1, socket.MSG_PEEK)
            return True

        def send(self, status: int, body: object, more: Mapping[str, str] | None = None) -> None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers = {"Content-Type": "application/json", **(more or {})}
            lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            self.wfile.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    return Handler


def completion(body: dict[str, Any], text: str, usage: bool = True) -> dict[str, Any]:
    """A chat completion; a token is four letters."""
    message = {"role": "assistant", "content": text}
    content: dict[str, Any] = {"id": "1", "object": "chat.completion", "model": body["model"]}
    content["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
    if usage:
        prompt = len(json.dumps(body["messages"])) // 4
        content["usage"] = {"prompt_tokens": prompt, "completion_tokens": len(text or "") // 4 + 1}
        content["usage"]["prompt_tokens_details"] = {"cached_tokens": prompt // 2}
    return content


def fitting(schema: dict[str, Any]) -> Any:
    """A value that fits a JSON Schema (of those that the tests use)."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        return {name: fitting(field) for name, field in schema.get("properties", {}).items()}
    if schema.get("type") == "array":
        return [fitting(schema["items"])]
    return {"integer": 7, "number": 7, "boolean": True}.get(schema.get("type", ""), "some text")


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0)
    arguments = parser.parse_args()
    with FakeServer(Behaviour(latency=arguments.latency)) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
