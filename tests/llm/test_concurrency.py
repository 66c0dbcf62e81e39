"""The bound on requests in flight: it gives way, and a stop wakes whoever waits."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ldm.errors import BudgetSpent, RunStopped
from ldm.llm.calls import read_calls
from ldm.llm.client import RetryPolicy
from ldm.llm.meter import ConcurrencyLimiter, CostLimits
from tests.llm.conftest import Connect, Serve, ask

SOON = 5.0


def until(true: Callable[[], bool]) -> None:
    """Wait for something that another thread is about to do."""
    limit = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.002)


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Start `work`; (the thread, what it returned or raised)."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(work())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


class TestTheGate:
    def test_a_refusal_halves_it_once_a_round_and_answers_widen_it(self) -> None:
        limiter = ConcurrencyLimiter(8)
        entered = [limiter.enter() for _ in range(3)]
        for moment in entered:
            limiter.narrow(moment, 0.0)
        assert limiter.width == 4
        for _ in range(100):
            limiter.widen()
        assert limiter.width == 8

    def test_holds_new_requests_back_for_as_long_as_the_server_asked(self) -> None:
        limiter = ConcurrencyLimiter(2)
        moment = limiter.enter()
        limiter.narrow(moment, 0.05)
        limiter.leave()
        assert limiter.enter() - moment >= 0.05

    @pytest.mark.parametrize("why", ["full", "closed for ten minutes"])
    def test_shut_it_sends_away_who_waits_and_who_comes(self, why: str) -> None:
        limiter = ConcurrencyLimiter(1)
        moment = limiter.enter()
        if why != "full":
            limiter.narrow(moment, 600.0)
            limiter.leave()
        thread, outcome = in_thread(limiter.enter)
        thread.join(0.02)
        assert thread.is_alive()
        limiter.shut(over := RunStopped("over"))
        thread.join(SOON)
        assert outcome == [over]
        with pytest.raises(RunStopped, match="over"):
            limiter.enter()


class TestStoppingAClient:
    def test_wakes_who_waits_as_the_server_asked(self, serve: Serve, connect: Connect) -> None:
        server = serve(retry_after="600")
        client = connect(server, retry=RetryPolicy(first=0.01, retry_after=600.0), probed="m")
        server.behaviour.rates = {"429": 1.0}
        refused, first = in_thread(lambda: client.model("m").complete(ask("1")))
        until(lambda: client.limiter.width == 8)  # the refusal has come
        waiting, second = in_thread(lambda: client.model("m").complete(ask("2")))
        waiting.join(0.05)
        assert refused.is_alive()
        assert waiting.is_alive()
        client.stop(RunStopped("Enough."))
        for thread in (refused, waiting):
            thread.join(SOON)
        assert [str(error) for error in (*first, *second)] == ["Enough.", "Enough."]
        assert server.outcomes["429"] == 1

    def test_wakes_who_waits_for_room_below_a_limit(self, serve: Serve, connect: Connect) -> None:
        server = serve()
        client = connect(server, limits=CostLimits(calls=2), probed="m")
        server.behaviour.latency = 2.0
        _, first = in_thread(lambda: client.model("m").complete(ask("1")))
        until(lambda: client.meter.in_flight == 1)
        waiting, second = in_thread(lambda: client.model("m").complete(ask("2")))
        waiting.join(0.02)
        assert waiting.is_alive()
        client.stop(RunStopped("Enough."))
        waiting.join(1.5)  # the other one is not answered yet
        assert [str(error) for error in second] == ["Enough."]
        assert first == []

    def test_closing_awaits_answers(self, serve: Serve, connect: Connect, tmp_path: Path) -> None:
        server = serve()
        client = connect(server, directory=tmp_path, probed="m")
        server.behaviour.latency, probes = 0.2, len(server.bodies)
        in_thread(lambda: client.model("m").complete(ask("1")))
        until(lambda: len(server.bodies) > probes)
        client.close(grace=SOON)
        assert [call.request.messages for call in read_calls(tmp_path)][1:] == [ask("1")]
        with pytest.raises(RunStopped, match="closed"):
            client.model("m").complete(ask("2"))

    def test_a_limit_needs_a_bound_on_replies(self, serve: Serve, connect: Connect) -> None:
        server = serve(rejects=("max_tokens", "max_completion_tokens"))
        client = connect(server, limits=CostLimits(tokens=10**6))
        with pytest.raises(BudgetSpent, match="takes no bound on the length of m's replies"):
            client.model("m").complete(ask("1"))
        assert server.outcomes["answered"] == 0
