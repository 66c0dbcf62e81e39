"""A planted key, searched for in every file and on every screen after many faulty calls."""

import base64
import gzip
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ldm.text
from ldm.llm.service import Connection
from ldm.memory.packs import export_pack
from ldm.records import dumps, loads, write
from ldm.text import guard
from ldm.types import Note
from tests.cli.conftest import run
from tests.hostile.small import small_memory
from tests.http import Handler, listening
from tests.toy import expert_trajectories

KEY = "sk-planted-0123456789/+"
PASSWORD = "p@ss:w0rd/4711"
TOKEN = "t0ken-of-the-query-99"
#: What must be found nowhere, whoever spells it how.
FORBIDDEN = (
    KEY, PASSWORD, TOKEN, quote(KEY, safe=""), quote(PASSWORD, safe=""),
    *(base64.b64encode(text.encode()).decode().rstrip("=") for text in (KEY, f"me:{PASSWORD}")),
)  # fmt: skip


class Answering(Handler):
    """Answers in JSON. draw: what a handler draws its answers from, the same in every run."""

    draw = random.Random(0)
    calls = 0

    def say(self, status: int, value: Any) -> None:
        type(self).calls += 1
        self.body()
        headers = {"Content_Type": "application/json", "Retry_After": "0"}
        self.answer(status, json.dumps(value).encode(), **headers)


class Echo(Answering):
    """Answers with what it was sent: in the text, in any field, in errors."""

    def respond(self) -> None:
        secret = self.draw.choice([self.headers.get("authorization", ""), self.path, *FORBIDDEN])
        usage = {"prompt_tokens": 1, "completion_tokens": 1, secret: secret}
        fault = self.draw.randrange(8)
        message = {"role": "assistant", "content": f"{secret} word" if fault % 2 else "word"}
        choice = {"index": 0, "message": message, "finish_reason": secret}
        sound = {"id": secret, "model": secret, "choices": [choice], "usage": usage}
        refused = {"error": {"message": f"Incorrect key {secret}", "code": secret}}
        bodies: dict[int, Any] = {0: refused, 1: secret, 2: {"choices": [], "error": secret}}
        status = 200 if fault else self.draw.choice([400, 429, 500, 503])
        self.say(status, bodies.get(fault, sound))


@contextmanager
def drawing(handler: type[Answering]) -> Iterator[str]:
    """Serve answers that are the same in every run."""
    handler.draw, handler.calls = random.Random(0), 0
    with listening(handler) as place:
        yield place


@pytest.fixture
def url() -> Iterator[str]:
    with drawing(Echo) as place:
        yield f"http://me:{quote(PASSWORD, safe='')}@{place}/v1?token={TOKEN}"


def contents(place: Path) -> Iterator[tuple[Path, bytes]]:
    for path in place.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            yield path, gzip.decompress(content) if path.suffix == ".gz" else content


def test_a_key_is_found_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("ldm.llm.client.RetryPolicy.first", 0.001)
    monkeypatch.setattr("ldm.llm.client.RetryPolicy.longest", 0.001)
    screens = ""
    asking = ("--agent", "tests.integration.agents:Asking", "--env", "tests.toy:ToyEnv")
    for number in range(3):
        seed = ("--seed", str(number))
        for command in (
            ("eval", *asking, "--llm", "m", "--limit", "1", "--models.cache", "asked", "--json"),
            ("eval", *asking, "--llm", "m", "--limit", "3", *seed),
            ("doctor", "--llm", "m", "--probe"),
        ):
            outcome = run(*command)
            assert "Error inside ldm" not in outcome.err, outcome.err
            screens += outcome.out + outcome.err
    assert any(tmp_path.glob("runs/*/*"))
    found_nowhere(screens, tmp_path)


class MemoryEcho(Answering):
    """A memory server that answers with what it was sent, in forms that Chroma takes and others."""

    def respond(self) -> None:
        secret = self.draw.choice([self.headers.get("authorization", ""), *FORBIDDEN])
        place = {"tenant": "default_tenant", "database": "default_database"}
        collection = {
            **{"id": "00000000-0000-4000-8000-000000000000", "name": f"ldm.{secret}.records"},
            **{"dimension": 1, "log_position": 0, "version": 0, "configuration_json": {}, **place},
            "metadata": {"ldm": "records", "env": secret, "embedder": secret, "format": 2},
        }
        identity = {
            "user_id": secret,
            "tenant": "default_tenant",
            "databases": ["default_database"],
        }
        rows = {"ids": [secret], "documents": [f'{{"number": 0, "origin": "{secret}"}}']}
        sound: dict[str, Any] = {
            "heartbeat": {"nanosecond heartbeat": 1},
            "identity": identity,
            "default_tenant": {"name": "default_tenant"},
            "default_database": {"id": collection["id"], "name": secret, "tenant": "t"},
            "collections": [collection],
            "get": {**rows, "metadatas": [{"record": secret}], "include": ["documents"]},
            "pre-flight-checks": {"max_batch_size": 1000},
        }
        status, body = 200, sound.get(self.path.partition("?")[0].rpartition("/")[2], collection)
        if self.draw.random() < 0.3:
            status = self.draw.choice([200, 400, 401, 403, 404, 409, 500, 503])
            message = f"{secret} is not known"
            body = self.draw.choice(
                [{"error": secret, "message": message}, message, [secret], {"detail": [secret]}]
            )
        self.say(status, body)


@pytest.fixture
def memory_server() -> Iterator[str]:
    with drawing(MemoryEcho) as place:
        yield place


def found_nowhere(screens: str, place: Path) -> None:
    for forbidden in FORBIDDEN:
        assert forbidden not in screens
        for path, content in contents(place):
            assert forbidden.encode() not in content, (forbidden, path)


#: How memories on servers are named: eval without one does not even ask it.
MEMORY_COMMANDS = (
    "memory show --memory URL",
    "memory show --memory URL --env toy",
    "memory verify --memory URL",
    "memory search goal observation --memory URL --env toy",
    "memory export out.ldmpack --memory URL --env toy",
    "memory rollback 0 --yes --memory URL --env toy",
    "memory import sound.ldmpack --memory URL",
    "build-memory sound.trajectories.jsonl --memory URL",
    "eval --env tests.toy:ToyEnv --agent ldm --memory URL --limit 1",
    "refine --env tests.toy:ToyEnv --memory URL",
    "doctor --memory URL",
)


@pytest.fixture
def sound(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a memory and trajectories; a faulty server is not asked for long."""
    monkeypatch.setattr("ldm.servers.PAUSE", 0.0)
    write(place / "sound.trajectories.jsonl", expert_trajectories()[:4])
    small_memory(place).rename(place / "sound")
    export_pack(str(place / "sound"), "toy", place / "sound.ldmpack")
    return place


@pytest.mark.parametrize("command", MEMORY_COMMANDS)
def test_an_address_with_a_password_is_refused_and_recorded_nowhere(
    sound: Path, memory_server: str, command: str
) -> None:
    screens = ""
    for address in (
        f"http://me:{quote(PASSWORD, safe='')}@{memory_server}",
        f"HTTP://{quote(PASSWORD, safe='')}@{memory_server}",
        f"http://{memory_server}?token={TOKEN}",
    ):
        outcome = run(*command.replace("URL", address).split())
        assert "Error inside ldm" not in outcome.err, outcome.err
        screens += outcome.out + outcome.err
        assert "carries more than host and port" in outcome.out + outcome.err
        assert "CHROMA_CLIENT_AUTH_CREDENTIALS" in outcome.out + outcome.err
    found_nowhere(screens, sound)
    assert MemoryEcho.calls == 0


def test_what_lets_us_into_a_memory_server_is_found_nowhere(
    sound: Path, monkeypatch: pytest.MonkeyPatch, memory_server: str
) -> None:
    screens, number = "", 0
    while MemoryEcho.calls < 60:
        number += 1
        basic = number % 2
        provider = "basic_authn.BasicAuth" if basic else "token_authn.TokenAuth"
        monkeypatch.setenv("CHROMA_CLIENT_AUTH_PROVIDER", f"chromadb.auth.{provider}ClientProvider")
        credentials = f"me:{PASSWORD}" if basic else KEY
        monkeypatch.setenv("CHROMA_CLIENT_AUTH_CREDENTIALS", credentials)
        guard([TOKEN, PASSWORD, KEY])  # the server knows all of them
        command = MEMORY_COMMANDS[number % len(MEMORY_COMMANDS)]
        outcome = run(*command.replace("URL", f"http://{memory_server}").split())
        assert "Error inside ldm" not in outcome.err, outcome.err
        screens += outcome.out + outcome.err
    assert "503" in screens  # what the server says beside that, and echoes, is not shown
    found_nowhere(screens, sound)


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=16))
def test_whatever_field_it_is_in_a_record_stays_readable_without_it(secret: str) -> None:
    ldm.text._spellings = ()
    guard(Connection(api_key=secret).secrets())
    note = Note("plan", 0, {"text": f"it is {secret}.", "inner": [secret, {"a": secret}, 1234567]})
    written = dumps(note)
    held = json.dumps(loads(written, Note).data, ensure_ascii=False)
    assert secret not in json.loads(written)["data"]["text"] or secret in "it is [key]."
    assert "1234567" in held


def test_a_secret_of_digits_spoils_no_number() -> None:
    guard(["123456"])
    assert loads(dumps(Note("plan", 0, {"n": 0.123456, "t": "123456"})), Note).data == {
        "n": 0.123456,
        "t": "[key]",
    }
