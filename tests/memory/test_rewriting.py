"""Rewriting a memory keeps what is to stay, and removes the rest from the disk."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldm.errors import MemoryStoreError
from ldm.memory import Memory, generations, hide, inspect, rewriting, snapshot
from ldm.memory.exchange import export
from ldm.memory.rewriting import compact, is_outdated, purge
from ldm.memory.store import reading
from tests.embedder import BagOfWords
from tests.stored.make import unpack

STORED = Path(__file__).parents[1] / "stored" / "v0_1"


@pytest.fixture
def copy(toy: Path, tmp_path: Path) -> Path:
    return shutil.copytree(toy, tmp_path / "memory")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A memory that version 0.1 made."""
    unpack(STORED, tmp_path)
    return tmp_path / ".ldm" / "memory"


def bytes_below(place: Path) -> bytes:
    return b"".join(p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file())


class TestCompacting:
    def test_changes_nothing_but_the_space(self, old: Path, tmp_path: Path) -> None:
        for number in (0, 1):
            export(str(old), "toy", tmp_path / f"before{number}.jsonl", number)
        vectors = inspect(str(old), "toy").vectors[:]
        assert is_outdated(str(old))
        done = compact(str(old))
        assert not is_outdated(str(old))
        assert done.tuples == {"toy": len(vectors)}
        assert done.after < done.before
        shutil.rmtree(old / snapshot.SNAPSHOTS)
        for number in (0, 1):
            export(str(old), "toy", tmp_path / f"after{number}.jsonl", number)
            before, after = (tmp_path / f"{when}{number}.jsonl" for when in ("before", "after"))
            assert before.read_bytes() == after.read_bytes()
        assert np.array_equal(inspect(str(old), "toy").vectors[:], vectors)

    @pytest.mark.parametrize("stage", ["_write", "_replace"])
    def test_an_interrupted_one_loses_nothing(
        self, stage: str, old: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = tuple(inspect(str(old), "toy").rows)

        def stopped(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(rewriting, stage, stopped)
            with pytest.raises(KeyboardInterrupt):
                compact(str(old))
        with reading(str(old)) as store:
            assert store.load("toy").rows == before
        compact(str(old))
        assert not (old / rewriting.NEW).exists()
        with reading(str(old)) as store:
            assert store.load("toy").rows == before

    def test_a_database_that_holds_something_else_does_not_take_its_place(
        self, old: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        new = str(old / rewriting.NEW)
        snapshot.write(new, inspect(str(old), "toy"))
        snapshot.publish(new, {"toy": generations(str(old), "toy")}, ())
        monkeypatch.setattr(rewriting, "_same_vectors", lambda *_: False)
        with pytest.raises(MemoryStoreError, match="differs from what was to be written"):
            rewriting.main(new)

    def test_what_a_killed_one_left_is_removed_by_the_next_opening(
        self, copy: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = inspect(str(copy), "toy").rows[0].tuple
        ids = [
            row.tuple.id
            for row in inspect(str(copy), "toy").rows
            if row.tuple.trajectory_id == one.trajectory_id
        ]
        with monkeypatch.context() as patched:  # killed once the new database is in its place
            publish = snapshot.publish

            def killed(location: str, *rest: Any) -> None:
                if location == str(copy):
                    raise KeyboardInterrupt
                publish(location, *rest)

            patched.setattr(snapshot, "publish", killed)
            with pytest.raises(KeyboardInterrupt):
                purge(str(copy), "toy", ids)
        assert one.trajectory_id.encode() in bytes_below(copy)  # in the snapshot before
        assert one.id not in inspect(str(copy), "toy").rows.columns.ids
        assert one.trajectory_id.encode() not in bytes_below(copy)

    def test_a_server_keeps_its_files_itself(self) -> None:
        with pytest.raises(MemoryStoreError, match="is a server"):
            compact("http://localhost:8000")


class TestPurging:
    def test_leaves_no_trace_on_the_disk(self, copy: Path) -> None:
        rows = inspect(str(copy), "toy").rows
        trajectory = rows[0].tuple.trajectory_id
        named = [row for row in rows if row.tuple.trajectory_id == trajectory]
        (copy / "calls").mkdir()
        (copy / "calls" / "llm.jsonl").write_text(trajectory)
        assert trajectory.encode() in bytes_below(copy)
        purge(str(copy), "toy", [row.tuple.id for row in named])
        assert trajectory.encode() not in bytes_below(copy)
        left = inspect(str(copy), "toy")
        assert [row.tuple.id for row in left.rows] == [
            row.tuple.id for row in rows if row not in named
        ]
        assert len(Memory.open(str(copy), "toy", embedder=BagOfWords()).retrieve("put", "fig")) == 5

    def test_nor_in_what_a_generation_says_of_those_it_forgot(self, copy: Path) -> None:
        base = inspect(str(copy), "toy")
        trajectory = base.rows[0].tuple.trajectory_id
        named = [r.tuple.id for r in base.rows if r.tuple.trajectory_id == trajectory]
        others = [r.tuple.id for r in base.rows if r.tuple.trajectory_id != trajectory]
        settings = {"trajectories": trajectory}
        forgotten = hide(str(copy), base.generation, named, settings=settings, origin="forgotten")
        later = {"trajectories": "another"}
        hide(str(copy), forgotten, others[:1], settings=later, origin="forgotten")
        purge(str(copy), "toy", named)
        assert trajectory.encode() not in bytes_below(copy)
        assert generations(str(copy), "toy")[-1].settings == later

    def test_removes_types_and_batches_that_held_nothing_else(self, copy: Path) -> None:
        before = inspect(str(copy), "toy")
        cell = before.rows[0].cell
        ids = [row.tuple.id for row in before.rows if row.cell == cell]
        purge(str(copy), "toy", ids)
        after = inspect(str(copy), "toy")
        count = sum(len(g.observation_types) for b in after.batches for g in b.goal_types)
        assert (
            count == sum(len(g.observation_types) for b in before.batches for g in b.goal_types) - 1
        )
        batch = before.batches[0].id
        ids = [row.tuple.id for row in after.rows if row.batch == batch]
        purge(str(copy), "toy", ids)
        assert batch not in {b.id for b in inspect(str(copy), "toy").batches}
        with reading(str(copy)) as store:
            assert store.load("toy").rows == inspect(str(copy), "toy").rows

    def test_reaches_all_generations(self, copy: Path) -> None:
        contents = inspect(str(copy), "toy")
        first, second = (contents.rows[i].tuple.id for i in (0, 1))
        hide(str(copy), contents.generation, [first, second], settings={})
        purge(str(copy), "toy", [first])
        present = generations(str(copy), "toy")
        assert present[-1].hidden == (second,)
        for generation in present:
            with reading(str(copy)) as store:
                held = store.load("toy", generation.number)
            assert first not in held.rows.columns.ids
            assert second in held.rows.columns.ids

    def test_the_last_tuples_stay(self, copy: Path) -> None:
        ids = list(inspect(str(copy), "toy").rows.columns.ids)
        with pytest.raises(MemoryStoreError, match="without any tuple"):
            purge(str(copy), "toy", ids)
        assert len(inspect(str(copy), "toy").rows) == len(ids)
