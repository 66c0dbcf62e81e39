"""Memories, the files beside them, and caches: what `tests.hostile.formats` lists of these."""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import numpy as np
from ldm.memory.directory import additions_of

from ldm import records
from ldm.embed.disk import FILE, VectorFile
from ldm.envs.cache import open_compiled, value_at
from ldm.memory import generations, snapshot
from ldm.memory.growing import GrowingMemory
from ldm.memory.packs import export_pack, read_pack
from ldm.text import Problem
from ldm.types import Trajectory
from tests.embedder import BagOfWords, Counting
from tests.hostile.flips import small_memory
from tests.hostile.subject import NEW, Subject
from tests.toy import expert_trajectories


def memories(folder: Path) -> list[Subject]:
    """Memories as files, and the files beside one that are read in place of its database."""
    memory = str(small_memory(folder))
    export_pack(memory, "toy", folder / "memory.ldmpack")
    whole = (folder / "memory.ldmpack").read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as pack:
        members = {name: pack.read(name) for name in pack.namelist()}

    def packed(name: str) -> Callable[[bytes], bytes]:
        """Put a member into a pack whose manifest is true of it."""

        def wrap(content: bytes) -> bytes:
            changed = {**members, name: content}
            if name != "manifest.json":
                manifest = json.loads(members["manifest.json"])
                manifest["files"][name] = {
                    "size": len(content),
                    "sha256": hashlib.sha256(content).hexdigest(),
                }
                changed["manifest.json"] = json.dumps(manifest).encode()
            made = io.BytesIO()
            with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
                for member, text in changed.items():
                    archive.writestr(member, text)
            return made.getvalue()

        return wrap

    into = f"memory import FILE --memory {NEW}"
    return [
        Subject("pack", "m.ldmpack", whole, lambda p: [read_pack(p)], commands=(into,)),
        *(
            Subject(
                f"pack's {name}",
                "m.ldmpack",
                members[name],
                lambda p: [read_pack(p)],
                wrap=packed(name),
                commands=(into,),
            )
            for name in members
        ),
        *_snapshots(Path(memory)),
        *_added(folder),
    ]


def _added(folder: Path) -> list[Subject]:
    """What was added one by one: lines with checksums, and lines whose checksums are true."""
    sound = expert_trajectories()[:3]
    memory = GrowingMemory.open(str(folder / "added"), "toy", embedder=BagOfWords(), create=True)
    for one in sound:
        memory.add(one)
    content = additions_of(str(folder / "added"), "toy").read_bytes()
    texts = b"".join(line.partition(b"\t")[0] + b"\n" for line in content.splitlines())

    def opened(path: Path) -> list[Trajectory]:
        place = path.parent / "memory"
        at = additions_of(str(place), "toy")
        at.parent.mkdir(parents=True)
        at.symlink_to(path)
        growing = GrowingMemory.open(str(place), "toy", embedder=BagOfWords())
        growing.recall("put the fig in the basket", "You hold the fig.").as_prompt()
        return [one.trajectory for one in growing._current().pending]

    def as_written(path: Path) -> Iterable[object]:
        there = opened(path)
        if not all(one in sound for one in there):
            raise AssertionError("something else was read than was added")
        return there

    def summed(content: bytes) -> bytes:
        lines = (line for line in content.split(b"\n") if line)
        return b"".join(line + b"\t%08x\n" % zlib.crc32(line) for line in lines)

    return [
        Subject("added", "a.log", content, as_written),
        Subject("added, with true sums", "a.log", texts, opened, wrap=summed),
    ]


def _snapshots(memory: Path) -> list[Subject]:
    """The files beside a memory that are read in place of its database."""
    present = generations(str(memory), "toy")
    sound = snapshot.read(str(memory), present)
    assert sound is not None
    held = [*map(records.dumps, sound.rows)], sound.vectors.distinct.tobytes()
    snapshots = memory / snapshot.SNAPSHOTS
    (there,) = snapshots.glob("*/*")

    def of_snapshot(path: Path) -> Iterable[object]:
        """Read the snapshot with one file in the place of its own: all of it, or nothing."""
        place = path.parent / "memory" / snapshot.SNAPSHOTS / there.relative_to(snapshots)
        place.mkdir(parents=True)
        for file in there.iterdir():
            (place / file.name).symlink_to(path if file.name == path.name else file)
        contents = snapshot.read(str(path.parent / "memory"), present)
        if contents is None:
            return [Problem(str(path), 1, "", "it is made again from the database")]
        rows = [*map(records.dumps, contents.rows)], contents.vectors.distinct.tobytes()
        if rows != held:
            raise AssertionError("another memory is read than was written")
        return rows[0]

    def of_catalog(path: Path) -> Iterable[object]:
        place = path.parent / "memory" / snapshot.SNAPSHOTS
        place.mkdir(parents=True)
        (place / snapshot.CATALOG).symlink_to(path)
        catalog = snapshot.catalog(str(place.parent))
        if catalog is None:
            return [Problem(str(path), 1, "", "the database is asked")]
        if catalog.generations != {"toy": present}:
            raise AssertionError("other generations are read than were written")
        return [catalog]

    def summed(content: bytes) -> bytes:
        return content + f"\n{zlib.crc32(content)}".encode()

    def of_lying_manifest(path: Path) -> Iterable[object]:
        try:
            return of_snapshot(path)
        except AssertionError:  # who writes a manifest may say what he likes
            return []

    parts = (*snapshot.TABLES, snapshot.VECTORS, snapshot.KINDS, snapshot.MANIFEST)
    manifest = (there / snapshot.MANIFEST).read_bytes().rpartition(b"\n")[0]
    return [
        *(
            Subject(f"snapshot's {name}", name, (there / name).read_bytes(), of_snapshot)
            for name in parts
        ),
        Subject("snapshot's manifest", "manifest.json", manifest, of_lying_manifest, wrap=summed),
        Subject("catalog", "catalog.json", (snapshots / snapshot.CATALOG).read_bytes(), of_catalog),
    ]


def caches(folder: Path) -> list[Subject]:
    """What ldm keeps to be faster: vectors, arrays, compiled data."""
    listed = ["an egg", "a mug", "a pan"]
    vectors = dict(zip(listed, BagOfWords().embed(listed), strict=True))
    (folder / "cached").mkdir()
    VectorFile(folder / "cached", Counting()).write(vectors)
    with closing(sqlite3.connect(folder / "cached" / FILE)) as database:
        database.execute("PRAGMA journal_mode = DELETE")

    def cached(path: Path) -> Iterable[object]:
        held = VectorFile(path.parent, Counting()).read(listed)
        if any(vector.tobytes() != vectors[text].tobytes() for text, vector in held.items()):
            raise AssertionError("another vector is read than was written")
        return [*held] if len(held) == len(listed) else [Problem("", 1, "", "computed anew")]

    source = folder / "source"
    source.write_text("a")

    def compiled_files(text: IO[bytes]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        text.write(b'["egg"]\n["mug"]\n')
        return {"ends": np.array([8, 16])}, {"digest": "a"}

    cache = folder / "compiled"
    open_compiled(compiled_files, [source], "1", cache)
    (place,) = (one.parent for one in cache.glob("*/meta.json"))

    def compiled(path: Path) -> Iterable[object]:
        there = path.parent / "cache" / place.name
        there.mkdir(parents=True)
        for file in place.iterdir():
            (there / file.name).symlink_to(path if file.name == path.name else file)
        made = open_compiled(compiled_files, [source], "1", there.parent)
        if path.name != "meta.json":
            return [value_at(made.text, 0, int(made.arrays["ends"][0]))]
        return [str(made.meta)]

    return [
        Subject("cached vectors", FILE, (folder / "cached" / FILE).read_bytes(), cached),
        *(
            Subject(f"compiled {file.name}", file.name, file.read_bytes(), compiled)
            for file in sorted(place.iterdir())
        ),
    ]
