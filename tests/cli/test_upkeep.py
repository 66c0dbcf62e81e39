"""`ldm memory verify`, `compact`, `migrate` and `forget`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ldm import records
from ldm.embed.caching import CachingEmbedder
from ldm.embed.disk import VectorFile
from ldm.memory import build, generations, inspect, rollback, snapshot
from ldm.memory.access import open_store
from ldm.reason.offline import OfflineReasoner
from ldm.types import Trajectory
from tests.cli.conftest import Run
from tests.embedder import BagOfWords, Counting
from tests.stored.make import unpack
from tests.toy import ToyOptions, expert_trajectories

STORED = Path(__file__).parents[1] / "stored" / "v0_1"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("ldm.embed.load_embedder", lambda name=None: BagOfWords())
    build(str(tmp_path / "memory"), expert_trajectories(), BagOfWords(), OfflineReasoner)
    return str(tmp_path / "memory")


def recalled(place: str) -> set[str]:
    return {*inspect(place, "toy").recallable()}


def content_of(place: str) -> bytes:
    return b"".join(p.read_bytes() for p in Path(place).rglob("*") if p.is_file())


def others_texts(trajectories: list[Trajectory]) -> set[str]:
    """The texts whose vectors a memory of these trajectories holds."""
    observations = {step.observation for one in trajectories for step in one.steps}
    return observations | {text for one in trajectories for text in (one.task.goal, one.opening)}


class TestForget:
    def test_a_trajectory_is_no_longer_recalled_until_it_is_rolled_back(
        self, run: Run, place: str
    ) -> None:
        rows = inspect(place, "toy").rows
        one = rows[0].tuple.trajectory_id
        gone = {row.tuple.id for row in rows if row.tuple.trajectory_id == one}
        before = recalled(place)
        reply = run("memory", "forget", "--memory", place, "--trajectory", one, "--json")
        assert {*json.loads(reply.out)["forgotten"]} == gone
        assert recalled(place) == before - gone
        newest = generations(place, "toy")[-1]
        assert (newest.origin, newest.settings) == ("forgotten", {"trajectories": one})
        again = run("memory", "forget", "--memory", place, "--trajectory", one)
        assert "nothing was changed" in again.out
        rollback(place, "toy", 0)
        assert recalled(place) == before

    def test_all_that_is_given_has_to_fit(self, run: Run, place: str) -> None:
        one = inspect(place, "toy").rows[0].tuple
        command = ("memory", "forget", "--memory", place, "--task", one.task_id)
        reply = run(*command, "--before", "0", "--json")
        assert json.loads(reply.out)["forgotten"] == []
        reply = run(*command, "--origin", one.origin, "--source", one.source, "--json")
        assert len(json.loads(reply.out)["forgotten"]) > 0

    @pytest.mark.slow
    def test_a_file_names_its_trajectories(
        self, run: Run, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        cached = tmp_path / "cache" / "ldm" / "embeddings"
        chosen, others = expert_trajectories()[:3], expert_trajectories()[3:]
        left = records.dumps(others)
        texts = {t.id for t in chosen} | {s.observation for t in chosen for s in t.steps}
        gone = [text.encode() for text in texts if text not in left]
        assert len(gone) > len(chosen)
        listed = sorted(texts - {t.id for t in chosen} - {""})
        vectors = CachingEmbedder(Counting(), VectorFile(cached, Counting())).embed(listed)
        others_vectors = {one.tobytes() for one in BagOfWords().embed([*others_texts(others)])}
        gone_vectors = [v for v in map(np.ndarray.tobytes, vectors) if v not in others_vectors]
        assert len(gone_vectors) > len(chosen)
        records.write(tmp_path / "session.jsonl", chosen)
        for kind, where in ((gone, place), (gone_vectors, place), (gone_vectors, str(cached))):
            assert any(one in content_of(where) for one in kind)
        reply = run(
            *("memory", "forget", "--memory", place, "--purge", "--json"),
            *("--source", str(tmp_path / "session.jsonl")),
        )
        assert reply.code == 0
        remaining = inspect(place, "toy").rows.columns.distinct("trajectory_id").values()
        assert not {t.id for t in chosen} & {*remaining}
        left_over = content_of(place) + content_of(str(tmp_path / "cache"))
        assert not [one for one in (*gone, *gone_vectors) if one in left_over]
        records.write(tmp_path / "other.jsonl", chosen)
        reply = run(
            "memory", "forget", "--memory", place, "--source", str(tmp_path / "other.jsonl")
        )
        assert reply.code == 1
        assert "none of the 3 trajectories" in reply.err

    def test_unknown_names_and_nothing_at_all_are_refused(self, run: Run, place: str) -> None:
        reply = run("memory", "forget", "--memory", place, "--trajectory", "xyz")
        assert reply.code == 1
        assert "holds no tuple of the trajectory 'xyz'" in reply.err
        reply = run("memory", "forget", "--memory", place)
        assert reply.code == 1
        assert "--trajectory" in reply.err


class TestVerify:
    def test_a_sound_memory(self, run: Run, place: str) -> None:
        reply = run("memory", "verify", "--memory", place)
        assert (reply.code, reply.out) == (0, "toy: sound\n")

    def test_vectors_of_other_texts_are_noticed(self, run: Run, place: str) -> None:
        with open_store(place) as store:
            vectors = store._collection("toy", "vectors")
            names = vectors.get(include=[])["ids"][:1]
            dimension = generations(place, "toy")[-1].dimension
            wrong = np.full((1, dimension), dimension**-0.5, np.float32)
            vectors.update(ids=names, embeddings=wrong)
        reply = run("memory", "verify", "--memory", place, "--texts", "1000", "--json")
        assert reply.code == 1
        problems = json.loads(reply.out)["problems"]["toy"]
        assert any("is damaged" in problem for problem in problems)

    def test_a_snapshot_of_something_else_is_noticed(self, run: Run, place: str) -> None:
        contents = inspect(place, "toy")
        columns = contents.rows.columns
        changed = dict(columns.values)
        changed["reach"] = columns["reach"] + 0.5
        shutil.rmtree(Path(place) / snapshot.SNAPSHOTS)
        rows = type(contents.rows)(
            type(columns)(columns.env, columns.texts, changed, columns.pasts)
        )
        snapshot.write(
            place, type(contents)(contents.generation, contents.batches, rows, contents.vectors)
        )
        reply = run("memory", "verify", "--memory", place, "--texts", "0")
        assert reply.code == 1
        assert "differs from Chroma in the column reach" in reply.out

    def test_what_is_left_over_is_named_and_removed(self, run: Run, place: str) -> None:
        (Path(place) / ".rewriting").mkdir()
        reply = run("memory", "verify", "--memory", place, "--texts", "0")
        assert "left over: .rewriting" in reply.out
        assert run("memory", "compact", "--memory", place).code == 0
        assert run("memory", "verify", "--memory", place, "--texts", "0").code == 0


class TestMigrate:
    @pytest.mark.slow
    def test_makes_an_old_memory_compact_once(self, run: Run, tmp_path: Path) -> None:
        unpack(STORED, tmp_path)
        place = str(tmp_path / ".ldm" / "memory")
        before = recalled(place)
        outcome = run("memory", "show", "--memory", place)
        assert "`ldm memory migrate` makes it smaller" in outcome.err
        reply = run("memory", "migrate", "--memory", place, "--json")
        sizes = json.loads(reply.out)
        assert sizes["bytes_after"] < sizes["bytes_before"]
        assert recalled(place) == before
        assert "compact already" in run("memory", "migrate", "--memory", place).out
        assert "migrate" not in run("memory", "show", "--memory", place).err


class TestPacks:
    def test_leave_and_enter_without_an_embedder(
        self, run: Run, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pack, other = str(tmp_path / "m.ldmpack"), str(tmp_path / "other")
        reply = run("memory", "export", pack, "--memory", place, "--licence", "MIT")
        assert (reply.code, f"tuples → {pack}" in reply.out) == (0, True)
        monkeypatch.delattr("ldm.embed.load_embedder")
        reply = run("memory", "import", pack, "--memory", other)
        assert reply.code == 0
        assert inspect(other, "toy").rows == inspect(place, "toy").rows
        Path(pack).write_bytes(Path(pack).read_bytes()[:-30] + bytes(30))
        reply = run("memory", "import", pack, "--memory", str(tmp_path / "third"))
        assert reply.code == 1
        assert not (tmp_path / "third").exists()


class TestMergeAndDiff:
    @pytest.fixture
    def other(self, tmp_path: Path) -> str:
        place = str(tmp_path / "other")
        episodes = expert_trajectories(options=ToyOptions(tasks=16))
        build(place, episodes[8:], BagOfWords(), OfflineReasoner)
        return place

    def test_two_memories_become_one(
        self, run: Run, place: str, other: str, tmp_path: Path
    ) -> None:
        both, pack = str(tmp_path / "both"), str(tmp_path / "other.ldmpack")
        run("memory", "export", pack, "--memory", other)
        reply = run("memory", "merge", place, pack, "--memory", both, "--json")
        done = json.loads(reply.out)
        assert recalled(both) == recalled(place) | recalled(other)
        assert done["tuples"] == len(recalled(both))
        first, second = done["sources"]
        assert first == {"memory": place, "added": len(recalled(place)), "shared": 0}
        assert second["shared"] == len(recalled(place) & recalled(other))
        reply = run("memory", "merge", place, other, "--memory", both)
        assert reply.code == 1
        assert "has a memory of toy already" in reply.err

    def test_memories_are_compared_wherever_they_are(
        self, run: Run, place: str, other: str, tmp_path: Path
    ) -> None:
        pack = str(tmp_path / "m.ldmpack")
        run("memory", "export", pack, "--memory", place)
        run(
            "memory",
            "forget",
            "--memory",
            place,
            "--task",
            inspect(place, "toy").rows[0].tuple.task_id,
        )
        reply = run("memory", "diff", pack, place, "--json", "--list")
        one = json.loads(reply.out)["toy"]
        assert (one["first"]["generation"], one["second"]["generation"]) == (0, 1)
        gone = {row["tuple"]["trajectory_id"] for row in one["only_first"]}
        counts = one["trajectories"]["fetch"]
        assert (len(gone), counts["only_first"], counts["only_second"]) == (1, 1, 0)
        assert one["only_second"] == one["changed"] == []
        back = json.loads(run("memory", "diff", pack, place, "--generation", "0,0", "--json").out)
        assert sum(counts["same"] for counts in back["toy"]["tuples"].values()) == len(
            inspect(place, "toy").rows
        )
        reply = run("memory", "diff", place, other, "--list", "--limit", "2")
        assert "only A" in reply.out
        assert len([line for line in reply.out.splitlines() if line.startswith("- put")]) == 2
        assert "more (--limit)" in reply.out

    @pytest.mark.parametrize("numbers", ["0", "0,x", "0,1,2", ""])
    def test_generations_are_two(self, run: Run, place: str, numbers: str) -> None:
        reply = run("memory", "diff", place, place, "--generation", numbers)
        assert (reply.code, "two generations" in reply.err) == (1, True)

    def test_what_is_no_memory_is_named(self, run: Run, place: str, tmp_path: Path) -> None:
        reply = run("memory", "diff", place, str(tmp_path / "none.ldmpack"))
        assert (reply.code, "none.ldmpack" in reply.err) == (1, True)
        reply = run("memory", "diff", place, place, "--env", "mars")
        assert (reply.code, "holds a memory of mars" in reply.err) == (1, True)
