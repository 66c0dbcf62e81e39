"""A server of a memory in this process, on a port of its own."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ldm.memory.growing import GrowingMemory
from ldm.serve.operations import Client, Tokens
from tests.embedder import BagOfWords

A, B, ALL = "token-of-tenant-a", "token-of-tenant-b", "token-of-everything"
SCOPES = {A: {"tenant": "a"}, B: {"tenant": "b"}, ALL: {}}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[GrowingMemory]:
    with GrowingMemory.open(tmp_path / "m", "desk", embedder=BagOfWords(), create=True) as opened:
        yield opened


@contextmanager
def served(app: Any, **options: Any) -> Iterator[str]:
    """Serve an application in a thread; yield its address."""
    uvicorn = pytest.importorskip("uvicorn")
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def serving(memory: GrowingMemory, tokens: Tokens) -> Iterator[str]:
    from ldm.serve.web import application  # where MCP is not installed, the tests skip before

    app = application(tokens, lambda scope: Client(memory, scope, tokens.names))
    with served(app, ws="none") as address:
        yield address


@pytest.fixture
def open_server(memory: GrowingMemory) -> Iterator[str]:
    yield from serving(memory, Tokens({}))


@pytest.fixture
def server(memory: GrowingMemory, tmp_path: Path) -> Iterator[str]:
    """Return the address of a server with the tokens of `SCOPES`."""
    (tmp_path / "tokens.json").write_text(json.dumps(SCOPES))
    yield from serving(memory, Tokens.read(tmp_path / "tokens.json"))
