"""What a memory location may be, and what is said where it is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings
from chromadb.errors import InternalError
from ldm.memory.access import open_store, reading, writing
from ldm.memory.directory import DATABASE

from ldm.errors import MemoryStoreError
from ldm.memory import (
    Memory,
    build,
    environments,
    extend,
    generations,
    hide,
    inspect,
    rollback,
    snapshot,
    store,
)
from ldm.memory.contents import empty
from ldm.memory.exchange import export
from ldm.memory.index import FORMAT
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from ldm.types import FULL_OUTCOME, Outcome, Step, Task, Trajectory
from tests.embedder import BagOfWords
from tests.memory.conftest import Places
from tests.toy import ToyOptions, expert_trajectories

ROOT = Path(__file__).resolve().parents[2]


def make(location: object) -> None:
    build(str(location), expert_trajectories(), BagOfWords(), OfflineReasoner)


@pytest.fixture
def copy(toy: Path, tmp_path: Path) -> Path:
    """A copy of the toy memory, to be spoilt."""
    return shutil.copytree(toy, tmp_path / "copy")


def collections(place: Path) -> dict[str, Any]:
    client = chromadb.PersistentClient(str(place), settings=Settings(anonymized_telemetry=False))
    return {collection.name: collection for collection in client.list_collections()}


class TestReading:
    def test_a_missing_directory_is_named_and_not_made(self, tmp_path: Path) -> None:
        place = tmp_path / "nowhere"
        for read in (environments, *(partial(one, env="toy") for one in (generations, inspect))):
            with pytest.raises(MemoryStoreError, match="no memory at") as refused:
                read(str(place))
            assert "ldm build-memory" in refused.value.remedy
        assert not place.exists()

    @pytest.mark.parametrize("kind", ["an empty directory", "another directory", "a file"])
    def test_what_is_no_memory_is_refused_and_left_alone(self, kind: str, tmp_path: Path) -> None:
        place = tmp_path / "place"
        if kind == "a file":
            place.write_text("notes")
        else:
            place.mkdir()
        if kind == "another directory":
            (place / "notes.txt").write_text("notes")
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(MemoryStoreError, match="is not a memory"):
            environments(str(place))
        assert sorted(tmp_path.rglob("*")) == before

    def test_a_damaged_database_is_named(self, copy: Path) -> None:
        (copy / "chroma.sqlite3").write_bytes(b"no database at all, but long enough" * 100)
        with pytest.raises(MemoryStoreError, match="cannot be used") as refused:
            environments(str(copy))
        assert refused.value.remedy

    def test_an_environment_it_does_not_hold_is_named(self, toy_location: str) -> None:
        with pytest.raises(MemoryStoreError, match="holds no memory of mars"):
            inspect(toy_location, "mars")
        assert generations(toy_location, "mars") == ()

    @pytest.mark.parametrize("content", ["trajectories", "vectors", "batch", "generation"])
    def test_what_went_missing_is_noticed(self, content: str, copy: Path) -> None:
        shutil.rmtree(copy / snapshot.SNAPSHOTS)
        record = content in ("batch", "generation")
        stored = collections(copy)[f"ldm.toy.{'records' if record else content}"]
        where: Any = {"record": content} if record else None
        stored.delete(ids=stored.get(where=where, limit=1)["ids"])
        with pytest.raises(MemoryStoreError, match=None if record else "damaged") as refused:
            Memory.open(str(copy), "toy", embedder=BagOfWords())
        assert record or "--rebuild" in refused.value.remedy

    def test_a_damaged_memory_can_be_rebuilt(self, copy: Path, toy: Path, tmp_path: Path) -> None:
        stored = collections(copy)["ldm.toy.trajectories"]
        stored.delete(ids=stored.get(limit=2)["ids"])
        build(str(copy), expert_trajectories(), BagOfWords(), OfflineReasoner, rebuild=True)
        for place in (copy, toy):
            export(str(place), "toy", tmp_path / f"{place.name}.jsonl")
        files = [(tmp_path / f"{place.name}.jsonl").read_bytes() for place in (copy, toy)]
        assert files[0] == files[1]

    @pytest.mark.parametrize("read", [environments, lambda at: inspect(at, "toy"), make])
    def test_a_memory_of_another_format_is_refused(
        self, copy: Path, read: Callable[[str], object]
    ) -> None:
        for collection in collections(copy).values():
            collection.modify(metadata={**collection.metadata, "format": FORMAT - 1})
        with pytest.raises(MemoryStoreError, match=f"has format {FORMAT - 1}; this") as refused:
            read(str(copy))
        assert "Build it again" in refused.value.remedy


class TestWriting:
    def test_a_directory_with_something_else_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("notes")
        with pytest.raises(MemoryStoreError, match="holds other files and no memory") as refused:
            make(tmp_path)
        assert "--memory" in refused.value.remedy
        assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]

    def test_the_lock_is_given_back_after_a_failure(self, tmp_path: Path) -> None:
        with pytest.raises(ZeroDivisionError), writing(str(tmp_path)):
            raise ZeroDivisionError
        make(tmp_path)

    @pytest.mark.parametrize("failures", [1, store.READS])
    def test_a_row_that_goes_while_it_is_read_is_no_damage(
        self, copy: Path, monkeypatch: pytest.MonkeyPatch, failures: int
    ) -> None:
        left = iter(range(failures))
        get = chromadb.Collection.get

        def failing(self: Any, *args: Any, **options: Any) -> Any:
            if "offset" in options and next(left, None) is not None:
                raise InternalError("Error finding id")
            return get(self, *args, **options)

        shutil.rmtree(copy / snapshot.SNAPSHOTS)
        with reading(str(copy)) as opened:
            whole = opened.load("toy").rows
        monkeypatch.setattr(chromadb.Collection, "get", failing)
        if failures < store.READS:
            assert inspect(str(copy), "toy").rows == whole
        else:
            with pytest.raises(MemoryStoreError, match="Error finding id"):
                inspect(str(copy), "toy")

    @pytest.mark.slow
    def test_more_rows_than_one_write_or_one_read_takes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def long(number: int) -> Trajectory:
            task = Task(f"train/{number}", "walk", "train", "walk", "walk")
            steps = tuple(Step(f"go {n}", f"You are at {n % 3}.") for n in range(150))
            return Trajectory(task, f"Start {number}.", steps, 1.0, True, "human")

        class Terse(OfflineReasoner):
            def assess(self, *_: Any) -> str:
                return ""

            def summarize(self, *_: Any) -> str:
                return ""

        count = 6
        monkeypatch.setattr(store, "WRITE_ROWS", 200)
        monkeypatch.setattr(store, "READ_ROWS", 250)
        build(str(tmp_path), [long(n) for n in range(count)], BagOfWords(), Terse)
        rows = inspect(str(tmp_path), "walk").rows
        assert len({row.tuple.id for row in rows}) == len(rows) == count * 150


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A small file system that is gone after the test, which is skipped if mounting fails."""
    place = tmp_path / "mounted"

    def make_one(options: str) -> Path:
        place.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        try:
            subprocess.run(command, capture_output=True, check=True)
        except (FileNotFoundError, subprocess.CalledProcessError):
            pytest.skip("mounting is not possible here")
        return place

    yield make_one
    if os.path.ismount(place):
        subprocess.run(["umount", "-l", str(place)], check=True)


class TestDisks:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "size", ["8k", *(pytest.param(s, marks=pytest.mark.process) for s in ("300k", "400k"))]
    )
    def test_a_full_one_is_named_and_with_more_space_the_build_goes_on(
        self, size: str, mount: Callable[[str], Path], toy: Path, tmp_path: Path
    ) -> None:
        place = mount(f"size={size}")
        output = self.made_by_another_process(place / "memory")
        assert "the disk is full. Free space and run it again." in output
        subprocess.run(["mount", "-o", "remount,size=20m", str(place)], check=True)
        if (place / "memory" / DATABASE).exists():
            assert environments(str(place / "memory")) == ()
        make(place / "memory")
        for number, location in enumerate((place / "memory", toy)):
            export(str(location), "toy", tmp_path / f"{number}.jsonl")
        assert (tmp_path / "0.jsonl").read_bytes() == (tmp_path / "1.jsonl").read_bytes()

    def made_by_another_process(self, place: Path) -> str:
        """The error of a build: within one process Chroma may not recover from a full disk."""
        script = (
            "import sys\nfrom ldm.errors import MemoryStoreError\n"
            "from tests.memory.test_store import make\n"
            "try:\n    make(sys.argv[1])\nexcept MemoryStoreError as error:\n    print(error)"
        )
        command = [sys.executable, "-c", script, str(place)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.check_output(command, env=environment, text=True, timeout=60)

    def test_a_read_only_one_is_named(self, mount: Callable[[str], Path], toy: Path) -> None:
        place = mount("size=20m")
        rows = len(inspect(str(toy), "toy").rows)  # publishes what Chroma changed meanwhile
        memory = str(shutil.copytree(toy, place / "memory"))
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        with pytest.raises(MemoryStoreError, match="cannot be written") as refused:
            make(memory)
        assert "permissions" in refused.value.remedy
        assert len(inspect(memory, "toy").rows) == rows
        with pytest.raises(MemoryStoreError, match="cannot be written"):
            make(place / "new")


def test_outcome_and_reach_are_stored_and_digested(at: Places) -> None:
    make(place := at())
    memory = Memory.open(place, "toy", embedder=BagOfWords())
    first = memory.rows[0]
    outcome = Outcome(0.5, 0.25, -0.5, 2)
    failed = replace(first.tuple, trajectory_id="t", generation=1, outcome=outcome)
    row = replace(first, tuple=failed, reach=0.5)
    generation = extend(place, memory.record, [row], BagOfWords(), tasks=[], settings={})
    again = Memory.open(place, "toy", embedder=BagOfWords())
    assert row in again.rows
    assert generation.digest == again.record.digest
    others = (
        replace(row, tuple=replace(failed, outcome=FULL_OUTCOME)),
        replace(row, tuple=replace(failed, outcome=None)),
        replace(row, reach=0.0),
    )
    digests = set()
    for one in (row, *others):
        contents = empty(generation).extended([one], np.zeros((1, 2 * generation.dimension)))
        digests.add(contents.rows.columns.digest(generation))
    assert len(digests) == 4


def test_verifying_notices_what_is_missing_in_chroma(at: Places) -> None:
    make(at())
    assert verify(at(), "toy", BagOfWords(), 1_000) == []
    with open_store(at()) as opened:
        stored = opened._collection("toy", "trajectories")
        stored.delete(ids=stored.get(limit=1)["ids"])
    [problem] = verify(at(), "toy")
    assert "does not hold the tuples" in problem


class TestHiding:
    @pytest.fixture
    def place(self, at: Places) -> str:
        make(at())
        return at()

    def opened(self, place: str, generation: int | None = None) -> Memory:
        return Memory.open(place, "toy", embedder=BagOfWords(), generation=generation)

    def recalled(self, memory: Memory) -> list[str]:
        recalls = memory.retrieve("put the fig in the basket", "You hold the fig.", 5)
        return [recall.id for recall in recalls]

    def test_what_a_generation_hides_is_not_recalled_until_it_is_rolled_back(
        self, place: str
    ) -> None:
        before = self.opened(place)
        first, *rest = self.recalled(before)
        generation = hide(place, before.record, [first], settings={"why": "test"})
        assert (generation.number, generation.origin, generation.hidden) == (1, "pruned", (first,))
        assert generation.digest != before.record.digest
        pruned = self.opened(place)
        assert (pruned.rows, pruned.record.recallable) == (before.rows, len(before) - 1)
        assert self.recalled(pruned) == self.recalled(before.without([first]))
        assert first not in {recall.id for recall in pruned.sample(len(before), 0)}
        assert self.recalled(self.opened(place, 0)) == [first, *rest]
        rollback(place, "toy", 0)
        assert self.recalled(self.opened(place)) == [first, *rest]

    def test_later_generations_inherit_it(self, place: str) -> None:
        before = self.opened(place)
        first, second, *_ = self.recalled(before)
        once = hide(place, before.record, [first], settings={})
        row = next(row for row in before.rows if row.tuple.id == first)
        new = replace(row, tuple=replace(row.tuple, trajectory_id="t", generation=2))
        extended = extend(place, once, [row, new], BagOfWords(), tasks=[], settings={})
        assert (extended.tuples, extended.hidden) == (once.tuples + 1, (first,))
        more = expert_trajectories(options=ToyOptions(tasks=16))
        assert build(place, more, BagOfWords(), OfflineReasoner).generation.hidden == (first,)
        twice = hide(place, generations(place, "toy")[-1], [second], settings={})
        assert twice.hidden == tuple(sorted([first, second]))
        assert not {first, second} & set(self.recalled(self.opened(place)))

    def test_again_changes_nothing_and_nonsense_or_all_of_them_are_refused(
        self, place: str
    ) -> None:
        base = generations(place, "toy")[0]
        everything = [row.tuple.id for row in inspect(place, "toy").rows]
        one = min(everything)
        for tuples in (["nonsense"], everything):
            with pytest.raises(MemoryStoreError, match=r"does not hold all|without any tuple"):
                hide(place, base, tuples, settings={})
        assert hide(place, base, [one], settings={}) == hide(place, base, [one], settings={})
        assert len(generations(place, "toy")) == 2
        with pytest.raises(MemoryStoreError, match="its newest generation is 1, not 0"):
            hide(place, base, [one], settings={"other": "1"})

    def test_a_rollback_goes_forward_too_until_something_is_written(self, place: str) -> None:
        for one in sorted(inspect(place, "toy").rows.columns.ids)[:2]:
            hide(place, generations(place, "toy")[-1], [one], settings={})
        first, second, third = generations(place, "toy")
        for number, present in ((0, 3), (1, 1), (2, 2), (0, 3), (2, 1), (1, 3)):
            assert len(rollback(place, "toy", number)) == present
            assert generations(place, "toy") == (first, second, third)[: number + 1]
            assert inspect(place, "toy").generation == (first, second, third)[number]
        ids = [min(inspect(place, "toy").recallable())]
        later = hide(place, second, ids, settings={})
        assert generations(place, "toy") == (first, second, later)
        rollback(place, "toy", 0)
        rollback(place, "toy", 2)
        assert generations(place, "toy") == (first, second, later)
        with pytest.raises(MemoryStoreError, match="no generation 3") as refused:
            rollback(place, "toy", 3)
        assert "0, 1, 2" in refused.value.remedy
