"""A memory in Chroma: what is published, what anybody finds there, and what a server recalls."""

import os
import runpy
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import chromadb
import numpy as np
import pytest

from ldm import text
from ldm.errors import LdmError, MemoryLocked, MemoryStoreError
from ldm.memory import Memory, chroma, inspect, places, record
from ldm.memory.chroma import differences, publish
from ldm.memory.lessons import Contents
from ldm.memory.packs import export_pack, import_pack
from ldm.servers import ServerMemory, known_generations, load
from ldm.types import Outcome
from tests.conftest import CHECKOUT
from tests.embedder import BagOfWords
from tests.http import Handler, listening
from tests.memory.conftest import Places
from tests.memory.servers import Servers, free_port
from tests.memory.stored import content_of

EMBEDDER = BagOfWords()
TOKEN = "s3cret-t0ken"


def recorded(contents: Contents, number: int, **changes: Any) -> Contents:
    """The contents as generation `number`, with its digest."""
    return contents.made(replace(contents.generation, number=number, **changes))


@pytest.fixture(scope="package")
def formed(toy: Path) -> Contents:
    return inspect(str(toy), "toy")


@pytest.fixture(scope="package")
def varied(formed: Contents) -> Contents:
    """The next generation: long texts, and all outcomes."""
    first, second = formed.rows[0], formed.rows[1]
    long = "\n".join(f"line {i}: a pear and a “plum”" for i in range(90))
    new = [
        replace(first.tuple, step=40, observation=long, trajectory_id="x", outcome=None),
        replace(first.tuple, step=41, trajectory_id="x", outcome=Outcome(0.4, 0.4)),
        replace(second.tuple, trajectory_id="y", outcome=Outcome(0.0, -1.0)),
        replace(
            second.tuple, trajectory_id="z", action="a: b\naction: c", outcome=Outcome(0.0, 0.0)
        ),
    ]
    rows = [replace(first, tuple=replace(one, generation=1)) for one in new]
    extended = formed.extended(rows, EMBEDDER)
    hidden = tuple(sorted(row.tuple.id for row in (formed.rows[5], formed.rows[6])))
    return recorded(extended, 1, hidden=hidden, origin="refined")


def published(contents: Contents, target: str, **options: Any) -> str:
    publish(contents, target, **options)
    return target


def served(contents: Contents, server: str, generation: int | None = None) -> ServerMemory:
    return ServerMemory(published(contents, server), "toy", EMBEDDER, generation)


def states(contents: Contents) -> list[tuple[str, str]]:
    rows = [row.tuple for row in contents.rows]
    return [(one.goal, one.observation) for one in rows] + [("wash the moon", "It is night.")]


@pytest.mark.process
def test_a_forked_process_does_not_hang_in_chroma(formed: Contents, tmp_path: Path) -> None:
    published(formed, str(tmp_path / "chroma"))
    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            publish(formed, str(tmp_path / "other"))
        except MemoryStoreError as error:
            os._exit(7 if "forked" in error.message else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


class TestPublished:
    @pytest.mark.process
    def test_reads_back_whole(self, server: str, varied: Contents, formed: Contents) -> None:
        target = published(varied, server)
        read = load(target, "toy")
        assert [*read.rows] == [*varied.rows]
        one, other = (x.rows.vectors_of(slice(None)) for x in (read, varied))
        assert np.array_equal(one, other)
        assert (read.batches, read.kinds) == (varied.batches, varied.trained())
        assert [*load(target, "toy", 0).rows] == [*formed.rows]
        assert known_generations(target) == {"toy": (formed.generation, varied.generation)}
        assert differences(varied, target) == []

    @pytest.mark.process
    def test_recalls_what_the_files_recall(self, server: str, varied: Contents) -> None:
        files, memory = Memory(varied, EMBEDDER), served(varied, server)
        excluded = [varied.rows[0].tuple.id], ["x"]
        for one, other in ((files, memory), (files.without(*excluded), memory.without(*excluded))):
            for goal, observation in states(varied)[::3]:
                for k in (1, 5, 30):
                    recalls = other.retrieve(goal, observation, k)
                    assert recalls == one.retrieve(goal, observation, k)
        batch, rows = varied.batches[0].id, [row.tuple for row in varied.rows][:9]
        assert memory.place(batch, rows) == files.place(batch, rows)
        assert memory.rules() == files.rules()
        assert memory.actions_of(rows[0].trajectory_id) == files.actions_of(rows[0].trajectory_id)
        assert (len(memory), memory.record) == (len(files), files.record)
        assert {one.id for one in memory.sample(7, 1)} == {one.id for one in memory.sample(7, 1)}
        assert len(memory.sample(999, 1)) == varied.generation.recallable
        memory.close()

    @pytest.mark.process
    def test_an_earlier_generation_is_recalled(
        self, server: str, varied: Contents, formed: Contents
    ) -> None:
        files, memory = Memory(formed, EMBEDDER), served(varied, server, 0)
        for goal, observation in states(varied)[::5]:
            assert memory.retrieve(goal, observation) == files.retrieve(goal, observation)
        memory.close()
        with pytest.raises(MemoryStoreError, match="has no generation 7"):
            served(varied, server, 7)

    def test_any_client_finds_the_same_in_a_cell(self, at: Places, varied: Contents) -> None:
        target = published(varied, at())
        memory = Memory(varied, EMBEDDER)
        client: Any
        if target.startswith("http"):
            client = chromadb.HttpClient(port=int(target.rpartition(":")[2]))
        else:
            client = chromadb.PersistentClient(target)
        rows, types = (client.get_collection(f"ldm.toy.{part}") for part in ("tuples", "types"))
        for goal, observation in states(varied)[::4]:
            best = memory.retrieve(goal, observation, 1, batches=["fetch-1"])[0]
            cell = ("batch", "goal_type", "observation_type")
            where = {"$and": [{name: getattr(best, name)} for name in cell]}
            vector = np.concatenate(EMBEDDER.embed([goal, observation]))
            found = rows.query(query_embeddings=[vector], n_results=1, where=where)
            assert 1 - found["distances"][0][0] / 4 == pytest.approx(best.similarity, abs=1e-5)
            (row,) = found["metadatas"][0]
            (type_row,) = types.get(where={"type": row["observation_type_id"]})["metadatas"]
            assert type_row["name"] == row["observation_type"] == best.observation_type
        chroma.close_client(client)

    def test_rows_say_what_to_filter_by(self, varied: Contents, tmp_path: Path) -> None:
        target = published(varied, str(tmp_path / "chroma"))
        by_trajectory = {
            row.metadata["trajectory"]: row.metadata for row in stored_rows(target, "tuples")
        }
        again = by_trajectory["y"]
        assert (again["tried"], again["succeeded"], again["failed"]) == (2, 1, 1)
        assert (again["warning"], again["success"], again["score"]) == (True, False, 0.0)
        assert (again["kind"], again["generation"]) == ("fetch", 1)
        assert (
            "score"
            not in {row.metadata["step"]: row for row in stored_rows(target, "tuples")}[40].metadata
        )

    def test_only_what_changed_is_written(
        self, at: Places, formed: Contents, varied: Contents, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        target = published(formed, at())
        written: list[str] = []
        put = chroma.put_rows

        def counted(collection: Any, rows: Any) -> None:
            if collection.name.endswith("tuples"):
                written.extend(row.id for row in rows)
            put(collection, rows)

        monkeypatch.setattr(chroma, "put_rows", counted)
        published(varied, target)
        new = {one.id for one in varied.rows.tuples if one.generation}
        assert new < {*written}
        assert len(written) < len(varied.rows) / 2  # equal texts, and trajectories with hidden ones
        assert differences(varied, target) == []
        published(formed, target)  # a rollback
        assert differences(formed, target) == []

    def test_an_interrupted_one_goes_on(
        self, at: Places, varied: Contents, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(chroma, "WRITE_ROWS", 20)

        def interrupting(stage: str, done: int, total: int) -> None:
            if done > 30:
                raise KeyboardInterrupt

        target = at()
        with pytest.raises(KeyboardInterrupt):
            publish(varied, target, interrupting)
        assert known_generations(target) == {}
        published(varied, target)
        assert differences(varied, target) == []

    def test_nothing_is_left_of_what_was_purged(self, formed: Contents, tmp_path: Path) -> None:
        gone = formed.rows[0].tuple
        left = formed.rows.columns["trajectory_id"] != formed.rows.columns["trajectory_id"][0]
        secret = replace(formed.rows[0], tuple=replace(gone, observation="the code is 81937"))
        kept = recorded(replace(formed, rows=formed.rows.take(left)), 0)
        with_secret = recorded(kept.extended([secret], EMBEDDER), 0)
        target = tmp_path / "chroma"
        published(with_secret, str(target))
        assert b"81937" in content_of(target)
        published(kept, str(target))
        assert b"81937" not in content_of(target)
        assert [path.name for path in tmp_path.iterdir()] == ["chroma"]

    def test_the_other_environments_are_published_again(
        self, formed: Contents, tmp_path: Path
    ) -> None:
        place, target = str(tmp_path / "memory"), str(tmp_path / "chroma")
        named = replace(formed.generation, env="other")
        with record.writing(place):
            record.commit(place, replace(formed, generations=(named,)))
        published(formed, target, memory=place)
        assert [differences(one, target) for one in (formed, inspect(place, "other"))] == [[], []]


def stored_rows(target: str, part: str) -> list[chroma.Row]:
    with chroma.Store(target, "toy") as store:
        return [*store.rows(part)]


DIFFERENCES: dict[str, Callable[[Any, Any], object]] = {
    "1 rows of tuples are missing": lambda rows, _: rows.delete(ids=rows.get(limit=1)["ids"]),
    "1 rows of tuples are changed": lambda rows, _: rows.update(
        rows.get(limit=1)["ids"], metadatas=[{"action": "other"}]
    ),
    "1 rows of tuples are changed, such as": lambda rows, _: rows.update(
        rows.get(limit=1)["ids"], embeddings=[[0.5] * 48]
    ),
    "1 rows of tuples are extra": lambda rows, _: rows.add(
        ["x"], [[0.5] * 48], [{"a": 1}], ["text"]
    ),
    "is not published": lambda _, log: log.delete(ids=["newest:000000"]),
}


@pytest.mark.parametrize("message", DIFFERENCES)
def test_a_difference_is_found_and_mended(message: str, formed: Contents, tmp_path: Path) -> None:
    target = published(formed, str(tmp_path / "chroma"))
    with chroma.Store(target, "toy") as store:
        DIFFERENCES[message](store.collection("tuples"), store.collection("records"))
    assert message in " ".join(differences(formed, target))
    published(formed, target, anew=True)
    assert differences(formed, target) == []


def _link(place: Path) -> None:
    (place / "0a8a8a8a-0a8a-0a8a-0a8a-0a8a8a8a8a8a").symlink_to(place.parent / "mine")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "garbage": lambda place: (place / "chroma.sqlite3").write_bytes(b"garbage" * 999),
    "half": lambda place: os.truncate(place / "chroma.sqlite3", 9000),
    "empty": lambda place: os.truncate(place / "chroma.sqlite3", 0),
    "pipe": lambda place: os.mkfifo(place / "chroma.sqlite3-journal"),
    "link": _link,
    "gone": lambda place: (place / "chroma.sqlite3").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_directory_is_published_again(
    damage: str, formed: Contents, varied: Contents, tmp_path: Path
) -> None:
    mine, place = tmp_path / "mine", tmp_path / "chroma"
    mine.mkdir()
    (mine / "text").write_text("precious")
    published(formed, str(place))
    DAMAGES[damage](place)
    assert differences(formed, str(place))
    published(varied, str(place))
    assert differences(varied, str(place)) == []
    assert (mine / "text").read_text() == "precious"


def test_a_directory_with_other_files_or_a_link_is_refused(
    formed: Contents, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "text").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    for name, message in (("mine", "holds other files"), ("link", "not a directory of its own")):
        with pytest.raises(MemoryStoreError, match=message):
            publish(formed, str(tmp_path / name), anew=True)
    assert os.listdir(tmp_path / "mine") == ["text"]


@pytest.mark.process
class TestAMemoryOnAServer:
    def test_grows_by_generations(self, server: str, formed: Contents, varied: Contents) -> None:
        with places.writing(server):
            places.commit(server, formed)
            places.commit(server, varied)
            with pytest.raises(MemoryStoreError, match="has changed meanwhile"):
                places.commit(server, varied)
        assert [*load(server, "toy").rows] == [*varied.rows]
        assert differences(varied, server) == []

    def test_takes_a_pack_of_several_generations(
        self, server: str, varied: Contents, tmp_path: Path
    ) -> None:
        place, pack = str(tmp_path / "memory"), tmp_path / "toy.ldmpack"
        with record.writing(place):
            record.commit(place, varied)
        export_pack(place, "toy", pack)
        assert import_pack(server, pack) == ("toy", len(varied.rows))
        assert known_generations(server) == {"toy": varied.generations}

    def test_has_one_writer_at_a_time(
        self, server: str, formed: Contents, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with places.writing(server):
            with (
                pytest.raises(MemoryLocked, match=f"process {os.getpid()}"),
                places.writing(server),
            ):
                pass
            monkeypatch.setattr("ldm.servers.STALE", -1.0)  # that of a process that was killed
            with places.writing(server):
                places.commit(server, formed)
            # The end of the lock that was taken over is no error.
        assert known_generations(server) == {"toy": (formed.generation,)}


class Answering(Handler):
    """Gives one answer to everything, and keeps the tokens."""

    reply = 401, b""
    tokens: ClassVar[list[str]] = []

    def respond(self) -> None:
        self.tokens.extend(value for value in self.headers.values() if TOKEN in value)
        self.answer(*self.reply)


BEAT = b'{"nanosecond heartbeat": 1}'


@pytest.mark.parametrize("token", [False, True])
@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, b"", "refuses to let us in .HTTP 401"),
        (401, b"<html>login</html>", "refuses to let us in .HTTP 401"),
        (403, b'{"error":"ChromaAuthError","message":"no"}', "refuses to let us in .HTTP 403"),
        (502, b"<html>bad gateway</html>", "answers with HTTP 502"),
        (200, b"<html>welcome</html>", "not that of a Chroma server"),
        (200, BEAT, "cannot be used"),
    ],
)
def test_what_a_server_answers_is_said(
    status: int, body: bytes, message: str, token: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    Answering.tokens.clear()
    monkeypatch.setattr(Answering, "reply", (status, body))
    if token:
        provider = "chromadb.auth.token_authn.TokenAuthClientProvider"
        monkeypatch.setenv("CHROMA_CLIENT_AUTH_PROVIDER", provider)
        monkeypatch.setenv("CHROMA_CLIENT_AUTH_CREDENTIALS", TOKEN)
    with listening(Answering) as place:
        for trusted in (False, True):
            (text.trust if trusted else text.distrust)(f"http://{place}")
            with pytest.raises(MemoryStoreError, match=message) as raised:
                ServerMemory(f"http://{place}", "toy", EMBEDDER)
            assert raised.value.remedy
            assert TOKEN not in str(raised.value)
            assert trusted or not Answering.tokens
    if token and status in (401, 403):
        assert Answering.tokens


def test_code_that_a_server_names_is_not_run(formed: Contents, tmp_path: Path) -> None:
    named = recorded(formed, 0, embedder="planted:Embedder")
    target = published(named, str(tmp_path / "chroma"))
    with pytest.raises(LdmError, match="would run its code"):
        ServerMemory(target, "toy")


def test_a_server_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ldm.servers.PAUSE", 0.001)
    with pytest.raises(MemoryStoreError, match="does not answer"):
        ServerMemory(f"http://127.0.0.1:{free_port()}", "toy", EMBEDDER)


@pytest.mark.process
@pytest.mark.slow
def test_a_server_that_dies_is_said(
    formed: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ldm.servers.PAUSE", 0.001)
    servers = Servers(tmp_path)
    address = published(formed, servers.address("0"))
    memory = ServerMemory(address, "toy", EMBEDDER)
    assert memory.retrieve(*states(formed)[0])
    servers.stop()
    with pytest.raises(MemoryStoreError, match="does not answer"):
        memory.retrieve(*states(formed)[40])
    memory.close()


def test_the_example_searches_with_the_client_alone(
    varied: Contents,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = published(varied, str(tmp_path / "chroma"))
    goal, observation = states(varied)[0]
    script = str(CHECKOUT / "docs" / "examples" / "search_with_chroma.py")
    monkeypatch.setattr(sys, "argv", [script, target, "toy", goal, observation])
    monkeypatch.setattr("ldm.embed.load_embedder", lambda _: EMBEDDER)
    runpy.run_path(script)
    (best,) = Memory(varied, EMBEDDER).retrieve(goal, observation, 1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[0].startswith(f"{best.similarity:.3f}  {best.goal_type}  {goal}")
