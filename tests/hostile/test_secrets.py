"""A planted key, searched for in every file and on every screen after many faulty calls."""

from __future__ import annotations

import base64
import gzip
import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldm import secrecy
from ldm.llm.service import Connection
from ldm.records import dumps, loads
from ldm.types import Note
from tests.cli.conftest import Run, run

__all__ = ["run"]

KEY = "sk-planted-0123456789/+"
PASSWORD = "p@ss:w0rd/4711"
TOKEN = "t0ken-of-the-query-99"
#: What must be found nowhere, whoever spells it how.
FORBIDDEN = (
    KEY, PASSWORD, TOKEN, quote(KEY, safe=""), quote(PASSWORD, safe=""),
    *(base64.b64encode(text.encode()).decode().rstrip("=") for text in (KEY, f"me:{PASSWORD}")),
)  # fmt: skip


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was sent: in the text, in any field, in errors, in headers."""

    draw = random.Random(0)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Quiet."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        secret = self.draw.choice([self.headers.get("authorization", ""), self.path, *FORBIDDEN])
        fault = self.draw.randrange(8)
        usage = {"prompt_tokens": 1, "completion_tokens": 1, secret: secret}
        message = {"role": "assistant", "content": f"{secret} word" if fault % 2 else "word"}
        choice = {"index": 0, "message": message, "finish_reason": secret}
        body: Any = {"id": secret, "model": secret, "choices": [choice], "usage": usage}
        status = 200
        if fault == 0:
            body = {"error": {"message": f"Incorrect key {secret}", "code": secret}}
            status = self.draw.choice([400, 429, 500, 503])
        elif fault == 1:
            body = secret
        elif fault == 2:
            body = {"choices": [], "error": secret}
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def url() -> Iterator[str]:
    Echo.draw = random.Random(0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    place = f"127.0.0.1:{server.server_port}/v1?token={TOKEN}"
    yield f"http://me:{quote(PASSWORD, safe='')}@{place}"
    server.shutdown()
    server.server_close()
    thread.join()


def contents(place: Path) -> Iterator[tuple[Path, bytes]]:
    for path in place.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            yield path, gzip.decompress(content) if path.suffix == ".gz" else content


@pytest.mark.parametrize(
    "calls", [pytest.param(24, id="short"), pytest.param(1000, id="long", marks=pytest.mark.slow)]
)
def test_a_key_is_found_nowhere(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, calls: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("ldm.llm.client.RetryPolicy.first", 0.001)
    monkeypatch.setattr("ldm.llm.client.RetryPolicy.longest", 0.001)
    screens = ""
    asking = ("--agent", "tests.integration.agents:Asking", "--env", "tests.toy:ToyEnv")
    for number in range(max(1, calls // 100)):
        samples = str(min(calls, 90))
        seed = ("--seed", str(number))
        for command in (
            ("llm", "ask", f"{number}", "--llm", "m", "--samples", samples, "--temperature", "1"),
            ("llm", "ask", f"{number}", "--llm", "m", "--record", "asked", "--json"),
            ("eval", *asking, "--llm", "m", "--limit", "3", *seed),
            ("llm", "probe", "--llm", "m"),
            ("doctor", "--llm", "m", "--probe"),
        ):
            outcome = run(*command)
            assert "Error inside ldm" not in outcome.err, outcome.err
            screens += outcome.out + outcome.err
    screens += run("llm", "usage", "asked").out
    assert any(tmp_path.glob("runs/*/*"))
    for forbidden in FORBIDDEN:
        assert forbidden not in screens
        for path, content in contents(tmp_path):
            assert forbidden.encode() not in content, (forbidden, path)


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=16))
def test_whatever_field_it_is_in_a_record_stays_readable_without_it(secret: str) -> None:
    secrecy._spellings = ()
    secrecy.guard(Connection(api_key=secret).secrets())
    note = Note("plan", 0, {"text": f"it is {secret}.", "inner": [secret, {"a": secret}, 1234567]})
    written = dumps(note)
    held = json.dumps(loads(written, Note).data, ensure_ascii=False)
    assert secret not in json.loads(written)["data"]["text"] or secret in "it is [key]."
    assert "1234567" in held


def test_a_secret_of_digits_spoils_no_number() -> None:
    secrecy.guard(["123456"])
    assert loads(dumps(Note("plan", 0, {"n": 0.123456, "t": "123456"})), Note).data == {
        "n": 0.123456,
        "t": "[key]",
    }
