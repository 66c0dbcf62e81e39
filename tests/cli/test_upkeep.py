"""`ldm memory verify`, `forget` and `fold`, and packs."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ldm
from ldm import records
from ldm.embed.caching import CachingEmbedder, VectorFile
from ldm.memory import build, chroma, generations, inspect, record, rollback
from ldm.reason.offline import OfflineReasoner
from ldm.types import Trajectory
from tests.cli.conftest import run
from tests.embedder import BagOfWords, Counting
from tests.memory.stored import content_of
from tests.toy import expert_trajectories


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("ldm.embed.load_embedder", lambda name=None: BagOfWords())
    build(str(tmp_path / "memory"), expert_trajectories(), BagOfWords(), OfflineReasoner)
    return str(tmp_path / "memory")


def recalled(place: str) -> set[str]:
    return {*inspect(place, "toy").recallable.ids}


def others_texts(trajectories: list[Trajectory]) -> set[str]:
    """The texts whose vectors a memory of these trajectories holds."""
    observations = {step.observation for one in trajectories for step in one.steps}
    return observations | {text for one in trajectories for text in (one.task.goal, one.opening)}


class TestForget:
    def test_a_trajectory_is_no_longer_recalled_until_it_is_rolled_back(self, place: str) -> None:
        rows = inspect(place, "toy").rows
        one = rows[0].tuple.trajectory_id
        gone = {row.tuple.id for row in rows if row.tuple.trajectory_id == one}
        before = recalled(place)
        reply = run("memory", "forget", "--memory", place, "--trajectories", one, "--json")
        assert {*json.loads(reply.out)["forgotten"]} == gone
        assert recalled(place) == before - gone
        newest = generations(place, "toy")[-1]
        assert (newest.origin, newest.settings) == ("forgotten", {"episode": one})
        assert (
            "nothing was changed"
            in run("memory", "forget", "--memory", place, "--trajectories", one).out
        )
        rollback(place, "toy", 0)
        assert recalled(place) == before

    def test_all_that_is_given_has_to_fit(self, place: str) -> None:
        one = inspect(place, "toy").rows[0].tuple
        command = ("memory", "forget", "--memory", place, "--tasks", one.task_id)
        other = next(r.tuple for r in inspect(place, "toy").rows if r.tuple.source != one.source)
        reply = run(*command, "--sources", other.source, "--json")
        assert json.loads(reply.out)["forgotten"] == []
        reply = run(*command, "--origin", one.origin, "--sources", one.source, "--json")
        assert len(json.loads(reply.out)["forgotten"]) > 0

    @pytest.mark.slow
    def test_a_file_names_its_trajectories(
        self, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        run(
            *("memory", "forget", "--memory", place, "--purge", "--json"),
            *("--sources", str(tmp_path / "session.jsonl")),
        ).done()
        remaining = inspect(place, "toy").rows.distinct("trajectory_id").values()
        assert not {t.id for t in chosen} & {*remaining}
        left_over = content_of(place) + content_of(str(tmp_path / "cache"))
        assert not [one for one in (*gone, *gone_vectors) if one in left_over]
        records.write(tmp_path / "other.jsonl", chosen)
        run(
            "memory", "forget", "--memory", place, "--sources", str(tmp_path / "other.jsonl")
        ).refused("none of the 3 trajectories")


class TestVerify:
    def test_a_sound_memory(self, place: str) -> None:
        reply = run("memory", "verify", "--memory", place)
        assert (reply.code, reply.out) == (0, "toy: sound\n")

    def test_vectors_of_other_texts_are_noticed(self, place: str) -> None:
        contents = inspect(place, "toy")
        rolled = replace(contents.rows, vectors=np.roll(contents.rows.vectors, 1, axis=0))
        contents = replace(contents, rows=rolled)
        with record.writing(place):
            record.commit(place, contents)
        reply = run("memory", "verify", "--memory", place, "--json").refused()
        problems = json.loads(reply.out)["problems"]["toy"]
        assert any("is not the embedder's" in problem for problem in problems)

    @pytest.mark.usefixtures("published")
    def test_what_chroma_lacks_is_noticed_and_published_again(self, place: str) -> None:
        def checked(command: str) -> int:
            return run("memory", command, "--memory", place).code

        build(place, expert_trajectories("test"), BagOfWords(), OfflineReasoner)
        assert checked("verify") == 0
        shutil.rmtree(chroma.beside(place))
        assert [checked(one) for one in ("verify", "publish", "verify")] == [1, 0, 0]
        with chroma.Store(chroma.beside(place), "toy") as store:
            tuples = store.collection("tuples")
            tuples.delete(ids=tuples.get(limit=1)["ids"])
        assert [checked(one) for one in ("verify", "publish", "verify")] == [1, 0, 0]
        rollback(place, "toy", 0)
        assert checked("verify") == 0


def test_packs_leave_and_enter_without_an_embedder(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack, other = str(tmp_path / "m.ldmpack"), str(tmp_path / "other")
    reply = run("memory", "export", pack, "--memory", place)
    assert (reply.code, f"tuples → {pack}" in reply.out) == (0, True)
    monkeypatch.delattr("ldm.embed.load_embedder")
    run("memory", "import", pack, "--memory", other).done()
    assert [*inspect(other, "toy").rows] == [*inspect(place, "toy").rows]
    Path(pack).write_bytes(Path(pack).read_bytes()[:-30] + bytes(30))
    run("memory", "import", pack, "--memory", str(tmp_path / "third")).refused()
    assert not (tmp_path / "third").exists()


class TestFold:
    @pytest.fixture(autouse=True)
    def here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    @pytest.mark.usefixtures("folds_here")
    def test_pending_additions_become_a_generation(self) -> None:
        memory = ldm.Memory.open("mine", "desk", create=True)
        for score in (1, 0):
            with memory.record("answer the letter") as episode:
                episode.step("A letter lies there.", f"answer {score}")
                episode.finish(score)
        refused = run("memory", "show", "--memory", "mine").refused()
        assert "Make one with `ldm memory fold`" in " ".join(refused.err.split())
        folded = run("memory", "fold", "--memory", "mine")
        assert (folded.code, folded.out) == (0, "desk: 2 trajectories → generation 0.\n")
        (made,) = generations("mine", "desk")
        assert made.tuples == 2
        again = run("memory", "fold", "--memory", "mine")
        assert again.out == "mine has no pending additions.\n"
        assert json.loads(run("memory", "fold", "--memory", "mine", "--json").out) == {}
