"""A memory on a Chroma server: its lock, its token, its failures, its cache."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from ldm.memory.access import writing
from ldm.memory.store import Store

from ldm.errors import MemoryStoreError
from ldm.memory import Memory, build, chroma, environments, generations, hide, inspect, locks
from ldm.memory.addresses import is_server
from ldm.memory.exchange import export
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.memory.servers import free_port
from tests.toy import ToyOptions, expert_trajectories

TOKEN = "s3cret-t0ken"


class Proxy(BaseHTTPRequestHandler):
    """Passes requests on to a server; may drop connections, and may demand a token."""

    protocol_version = "HTTP/1.1"
    target = ""
    dropped = 0
    token = ""

    def _pass_on(self) -> None:
        kind = type(self)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if kind.dropped > 0:
            kind.dropped -= 1
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, reply = 401, b'{"error":"Unauthorized","message":"unauthorized"}'
        if not kind.token or self.headers.get("Authorization") == f"Bearer {kind.token}":
            with closing(HTTPConnection(urlsplit(kind.target).netloc)) as connection:
                headers = {"Content-Type": "application/json"}
                connection.request(self.command, self.path, body, headers)
                response = connection.getresponse()
                status, reply = response.status, response.read()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_GET = do_POST = do_PUT = do_DELETE = _pass_on  # noqa: N815 - names of the library

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def proxy(server: str) -> Iterator[tuple[str, type[Proxy]]]:
    handler = type("Handler", (Proxy,), {"target": server})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        listening.daemon_threads = True
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}", handler
        listening.shutdown()
        thread.join()


@pytest.fixture
def fresh(server: str) -> str:
    """The server with a memory of twelve episodes."""
    build(server, expert_trajectories(), BagOfWords(), OfflineReasoner, rebuild=True)
    return server


class TestLock:
    def test_a_second_writer_is_refused_by_name_and_age(self, fresh: str) -> None:
        with writing(fresh), pytest.raises(MemoryStoreError, match=r"process \d+ on .*, for \d+ s"):
            build(fresh, expert_trajectories(), BagOfWords(), OfflineReasoner, rebuild=True)
        assert environments(fresh) == ("toy",)
        with writing(fresh):
            pass  # it was given back

    def test_a_silent_writer_is_overtaken_and_completes_nothing(
        self, fresh: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        generation = generations(fresh, "toy")[0]
        monkeypatch.setattr(locks, "HEARTBEAT", 1000.0)
        monkeypatch.setattr(locks, "SILENCE", -1.0)
        with writing(fresh) as silent:
            with writing(fresh) as second:
                later = replace(generation, number=1)
                with pytest.raises(MemoryStoreError, match="taken over"):
                    silent.commit(later)
                second.commit(replace(later, origin="pruned"))
            with pytest.raises(MemoryStoreError, match="taken over"):
                silent.drop("toy")
        assert [g.origin for g in generations(fresh, "toy")] == ["formed", "pruned"]

    def test_a_writer_shows_that_it_lives(
        self, fresh: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(locks, "HEARTBEAT", 0.05)
        with writing(fresh) as held:
            assert held.lock is not None
            [first] = held.lock._locks().values()
            for _ in range(300):
                threading.Event().wait(0.1)
                [now] = held.lock._locks().values()
                if now["beat"] > first["beat"]:
                    break
            assert now["beat"] > first["beat"]
            assert now["id"] == first["id"]

    @pytest.mark.process
    def test_two_clients_adding_at_once_lose_nothing(self, fresh: str, tmp_path: Path) -> None:
        code = (
            "import sys, time\n"
            "from tests.memory.test_server import *\n"
            "more = expert_trajectories(options=ToyOptions(tasks=28))[12:]\n"
            "mine = more[int(sys.argv[2]) :: 2]\n"
            "for refused in range(2000):\n"
            "    try:\n"
            "        built = build(sys.argv[1], mine, BagOfWords(), OfflineReasoner)\n"
            "        break\n"
            "    except MemoryStoreError as error:\n"
            "        assert 'is writing' in error.message, error\n"
            "        time.sleep(0.05)\n"
            "assert built.trajectories == len(mine)\n"
        )
        clients = [
            subprocess.Popen([sys.executable, "-c", code, fresh, str(one)]) for one in (0, 1)
        ]
        assert [client.wait(120) for client in clients] == [0, 0]
        assert [g.number for g in generations(fresh, "toy")] == [0, 1, 2]
        known = inspect(fresh, "toy").rows.columns.distinct("trajectory_id").values()
        everything = expert_trajectories(options=ToyOptions(tasks=28))
        assert {*known} == {t.id for t in everything}


class TestNetwork:
    def test_dropped_connections_are_tried_again(
        self, fresh: str, proxy: tuple[str, type[Proxy]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(chroma, "PAUSE", 0.001)
        location, handler = proxy
        with writing(location) as opened:
            handler.dropped = chroma.REQUESTS - 1
            assert [*opened.complete()] == ["toy"]
            assert handler.dropped == 0
            handler.dropped = 1_000
            with pytest.raises(MemoryStoreError, match="does not answer"):
                opened.complete()
            assert handler.dropped == 1_000 - chroma.REQUESTS
            handler.dropped = 0
        assert inspect(location, "toy").rows == inspect(fresh, "toy").rows

    @pytest.mark.slow
    def test_a_token_is_demanded_and_sent(
        self, fresh: str, proxy: tuple[str, type[Proxy]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        location, handler = proxy
        handler.token = TOKEN
        with pytest.raises(MemoryStoreError, match="does not let us in") as refused:
            environments(location)
        assert "CHROMA_CLIENT_AUTH_CREDENTIALS" in refused.value.remedy
        provider = "chromadb.auth.token_authn.TokenAuthClientProvider"
        monkeypatch.setenv("CHROMA_CLIENT_AUTH_PROVIDER", provider)
        monkeypatch.setenv("CHROMA_CLIENT_AUTH_CREDENTIALS", "another")
        with pytest.raises(MemoryStoreError, match="does not let us in") as refused:
            environments(location)
        assert "another" not in str(refused.value)
        monkeypatch.setenv("CHROMA_CLIENT_AUTH_CREDENTIALS", TOKEN)
        assert environments(location) == ("toy",)
        rows = inspect(location, "toy").rows
        hide(location, generations(location, "toy")[-1], [rows[0].tuple.id], settings={})
        assert len(inspect(fresh, "toy").recallable()) == len(rows) - 1

    def test_a_server_that_never_answers_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(chroma, "ANSWER", 0.2)
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            for port in (silent.getsockname()[1], free_port()):
                with pytest.raises(MemoryStoreError, match="does not answer") as refused:
                    environments(f"http://127.0.0.1:{port}")
                assert "chroma run" in refused.value.remedy


class TestCache:
    @pytest.mark.slow
    def test_it_is_read_as_long_as_the_server_holds_the_same(
        self, fresh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = inspect(fresh, "toy").rows
        made = []
        monkeypatch.setattr(Store, "load", lambda *_: made.append(1))
        assert inspect(fresh, "toy").rows == before
        assert not made
        monkeypatch.undo()
        more = expert_trajectories(options=ToyOptions(tasks=20))
        build(fresh, more[8:], BagOfWords(), OfflineReasoner, rebuild=True)
        after = Memory.open(fresh, "toy", embedder=BagOfWords())
        known = after.rows.columns.distinct("trajectory_id").values()
        assert {*known} == {t.id for t in more[8:]}
        export(fresh, "toy", tmp_path / "server.jsonl")
        build(str(tmp_path / "m"), more[8:], BagOfWords(), OfflineReasoner)
        export(str(tmp_path / "m"), "toy", tmp_path / "directory.jsonl")
        texts = [(tmp_path / f"{name}.jsonl").read_bytes() for name in ("server", "directory")]
        assert texts[0] == texts[1]


def test_the_address_of_a_server_has_no_path() -> None:
    assert is_server("http://localhost:8000/")
    with pytest.raises(MemoryStoreError, match="has a path, /api") as refused:
        is_server("http://localhost:8000/api")
    assert "http://localhost:8000." in refused.value.remedy
