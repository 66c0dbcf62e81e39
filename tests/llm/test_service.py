"""One request on the wire: what statuses and headers mean, how long it may take, what is hidden."""

import email.utils
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest

from ldm.errors import LdmError, ModelError, ModelUnavailable
from ldm.llm import Sampling
from ldm.llm.answers import retry_after
from ldm.llm.calls import Request, read_calls
from ldm.llm.capabilities import Capabilities, CapabilityStore
from ldm.llm.service import Connection, idempotency_key
from ldm.text import bare_url, guard, redacted
from tests.llm.conftest import Connect, Serve, ask


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("headers", "seconds"),
        [({}, None), ({"retry-after": "7"}, 7.0), ({"retry-after": " 0.5 "}, 0.5),
         ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5), ({"retry-after-ms": "-5"}, 0.0),
         ({"retry-after": "soon"}, None), ({"retry-after-ms": "soon"}, None),
         ({"retry-after": "Sat, 01 Jan 2000 00:00:00 GMT"}, 0.0)],
    )  # fmt: skip
    def test_is_given_in_seconds(self, headers: dict[str, str], seconds: float | None) -> None:
        assert retry_after(headers) == seconds

    def test_is_given_as_a_date(self) -> None:
        date = email.utils.formatdate(time.time() + 120, usegmt=True)
        result = retry_after({"retry-after": date})
        assert result is not None
        assert 115 < result <= 120


class TestStatuses:
    @pytest.mark.parametrize(
        ("status", "message"),
        [(401, "Incorrect API key provided"), (402, "Insufficient credits"),
         (403, "Country not supported"), (404, "The model m does not exist"),
         (429, "You exceeded your current quota (insufficient_quota)")],
    )  # fmt: skip
    def test_fatal_ones(self, status: int, message: str, serve: Serve, connect: Connect) -> None:
        server = serve(status=status, complaint=message)
        client = connect(server)
        with pytest.raises(ModelUnavailable, match=f"failed at once: HTTP {status}") as caught:
            client.model("m").complete(ask("x"))
        assert message in str(caught.value)
        assert len(server.bodies) == 1

    def test_a_lone_surrogate_in_a_reply_is_replaced(self, serve: Serve, connect: Connect) -> None:
        server = serve(answer=lambda _: "half \ud83d of one")
        client = connect(server)
        for _ in range(2):
            assert client.model("m").complete(ask("x")).text == "half \ufffd of one"
        requests = [body for body in server.bodies if body["messages"][-1]["content"] == "x"]
        assert len(requests) == 1


def test_an_answer_byte_by_byte_is_given_up(serve: Serve, connect: Connect) -> None:
    server = serve(hang=30.0)
    client = connect(server, timeout=0.2, probed="m")
    server.behaviour.rates = {"dribble": 1.0}
    started = time.monotonic()
    with pytest.raises(ModelError, match=r"no complete answer within 0\.2 s"):
        client.model("m").complete(ask("x"))
    assert server.outcomes["dribble"] == 6
    assert time.monotonic() - started < 30.0  # before the server ends it


class TestTheIdempotencyKey:
    def test_is_the_same_for_the_same_call_alone(self) -> None:
        request, taken = Request("m", ask("x")), Capabilities()
        first = idempotency_key(request, taken, 9, 0)
        assert idempotency_key(Request("m", ask("x")), Capabilities(), 9, 0) == first
        others = [
            idempotency_key(Request("m", ask("y")), taken, 9, 0),
            idempotency_key(replace(request, sampling=Sampling(sample=1)), taken, 9, 0),
            idempotency_key(request, replace(taken, seed=False), 9, 0),
            idempotency_key(request, taken, 10, 0),
            idempotency_key(request, taken, 9, 1),
        ]
        assert len({first, *others}) == 6

    def test_is_kept_where_no_answer_came(self, serve: Serve, connect: Connect) -> None:
        server = serve(idempotent=True)
        client = connect(server, probed="m")
        server.behaviour.rates = {"cut": 1.0}
        assert client.model("m").complete(ask("x")).text
        assert (server.outcomes["cut"], server.outcomes["repeated"]) == (1, 1)
        assert len([body for body in server.billed if body == server.bodies[-1]]) == 1

    @pytest.mark.parametrize(("fault", "keys"), [("429", 1), ("truncated", 6), ("500", 6)])
    def test_changes_otherwise(self, fault: str, keys: int, serve: Serve, connect: Connect) -> None:
        server = serve(idempotent=True)
        client = connect(server, probed="m")
        before = len(server.bodies)
        server.behaviour.rates = {fault: 1.0}
        with pytest.raises(LdmError):
            client.model("m").complete(ask("x"))
        sent = [headers["idempotency-key"] for headers in server.headers[before:]]
        assert (len(sent), len(set(sent))) == (6, keys)


class TestSecrets:
    @pytest.mark.parametrize(
        ("key", "url", "hidden"),
        [("sk-a1b2c3", "", ["sk-a1b2c3"]), ("sk-a1\nb2c3", "", [r"b'Bearer sk-a1\nb2c3'"]),
         ("averylongkeywithoutdigits", "", ["averylongkeywithoutdigits"]),
         ("", "http://me:pass-w0rd@host/v1?token=t0k-3n", ["pass-w0rd", "t0k-3n"])],
    )  # fmt: skip
    def test_are_cut_out_of_what_is_said(self, key: str, url: str, hidden: list[str]) -> None:
        connection = Connection(url, key)
        guard(connection.secrets())
        for words in hidden:
            message = redacted(f"It was {words}.")
            assert "[key]" in message
            assert (key or "w0rd") not in message
            assert "b2c3" not in message

    @pytest.mark.parametrize("key", ["", "none", "EMPTY", "ollama", "lm-studio", "not-needed"])
    def test_words_that_stand_in_for_a_key_are_none(self, key: str) -> None:
        connection = Connection("https://host/v1?api-version=2024-02-01", key)
        message = f"The key {key} of 2024-02-01 is a word like ollama."
        guard(connection.secrets())
        assert redacted(message) == message

    def test_a_url_is_shown_without_them(self) -> None:
        assert bare_url("https://me:pw@host:8443/v1?key=k") == "https://host:8443/v1"
        assert bare_url("host") == bare_url("http://[") == "set, but not a URL"
        assert bare_url("http://host:port/v1") == "set, but not a URL"


class TestWhatIsKnownOfServers:
    def test_survives_writers_in_many_threads(self, tmp_path: Path) -> None:
        file = tmp_path / "capabilities.json"
        known = CapabilityStore(file, "here")
        weaker: tuple[dict[str, Any], ...] = (
            {"temperature": False},
            {"top_p": False},
            {"stop": False, "max_tokens": "max_completion_tokens"},
            {"seed": False, "structured": "json_object"},
        )
        learnt = [replace(Capabilities(), **one) for one in weaker]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: known.put("m", learnt[n % 4]), range(40)))
        expected = replace(Capabilities(), **weaker[0], **weaker[1], **weaker[2], **weaker[3])
        assert known.get("m") == expected
        assert CapabilityStore(file, "here").get("m") == expected
        assert CapabilityStore(file, "there").get("m") is None

    def test_refusals_are_learnt_once(self, serve: Serve, connect: Connect, tmp_path: Path) -> None:
        server = serve(rejects=("top_p",), latency=0.02)
        client = connect(server, directory=tmp_path, probed="m")
        model, sampling = client.model("m"), Sampling(top_p=0.5)
        with ThreadPoolExecutor(16) as pool:
            replies = pool.map(lambda n: model.complete(ask(f"{n}"), sampling=sampling), range(16))
            assert all(reply.text for reply in replies)
        assert not client.capabilities("m").top_p
        assert {call.attempts for call in read_calls(tmp_path)} == {1}

    def test_in_a_damaged_file_is_said(self, tmp_path: Path) -> None:
        (tmp_path / "capabilities.json").write_text('{"m": {"structured": "json_schema"}}')
        with pytest.raises(LdmError, match=r"capabilities\.json does not hold the capabilities"):
            CapabilityStore(tmp_path / "capabilities.json")


def test_faults_in_openai(serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    client = connect(serve(), key="sk-secret-0123456789")
    client.capabilities("m")
    post, faults = openai.OpenAI.post, [AttributeError("half-imported sk-secret-0123456789")]

    def faulty(*arguments: object, **options: object) -> object:
        if faults:
            raise faults.pop()
        return post(*arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(openai.OpenAI, "post", faulty)
    assert client.model("m").complete(ask("x")).text
    faults *= 0
    faults += [AttributeError("half-imported sk-secret-0123456789")] * 9
    with pytest.raises(ModelError, match="inside the openai package") as caught:
        client.model("m").complete(ask("y"))
    assert "sk-secret" not in str(caught.value)
