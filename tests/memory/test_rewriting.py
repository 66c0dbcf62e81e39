"""Rewriting a memory keeps what is to stay, and removes the rest from the disk."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldm.errors import MemoryStoreError
from ldm.memory import Memory, generations, hide, inspect, rewriting, snapshot, value
from ldm.memory.access import reading
from ldm.memory.contents import kinds_of
from ldm.memory.exchange import export, import_memory
from ldm.memory.rewriting import compact, is_outdated, purge
from ldm.memory.verifying import verify
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


def bare(generation: dict[str, Any]) -> dict[str, Any]:
    """A generation's record without what replaces the digest of version 0.1."""
    raised = ("digest", "kinds_by_count")
    return {name: value for name, value in generation.items() if name not in raised}


def with_another_source(file: Path) -> None:
    """Have the tuples of an exported memory come from somewhere else."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if line.get("tuple"):
            line["tuple"]["tuple"]["source"] = "another"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


class TestTheDigestOfTheFirstVersion:
    @pytest.mark.slow
    def test_gives_way_to_one_that_covers_sources(self, old: Path, tmp_path: Path) -> None:
        file = tmp_path / "a.jsonl"
        export(str(old), "toy", file)
        with_another_source(file)
        assert import_memory(str(tmp_path / "before"), file, BagOfWords())  # it leaves them out
        assert compact(str(old)).raised
        assert not is_outdated(str(old))
        assert all(one.digest.startswith("2:") for one in generations(str(old), "toy"))
        export(str(old), "toy", file)
        with_another_source(file)
        with pytest.raises(MemoryStoreError, match="incomplete or was changed"):
            import_memory(str(tmp_path / "after"), file, BagOfWords())
        assert not compact(str(old)).raised
        assert verify(str(old), "toy") == []

    @pytest.mark.slow
    def test_its_kinds_are_classified_as_before_also_in_later_generations(self, old: Path) -> None:
        def weights() -> object:
            contents = inspect(str(old), "toy")
            columns, hidden = contents.rows.columns, contents.generation.hidden
            return kinds_of(columns, columns.named(hidden), contents.generation)

        contents = inspect(str(old), "toy")
        balanced = replace(contents.generation, digest="")
        before = weights()
        assert before != kinds_of(contents.rows.columns, None, balanced)
        compact(str(old))
        assert weights() == before
        newest = generations(str(old), "toy")[-1]
        assert newest.kinds_by_count
        value(str(old), newest, {contents.rows[0].tuple.id: 0.5}, settings={})
        assert weights() == before

    def test_an_edited_export_taken_as_new_has_none_of_it(self, old: Path, tmp_path: Path) -> None:
        file = tmp_path / "a.jsonl"
        export(str(old), "toy", file)
        made = import_memory(str(tmp_path / "new"), file, BagOfWords(), as_new=True)
        assert (made.is_of_first_version, made.kinds_by_count) == (False, True)

    @pytest.mark.slow
    def test_a_compact_memory_with_it_is_still_to_be_migrated(
        self, old: Path, tmp_path: Path
    ) -> None:
        file = tmp_path / "a.jsonl"
        export(str(old), "toy", file)
        import_memory(str(tmp_path / "new"), file, BagOfWords())
        assert is_outdated(str(tmp_path / "new"))
        assert compact(str(tmp_path / "new")).raised
        assert not is_outdated(str(tmp_path / "new"))


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
            before, after = (
                [
                    {**line, "generation": line["generation"] and bare(line["generation"])}
                    for line in map(
                        json.loads, (tmp_path / f"{when}{number}.jsonl").read_text().splitlines()
                    )
                ]
                for when in ("before", "after")
            )
            assert before == after
        assert np.array_equal(inspect(str(old), "toy").vectors[:], vectors)

    @pytest.mark.slow
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

    @pytest.mark.slow
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
    @pytest.mark.slow
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

    @pytest.mark.slow
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

    @pytest.mark.slow
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
