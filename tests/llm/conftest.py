"""Clients of fake servers, built as the command line builds them, but less patient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ldm.llm.capabilities import CapabilityStore
from ldm.llm.client import Client, ClientSetup, RetryPolicy
from ldm.llm.concurrency import ConcurrencyLimiter
from ldm.llm.meter import CostLimits, Meter
from ldm.llm.prices import load_prices
from ldm.llm.recording import Recording
from ldm.llm.service import Connection, Service
from tests.llm.server import Behaviour, FakeServer

HASTY = RetryPolicy(attempts=6, first=0.01, longest=0.05)

Serve = Callable[..., FakeServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve(latency=0.1, …)` is a running server with that Behaviour."""
    with ExitStack() as stack:
        yield lambda **behaviour: stack.enter_context(FakeServer(Behaviour(**behaviour)))


def make_client(
    server: FakeServer | None,
    *,
    directory: Path | None = None,
    recording: Recording | None = None,
    limits: CostLimits | None = None,
    retry: RetryPolicy = HASTY,
    concurrency: int = 16,
    timeout: float = 5.0,
    key: str = "",
    url: str = "",
    prices: Path | None = None,
    answer_tokens: int = 2048,
) -> Client:
    """A client; `directory` is where it keeps its recording and what it knows of the server."""
    service = None
    if server is not None:
        connection = Connection(url or server.url, key, timeout)
        service = Service(connection, connections=concurrency)
    own = None if directory is None else directory / "llm.jsonl"
    known = None if directory is None else directory / "capabilities.json"
    return Client(
        ClientSetup(
            service,
            recording or Recording(own),
            Meter(limits or CostLimits(), load_prices(prices)),
            ConcurrencyLimiter(concurrency),
            CapabilityStore(known, "" if server is None else server.url),
            retry,
            answer_tokens,
        )
    )


Connect = Callable[..., Client]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """`connect(server, …)` is `make_client(…)`, closed when the test ends."""
    clients: list[Client] = []

    def connected(server: FakeServer | None, **options: object) -> Client:
        clients.append(make_client(server, **options))  # type: ignore[arg-type]
        return clients[-1]

    yield connected
    for client in clients:
        client.close()
