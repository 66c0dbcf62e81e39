"""Calls in batches: what is submitted, how it is waited for, and what a reply in a file becomes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ldm.errors import ContextTooLong, LdmError, ModelUnavailable, Postponed
from ldm.llm import Message
from ldm.llm.batches import (
    FEWEST,
    Batches,
    PendingCall,
    Polling,
    Submission,
    answered_call,
)
from ldm.llm.calls import Request
from ldm.llm.capabilities import Capabilities
from ldm.llm.client import Client, Model
from ldm.llm.gathering import Gathering
from tests.llm.batch_server import BatchServer
from tests.llm.conftest import Connect

QUICK = Polling(first=0.001, longest=0.001, patience=0.2)


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer() as server:
        yield server


def questions(number: int, model: str = "m") -> dict[str, tuple[str, Request]]:
    requests = [Request(model, (Message("user", f"Question {n}?"),)) for n in range(number)]
    return {request.key: ("reasoner", request) for request in requests}


def batches_of(client: Client, folder: Path, polling: Polling = QUICK) -> Batches:
    return Batches(client, "reasoner", folder, polling=polling)


class TestGathering:
    def test_notes_what_is_not_recorded_and_postpones_it(
        self, server: BatchServer, connect: Connect
    ) -> None:
        client = connect(server)
        known = client.model("m").complete([Message("user", "Known?")])
        gathering = Gathering(client)
        model = Model(gathering, "m", "llm")
        assert model.complete([Message("user", "Known?")]).text == known.text
        for _ in range(2):
            with pytest.raises(Postponed):
                model.complete([Message("user", "New?")])
        assert [r.messages[0].content for _, r in gathering.missing.values()] == ["New?"]

    def test_raises_what_the_recorded_call_raised(
        self, server: BatchServer, connect: Connect
    ) -> None:
        server.behaviour.rates = {"context": 1.0}
        client = connect(server)
        client.capabilities("m")
        for model in (client.model("m"), Model(Gathering(client), "m", "llm")):
            with pytest.raises(ContextTooLong):
                model.complete([Message("user", "Too long.")])


class TestSubmitting:
    def test_few_calls_are_left_to_be_made_directly(
        self, server: BatchServer, connect: Connect, tmp_path: Path
    ) -> None:
        few = questions(FEWEST - 1)
        assert batches_of(connect(server), tmp_path).ask(few) == list(few.values())
        assert not server.uploads

    def test_many_calls_take_several_batches_one_model_each(
        self,
        server: BatchServer,
        connect: Connect,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("ldm.llm.batches.MOST_CALLS", 4)
        asked = {**questions(9), **questions(3, "another")}
        client = connect(server)
        assert not batches_of(client, tmp_path).ask(asked)
        sizes = [
            len(server.files[b["input_file_id"]].splitlines()) for b in server.batches.values()
        ]
        assert sizes == [4, 4, 1, 3]
        (account, other) = (a for a in client.accounts() if a.role == "reasoner")
        assert (account.usage.calls, other.usage.calls) == (3, 9)

    def test_a_request_has_the_words_that_it_has_directly(
        self, server: BatchServer, connect: Connect, tmp_path: Path
    ) -> None:
        server.behaviour.rejects = ("temperature", "max_tokens")
        client = connect(server)
        asked = questions(FEWEST)
        batches_of(client, tmp_path).ask(asked)
        another = connect(server)
        server.bodies.clear()
        for role, request in asked.values():
            another.call(role, request)
        assert [b for b in server.bodies if "Question" in str(b)][-FEWEST:] == server.submitted

    def test_a_refusal_for_too_many_requests_is_waited_for(
        self, server: BatchServer, connect: Connect, tmp_path: Path
    ) -> None:
        client = connect(server)
        batches = batches_of(client, tmp_path)
        left = [503, 429]

        def absent(request: str) -> bool:
            server.batching.absent = left.pop() if left and request.startswith("POST") else 0
            return False

        server.hook = lambda request: not request.endswith("done") and absent(request)
        assert not batches.ask(questions(FEWEST))
        assert len(server.batches) == 1


class TestWaiting:
    def test_says_how_many_calls_are_done(
        self, server: BatchServer, connect: Connect, tmp_path: Path
    ) -> None:
        server.batching.looks = 3
        seen: list[tuple[str, int, int]] = []
        batches_of(connect(server), tmp_path).ask(
            questions(FEWEST), lambda *progress: seen.append(progress)
        )
        assert seen == [("calls in batch 1", n, FEWEST) for n in (0, 1, 2, FEWEST)]

    def test_looks_less_and_less_often_up_to_a_bound(
        self,
        server: BatchServer,
        connect: Connect,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        server.batching.looks = 12
        pauses: list[float] = []
        monkeypatch.setattr(Client, "pause", lambda self, seconds: pauses.append(seconds))
        batches_of(connect(server), tmp_path, Polling()).ask(questions(FEWEST))
        assert pauses[:4] == [2.0, 3.0, 4.5, 6.75]
        assert pauses == sorted(pauses)
        assert pauses[-1] == 60.0

    def test_puts_up_with_faults_for_a_while(
        self, server: BatchServer, connect: Connect, tmp_path: Path
    ) -> None:
        server.batching.looks = 1
        batches = batches_of(connect(server), tmp_path)
        lost = ["GET /v1/batches/batch_1"] * 5
        server.hook = lambda request: bool(request in lost and (lost.pop() or True))
        assert not batches.ask(questions(FEWEST))
        assert not lost

    def test_stops_where_the_server_stays_away_and_keeps_the_batch(
        self, server: BatchServer, connect: Connect, tmp_path: Path
    ) -> None:
        server.batching.looks = None
        batches = batches_of(connect(server), tmp_path)
        server.hook = lambda request: request == "GET /v1/batches/batch_1"
        with pytest.raises(ModelUnavailable, match="does not say how far batch batch_1 of 8 calls"):
            batches.ask(questions(FEWEST))
        assert len(list(tmp_path.glob("batches/*.json"))) == 1

    def test_names_the_file_of_a_batch_that_the_server_has_forgotten(
        self, server: BatchServer, connect: Connect, tmp_path: Path
    ) -> None:
        batches = batches_of(connect(server), tmp_path)

        def forget(request: str) -> bool:
            if request == "POST /v1/batches done":
                server.batches.clear()
            return False

        server.hook = forget
        with pytest.raises(LdmError, match=r"does not know batch batch_1.*remove .*\.json"):
            batches.ask(questions(FEWEST))


class TestReplies:
    PENDING = PendingCall("k", "reasoner", Request("m", (Message("user", "?"),)), None)
    SUBMISSION = Submission("t", "http://s", 1, Capabilities(), 0.0)

    def call(self, line: dict[str, Any]) -> Any:
        return answered_call(self.PENDING, line, self.SUBMISSION)

    def test_a_request_that_is_too_long_is_recorded_as_such(self) -> None:
        body = {"error": {"message": "maximum context length is 10", "code": "too_long"}}
        call = self.call({"response": {"status_code": 400, "body": body}})
        assert call.error == "context"
        assert call.text == "HTTP 400: maximum context length is 10 too_long"
        assert call.usage.calls == 0

    @pytest.mark.parametrize(
        "line",
        [
            {},
            {"response": None, "error": {"code": "batch_expired"}},
            {"response": {"status_code": 500, "body": {}}},
            {"response": {"status_code": 200, "body": {"choices": []}}},
            {"response": {"status_code": "200", "body": "words"}},
            {"response": ["words"]},
        ],
    )
    def test_a_line_without_a_usable_reply_answers_nothing(self, line: dict[str, Any]) -> None:
        assert self.call(line) is None

    def test_lines_that_are_no_json_or_of_other_calls_are_left_out(
        self, server: BatchServer, connect: Connect, tmp_path: Path
    ) -> None:
        client = connect(server)
        batches = batches_of(client, tmp_path)
        asked = questions(FEWEST)

        def damage(request: str) -> bool:
            if request == "GET /v1/files/output-batch_1/content":
                whole = server.files["output-batch_1"].splitlines(keepends=True)
                other = b'{"custom_id": "another", "response": null}\n{"custom_id": 7}\n'
                server.files["output-batch_1"] = other + b"\xff[\n" + b"".join(whole[1:])
            return False

        server.hook = damage
        left = batches.ask(asked)
        assert len(left) == 1
        assert sum(client.recorded(key) is not None for key in asked) == 7
