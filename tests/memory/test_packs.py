"""Packs come back as they left, and hostile ones are refused before anything is written."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldm.errors import MemoryStoreError
from ldm.memory import Memory, generations, hide, inspect, packs
from ldm.memory.exchange import export
from ldm.memory.packs import BATCHES, MANIFEST, MEMBERS, PASSAGES, VECTORS, export_pack, import_pack
from ldm.memory.verifying import verify
from tests.embedder import BagOfWords
from tests.memory.conftest import Places

Parts = dict[str, bytes]


@pytest.fixture
def pack(toy: Path, tmp_path: Path) -> Path:
    export_pack(str(toy), "toy", tmp_path / "toy.ldmpack")
    return tmp_path / "toy.ldmpack"


def parts_of(pack: Path) -> Parts:
    with zipfile.ZipFile(pack) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(parts: Parts, pack: Path, *, sums: bool = True) -> Path:
    """Write a pack; sums: with the right sizes and checksums."""
    if sums:
        manifest = json.loads(parts[MANIFEST])
        for name in manifest["files"]:
            content = parts.get(name, b"")
            digest = hashlib.sha256(content).hexdigest()
            manifest["files"][name] = {"size": len(content), "sha256": digest}
        parts = {**parts, MANIFEST: json.dumps(manifest).encode()}
    with zipfile.ZipFile(pack, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return pack


def test_a_memory_comes_back_as_it_was(toy: Path, pack: Path, at: Places, tmp_path: Path) -> None:
    place = at()
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


def test_generations_come_along(pack: Path, at: Places, tmp_path: Path) -> None:
    place = at()
    base = import_pack(place, pack)
    hide(place, base, [inspect(place, "toy").rows[0].tuple.id], settings={})
    export_pack(place, "toy", tmp_path / "later.ldmpack")
    import_pack(at("other"), tmp_path / "later.ldmpack")
    assert generations(at("other"), "toy") == generations(place, "toy")
    export_pack(place, "toy", tmp_path / "first.ldmpack", 0)
    import_pack(str(tmp_path / "third"), tmp_path / "first.ldmpack")
    assert generations(str(tmp_path / "third"), "toy") == (base,)


def in_passage(field: str, value: Any) -> Callable[[Parts], Parts]:
    def change(parts: Parts) -> Parts:
        first, *others = parts[PASSAGES].splitlines()
        passage = {**json.loads(first), field: value}
        return {**parts, PASSAGES: b"\n".join([json.dumps(passage).encode(), *others])}

    return change


def in_tuple(place: int, value: Any) -> Callable[[Parts], Parts]:
    def change(parts: Parts) -> Parts:
        tuples = json.loads(parts[PASSAGES].splitlines()[0])["tuples"]
        tuples[0][place] = value
        return in_passage("tuples", tuples)(parts)

    return change


def in_manifest(**fields: Any) -> Callable[[Parts], Parts]:
    return lambda parts: {
        **parts,
        MANIFEST: json.dumps({**json.loads(parts[MANIFEST]), **fields}).encode(),
    }


def in_generation(**fields: Any) -> Callable[[Parts], Parts]:
    def change(parts: Parts) -> Parts:
        [generation] = json.loads(parts[MANIFEST])["generations"]
        return in_manifest(generations=[{**generation, **fields}])(parts)

    return change


def vectors(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Parts], Parts]:
    def changed(parts: Parts) -> Parts:
        buffer = io.BytesIO()
        array = change(np.load(io.BytesIO(parts[VECTORS])))
        np.save(buffer, array, allow_pickle=array.dtype == object)
        return {**parts, VECTORS: buffer.getvalue()}

    return changed


@pytest.mark.parametrize(
    ("change", "reason"),
    [(lambda p: {**p, "../evil": b"x"}, "members"),
     (lambda p: {n: c for n, c in p.items() if n != BATCHES}, "members"),
     (lambda p: {**p, BATCHES: bytes(10**8)}, "compressed more than"),
     (in_manifest(format=99), "does not name format"), (in_manifest(generations=[]), "incomplete"),
     (in_generation(number=1), "numbered from 0"), (in_manifest(extra=1), "extra"),
     (lambda p: {**p, MANIFEST: b"[" * 100_000}, "damaged|deeply"),
     (lambda p: {**p, PASSAGES: p[PASSAGES] + b"[" * 100_000}, "damaged|deeply|line"),
     (lambda p: {**p, PASSAGES: p[PASSAGES].splitlines()[0]}, "does not match its record"),
     (lambda p: {**p, PASSAGES: b"\xff\xfe\n"}, "jsonl:1"),
     (vectors(lambda v: v * 2), "unit length"),
     (vectors(lambda v: v * np.float32("nan")), "unit length"),
     (vectors(lambda v: v[:-1]), "missing"), (vectors(lambda v: v[:, :-1]), "float32"),
     (vectors(lambda v: v.astype(object)), "damaged"),
     (in_passage("generation", 7), "generation 7"), (in_passage("origin", "martian"), "origin"),
     (in_passage("batch", "x-1"), "batch"), (in_passage("goal", 3), "goal"),
     (in_passage("texts", [1]), "texts"), (in_passage("texts", "abc"), "texts"),
     (in_passage("vectors", ["0" * 24]), "missing"), (in_passage("steps", [[0, 0, 0]]), "step 0"),
     (in_passage("steps", [[-1, 0, 10**6]]), "step 0"), (in_passage("other", 1), "other"),
     (in_tuple(0, 10**6), "an unknown text"), (in_tuple(0, True), "valid integer"),
     (in_tuple(5, 10**6), "invalid past"), (in_tuple(6, -1), "tuples.0.6"),
     (in_tuple(7, 99), "cells"), (in_tuple(8, 99), "cells"), (in_tuple(9, 2), "tuples.0.9"),
     (in_tuple(-1, 10**6), "an unknown vector")],
)  # fmt: skip
def test_a_hostile_one_is_refused(
    change: Callable[[Parts], Parts], reason: str, pack: Path, tmp_path: Path
) -> None:
    parts = change(parts_of(pack))
    written(parts, pack, sums=not parts[MANIFEST].startswith(b"["))
    with pytest.raises(MemoryStoreError, match=reason):
        import_pack(str(tmp_path / "memory"), pack)
    assert not (tmp_path / "memory").exists()


def test_checksums_cut_files_and_long_lines_are_noticed(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pack.read_bytes()
    parts = parts_of(pack)
    for name in MEMBERS[1:]:
        written({**parts, name: parts[name] + b"\n"}, pack, sums=False)
        with pytest.raises(MemoryStoreError, match=f"{name} does not have the size"):
            import_pack(str(tmp_path / "memory"), pack)
    for count in range(1, len(whole), len(whole) // 7):
        pack.write_bytes(whole[:count])
        with pytest.raises(MemoryStoreError, match="cannot be read as a pack"):
            import_pack(str(tmp_path / "memory"), pack)
    pack.write_bytes(whole)
    monkeypatch.setattr(packs, "MAX_LINE", 100)
    with pytest.raises(MemoryStoreError, match="more than 100 bytes"):
        import_pack(str(tmp_path / "memory"), pack)
    monkeypatch.setattr(packs, "MAX_BYTES", dict.fromkeys(MEMBERS, 100))
    with pytest.raises(MemoryStoreError, match="more than 100 bytes"):
        import_pack(str(tmp_path / "memory"), pack)
    assert not (tmp_path / "memory").exists()
