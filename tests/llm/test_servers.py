"""Every model server as it is: recorded shapes of replies and errors, and the table of them.

`--update-goldens` writes the table of docs/usage/servers.md anew.
"""

import gzip
import json
import random
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest

from ldm.errors import BudgetSpent, ContextTooLong, LdmError, ModelError, ModelUnavailable
from ldm.llm.answers import Fault, refusal, reply_in
from ldm.llm.calls import Request, read_calls
from ldm.llm.capabilities import Capabilities, context_in
from ldm.llm.client import RetryPolicy
from ldm.llm.meter import CostLimits
from ldm.llm.service import json_of
from ldm.types import Usage
from tests.llm.conftest import HASTY, Connect, Serve, ask
from tests.llm.server import completion

PAGE = Path(__file__).parents[2] / "docs/usage/servers.md"
Response = tuple[int, Any, dict[str, str]]


@dataclass(frozen=True)
class Colour:
    name: str


def error(status: int, message: str, **fields: Any) -> Response:
    return status, {"error": {"message": message, **fields}}, {}


@dataclass(frozen=True)
class Shapes:
    """What a server sends: fields of a message with thoughts, its errors, whether it counts."""

    thoughts: dict[str, Any]
    too_long: Response
    quota: Response
    schema: Response | None = None
    system: Response | None = None
    usage: bool = True


#: As in the projects' trackers: vllm-project/vllm (27752, 33402, 33425), ggml-org/llama.cpp,
#: ollama/ollama, lmstudio-ai/lmstudio-bug-tracker (237, 2256), google-gemini/gemini-cli (6678),
#: huggingface/text-generation-inference (937), Aider-AI/aider (3721, OpenRouter), llm-exe/llm-exe
#: (662, DeepSeek).
SHAPES = json.loads(Path(__file__).with_name("servers.json").read_text("utf-8"))
SERVERS = {name: Shapes(**shapes) for name, shapes in SHAPES.items()}


def answered(body: dict[str, Any], message: dict[str, Any], usage: bool = True) -> Response:
    content = completion(body, "", usage)
    content["choices"][0]["message"] |= message
    return 200, content, {}


def is_probe(body: dict[str, Any]) -> bool:
    return "Greet me" in json.dumps(body.get("messages", ""))


@dataclass
class Fake:
    """Answers as one server does; `quotas` requests are refused first."""

    shapes: Shapes
    quotas: int = 0
    sent: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, body: dict[str, Any]) -> Response | None:
        self.sent.append(body)
        shapes, kind = self.shapes, body.get("response_format", {}).get("type", "")
        if shapes.schema and (kind == "json_schema" or (kind and "grammar" in str(shapes.schema))):
            return shapes.schema
        if shapes.system and any(m["role"] == "system" for m in body["messages"]):
            return shapes.system
        if "LONG" in str(body):
            return shapes.too_long
        if not is_probe(body) and self.quotas:
            self.quotas -= 1
            return shapes.quota
        if kind or "JSON Schema" in str(body):
            return None
        return answered(body, shapes.thoughts, shapes.usage)


def row(shapes: Shapes, serve: Serve, connect: Connect, directory: Path) -> list[str]:
    """The cells of the table, each checked."""
    fake = Fake(shapes, quotas=1)
    client = connect(serve(reply=fake), directory=directory)
    model = client.model("m")
    assert model.complete(ask("a colour"), stop=("\n\n",), max_tokens=9).text == "blue"
    call = read_calls(directory)[-1]
    thinks = shapes.thoughts != {"content": "blue"}
    assert call.thoughts == ("A draft: red." if thinks else "")
    assert (call.attempts, call.usage.calls) == (2, 1)
    with pytest.raises(ContextTooLong):
        model.complete(ask("LONG"))
    value = model.complete(ask("x"), schema=Colour)
    assert value.value is not None or not shapes.schema
    able = client.capabilities("m")
    assert able.system == (shapes.system is None)
    assert any("Be brief." in m["content"] for m in fake.sent[-1]["messages"])
    place = "tags" if isinstance(shapes.thoughts["content"], str) else "parts"
    place = "a field" if len(shapes.thoughts) > 1 else place
    status, problem, headers = shapes.quota
    quota = refusal(status, problem, {name.lower(): text for name, text in headers.items()})
    return [
        place if thinks else "none shown",
        f"HTTP {shapes.too_long[0]}",
        able.structured,
        "system" if able.system else "in the first user message",
        "waits as told" if quota.retry_after else "waits ever longer",
        "estimated" if call.estimated else "reported",
    ]


@pytest.mark.parametrize("name", SERVERS)
def test_each_server(
    name: str, serve: Serve, connect: Connect, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cells = " | ".join(row(SERVERS[name], serve, connect, tmp_path))
    line, page = f"| {name} | {cells} |", PAGE.read_text()
    if request.config.getoption("--update-goldens"):
        old = re.search(rf"(?m)^\| {re.escape(name)} \|.*$\n?", page)
        page = page.replace(old[0], line + "\n") if old else page + line + "\n"
        PAGE.write_text(page)
    assert line in page


#: Each line a message of a server or model: [its answer, its content or all of it].
REPLIES = Path(__file__).with_name("replies.jsonl")


def test_an_answer_is_read_wherever_it_stands() -> None:
    for line in REPLIES.read_text("utf-8").splitlines():
        answer, said = json.loads(line)
        message = {"content": said} if isinstance(said, str) else said
        content = {"choices": [{"message": message, "finish_reason": "stop"}]}
        reply = reply_in(content, "llm", Request("m", ask("x")), Capabilities())
        assert reply.text == answer, line


CALLED = {"name": "reply", "arguments": {"name": "blue"}}


def test_a_form_may_be_filled_in_by_a_call_and_come_in_pieces(
    serve: Serve, connect: Connect
) -> None:
    server = serve(reply=lambda body: answered(body, {"content": None, "function_call": CALLED}))
    model = connect(server).model("m")
    assert model.complete(ask("x"), schema=Colour).value == Colour("blue")
    parts: list[Any] = [{"choices": [{"delta": {"content": text}}]} for text in ("re", ["d"])]
    parts.append({"choices": [{"text": "no", "index": 1}]})
    parts.append({"usage": {"prompt_tokens": "7", "total_tokens": 9.0}})
    stream = b"".join(b"data: %s\n\n" % json.dumps(part).encode() for part in parts)
    assert not json_of(stream)["choices"]  # it broke off
    stream = b": WORKING\n\nevent: message\n" + stream + b"data: [DONE]\n"
    server.behaviour.reply = lambda body: (200, stream, {})
    reply = model.complete(ask("y"))
    assert (reply.text, reply.usage) == ("red", Usage(1, 7, 0, 2))


#: Names of fields, and values, of which any response may be made.
FIELDS = re.findall(r"\w+", """choices message delta content text type reasoning tool_calls function
    function_call name arguments usage prompt_tokens total_tokens prompt_tokens_details error errors
    cached_tokens code status base_resp detail finish_reason refusal value summary thought data meta
    id n_ctx""")  # fmt: skip
VALUES = (None, True, 0, -1, 1.5, 10**30, "", "blue", "429", "<think>a", "</think>b", '{"a": 1}')


def response_of(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.random() + (depth > 4)
    if kind > 0.7:
        return chance.choice(VALUES)
    if kind > 0.5:
        return [response_of(chance, depth + 1) for _ in range(chance.randint(0, 3))]
    names = chance.sample(FIELDS, 4)
    return {name: response_of(chance, depth + 1) for name in names}


def test_whatever_comes_is_a_call_or_a_fault() -> None:
    for seed in range(1000):
        chance = random.Random(seed)
        content: Any = {"choices": [{"message": response_of(chance)}], "usage": response_of(chance)}
        content = chance.choice([content, response_of(chance)])
        context_in(content, "m")
        refusal(chance.choice([200, 400, 429, 500]), content, {})
        with suppress(Fault):
            reply_in(content, "llm", Request("m", ask("x")), Capabilities())
        with suppress(Fault):
            json_of(f"data: {json.dumps(content)}\n\n".encode())


#: What may be left out of a request, the widest first.
LEFT_OUT = ("chat", "structured", *(one.name for one in fields(Capabilities)))
#: Each line the message of a server: [the remedy, or what is left out; status; message or body].
REFUSALS = Path(__file__).with_name("refusals.jsonl")


def test_what_a_refusal_means_is_read_from_its_words() -> None:
    all_ = Capabilities()
    for line in REFUSALS.read_text("utf-8").splitlines():
        meaning, status, body = json.loads(line)
        fault = refusal(status, {"error": {"message": body}} if isinstance(body, str) else body, {})
        weaker = all_.without(fault.message) if fault.message else None
        left_out = weaker and next(n for n in LEFT_OUT if getattr(weaker, n) != getattr(all_, n))
        assert (left_out or fault.kind) == meaning, line


@pytest.mark.parametrize(
    ("kind", "content"),
    [("context", {"choices": [], "error": {"code": 400, "message": "maximum context length is 9"}}),
     ("stop", {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}),
     ("rejected", {"code": 1301, "msg": "content flagged by policy"}),
     ("again", {"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}),
     ("again", {"choices": [{"finish_reason": "error", "message": {"content": "half"}}]}),
     ("rejected", {"choices": [{"finish_reason": "SAFETY", "message": {"content": ""}}]}),
     ("stop", {"error": "Unexpected endpoint or method. (POST /chat/completions)"}),
     ("again", {"object": "error", "message": "Internal error", "code": 50001})],
)  # fmt: skip
def test_a_success_that_holds_an_error_is_one(kind: str, content: dict[str, Any]) -> None:
    with pytest.raises(Fault) as caught:
        reply_in(content, "llm", Request("m", ask("x")), Capabilities())
    assert caught.value.kind == kind


@pytest.mark.parametrize("bound", [16, 60, 512])
@pytest.mark.parametrize("shown", [True, False])
def test_a_model_that_thinks_gets_room(
    bound: int, shown: bool, serve: Serve, connect: Connect
) -> None:
    def reply(body: dict[str, Any]) -> Response:
        done = body.get("max_tokens", 10**6) > 300 or is_probe(body)
        _, content, _ = answered(body, {"content": "blue" if done else None})
        content["choices"][0]["finish_reason"] = "stop" if done else "length"
        content["choices"][0]["message"]["reasoning_content"] = "word " * 240 if shown else None
        content["usage"]["completion_tokens"] = 301
        return 200, content, {}

    server = serve(reply=reply)
    model = connect(server).model("m")
    assert model.complete(ask("x"), max_tokens=bound).text == "blue"
    before = len(server.bodies)
    assert model.complete(ask("y"), max_tokens=bound).text == "blue"
    assert len(server.bodies) == before + 1
    assert server.bodies[-1]["max_tokens"] >= 1024 + bound


@pytest.mark.parametrize("reason", ["length", "max_output_tokens", "content_filter"])
def test_a_cut_reply_is_asked_for_once_more_and_paid_twice(
    reason: str, serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    def reply(body: dict[str, Any]) -> Response:
        whole = body.get("max_tokens", 10**6) > 60
        _, content, _ = answered(body, {"content": "go to fridge 1" if whole else "go to fr"})
        content["choices"][0]["finish_reason"] = "stop" if whole else reason
        return 200, content, {}

    client = connect(serve(reply=reply), directory=tmp_path)
    completion = client.model("m").complete(ask("x"), max_tokens=20)
    assert (completion.text, completion.cut, completion.usage.calls) == ("go to fridge 1", False, 2)
    assert sum(a.usage.calls for a in client.meter.accounts()) == sum(
        call.usage.calls for call in read_calls(tmp_path)
    )


def test_a_run_of_empty_replies_stops_with_the_remedy(serve: Serve, connect: Connect) -> None:
    server = serve(reply=lambda body: answered(body, {"content": None, "reasoning": "So"}))
    model = connect(server).model("m")
    assert [model.complete(ask(str(n)), max_tokens=9).cut for n in range(2)] == [True, True]
    with pytest.raises(ModelUnavailable, match="3 of 3 replies of m are unusable: empty, cut off"):
        model.complete(ask("3"), max_tokens=9)


def test_a_model_without_chat_is_asked_to_complete(serve: Serve, connect: Connect) -> None:
    def reply(body: dict[str, Any]) -> Response:
        if "messages" in body:
            return error(404, "This is not a chat model and thus not supported in the "
                         "v1/chat/completions endpoint.")  # fmt: skip
        return 200, {"choices": [{"text": '{"name": "red"}', "finish_reason": "stop"}]}, {}

    server = serve(reply=reply)
    assert connect(server).model("m").complete(ask("x"), schema=Colour).value == Colour("red")
    assert "System: Be brief." in server.bodies[-1]["prompt"]


def test_a_prompt_refused_by_moderation_ends_no_run(serve: Serve, connect: Connect) -> None:
    flagged = error(403, "m requires moderation. Your input was flagged for violence")
    model = connect(serve(reply=lambda b: flagged if "bad" in str(b) else None)).model("m")
    for number in range(4):
        with pytest.raises(ModelError, match="flagged"):
            model.complete(ask(f"bad {number}"))
    assert model.complete(ask("good")).text


CANARY = "sk-canary-4711-0815-token"
SPENT = "You exceeded your current quota, please check your plan (insufficient_quota)"
#: Responses that are wrong in some way, all with the key in them.
WRONG: dict[str, Response] = {
    **{f"HTTP {status}": error(status, f"no {CANARY}")
       for status in (400, 401, 402, 403, 404, 405, 408, 409, 413, 422, 425, 429, 500, 501, 502,
                      503, 504, 529)},
    **{f"body {n}": (status, body, {}) for status in (200, 500) for n, body in enumerate((
        b"", b"[]", b"null", b"{", b"\xff\xfe", b"<html>no</html>", b"[" * 9000,
        b'{"choices": 1}', b'{"choices": [null]}', b'{"error": "no"}'))},
    "no message": (200, {"choices": [{}]}, {}),
    "numbers": (200, {"choices": [{"message": {"content": 7}}]}, {}),
    "error choice": (200, {"choices": [{"error": {"code": 502, "message": CANARY}}]}, {}),
    "error list": (400, {"errors": [{"message": CANARY, "code": 7003}]}, {}),
    "detail": (422, {"detail": CANARY}, {}), "plain": (400, CANARY.encode(), {}),
    "spent": error(429, f"{SPENT} {CANARY}"), "moderated": error(400, f"flagged {CANARY}"),
    "bomb": (200, gzip.compress(b" " * 2**25), {"Content-Encoding": "gzip"}),
    "not gzip": (200, b"plain", {"Content-Encoding": "gzip"}),
    "usage": (200, {"choices": [{"message": {"content": CANARY}}], "usage": {"prompt_tokens": -1}},
              {}),
    "half": (200, b'{"choices": [{"message": {"content": "half \\ud83d"}}]}', {}),
    "parts": (200, {"choices": [{"message": {"content": [None, {"type": "text"}, [1]]}}]}, {}),
    "head": (200, {"choices": []}, {"X": "a" * 200_000}),
    "moved": (307, {}, {"Location": f"https://127.0.0.1:9/{CANARY}"}),
}  # fmt: skip
QUICK = RetryPolicy(attempts=2, first=0.001, longest=0.002)


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_is_named_and_shows_no_key(
    name: str, serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve()
    client = connect(server, directory=tmp_path, key=CANARY, retry=QUICK, probed="m")
    server.behaviour.reply = lambda body: WRONG[name]
    try:
        outcome = client.model("m").complete(ask("x")).text
    except LdmError as problem:
        outcome = f"{problem} {problem.remedy}"
    files = "".join(path.read_text() for path in tmp_path.iterdir())
    assert CANARY not in outcome + files
    assert len(WRONG) >= 43


@pytest.mark.parametrize("limits", [{"calls": 60}, {"tokens": 8000}, {"usd": 0.02}], ids=repr)
@pytest.mark.parametrize("mode", ["honest", "cut", "500", "truncated", "hang", "empty", "long"])
def test_no_limit_is_exceeded(
    mode: str, limits: dict[str, Any], serve: Serve, connect: Connect
) -> None:
    server = serve(latency=0.002, hang=0.6)
    allowed = CostLimits(**limits)
    client = connect(server, limits=allowed, answer_tokens=100, timeout=0.3, retry=HASTY)
    client.capabilities("gpt-4o")
    if mode == "empty":
        server.behaviour.reply = lambda body: answered(body, {"content": None})
    elif mode == "long":
        server.behaviour.reply = unfinished
    elif mode != "honest":
        server.behaviour.rates = {mode: 0.5}

    def one(number: int) -> str:
        try:
            return client.model("gpt-4o").complete(ask(f"{number}")).text
        except LdmError as problem:
            return type(problem).__name__

    with ThreadPoolExecutor(32) as pool:
        outcomes = list(pool.map(one, range(600)))
    prompts = sum(len(json.dumps(body["messages"])) // 4 for body in server.bodies)
    long = [body for body in server.bodies if mode == "long" and not is_probe(body)]
    replies = 3 * len(server.bodies) + sum(body.get("max_tokens", 0) for body in long)
    assert len(server.bodies) <= (allowed.calls or 10**6)
    assert prompts + replies <= (allowed.tokens or 10**6)
    assert prompts / 2 * 3.75e-6 + replies * 1e-5 <= (allowed.usd or 10**6)
    assert mode in ("empty", "long") or BudgetSpent.__name__ in outcomes


def unfinished(body: dict[str, Any]) -> Response:
    _, content, _ = answered(body, {"content": "an endless line"})
    content["choices"][0]["finish_reason"] = "length"
    content["usage"]["completion_tokens"] = body.get("max_tokens", 100)
    return 200, content, {}


def test_what_was_billed_without_a_use_counts_after_a_resume(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve(reply=lambda body: (500, {}, {}) if "fails" in str(body) else unfinished(body))
    client = connect(server, directory=tmp_path, retry=QUICK)
    with pytest.raises(ModelError):
        client.model("m").complete(ask("fails"))
    assert client.model("m").complete(ask("x")).cut
    sent = len(server.bodies)
    again = connect(server, directory=tmp_path, limits=CostLimits(calls=sent + 1))
    assert again.model("m").complete(ask("x")).usage.calls == 2
    assert len(server.bodies) == sent
    with pytest.raises(BudgetSpent, match=f"{sent + 1} model calls"):
        again.model("m").complete(ask("y"))
    assert len(server.bodies) == sent + 1


def test_a_redirection_is_named_and_not_followed(serve: Serve, connect: Connect) -> None:
    other = serve()
    moved = serve(reply=lambda body: (307, {}, {"Location": f"{other.url}/chat/completions?x"}))
    with pytest.raises(ModelUnavailable, match=f"HTTP 307 leads to {other.url}/chat/completions,"):
        connect(moved, key=CANARY).model("m").complete(ask("x"))
    assert not other.bodies


def test_a_head_that_never_ends_is_given_up(serve: Serve, connect: Connect) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            for _ in range(100):
                try:
                    connection.sendall(b"a")
                except OSError:
                    return
                time.sleep(0.05)

    threading.Thread(target=drip, daemon=True).start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    client = connect(serve(), url=url, timeout=0.4, retry=RetryPolicy(attempts=1))
    with pytest.raises(LdmError, match=r"no complete answer within 0\.4 s"):
        client.model("m").complete(ask("x"))
    listener.close()


def test_a_socks_proxy_stops_only_what_needs_it(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    assert connect(server).model("m").complete(ask("x")).text
    monkeypatch.delenv("NO_PROXY")
    for proxy in ("socks5://127.0.0.1:1080", "ftp://127.0.0.1"):
        monkeypatch.setenv("ALL_PROXY", proxy)
        with pytest.raises(LdmError, match="SOCKS proxy, or"):
            connect(server)
