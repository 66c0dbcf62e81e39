"""Clients of fake servers, built as the command line builds them, but less patient."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ldm.llm import Message
from ldm.llm.calls import Recording
from ldm.llm.capabilities import CapabilityStore
from ldm.llm.client import Client, RetryPolicy
from ldm.llm.meter import ConcurrencyLimiter, CostLimits, Meter, load_prices
from ldm.llm.service import Connection, Service
from tests.llm.server import Behaviour, FakeServer

HASTY = RetryPolicy(attempts=6, first=0.01, longest=0.05)


def ask(text: str) -> tuple[Message, ...]:
    """The messages of a request."""
    return (Message("system", "Be brief."), Message("user", text))


Serve = Callable[..., FakeServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve(latency=0.1, …)` is a running server with that Behaviour."""
    with ExitStack() as stack:
        yield lambda **behaviour: stack.enter_context(FakeServer(Behaviour(**behaviour)))


def make_client(
    server: FakeServer | None, *, directory: Path | None = None, concurrency: int = 16, **of: Any
) -> Client:
    """A client; `directory` is where it keeps its recording and what it knows of the server."""
    service = None
    if server is not None:
        connection = Connection(
            of.get("url", server.url), of.get("key", ""), of.get("timeout", 5.0)
        )
        service = Service(connection, connections=concurrency)
    own = None if directory is None else directory / "llm.jsonl"
    known = None if directory is None else directory / "capabilities.json"
    return Client(
        service,
        of.get("recording") or Recording(own),
        Meter(of.get("limits", CostLimits()), load_prices(of.get("prices"))),
        ConcurrencyLimiter(concurrency),
        CapabilityStore(known, "" if server is None else server.url),
        of.get("retry", HASTY),
        of.get("answer_tokens", 2048),
    )


Connect = Callable[..., Client]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """`connect(server, …)` is `make_client(…)`, closed when the test ends.

    probed: a model of which the client knows already what it can do.
    """
    clients: list[Client] = []

    def connected(server: FakeServer | None, *, probed: str = "", **options: Any) -> Client:
        clients.append(make_client(server, **options))
        if probed:
            clients[-1].capabilities(probed)
        return clients[-1]

    yield connected
    for client in clients:
        client.close()
