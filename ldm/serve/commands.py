"""`ldm serve`: an entry point of the group `ldm.commands`."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ldm.cli import output
from ldm.cli.app import INTERRUPTED
from ldm.cli.options import EmbedderName, MemoryAt
from ldm.config import DEFAULT_MEMORY
from ldm.errors import LdmError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ldm.serve.operations import Tokens

#: Variables that name the file of tokens, and the token of a client that starts the server itself.
TOKENS, TOKEN = "LDM_SERVE_TOKENS", "LDM_SERVE_TOKEN"
ADDRESS = "127.0.0.1:8321"


def serve(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="For --http.")] = ADDRESS,
    *,
    mcp: Annotated[bool, typer.Option("--mcp", help="Over standard input and output.")] = False,
    http: Annotated[bool, typer.Option("--http", help="As JSON, and MCP at /mcp.")] = False,
    memory: MemoryAt = DEFAULT_MEMORY,
    env: Annotated[str, typer.Option("--env", help="What the memory is about.")] = "agent",
    embedder: EmbedderName = None,
) -> None:
    """Offer a memory to agents in other processes; it is created if there is none.

    They recall experience, record their episodes and give feedback, over the Model Context Protocol
    or HTTP. LDM_SERVE_TOKENS names a JSON file of tokens with their scopes, such as {"TOKEN":
    {"tenant": "a"}}: a client sees and changes what belongs to its scope, nothing else. Without it
    only programs of this machine are served.

    \b
    Examples:
      ldm serve --mcp --memory support-memory --env support
      ldm serve --http 0.0.0.0:8321
    """
    if mcp == http:
        raise LdmError("It was not said how to serve.", "Give either --mcp or --http.")
    try:
        from ldm.serve.operations import Client, Tokens
        from ldm.serve.web import application, serve_http
    except ModuleNotFoundError as error:
        raise LdmError(
            f"The package {error.name} is missing.", "pip install 'ldm-memory[serve]'"
        ) from None
    from ldm.memory.growing import GrowingMemory

    file = os.environ.get(TOKENS, "")
    tokens = Tokens.read(Path(file)) if file else Tokens({})
    host, port = _parted(address)
    if http and not tokens.scopes and host not in ("127.0.0.1", "localhost", "::1"):
        raise LdmError(
            f"Whoever reaches {host} could read and change the memory.",
            f"Name a file of tokens in {TOKENS}, or serve 127.0.0.1.",
        )
    scope = _own_scope(tokens) if mcp else {}
    # Never closed, which would wait for a batch that is being formed: every step is on the disk,
    # and the process that forms the batch ends by itself.
    opened = GrowingMemory.open(memory, env, embedder=embedder, create=True)
    if mcp:
        import anyio

        from ldm.serve.web import serve_stdio

        for number in (signal.SIGINT, signal.SIGTERM):
            # A thread that waits for standard input ends no other way.
            signal.signal(number, lambda *_: os._exit(INTERRUPTED))
        anyio.run(serve_stdio, Client(opened, scope, tokens.names))
    else:
        output.say(f"http://{address} serves the memory of {env} at {memory}. Ctrl-C ends it.")
        app = application(tokens, lambda scope: Client(opened, scope, tokens.names))
        serve_http(app, host, port)


def _own_scope(tokens: Tokens) -> Mapping[str, str]:
    """Return the scope of the client that started the server."""
    scope = tokens.scope(os.environ.get(TOKEN, ""))
    if scope is None:
        raise LdmError(f"The token in {TOKEN} is missing or unknown.", f"{TOKENS} has the tokens.")
    return scope


def _parted(address: str) -> tuple[str, int]:
    """Return host and port of an address."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise LdmError(f"{address!r} is no address.", f"Write it as {ADDRESS}.")
    return host.strip("[]"), int(port)
