"""What a memory's directory may be and hold, and what is said where it is not that."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldm.errors import MemoryLocked, MemoryStoreError
from ldm.memory import Memory, build, environments, extend, generations, inspect, record
from ldm.memory.index import FORMAT
from ldm.memory.lessons import empty
from ldm.memory.packs import export
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from ldm.types import Outcome
from tests.embedder import BagOfWords
from tests.memory.stored import Change, in_array, in_column, in_manifest, joined, parts_of
from tests.memory.test_building import make
from tests.processes import printed
from tests.toy import expert_trajectories


def opened(location: object) -> Memory:
    return Memory.open(str(location), "toy", embedder=BagOfWords())


def file_in(place: str) -> Path:
    """The file of the memory."""
    return record.folder_of(place, "toy") / record.FILE


def change_file(place: str, change: Change) -> None:
    path = file_in(place)
    path.write_bytes(joined(change(parts_of(path.read_bytes()))))


READERS: list[Callable[[str], object]] = [
    *(environments, partial(generations, env="toy"), partial(inspect, env="toy"), opened)
]


class TestReading:
    @pytest.mark.parametrize("read", READERS)
    def test_a_missing_directory_is_named_and_not_made(
        self, read: Callable[[str], object], tmp_path: Path
    ) -> None:
        place = tmp_path / "nowhere"
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
        for read in READERS:
            with pytest.raises(MemoryStoreError, match="There is no memory at"):
                read(str(place))
        if kind != "an empty directory":
            with pytest.raises(MemoryStoreError):
                make(place)
        assert sorted(tmp_path.rglob("*")) == before

    def test_an_environment_it_does_not_hold_is_named(self, toy: Path) -> None:
        for env, remedy in (("mars", "It holds toy."), ("toi", "Did you mean 'toy'?")):
            with pytest.raises(MemoryStoreError, match=f"holds no memory of {env}") as refused:
                inspect(str(toy), env)
            assert remedy in refused.value.remedy
        assert generations(str(toy), "mars") == ()

    @pytest.mark.parametrize("env", ["", "x" * 300, "../../etc", ".", "..", "a/b", "näme\n"])
    def test_no_name_of_an_environment_leads_out_of_the_memory(
        self, env: str, tmp_path: Path
    ) -> None:
        place, episodes = tmp_path / "memory", expert_trajectories()[:2]
        named = [replace(one, task=replace(one.task, env=env)) for one in episodes]
        if not 0 < len(env) <= record.MOST_LETTERS:
            with pytest.raises(MemoryStoreError, match=r"too long|empty"):
                build(str(place), named, BagOfWords(), OfflineReasoner)
            return
        build(str(place), named, BagOfWords(), OfflineReasoner)
        assert environments(str(place)) == (env,)
        (only,) = (place / record.ENVIRONMENTS).iterdir()
        assert only.name not in (".", "..")
        assert [path.name for path in tmp_path.iterdir()] == ["memory"]

    @pytest.mark.parametrize(
        "damage", ["removed", "empty", "a byte", "a folder", "a pipe", "a link", "cut", "changed"]
    )
    def test_a_damaged_file_is_named(self, damage: str, copy: str) -> None:
        path, sound = file_in(copy), inspect(copy, "toy").rows
        vectors = sound.vectors_of(slice(None)).tobytes()
        content = path.read_bytes()
        path.unlink()
        match damage:
            case "removed":
                with pytest.raises(MemoryStoreError, match="holds no memory of toy"):
                    inspect(copy, "toy")
                return
            case "empty":
                path.write_bytes(b"")
            case "a byte":
                path.write_bytes(b"x")
            case "a folder":
                path.mkdir()
            case "a pipe":
                os.mkfifo(path)
            case "a link":
                target = Path(copy).parent / "target"
                target.write_bytes(content)
                path.symlink_to(target)
        many = range(0, len(content), len(content) // 40) if damage in ("cut", "changed") else [0]
        for at in many:
            if damage == "cut":
                path.write_bytes(content[:at])
            elif damage == "changed":
                path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
            try:
                rows = inspect(copy, "toy").rows
            except MemoryStoreError as error:
                refused = error
            else:  # what fills the room between arrays says nothing
                assert damage == "changed"
                assert [*rows] == [*sound]
                assert rows.vectors_of(slice(None)).tobytes() == vectors
                continue
            assert f"damaged: {path} cannot be used" in refused.message
            assert refused.remedy

    def test_a_damaged_memory_can_be_rebuilt(self, copy: str, toy: Path, tmp_path: Path) -> None:
        file_in(copy).write_bytes(b"?")
        build(copy, expert_trajectories(), BagOfWords(), OfflineReasoner, rebuild=True)
        for number, place in enumerate((copy, str(toy))):
            export(place, "toy", tmp_path / f"{number}.jsonl")
        assert (tmp_path / "0.jsonl").read_bytes() == (tmp_path / "1.jsonl").read_bytes()

    @pytest.mark.parametrize("read", [*READERS, make])
    @pytest.mark.parametrize("mark", [b'{"format": 6}', b"[1]", b"", b"[" * 900, b"\xff", None])
    def test_a_memory_of_another_format_is_refused(
        self, copy: str, mark: bytes | None, read: Callable[[str], object]
    ) -> None:
        place = Path(copy, record.MARK)
        if mark is None:
            place.unlink()
        else:
            place.write_bytes(mark)
        words = "no memory|not a memory" if mark is None else f"does not name format {FORMAT}"
        with pytest.raises(MemoryStoreError, match=words) as refused:
            read(copy)
        assert mark is None or "Build " in refused.value.remedy

    @pytest.mark.parametrize("name", [record.MARK, record.LOCK, record.ENVIRONMENTS, "toy"])
    @pytest.mark.parametrize("kind", ["a pipe", "a link", "a loop"])
    def test_a_hostile_directory_neither_hangs_nor_leads_elsewhere(
        self, name: str, kind: str, copy: str, tmp_path: Path
    ) -> None:
        path = Path(copy, *([record.ENVIRONMENTS, name] if name == "toy" else [name]))
        target = tmp_path / "elsewhere"
        if path.exists():
            path.rename(target)
        else:
            target.write_text("")
        if kind == "a pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(target if kind == "a link" else path)
        before = {one: one.stat().st_mtime_ns for one in target.parent.rglob("*") if one.exists()}
        if name != record.LOCK and (name, kind) != (record.MARK, "a link"):
            with pytest.raises(MemoryStoreError):
                inspect(copy, "toy")
        if (name, kind) not in ((record.LOCK, "a pipe"), (record.MARK, "a link")):
            with pytest.raises(MemoryStoreError):
                build(copy, expert_trajectories()[:1], BagOfWords(), OfflineReasoner, rebuild=True)
        behind = {one: seen for one, seen in before.items() if target in (one, *one.parents)}
        assert {one: one.stat().st_mtime_ns for one in behind} == behind


#: Arrays that do not fit, or whose numbers refer to nothing.
ARRAYS: list[tuple[str, Callable[[Any], Any]]] = [
    *((name, lambda a: a[:-1]) for name in ("goal", "id", "texts", "pasts", "vectors")),
    *((name, lambda a: a[:0]) for name in ("texts", "ends", "vectors")),
    *((name, lambda a: a[::-1]) for name in ("ends", "pasts")),
    *(("step", lambda a: a.astype(np.int32)[:-1]), ("ends", lambda a: -a)),
    ("pasts", lambda a: a + 10**6),
]
MANIFESTS: list[dict[str, Any]] = [
    *({"format": FORMAT + 1}, {"format": "1"}, {"generations": []}, {"batches": None}),
    *({"arrays": {"goal": [0, 0, 0]}}, {"log": {"log": "", "end": -1}}, {"extra": 1}),
    *({"arrays": dict.fromkeys(record.ARRAYS, one)} for one in ((2**50, 2**50, 0), (1, 64, 0))),
    *({"arrays": dict.fromkeys(record.ARRAYS, (-64, 64, 0))}, {"newest": -1}, {"newest": 9}),
    {"log": {"log": "x", "end": 2**70}},
]
CHANGES: list[Change] = [
    *(in_column(name, 10**6, 1) for name in ("goal", "past", "goal_vector")),
    *(in_column("past", -2, 1), in_column("batch", 2**31, 1)),
    *(in_array(*one) for one in ARRAYS),
    *(in_manifest(**one) for one in MANIFESTS),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_fit_is_damage_though_its_sums_are_true(change: Change, copy: str) -> None:
    """Whoever makes a memory may say what he likes; he cannot crash who reads it."""
    change_file(copy, change)
    with pytest.raises(MemoryStoreError, match="damaged"):
        inspect(copy, "toy")


class TestWriting:
    def test_a_second_writer_is_refused_and_the_lock_is_given_back_after_a_failure(
        self, copy: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(record, "PATIENCE", 0.0)

        def failing() -> None:
            with record.writing(copy):
                with pytest.raises(MemoryLocked, match="Another process is writing"):
                    make(copy)
                assert len(inspect(copy, "toy").rows)  # readers need no lock
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            failing()
        make(copy)

    def test_what_a_killed_writer_left_is_replaced_by_the_next(self, copy: str) -> None:
        left = file_in(copy).with_name(f".{record.FILE}.1-ab.tmp")
        left.write_bytes(b"half")
        assert verify(copy, "toy") == []
        build(copy, expert_trajectories("test"), BagOfWords(), OfflineReasoner)
        assert not left.exists()
        assert verify(copy, "toy") == []

    def test_what_varies_is_stored_and_digested(self, copy: str) -> None:
        memory = opened(copy)
        first = memory.rows[0]
        outcome = Outcome(0.5, 0.25, -0.5, 2)
        failed = replace(first.tuple, trajectory_id="t", generation=1, outcome=outcome)
        row = replace(first, tuple=failed)
        generation = extend(copy, memory.record, [row], BagOfWords(), tasks=[], settings={})
        again = opened(copy)
        assert row in again.rows
        assert generation.digest == again.record.digest
        others = (
            replace(row, tuple=replace(failed, outcome=Outcome(1.0, 1.0))),
            replace(row, tuple=replace(failed, outcome=None)),
            replace(row, tuple=replace(failed, time=3.0)),
            replace(row, tuple=replace(failed, scope=(("tenant", "a"),))),
            replace(row, tuple=replace(failed, tags=(("tenant", "a"),))),
        )
        digests = set()
        for one in (row, *others):
            contents = empty(generation).extended([one], BagOfWords())
            digests.add(contents.rows.digest(generation))
        assert len(digests) == 6


class TestReadingAlone:
    """Readers need no permission to write, and no library but numpy."""

    def test_a_copy_without_permissions_is_read(self, copy: str) -> None:
        shutil.rmtree(Path(copy, record.CHROMA), ignore_errors=True)
        before = sorted((p, p.stat().st_mtime_ns) for p in Path(copy).rglob("*"))
        assert opened(copy).retrieve("put the fig in the basket", "You hold the fig.")
        assert verify(copy, "toy") == []
        assert sorted((p, p.stat().st_mtime_ns) for p in Path(copy).rglob("*")) == before

    def test_recalling_loads_neither_chroma_nor_scikit_learn_nor_polars(self, toy: Path) -> None:
        code = (
            "import sys\nfrom ldm.memory import Memory, environments\n"
            "from tests.embedder import BagOfWords\n"
            "memory = Memory.open(sys.argv[1], 'toy', embedder=BagOfWords())\n"
            "print(environments(sys.argv[1]), len(memory.retrieve('put the fig', 'A shelf.')))\n"
            "assert not {'chromadb', 'sklearn', 'polars'} & sys.modules.keys()"
        )
        assert printed(code, toy) == "('toy',) 5\n"


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
    @pytest.mark.parametrize("size", ["4k", "8k", "16k"])
    def test_a_full_one_is_named_and_with_more_space_the_build_goes_on(
        self, size: str, mount: Callable[[str], Path], toy: Path, tmp_path: Path
    ) -> None:
        place = mount(f"size={size}")
        with pytest.raises(MemoryStoreError, match="No space left") as refused:
            make(place / "memory")
        assert refused.value.remedy == "Free some space and repeat the command; nothing was lost."
        subprocess.run(["mount", "-o", "remount,size=20m", str(place)], check=True)
        make(place / "memory")
        for number, location in enumerate((place / "memory", toy)):
            export(str(location), "toy", tmp_path / f"{number}.jsonl")
        assert (tmp_path / "0.jsonl").read_bytes() == (tmp_path / "1.jsonl").read_bytes()
        assert verify(str(place / "memory"), "toy") == []

    def test_a_read_only_one_is_read_and_named_where_it_is_written(
        self, mount: Callable[[str], Path], toy: Path
    ) -> None:
        place = mount("size=20m")
        memory = str(shutil.copytree(toy, place / "memory"))
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        assert len(opened(memory).retrieve("put the fig in the basket", "You hold the fig.")) == 5
        assert verify(memory, "toy") == []
        with pytest.raises(MemoryStoreError, match="opened to be read"):
            opened(memory).recall("put the fig in the basket", "You hold the fig.")
        for one in (memory, place / "new"):
            with pytest.raises(MemoryStoreError, match="Read-only file system") as refused:
                make(one)
            assert "permissions" in refused.value.remedy

    @pytest.mark.process
    def test_a_limit_on_the_size_of_files_is_named(self, tmp_path: Path) -> None:
        script = (
            "import resource, sys\nsys.dont_write_bytecode = True\n"
            "from ldm.errors import MemoryStoreError\n"
            "from tests.memory.test_record import make\n"
            "make(sys.argv[1] + '/other')\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
            "try:\n    make(sys.argv[1] + '/memory')\n"
            "except MemoryStoreError as error:\n    print(error.remedy)"
        )
        assert "ulimit -f" in printed(script, tmp_path)
        make(tmp_path / "memory")
        assert verify(str(tmp_path / "memory"), "toy") == []
