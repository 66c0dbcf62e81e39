"""Packs come back as they left, and hostile ones are refused before anything is written."""

from __future__ import annotations

import io
import json
import stat
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldm.errors import MemoryStoreError
from ldm.memory import Memory, build, generations, hide, inspect, record, rollback
from ldm.memory.exchange import export
from ldm.memory.growing import GrowingMemory
from ldm.memory.packs import export_pack, import_pack
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.toy import ToyOptions, expert_trajectories

Parts = dict[str, bytes]
Change = Callable[[Parts], Parts]


@pytest.fixture
def pack(toy: Path, tmp_path: Path) -> Path:
    export_pack(str(toy), "toy", tmp_path / "toy.ldmpack")
    return tmp_path / "toy.ldmpack"


def parts_of(pack: Path) -> Parts:
    """The members, those of the generation by their names alone."""
    with zipfile.ZipFile(pack) as archive:
        return {name.rpartition("/")[2]: archive.read(name) for name in archive.namelist()}


def sealed(text: bytes) -> bytes:
    return text + b"\n%08x" % zlib.crc32(text)


def written(parts: Parts, pack: Path) -> Path:
    """Write a pack whose sums are true of its members."""
    parts = dict(parts)
    folder = json.loads(parts[record.POINTER].rpartition(b"\n")[0])["folder"]
    text = parts[record.MANIFEST].rpartition(b"\n")[0]
    if text.startswith(b"{"):
        listed = json.loads(text)
        listed["files"] = {n: zlib.crc32(parts.get(n, b"")) for n in listed["files"]}
        parts[record.MANIFEST] = sealed(json.dumps(listed).encode())
    inside = {record.MANIFEST, record.KINDS, *record.ARRAYS}
    with zipfile.ZipFile(pack, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(f"{folder}/{name}" if name in inside else name, content)
    return pack


def test_a_memory_comes_back_as_it_was(toy: Path, pack: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "memory")
    import_pack(place, pack)
    for location, name in ((str(toy), "one"), (place, "other")):
        export(location, "toy", tmp_path / name)
        export_pack(location, "toy", tmp_path / f"{name}.ldmpack")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert (tmp_path / "one.ldmpack").read_bytes() == pack.read_bytes()
    assert (tmp_path / "other.ldmpack").read_bytes() == pack.read_bytes()
    recalls = [
        Memory.open(location, "toy", embedder=BagOfWords()).retrieve("put the fig", "A shelf.", 20)
        for location in (str(toy), place)
    ]
    assert recalls[0] == recalls[1]
    assert verify(place, "toy", BagOfWords(), 1_000) == []
    with pytest.raises(MemoryStoreError, match="has a memory of toy already"):
        import_pack(place, pack)


def test_what_a_larger_memory_learnt_comes_along(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "STORED_FROM", 1)
    build(str(tmp_path / "large"), expert_trajectories(), BagOfWords(), OfflineReasoner)
    export_pack(str(tmp_path / "large"), "toy", tmp_path / "large.ldmpack")
    assert record.RELEVANCE in parts_of(tmp_path / "large.ldmpack")
    import_pack(str(tmp_path / "copy"), tmp_path / "large.ldmpack")
    assert verify(str(tmp_path / "copy"), "toy", BagOfWords(), 1_000) == []


def test_generations_come_along(pack: Path, tmp_path: Path) -> None:
    place, other = str(tmp_path / "memory"), str(tmp_path / "other")
    import_pack(place, pack)
    (base,) = generations(place, "toy")
    hide(place, base, [inspect(place, "toy").rows[0].tuple.id], settings={})
    export_pack(place, "toy", tmp_path / "later.ldmpack")
    import_pack(other, tmp_path / "later.ldmpack")
    assert generations(other, "toy") == generations(place, "toy")
    export_pack(place, "toy", tmp_path / "first.ldmpack", 0)
    import_pack(str(tmp_path / "third"), tmp_path / "first.ldmpack")
    assert generations(str(tmp_path / "third"), "toy") == (base,)


def test_what_a_rollback_took_back_and_what_a_generation_had_not_yet_stays_behind(
    copy: str, tmp_path: Path
) -> None:
    more = expert_trajectories(options=ToyOptions(tasks=16))
    secret = replace(more[-1], task=replace(more[-1].task, goal="find the zither"))
    build(copy, [*more[:-1], secret], BagOfWords(), OfflineReasoner)
    export_pack(copy, "toy", tmp_path / "earlier.ldmpack", 0)
    rollback(copy, "toy", 0)
    export_pack(copy, "toy", tmp_path / "back.ldmpack")
    for name in ("earlier", "back"):
        parts = parts_of(tmp_path / f"{name}.ldmpack")
        assert not [n for n, content in parts.items() if b"zither" in content]
        import_pack(str(tmp_path / name), tmp_path / f"{name}.ldmpack")
        assert len(generations(str(tmp_path / name), "toy")) == 1


@pytest.mark.parametrize("generation", [False, True])
def test_what_is_not_folded_yet_comes_along(generation: bool, copy: str, tmp_path: Path) -> None:
    place = copy if generation else str(tmp_path / "new")
    episode = expert_trajectories("test")[0]
    memory = GrowingMemory.open(place, "toy", embedder=BagOfWords(), create=True)
    memory.add(episode)
    unfinished = memory.begin("put the fig in the basket")
    unfinished.step("A shelf.", "go to shelf 1")
    memory.feedback(memory.recall(episode.task.goal, episode.opening, k=1), -1)
    export_pack(place, "toy", tmp_path / "toy.ldmpack")
    import_pack(str(tmp_path / "other"), tmp_path / "toy.ldmpack")
    other = GrowingMemory.open(str(tmp_path / "other"), "toy", embedder=BagOfWords())
    assert (other.pending, other.unfinished) == (1, (unfinished.id,))
    state = episode.task.goal, episode.opening
    first, second = (one.recall(*state, k=20) for one in (memory, other))
    assert [(r.id, r.similarity, r.evidence) for r in first] == [
        (r.id, r.similarity, r.evidence) for r in second
    ]
    assert len(other) == len(memory)


def in_manifest(**fields: Any) -> Change:
    def change(parts: Parts) -> Parts:
        listed = json.loads(parts[record.MANIFEST].rpartition(b"\n")[0])
        return {**parts, record.MANIFEST: sealed(json.dumps({**listed, **fields}).encode())}

    return change


def in_generation(**fields: Any) -> Change:
    def change(parts: Parts) -> Parts:
        [generation] = json.loads(parts[record.MANIFEST].rpartition(b"\n")[0])["generations"]
        return in_manifest(generations=[{**generation, **fields}])(parts)

    return change


def in_pointer(**fields: Any) -> Change:
    def change(parts: Parts) -> Parts:
        stated = json.loads(parts[record.POINTER].rpartition(b"\n")[0])
        return {**parts, record.POINTER: sealed(json.dumps({**stated, **fields}).encode())}

    return change


def in_array(name: str, change: Callable[[Any], Any]) -> Change:
    def changed(parts: Parts) -> Parts:
        buffer = io.BytesIO()
        array = change(np.load(io.BytesIO(parts[name])))
        np.save(buffer, array, allow_pickle=array.dtype == object)
        return {**parts, name: buffer.getvalue()}

    return changed


def in_column(name: str, value: float) -> Change:
    wide = record.WIDE64 if name in record.WIDE64 else record.WIDE32

    def change(array: Any) -> Any:
        array[wide.index(name)].view(record._kind(name))[0] = value
        return array

    return in_array("tuples-64.npy" if name in record.WIDE64 else "tuples-32.npy", change)


def in_text(column: str, text: str) -> Change:
    """Let a column of the first tuple refer to another text."""

    def change(parts: Parts) -> Parts:
        ends = np.load(io.BytesIO(parts["ends.npy"]))
        added = np.frombuffer(text.encode(), np.uint8)
        parts = in_array("texts.npy", lambda a: np.concatenate([a, added]))(parts)
        parts = in_array("ends.npy", lambda a: np.append(a, a[-1] + len(added)))(parts)
        return in_column(column, len(ends))(parts)

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [(lambda p: {**p, "../evil": b"x"}, "other files"), (lambda p: {**p, "x": b""}, "other files"),
     (lambda p: {**p, "gen-000009-00000000/kinds.json": b"x"}, "more than one"),
     (lambda p: {n: c for n, c in p.items() if n != record.KINDS}, "No such file.*kinds.json"),
     (lambda p: {**p, record.KINDS: bytes(10**7)}, "compressed more than"),
     (lambda p: {**p, record.KINDS: b"[" * 100_000}, "deeply"),
     (lambda p: {**p, record.MANIFEST: sealed(b"[" * 100_000)}, "deeply"),
     (lambda p: {**p, record.MANIFEST: b"\xff"}, "damaged"),
     (in_manifest(format=99), "damaged"), (in_manifest(generations=[]), "damaged"),
     (in_manifest(batches=[]), "does not match its record"), (in_manifest(extra=1), "damaged"),
     (in_generation(number=1), "numbered from 0"), (in_generation(tuples=1), "fit"),
     (in_generation(digest="0"), "does not match its record"), (in_generation(dimension=3), "fit"),
     (in_generation(env=""), "empty|does not match"), (in_generation(env="x" * 300), "long|match"),
     (in_generation(hidden=["x"]), "does not match"), (in_pointer(generation=3), "damaged|earlier"),
     (in_pointer(folder="/etc"), "other files"),
     (in_array("vectors.npy", lambda v: v * 2), "unit length"),
     (in_array("vectors.npy", lambda v: v * np.float32("nan")), "unit length"),
     (in_array("vectors.npy", lambda v: v[:1]), "does not exist"),
     (in_array("vectors.npy", lambda v: v.astype(object)), "damaged"),
     (in_array("texts.npy", lambda v: v * 0 + 255), "damaged|match"),
     (in_column("goal", 10**6), "does not exist"), (in_column("past", 10**6), "does not exist"),
     (in_column("goal_type", 99), "does not match"), (in_column("generation", 7), "not match"),
     (in_column("step", -1), "does not match"),
     (in_column("id", 7), "does not match"), (in_column("time", -1.0), "match|cannot"),
     (in_text("origin", "martian"), "does not match"), (in_text("outcome", "[]"), "not match"),
     (in_text("scope", "[1]"), "match|cannot"), (in_text("tags", "no JSON"), "match|cannot"),
     (lambda p: {**p, "episodes.log": b"no log\n"}, "damaged"),
     (lambda p: {**p, "feedback.log": b"\xff" * 2000}, "damaged"),
     (lambda p: {**p, "vectors.bin": b""}, "other files")],
)  # fmt: skip
def test_a_hostile_one_is_refused(change: Change, reason: str, pack: Path, tmp_path: Path) -> None:
    written(parts_of(pack), pack)
    import_pack(str(tmp_path / "sound"), pack)  # what is written anew is a pack
    written(change(parts_of(pack)), pack)
    with pytest.raises(MemoryStoreError, match=reason):
        import_pack(str(tmp_path / "memory"), pack)
    assert not (tmp_path / "memory").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"toy.ldmpack", "sound"}


#: Fields that a digest covers can be false with a true digest.
@pytest.mark.parametrize(
    ("column", "value"),
    [("origin", "martian"), ("outcome", "[]"), ("outcome", '{"score": 7}'), ("scope", "[1]"),
     ("scope", '{"a": 1}'), ("tags", "no JSON"), ("step", -1),
     ("time", float("nan")), ("time", float("inf")), ("generation", -1)],
)  # fmt: skip
def test_a_value_that_no_tuple_has_is_refused_though_the_digest_is_true_of_it(
    column: str, value: Any, pack: Path, tmp_path: Path
) -> None:
    change = (in_text if isinstance(value, str) else in_column)(column, value)
    parts = change(parts_of(written(parts_of(pack), pack)))
    with record.writing(str(tmp_path / "false")), zipfile.ZipFile(written(parts, pack)) as archive:
        archive.extractall(record.folder_of(str(tmp_path / "false"), "toy"))
    contents = inspect(str(tmp_path / "false"), "toy")
    digest = contents.rows.columns.digest(contents.generation, contents.batches)
    written(in_generation(digest=digest)(parts), pack)
    with pytest.raises(MemoryStoreError, match=r"can have|damaged|Input should|scope"):
        import_pack(str(tmp_path / "memory"), pack)
    assert not (tmp_path / "memory").exists()


def test_links_repeated_members_and_no_members_at_all_are_refused(
    pack: Path, tmp_path: Path
) -> None:
    parts = parts_of(pack)

    def link(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo(record.POINTER)
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")

    def twice(archive: zipfile.ZipFile) -> None:
        archive.writestr(record.POINTER, parts[record.POINTER])
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(record.POINTER, parts[record.POINTER])

    for fill in (link, twice, lambda _: None):
        with zipfile.ZipFile(pack, "w") as archive:
            fill(archive)
        with pytest.raises(MemoryStoreError, match="cannot be read as a pack"):
            import_pack(str(tmp_path / "memory"), pack)
    assert not (tmp_path / "memory").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy.ldmpack"]


def test_cut_and_changed_files_are_noticed(pack: Path, tmp_path: Path) -> None:
    whole = pack.read_bytes()
    for count in range(1, len(whole), len(whole) // 7):
        pack.write_bytes(whole[:count])
        with pytest.raises(MemoryStoreError, match="cannot be read as a pack"):
            import_pack(str(tmp_path / "memory"), pack)
    sound = inspect(import_and_place(whole, pack, tmp_path / "sound"), "toy")
    for number, at in enumerate(range(3, len(whole), len(whole) // 40)):
        changed = whole[:at] + bytes([whole[at] ^ (1 << number % 8)]) + whole[at + 1 :]
        try:
            place = import_and_place(changed, pack, tmp_path / str(number))
        except MemoryStoreError:
            assert not (tmp_path / str(number)).exists()
        else:  # a flag or a time that says nothing
            assert inspect(place, "toy").rows == sound.rows


def import_and_place(content: bytes, pack: Path, place: Path) -> str:
    pack.write_bytes(content)
    import_pack(str(place), pack)
    return str(place)
