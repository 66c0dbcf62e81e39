"""The operations as JSON over HTTP, described by OpenAPI, with MCP beside them at /mcp."""

from __future__ import annotations

import contextlib
import html
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request as WebRequest
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ldm.errors import LdmError, MemoryLocked
from ldm.serve.operations import (
    OPERATIONS,
    Client,
    NotAllowed,
    NotThere,
    Request,
    Tokens,
    answered,
    explained,
)
from ldm.serve.protocol import protocol_server
from ldm.version import __version__

#: The most bytes of a request, seconds to send them, and requests at a time.
BODY, PATIENCE, AT_ONCE = 1 << 20, 30.0, 256
#: Seconds that running requests have to end when the server is stopped.
GRACE = 1
#: Names of this machine, which a page from elsewhere cannot pretend to be.
LOCAL = ("127.0.0.1", "localhost", "[::1]")
#: Where the description is, which holds nothing of the memory.
PUBLIC = ("/", "/openapi.json")
#: Kinds of errors → the status of the answer.
STATUS = ((NotAllowed, 403), (NotThere, 404), (MemoryLocked, 503), (LdmError, 409))
CLIENT = "ldm.client"


class TooLarge(Exception):
    """A body with more than BODY bytes."""


class Guard:
    """Lets requests through whose token is known and whose body is small and comes in time."""

    def __init__(self, app: ASGIApp, tokens: Tokens, client_of: Callable[..., Client]) -> None:
        """Take what follows, the tokens, and what makes a client of a scope."""
        self._app, self._tokens, self._client_of = app, tokens, client_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer: ASGIApp = self._refusal(scope, Headers(scope=scope)) or self._app
        if answer is self._app:
            try:
                receive = await self._body(receive)
            except TooLarge:
                answer = _error(413, f"The request has more than {BODY:,} bytes.")
            except TimeoutError:
                answer = _error(408, f"The request did not come within {PATIENCE:g} seconds.")
            except anyio.get_cancelled_exc_class():
                answer = _error(503, "The server is being stopped.")
        await answer(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a request that may not pass; give the others their client."""
        if not self._tokens.scopes:  # only programs of this machine: no page that a browser shows
            origin = headers.get("origin", "http://localhost").partition("://")[2]
            for name in (headers.get("host", ""), origin):
                if _without_port(name) not in LOCAL:
                    return _error(403, "Without tokens, only programs of this machine are served.")
        if scope["path"] in PUBLIC:
            return None
        kind, _, token = headers.get("authorization", "").partition(" ")
        own = self._tokens.scope(token.strip() if kind.lower() == "bearer" else "")
        if own is None:
            return _error(401, "The token is missing or unknown.", {"WWW-Authenticate": "Bearer"})
        scope[CLIENT] = self._client_of(own)
        return None

    @staticmethod
    async def _body(receive: Receive) -> Receive:
        """Read the body, and return what gives it to the application."""
        parts, size = list[bytes](), 0
        with anyio.fail_after(PATIENCE):
            while True:
                message = await receive()
                part = message.get("body", b"")
                if (size := size + len(part)) > BODY:
                    raise TooLarge
                parts.append(part)
                if message["type"] != "http.request" or not message.get("more_body"):
                    break
        whole = [{**message, "body": b"".join(parts)}]

        async def again() -> Message:
            return whole.pop() if whole else await receive()

        return again


def application(tokens: Tokens, client_of: Callable[[Mapping[str, str]], Client]) -> ASGIApp:
    """Return the application. client_of: makes the client of a token's scope."""
    server = protocol_server(lambda request: request.scope[CLIENT])
    manager = StreamableHTTPSessionManager(app=server, json_response=True, stateless=True)

    @contextlib.asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    routes = [Route(f"/v1/{name}", _endpoint(one), methods=["POST"]) for name, one in _OPERATIONS]
    routes += [Route("/mcp", StreamableHTTPASGIApp(manager))]
    routes += [Route("/openapi.json", _description), Route("/", _page)]
    return Guard(Starlette(routes=routes, lifespan=running), tokens, client_of)


def serve_http(app: ASGIApp, host: str, port: int) -> None:
    """Serve until interrupted."""
    options: dict[str, Any] = {"log_level": "warning", "access_log": False, "ws": "none"}
    options |= {"limit_concurrency": AT_ONCE, "timeout_graceful_shutdown": GRACE}
    uvicorn.run(app, host=host, port=port, **options)


_OPERATIONS = OPERATIONS.items()


def _endpoint(operation: type[Request]) -> Callable[[WebRequest], Any]:
    """Return what answers requests for an operation."""

    async def endpoint(request: WebRequest) -> Response:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return _error(415, "Send the arguments as application/json.")
        try:
            arguments = operation.model_validate_json(await request.body() or b"{}")
        except ValueError as error:
            return _error(422, explained(error))
        try:
            return JSONResponse(await answered(arguments, request.scope[CLIENT]))
        except (LdmError, ValueError, TypeError) as error:
            status = next((code for kind, code in STATUS if isinstance(error, kind)), 422)
            return _error(status, explained(error))

    return endpoint


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers=headers)


def _without_port(name: str) -> str:
    head, _, port = name.rpartition(":")
    return head if head and port.isdecimal() else name


def openapi() -> dict[str, Any]:
    """Return the description of the operations, as OpenAPI 3.1."""
    answer = {"description": "A JSON object; `text` is for an agent to read."}
    paths = {
        f"/v1/{name}": {
            "post": {
                "operationId": name,
                "description": one.__doc__,
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": one.model_json_schema()}},
                },
                "responses": {"200": answer, "default": {"description": 'An object with "error".'}},
            }
        }
        for name, one in _OPERATIONS
    }
    bearer = {"type": "http", "scheme": "bearer"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "A memory of ldm", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"token": bearer}},
        "security": [{"token": []}],
    }


async def _description(_: WebRequest) -> Response:
    return JSONResponse(openapi())


async def _page(_: WebRequest) -> Response:
    """Return the description as a page that needs nothing from elsewhere."""
    parts = ["<!doctype html><meta charset=utf-8><title>A memory of ldm</title>"]
    parts += ["<h1>A memory of ldm</h1><p>As JSON: <a href=/openapi.json>openapi.json</a>."]
    for name, one in _OPERATIONS:
        schema = html.escape(json.dumps(one.model_json_schema(), indent=2))
        about = html.escape(one.__doc__ or "")
        parts += [f"<h2>POST /v1/{name}</h2><p>{about}<details><pre>{schema}</pre></details>"]
    return HTMLResponse("\n".join(parts))
