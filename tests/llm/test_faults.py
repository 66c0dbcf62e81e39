"""Hundreds of calls with every fault at once: none lost, none paid twice, the bound respected."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from ldm.errors import ContextTooLong, ModelError
from ldm.llm import Message
from ldm.llm.calls import read_calls
from ldm.llm.client import Client, RetryPolicy
from ldm.types import stable_hash
from tests.llm.conftest import Connect, Serve
from tests.llm.server import FAULTS

CALLS = 400
CONCURRENCY = 16


@dataclass(frozen=True)
class Answer:
    word: str
    count: int


def outcome(client: Client, number: int) -> str:
    """What became of one call, in a word."""
    messages = [Message("user", f"question {number}")]
    try:
        reply = client.model("m").complete(messages, schema=Answer)
    except ContextTooLong:
        return "context"
    except ModelError:
        return "failed"
    return "malformed" if reply.value is None else "answered"


@pytest.mark.slow
def test_each_is_answered_or_fails_by_name(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    server = serve(hang=1.0, retry_after="0.02", idempotent=True)
    retry = RetryPolicy(attempts=6, first=0.005, longest=0.02)

    def connected() -> Client:
        return connect(
            server, directory=tmp_path, retry=retry, concurrency=CONCURRENCY, timeout=0.3
        )

    client = connected()
    client.capabilities("m")
    server.behaviour.rates = dict.fromkeys(FAULTS, 0.05)
    with ThreadPoolExecutor(2 * CONCURRENCY) as pool:
        first = list(pool.map(lambda n: outcome(client, n), range(CALLS)))

    assert len(first) == CALLS
    assert set(first) <= {"answered", "malformed", "context", "failed"}
    assert first.count("answered") > 0.9 * CALLS
    assert first.count("context") > 0.02 * CALLS
    assert all(server.outcomes[fault] > 0 for fault in FAULTS if fault != "wrong schema")
    assert server.peak <= CONCURRENCY
    assert any("nonsense" in call.text for call in read_calls(tmp_path))
    answered = [call for call in read_calls(tmp_path) if not call.error]
    # An answer that came after the client gave up is answered, and not recorded at once.
    assert len(answered) <= sum(server.answered.values()) + server.outcomes["repeated"]

    resumed = connected()
    with ThreadPoolExecutor(2 * CONCURRENCY) as pool:
        second = list(pool.map(lambda n: outcome(resumed, n), range(CALLS)))
    recorded = [pair for pair in zip(first, second, strict=True) if pair[0] != "failed"]
    assert all(before == after for before, after in recorded)
    paid_twice = [key for key, times in server.answered.items() if times > 1]
    assert paid_twice == []
    # Nor are answers billed twice that a cut connection lost: they came again under their key.
    assert server.outcomes["repeated"] > 0
    billed = Counter(stable_hash(body) for body in server.billed)
    assert max(billed.values()) == 1
    requests = {stable_hash(body) for body in server.bodies}
    assert set(server.answered) <= requests
    assert len(read_calls(tmp_path)) == len({call.key for call in read_calls(tmp_path)})
