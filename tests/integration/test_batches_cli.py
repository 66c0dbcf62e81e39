"""A memory formed in batches, from the command line: the same bytes, submitted once, resumable."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ldm
from ldm import records
from ldm.llm.calls import Call
from ldm.llm.client import Client
from ldm.llm.service import Connection
from ldm.types import stable_hash
from tests.cli.conftest import Run
from tests.cli.transcript import run_command
from tests.embedder import BagOfWords
from tests.integration import forks
from tests.integration.test_prompted_cli import reply
from tests.llm.batch_server import Batching, BatchServer
from tests.llm.server import Behaviour
from tests.toy import ToyOptions, expert_trajectories

MODEL = ("--reasoner-llm", "scripted")
BUILD = ("build-memory", "data", *MODEL)
BATCHED = (*BUILD, "--batch-api")
CALLS = Path(".ldm/memory/calls")
KEY = "sk-planted-0123456789"
EPISODES = expert_trajectories(options=ToyOptions(tasks=9, shelves=8))


def stumbling(body: dict[str, Any]) -> str:
    """As `reply`, but some first replies fit no form."""
    if len(body["messages"]) < 4 and int(stable_hash(body["messages"], length=4), 16) % 3 == 0:
        return "No idea." if "Greet me" not in body["messages"][-1]["content"] else reply(body)
    return reply(body)


def prepare(patch: pytest.MonkeyPatch, place: Path) -> None:
    patch.chdir(place)
    patch.setattr("ldm.embed.load_embedder", lambda name: BagOfWords(name or "bag-of-words"))
    patch.setattr("ldm.llm.client.RetryPolicy.first", 0.01)
    records.write(place / "data" / "train.jsonl", EPISODES)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    prepare(monkeypatch, tmp_path)
    return tmp_path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    with BatchServer(Behaviour(answer=stumbling), Batching(seed=3)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


@dataclass(frozen=True)
class Directly:
    """A memory formed without batches: as a file, its calls, and what was said of its replies."""

    exported: bytes
    calls: dict[str, tuple[object, ...]]
    malformed: list[str]


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Directly:
    place = tmp_path_factory.mktemp("direct")
    with BatchServer(Behaviour(answer=stumbling)) as server, pytest.MonkeyPatch.context() as patch:
        prepare(patch, place)
        patch.setenv("OPENAI_BASE_URL", server.url)
        outcome = run_command(*BUILD)
        assert outcome.code == 0, outcome.err
        assert not server.seen
        assert run_command("memory", "export", "out.jsonl").code == 0
    malformed = re.findall("Malformed replies: .*", outcome.err)
    return Directly((place / "out.jsonl").read_bytes(), recorded(place / CALLS), malformed)


def exported(run: Run) -> bytes:
    """The memory as a file."""
    assert run("memory", "export", "out.jsonl").code == 0
    return Path("out.jsonl").read_bytes()


def recorded(folder: Path = CALLS) -> dict[str, tuple[object, ...]]:
    calls = [c for c in records.read(folder / "llm.jsonl", Call) if c.role != "probe"]
    assert len({call.key for call in calls}) == len(calls)
    return {c.key: (c.role, c.request, c.text, c.finish, c.usage, c.mode, c.error) for c in calls}


def body_counts(server: BatchServer) -> Counter[str]:
    """How often each request was sent, in batches and directly."""
    return Counter(stable_hash(body) for body in (*server.submitted, *server.bodies))


@pytest.mark.slow
def test_is_the_memory_formed_directly(
    run: Run, server: BatchServer, place: Path, direct: Directly
) -> None:
    outcome = run(*BATCHED)
    assert outcome.code == 0, outcome.err
    assert len(server.batches) > 2  # a stage each
    assert len(server.submitted) > 20  # the last stages are too small
    assert max(body_counts(server).values()) == 1
    assert "Submitted batch batch_1 of" in outcome.err
    assert re.findall("Malformed replies: .*", outcome.err) == direct.malformed
    assert exported(run) == direct.exported
    assert recorded() == direct.calls
    assert not (CALLS / "batches").exists()


def test_in_the_papers_way_takes_one_batch_for_all_histories(
    run: Run, server: BatchServer, place: Path
) -> None:
    server.behaviour.answer = reply
    outcome = run(*BATCHED, "--formation", "paper")
    assert outcome.code == 0, outcome.err
    assert len(server.batches) == 1
    assert len(server.submitted) > 100


@pytest.mark.slow
def test_what_failed_or_expired_is_asked_for_directly(
    run: Run, server: BatchServer, place: Path, direct: Directly
) -> None:
    def chance(body: dict[str, Any]) -> int:
        return int(stable_hash(body, length=4), 16) % 4

    server.batching.failing = lambda body: chance(body) == 0
    server.batching.expiring = lambda body: chance(body) == 1
    outcome = run(*BATCHED)
    assert outcome.code == 0, outcome.err
    assert "left to be made directly" in outcome.err
    left = [body for body in server.submitted if chance(body) < 2]
    assert left
    assert all(body in server.bodies for body in left)
    assert exported(run) == direct.exported


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_batches_is_named_before_anything_is_sent(
    run: Run, place: Path, server: BatchServer, status: int
) -> None:
    server.batching.absent = status
    outcome = run(*BATCHED)
    assert outcome.code == 1
    assert "takes no batches" in outcome.err
    assert "Leave out --batch-api" in outcome.err
    assert not server.bodies
    assert not server.uploads
    assert not (place / ".ldm").exists()


@pytest.mark.slow
def test_a_cancelled_batch_stops_the_build_and_keeps_its_replies(
    run: Run, server: BatchServer, place: Path, direct: Directly
) -> None:
    server.batching.status = "cancelled"
    server.batching.expiring = lambda body: int(stable_hash(body, length=2), 16) % 2 == 0
    outcome = run(*BATCHED)
    assert outcome.code != 0
    assert "Batch batch_1 was cancelled at the server" in outcome.err
    replies = len(recorded())
    assert 0 < replies < len(server.submitted)
    server.batching = Batching()
    assert run(*BATCHED).code == 0
    assert max(Counter(map(stable_hash, server.submitted)).values()) == 2  # those without a reply
    assert len(server.submitted) - len({*map(stable_hash, server.submitted)}) < 14 - replies
    assert exported(run) == direct.exported


def test_a_batch_that_failed_as_a_whole_is_an_error_with_the_servers_words(
    run: Run, place: Path, server: BatchServer
) -> None:
    server.batching.status = "failed"
    outcome = run(*BATCHED)
    assert outcome.code != 0
    assert "Too many token_limit_exceeded" in outcome.err
    assert "Leave out --batch-api" in outcome.err


def test_a_refused_batch_is_not_waited_for(run: Run, place: Path, server: BatchServer) -> None:
    server.batching.refused = "this model takes no batches"
    outcome = run(*BATCHED)
    assert outcome.code != 0
    assert "this model takes no batches" in outcome.err
    assert not list(CALLS.glob("batches/*"))


@pytest.mark.parametrize(
    "limit", [("--max-calls", "8"), ("--max-tokens", "5000"), ("--max-usd", "0.01")]
)
def test_a_batch_that_could_exceed_a_limit_is_not_submitted(
    run: Run, place: Path, server: BatchServer, limit: tuple[str, str]
) -> None:
    Path("prices.json").write_text(json.dumps({"models": {"scripted": [1, 1, 1]}}))
    outcome = run(*BATCHED, *limit, "--prices", "prices.json")
    assert outcome.code != 0
    assert limit[0] in outcome.err
    assert not server.uploads
    assert not server.batches
    assert not list(CALLS.glob("batches/*"))


class TestResuming:
    @pytest.mark.process
    @pytest.mark.parametrize(
        "moment",
        [
            "POST /v1/files",
            "POST /v1/batches",
            "POST /v1/batches done",
            "GET /v1/batches/batch_1",
            "GET /v1/files/output-batch_2/content done",
        ],
    )
    def test_after_a_kill_submits_and_pays_nothing_twice(
        self, run: Run, server: BatchServer, place: Path, direct: Directly, moment: str
    ) -> None:
        killed: list[str] = []

        def kill(request: str) -> bool:
            if request != moment or killed:
                return False
            killed.append(request)
            process.kill()
            return True

        server.hook = kill
        environment = {**os.environ, "PYTHONSAFEPATH": "1"}
        with forks.started((forks.FORKED, *BATCHED), environment) as process:
            assert process.wait(timeout=60) != 0
        assert killed
        outcome = run(*BATCHED)
        assert outcome.code == 0, outcome.err
        assert max(Counter(map(stable_hash, server.submitted)).values()) == 1
        assert (
            max(
                Counter(stable_hash(b) for b in server.bodies if "Greet" not in str(b)).values(),
                default=1,
            )
            == 1
        )
        assert not (CALLS / "batches").exists()
        assert exported(run) == direct.exported

    @pytest.mark.parametrize("calls", [1, 12])
    def test_while_replies_are_recorded_goes_on_with_the_others(
        self,
        run: Run,
        server: BatchServer,
        place: Path,
        direct: Directly,
        monkeypatch: pytest.MonkeyPatch,
        calls: int,
    ) -> None:
        taken = 0
        take = Client.take

        def stop(self: Client, call: Call) -> None:
            nonlocal taken
            taken += 1
            if taken > calls:
                raise KeyboardInterrupt
            take(self, call)

        with monkeypatch.context() as patch:
            patch.setattr(Client, "take", stop)
            assert run(*BATCHED).code != 0
        assert len(recorded()) == calls
        assert run(*BATCHED).code == 0
        assert max(Counter(map(stable_hash, server.submitted)).values()) == 1
        assert exported(run) == direct.exported

    def test_after_ctrl_c_waits_for_the_same_batch(
        self,
        run: Run,
        server: BatchServer,
        place: Path,
        direct: Directly,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        server.batching.looks = 1

        def stop(self: Client, seconds: float) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Client, "pause", stop)
            outcome = run(*BATCHED)
        assert "Run the same command again" in outcome.err
        assert "It goes on at the server" in outcome.err
        without = run(*BUILD)
        assert without.code == 1
        assert "Add --batch-api to read it" in without.err
        assert "Add --batch-api to read it" in run(*BUILD, "--estimate").err
        server.batching.looks = 0
        outcome = run(*BATCHED)
        assert outcome.code == 0, outcome.err
        assert "Resuming batch batch_1 of" in outcome.err
        assert max(Counter(map(stable_hash, server.submitted)).values()) == 1
        assert exported(run) == direct.exported

    def test_at_another_server_is_refused(
        self, run: Run, place: Path, server: BatchServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(
                Client, "take", lambda self, call: (_ for _ in ()).throw(KeyboardInterrupt)
            )
            assert run(*BATCHED).code != 0
        with BatchServer(server.behaviour) as another:
            monkeypatch.setenv("OPENAI_BASE_URL", another.url)
            outcome = run(*BATCHED)
            assert outcome.code == 1
            assert f"were submitted to {server.url}" in outcome.err
            assert not another.uploads


def drop_first(server: BatchServer, moment: str) -> None:
    """Let the server lose its first answer to a request about a batch that there is."""
    dropped: list[str] = []

    def drop(request: str) -> bool:
        if request != moment or dropped or not server.batches:
            return False
        dropped.append(request)
        return True

    server.hook = drop


def test_a_batch_whose_making_went_unheard_is_found_at_the_server(
    run: Run, server: BatchServer, place: Path, direct: Directly
) -> None:
    drop_first(server, "POST /v1/batches done")
    outcome = run(*BATCHED)
    assert outcome.code == 0, outcome.err
    assert max(Counter(map(stable_hash, server.submitted)).values()) == 1
    assert exported(run) == direct.exported


@pytest.mark.slow
def test_where_no_batches_are_listed_an_unheard_one_is_left_to_the_user(
    run: Run, place: Path, server: BatchServer
) -> None:
    server.batching.lists = False
    drop_first(server, "POST /v1/batches done")
    for _ in range(2):
        outcome = run(*BATCHED)
        assert outcome.code == 1
        assert "does not list its batches" in outcome.err
        assert len(server.batches) == 1
    (file,) = CALLS.glob("batches/*.json")
    assert file.name in "".join(outcome.err.split())
    file.unlink()
    assert run(*BATCHED).code == 0


@pytest.mark.slow
def test_a_key_enters_no_file(
    run: Run, place: Path, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.batching.error = {"error": {"message": f"wrong key {KEY}"}}
    server.batching.error_status = 400
    server.batching.failing = lambda body: int(stable_hash(body, length=2), 16) % 2 == 0
    with monkeypatch.context() as patch:
        patch.setattr(Client, "take", lambda self, call: (_ for _ in ()).throw(KeyboardInterrupt))
        screens = run(*BATCHED).err
    assert list(CALLS.glob("batches/*.json"))
    everywhere = [path.read_bytes() for path in place.rglob("*") if path.is_file()]
    screens += run(*BATCHED).err
    server.batching.refused = f"wrong key {KEY}"
    screens += run(*BATCHED, "--memory", "another").err
    everywhere += [path.read_bytes() for path in place.rglob("*") if path.is_file()]
    assert "[key]" in screens
    assert KEY not in screens
    assert not [content for content in everywhere if KEY.encode() in content]


def test_needs_a_model_a_recording_and_no_replay(
    run: Run, place: Path, server: BatchServer
) -> None:
    assert "no model is named" in run("build-memory", "data", "--batch-api").err
    assert run(*BATCHED).code == 0
    assert "no folder for that" in run(*BATCHED, "--memory", "http://127.0.0.1:9").err
    replayed = run(*BATCHED, "--memory", "again", "--replay", CALLS)
    assert "a replay sends none" in replayed.err


def test_is_an_option_from_python_as_well(
    run: Run, server: BatchServer, place: Path, direct: Directly
) -> None:
    ldm.build_memory(
        "data",
        options=ldm.BuildOptions(batch_api=True),
        models=ldm.ModelOptions(reasoner_llm="scripted"),
        runtime=ldm.Runtime(server=Connection(server.url)),
    )
    assert server.batches
    assert exported(run) == direct.exported
