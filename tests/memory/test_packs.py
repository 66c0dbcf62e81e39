"""Packs come back as they left, and hostile ones are refused before anything is written."""

import json
import stat
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldm.errors import MemoryStoreError
from ldm.memory import Memory, build, generations, hide, inspect, record, rollback
from ldm.memory.growing import GrowingMemory
from ldm.memory.packs import export, export_pack, import_pack
from ldm.memory.verifying import verify
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.memory.stored import (
    MANIFEST,
    Change,
    Parts,
    in_array,
    in_column,
    in_manifest,
    joined,
    parts_of,
)
from tests.toy import ToyOptions, expert_trajectories


@pytest.fixture
def pack(toy: Path, tmp_path: Path) -> Path:
    export_pack(str(toy), "toy", tmp_path / "toy.ldmpack")
    return tmp_path / "toy.ldmpack"


def members_of(pack: Path) -> Parts:
    with zipfile.ZipFile(pack) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(members: Parts, pack: Path) -> Path:
    with zipfile.ZipFile(pack, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return pack


def within(change: Change) -> Change:
    """Change the parts of the file of tuples."""
    return lambda members: {**members, record.FILE: joined(change(parts_of(members[record.FILE])))}


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
    assert verify(place, "toy", BagOfWords()) == []
    with pytest.raises(MemoryStoreError, match="has a memory of toy already"):
        import_pack(place, pack)


def test_what_a_larger_memory_learnt_comes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "STORED_FROM", 1)
    build(str(tmp_path / "large"), expert_trajectories(), BagOfWords(), OfflineReasoner)
    export_pack(str(tmp_path / "large"), "toy", tmp_path / "large.ldmpack")
    assert record.RELEVANCE in parts_of(members_of(tmp_path / "large.ldmpack")[record.FILE])
    import_pack(str(tmp_path / "copy"), tmp_path / "large.ldmpack")
    assert verify(str(tmp_path / "copy"), "toy", BagOfWords()) == []


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
        parts = members_of(tmp_path / f"{name}.ldmpack")
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


def in_generation(**fields: Any) -> Change:
    def change(parts: Parts) -> Parts:
        [generation] = json.loads(parts[MANIFEST])["generations"]
        return in_manifest(generations=[{**generation, **fields}])(parts)

    return change


def in_text(column: str, text: str) -> Change:
    """Let a column of the first tuple refer to another text."""

    def change(parts: Parts) -> Parts:
        count = len(parts["ends"]) // 8
        added = np.frombuffer(text.encode(), np.uint8)
        parts = in_array("texts", lambda a: np.concatenate([a, added]))(parts)
        parts = in_array("ends", lambda a: np.append(a, a[-1] + len(added)))(parts)
        return in_column(column, count)(parts)

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [(lambda p: {**p, "../evil": b"x"}, "other files"), (lambda p: {**p, "x": b""}, "other files"),
     (lambda p: {**p, "gen/memory.bin": b"x"}, "other files"),
     (lambda _: {}, "neither"), (lambda p: {**p, record.FILE: b""}, "damaged"),
     (lambda p: {**p, record.FILE: bytes(10**7)}, "compressed more than"),
     (lambda p: {**p, "episodes.log": b"no log\n"}, "damaged"),
     (lambda p: {**p, "episodes.log": b"\xff" * 2000}, "damaged"),
     (lambda p: {**p, "vectors.bin": b""}, "other files"),
     *((within(change), reason) for change, reason in [
     (lambda p: {n: c for n, c in p.items() if n != "ends"}, "other arrays"),
     (lambda p: {**p, MANIFEST: b"[" * 100_000}, "deeply"),
     (lambda p: {**p, MANIFEST: b"\xff"}, "damaged"),
     (in_manifest(batches=[]), "does not match its record"),
     (in_generation(number=1), "numbered from 0"), (in_generation(tuples=1), "fit"),
     (in_generation(digest="0"), "does not match its record"),
     (in_generation(dimension=5), "damaged|unit|exist"), (in_generation(dimension=0), "damaged"),
     (in_generation(env=""), "empty|does not match"), (in_generation(env="x" * 300), "long|match"),
     (in_generation(hidden=["x"]), "does not match"), (in_manifest(newest=3), "shows a generation"),
     (in_array("vectors", lambda v: v * 2), "unit length"),
     (in_array("vectors", lambda v: v * np.float32("nan")), "unit length"),
     (in_array("texts", lambda v: v * 0 + 255), "damaged|match"),
     (in_column("goal_type", 99), "does not match"), (in_column("generation", 7), "not match"),
     (in_column("step", -1), "does not match"),
     (in_column("id", 7), "does not match"), (in_column("time", -1.0), "match|cannot"),
     (in_text("origin", "martian"), "does not match"), (in_text("outcome", "[]"), "not match"),
     (in_text("scope", "[1]"), "match|cannot"), (in_text("tags", "no JSON"), "match|cannot")])],
)  # fmt: skip
def test_a_hostile_one_is_refused(change: Change, reason: str, pack: Path, tmp_path: Path) -> None:
    written(within(dict)(members_of(pack)), pack)
    import_pack(str(tmp_path / "sound"), pack)  # what is written anew is a pack
    written(change(members_of(pack)), pack)
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
    change = within((in_text if isinstance(value, str) else in_column)(column, value))
    members = change(members_of(pack))
    with record.writing(str(tmp_path / "false")):
        folder = record.folder_of(str(tmp_path / "false"), "toy")
        folder.mkdir(parents=True)
        (folder / record.FILE).write_bytes(members[record.FILE])
    contents = inspect(str(tmp_path / "false"), "toy")
    digest = contents.rows.digest(contents.generation, contents.batches)
    written(within(in_generation(digest=digest))(members), pack)
    with pytest.raises(MemoryStoreError, match=r"can have|damaged|Input should|scope"):
        import_pack(str(tmp_path / "memory"), pack)
    assert not (tmp_path / "memory").exists()


def test_links_repeated_members_and_no_members_at_all_are_refused(
    pack: Path, tmp_path: Path
) -> None:
    content = members_of(pack)[record.FILE]

    def link(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo(record.FILE)
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")

    def twice(archive: zipfile.ZipFile) -> None:
        archive.writestr(record.FILE, content)
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(record.FILE, content)

    for fill in (link, twice, lambda _: None):
        with zipfile.ZipFile(pack, "w") as archive:
            fill(archive)
        with pytest.raises(MemoryStoreError, match="cannot be read as a pack"):
            import_pack(str(tmp_path / "memory"), pack)
    assert not (tmp_path / "memory").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy.ldmpack"]
