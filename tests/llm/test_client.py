"""The client against a fake server: what is asked, paid, recorded, repaired and refused."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from ldm.errors import ContextTooLong, LdmError, ModelError, ModelUnavailable, ReplayMiss
from ldm.llm import Sampling, ScopedLLM
from ldm.llm.answers import Fault
from ldm.llm.calls import Recording, read_calls
from ldm.llm.client import RetryPolicy
from ldm.llm.meter import CostLimits
from ldm.types import Usage
from tests.llm.conftest import HASTY, Connect, Serve, ask


@dataclass(frozen=True)
class Bounded:
    name: Annotated[str, Field(max_length=100)]


@dataclass(frozen=True)
class Colour:
    name: str
    hex: str
    warm: bool
    rank: int


class TestAReply:
    def test_is_the_servers_text_with_its_cost(self, serve: Serve, connect: Connect) -> None:
        server = serve()
        reply = connect(server).model("m").complete(ask("hello"), max_tokens=9, stop=("\n",))
        assert reply.text.startswith("word ")
        assert reply.usage.calls == 1
        assert reply.usage.prompt_tokens > reply.usage.cached_tokens > 0
        assert reply.usage.completion_tokens > 0
        body = server.bodies[-1]
        assert (body["model"], body["max_tokens"], body["stop"]) == ("m", 9, ["\n"])
        assert body["temperature"] == 0.0

    def test_of_a_schema_is_a_value_of_its_type(self, serve: Serve, connect: Connect) -> None:
        reply = connect(serve()).model("m").complete(ask("a colour"), schema=Colour)
        assert reply.value == Colour("some text", "some text", True, 7)
        assert reply.text == '{"name":"some text","hex":"some text","warm":true,"rank":7}'


class TestStructuredOutput:
    @pytest.mark.parametrize(
        ("mode", "behaviour"),
        [("json_schema", {}), ("json_object", {"structured": ("json_object",)}),
         ("prompt", {"structured": ()}),
         ("json_object", {"structured": (), "ignores": ("json_schema", "json_object")})],
    )  # fmt: skip
    def test_is_the_strongest(
        self, mode: str, behaviour: Any, serve: Serve, connect: Connect, tmp_path: Path
    ) -> None:
        client = connect(serve(**behaviour), directory=tmp_path)
        assert client.model("m").complete(ask("a colour"), schema=Colour).value is not None
        assert client.capabilities("m").structured == mode
        assert [call.mode for call in read_calls(tmp_path)][-1] == mode

    def test_is_probed_once_in_a_run(self, serve: Serve, connect: Connect, tmp_path: Path) -> None:
        server = serve(structured=("json_object",))
        client = connect(server, directory=tmp_path)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: client.model("m").complete(ask(f"{n}")), range(8)))
        first = len(server.bodies)
        again = connect(server, directory=tmp_path)
        again.model("m").complete(ask("new"), schema=Colour)
        assert again.capabilities("m").structured == "json_object"
        assert len(server.bodies) == first + 1
        assert sum(call.role == "probe" for call in read_calls(tmp_path)) == 1

    def test_a_bad_reply_is_repaired_once(self, serve: Serve, connect: Connect) -> None:
        def answer(body: dict[str, Any]) -> str:
            message = body["messages"][-1]["content"]
            if "cannot be used" in message:
                assert "rank" in message
                return '{"name": "red", "hex": "#f00", "warm": true, "rank": 1}'
            return '{"name": "red", "hex": "#f00", "warm": true}'

        client = connect(serve(answer=answer))
        reply = client.model("m").complete(ask("a colour"), schema=Colour)
        assert reply.value == Colour("red", "#f00", True, 1)
        assert reply.usage.calls == 2

    def test_a_reply_that_stays_bad_is_no_error(self, serve: Serve, connect: Connect) -> None:
        server = serve(answer=lambda body: "I would rather not.")
        reply = connect(server).model("m").complete(ask("a colour"), schema=Colour)
        assert reply.malformed
        assert reply.value is None
        assert reply.text == "I would rather not."
        assert reply.usage.calls == 2


class TestParametersThatAModelRejects:
    @pytest.mark.parametrize("name", ["temperature", "stop", "seed", "max_tokens", "top_p"])
    def test_are_left_out(self, name: str, serve: Serve, connect: Connect, tmp_path: Path) -> None:
        server = serve(rejects=(name,), answer=lambda body: "one END two")
        model = connect(server, directory=tmp_path).model("m")
        sampling = Sampling(temperature=0.5, top_p=0.9, seed=3)
        for number in range(2):
            reply = model.complete(ask(f"{number}"), sampling=sampling, max_tokens=5, stop=("END",))
            assert reply.text == ("one " if name == "stop" else "one END two")
        assert name not in server.bodies[-1]
        assert server.outcomes["refused"] == 1
        if name == "max_tokens":
            assert server.bodies[-1]["max_completion_tokens"] == 5

    def test_bounds_of_a_schema_go_and_it_stays(self, serve: Serve, connect: Connect) -> None:
        server = serve(unbounded=True)
        model = connect(server).model("m")
        for number in range(2):
            assert model.complete(ask(f"{number}"), schema=Bounded).value is not None
        sent = server.bodies[-1]["response_format"]
        assert sent["type"] == "json_schema"
        assert "maxLength" not in str(sent)
        assert server.outcomes["refused"] == 1

    def test_all_at_once(self, serve: Serve, connect: Connect) -> None:
        rejected = ("temperature", "stop", "seed", "max_tokens", "max_completion_tokens", "top_p")
        server = serve(rejects=rejected, structured=())
        reply = connect(server).model("m").complete(ask("x"), schema=Colour, max_tokens=5)
        assert reply.value is not None
        assert set(server.bodies[-1]) == {"model", "messages"}


class TestTheRecording:
    def test_no_call_is_paid_twice(self, serve: Serve, connect: Connect, tmp_path: Path) -> None:
        server = serve()
        first = connect(server, directory=tmp_path)
        replies = [first.model("m").complete(ask("hello"), schema=Colour) for _ in range(2)]
        paid = len(server.bodies)
        again = connect(server, directory=tmp_path)
        replies.append(again.model("m").complete(ask("hello"), schema=Colour))
        assert len({(reply.text, reply.usage) for reply in replies}) == 1
        assert len(server.bodies) == paid
        assert again.meter.accounts() == first.meter.accounts()

    def test_equal_calls_at_the_same_time_are_one(self, serve: Serve, connect: Connect) -> None:
        server = serve(latency=0.1)
        client = connect(server, probed="m")
        before = len(server.bodies)
        with ThreadPoolExecutor(8) as pool:
            texts = pool.map(lambda _: client.model("m").complete(ask("hello")).text, range(8))
            assert len(set(texts)) == 1
        assert len(server.bodies) == before + 1

    def test_a_torn_line_is_cut_off(self, serve: Serve, connect: Connect, tmp_path: Path) -> None:
        server = serve()
        connect(server, directory=tmp_path).model("m").complete(ask("hello"))
        file = tmp_path / "llm.jsonl"
        whole = file.read_bytes()
        file.write_bytes(whole + whole[:50])
        connect(server, directory=tmp_path).model("m").complete(ask("again"))
        asked = [call.request.messages[-1].content for call in read_calls(tmp_path)]
        assert asked[1:] == ["hello", "again"]

    def test_replays_without_a_server(self, serve: Serve, connect: Connect, tmp_path: Path) -> None:
        reply = connect(serve(), directory=tmp_path).model("m").complete(ask("x"), schema=Colour)
        replayed = connect(None, recording=Recording(replay=tmp_path))
        assert replayed.model("m").complete(ask("x"), schema=Colour) == reply
        with pytest.raises(ReplayMiss, match="does not hold a call"):
            replayed.model("m").complete(ask("y"))

    def test_of_another_kind_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(LdmError, match="no recording at"):
            Recording(replay=tmp_path)
        (tmp_path / "llm.jsonl").write_text('{"key": 1}\n')
        with pytest.raises(LdmError, match=r"llm\.jsonl:1:key"):
            Recording(tmp_path / "llm.jsonl")


class TestRepeatedDraws:
    def test_differ_by_scope_and_number_and_repeat(self, serve: Serve, connect: Connect) -> None:
        model = connect(serve()).model("m")
        warm = Sampling(temperature=0.7)

        def draws(*scope: object) -> list[str]:
            scoped = ScopedLLM(model, lambda: scope)
            return [scoped.complete(ask("draw"), sampling=warm).text for _ in range(3)]

        assert len(set(draws(0, "task", 1)) | set(draws(0, "task", 2))) == 6
        assert draws(0, "task", 1) == draws(0, "task", 1)

    def test_at_temperature_zero_are_one_call(self, serve: Serve, connect: Connect) -> None:
        server = serve()
        spent: list[Usage] = []
        scoped = ScopedLLM(connect(server).model("m"), lambda: (0,), spent.append)
        assert len({scoped.complete(ask("draw")).text for _ in range(3)}) == 1
        assert server.outcomes["answered"] == 2
        assert [usage.calls for usage in spent] == [1, 1, 1]


class TestFaults:
    @pytest.mark.parametrize("fault", ["429", "500", "cut", "truncated", "no choices"])
    def test_that_pass_are_tried_again(self, fault: str, serve: Serve, connect: Connect) -> None:
        server = serve(seed=2)
        # A probe's request names the server, so its faults would be others.
        client = connect(server, probed="m")
        server.behaviour.rates = {fault: 0.5}
        model = client.model("m")
        for number in range(8):
            assert model.complete(ask(f"{number}")).text
        assert server.outcomes[fault] > 0

    @pytest.mark.parametrize(
        ("fault", "message"),
        [("500", "after 6 attempts: HTTP 500: it broke"), ("truncated", "not JSON"),
         ("no choices", "without choices"),
         pytest.param("hang", "no complete answer within 0.1 s", marks=pytest.mark.slow)],
    )  # fmt: skip
    def test_that_stay_stop(self, fault: str, message: str, serve: Serve, connect: Connect) -> None:
        server = serve()
        client = connect(server, timeout=0.1, probed="m")
        server.behaviour.rates = {fault: 1.0}
        model = client.model("m")
        for number in range(2):
            with pytest.raises(ModelError, match=message):
                model.complete(ask(f"{number}"))
        with pytest.raises(ModelUnavailable, match=message):
            model.complete(ask("3"))
        sent = len(server.bodies)
        with pytest.raises(ModelUnavailable):
            model.complete(ask("4"))
        assert len(server.bodies) == sent

    def test_an_absent_server_stops_the_run_at_once(self, serve: Serve, connect: Connect) -> None:
        client = connect(serve(), url="http://127.0.0.1:9/v1")
        with pytest.raises(ModelUnavailable, match="no connection"):
            client.model("m").complete(ask("x"))

    def test_too_long_is_an_error(self, serve: Serve, connect: Connect, tmp_path: Path) -> None:
        server = serve()
        client = connect(server, directory=tmp_path, probed="m")
        server.behaviour.rates = {"context": 1.0}
        with pytest.raises(ContextTooLong, match="maximum context length"):
            client.model("m").complete(ask("long"))
        server.behaviour.rates = {}
        assert client.model("m").complete(ask("short")).text
        with pytest.raises(ContextTooLong):
            connect(None, recording=Recording(replay=tmp_path)).model("m").complete(ask("long"))

    def test_the_server_says_when_to_come_back(self, serve: Serve, connect: Connect) -> None:
        server = serve(rates={"429": 1.0}, retry_after="3600")
        retry = RetryPolicy(first=0.01, retry_after=60)
        with pytest.raises(ModelUnavailable, match="HTTP 429"):
            connect(server, retry=retry).model("m").complete(ask("x"))
        assert server.outcomes["429"] == 1


def test_limits_in_dollars_need_a_price(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    server = serve()
    with pytest.raises(LdmError, match="price of m is unknown"):
        connect(server, limits=CostLimits(usd=1.0)).model("m")
    (tmp_path / "prices.json").write_text('{"models": {"m": [1, 1, 2]}}')
    client = connect(server, limits=CostLimits(usd=1.0), prices=tmp_path / "prices.json")
    client.model("m", "planner").complete(ask("x"))
    (planner, probe) = client.meter.accounts()
    assert (planner.role, probe.role) == ("planner", "probe")
    assert planner.usd == pytest.approx(
        (planner.usage.prompt_tokens + 2 * planner.usage.completion_tokens) / 1e6
    )


def test_impatience_is_what_makes_these_tests_quick() -> None:
    broken, refused, policy = Fault("again", ""), Fault("again", "", refused=True), RetryPolicy()
    assert HASTY.wait("key", 1, broken) == HASTY.wait("key", 1, broken) <= 0.01
    assert policy.wait("key", 3, broken) != policy.wait("other", 3, broken)
    assert 2.0 <= policy.wait("key", 3, broken) <= 4.0
    assert (
        policy.wait("key", 30, broken)
        <= 60.0
        <= sum(policy.wait("key", attempt, refused) for attempt in range(1, policy.attempts))
    )
