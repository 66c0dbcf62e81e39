"""Memories, the files beside them, and caches: what `tests.hostile.formats` lists of these."""

import io
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from ldm import records
from ldm.embed.caching import FILES, VectorFile
from ldm.envs.download import open_compiled
from ldm.memory import inspect, record
from ldm.memory.growing import GrowingMemory
from ldm.memory.packs import export_pack, read_pack
from ldm.text import Problem
from ldm.types import Trajectory
from tests.embedder import BagOfWords, Counting
from tests.hostile.small import small_memory
from tests.hostile.subject import NEW, Subject
from tests.memory.stored import MANIFEST, joined, parts_of
from tests.toy import expert_trajectories


def memories(folder: Path) -> list[Subject]:
    """Packs, and the files of a memory, with sums that are true of them and without."""
    memory = small_memory(folder)
    export_pack(str(memory), "toy", folder / "memory.ldmpack")
    whole = (folder / "memory.ldmpack").read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as pack:
        members = {name: pack.read(name) for name in pack.namelist()}

    parts = parts_of(members[record.FILE])

    def packed(name: str) -> Callable[[bytes], bytes]:
        """Put a part of the file of tuples into a pack, with sums that are true of it."""

        def wrap(content: bytes) -> bytes:
            made = io.BytesIO()
            with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
                for member, text in members.items():
                    changed = joined({**parts, name: content}) if member == record.FILE else text
                    archive.writestr(member, changed)
            return made.getvalue()

        return wrap

    into = f"memory import FILE --memory {NEW}"
    return [
        Subject("pack", "m.ldmpack", whole, _of_pack, commands=(into,)),
        *(
            Subject(
                f"pack's {name}",
                "m.ldmpack",
                content,
                _of_pack,
                wrap=packed(name),
                commands=(into,),
            )
            for name, content in parts.items()
        ),
        *_files(memory),
        *_added(folder),
    ]


def _of_pack(path: Path) -> list[object]:
    with tempfile.TemporaryDirectory() as folder:
        contents = read_pack(path, Path(folder))
        return [*contents.rows] if contents else []


def _files(memory: Path) -> list[Subject]:
    """The files of a memory, read as they are and with true sums."""
    sound = [*map(records.dumps, inspect(str(memory), "toy").rows)]
    folder = record.folder_of(str(memory), "toy")

    def read(path: Path, name: Path) -> Iterable[object]:
        place = path.parent / "memory"
        shutil.copytree(memory, place)
        shutil.copyfile(path, place / name)
        return [*inspect(str(place), "toy").rows]

    def as_written(name: Path) -> Callable[[Path], Iterable[object]]:
        def rows(path: Path) -> Iterable[object]:
            there = [*read(path, name)]
            if [*map(records.dumps, there)] not in (sound, sound[: len(there)]):
                raise AssertionError("another memory is read than was written")
            return there

        return rows

    def as_read(name: Path) -> Callable[[Path], Iterable[object]]:
        return lambda path: read(path, name)

    names = sorted(p.relative_to(memory) for p in folder.rglob("*") if p.is_file())
    whole = parts_of((memory / names[0]).read_bytes())
    return [
        *(
            Subject(f"memory's {n.name}", n.name, (memory / n).read_bytes(), as_written(n))
            for n in names
        ),
        Subject(
            "memory's manifest with a true sum",
            MANIFEST,
            whole[MANIFEST],
            as_read(names[0]),
            wrap=lambda content: joined({**whole, MANIFEST: content}),
        ),
    ]


def _added(folder: Path) -> list[Subject]:
    """The log of episodes: lines with checksums, and lines whose checksums are true."""
    sound = expert_trajectories()[:3]
    memory = GrowingMemory.open(str(folder / "added"), "toy", embedder=BagOfWords(), create=True)
    for one in sound:
        memory.add(one)
    log = record.folder_of(str(folder / "added"), "toy") / "episodes.log"
    content = log.read_bytes()
    texts = b"".join(line.rpartition(b"\t")[0] + b"\n" for line in content.splitlines())

    def opened(path: Path) -> list[Trajectory]:
        place = path.parent / "memory"
        with record.writing(str(place)):
            at = record.folder_of(str(place), "toy") / "episodes.log"
            at.parent.mkdir(parents=True)
            shutil.copyfile(path, at)
        growing = GrowingMemory.open(str(place), "toy", embedder=BagOfWords())
        growing.recall("put the fig in the basket", "You hold the fig.").as_prompt()
        return [*growing._current().pending.values()]

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


def caches(folder: Path) -> list[Subject]:
    """What ldm keeps to be faster: vectors, arrays, compiled data."""
    listed = ["an egg", "a mug", "a pan"]
    vectors = dict(zip(listed, BagOfWords().embed(listed), strict=True))
    (folder / "cached").mkdir()
    VectorFile(folder / "cached", Counting()).write(vectors)
    (kept,) = (folder / "cached").glob(FILES)

    def cached(path: Path) -> Iterable[object]:
        held = VectorFile(path.parent, Counting()).read(listed)
        if any(vector.tobytes() != vectors[text].tobytes() for text, vector in held.items()):
            raise AssertionError("another vector is read than was written")
        return [*held] if len(held) == len(listed) else [Problem("", 1, "", "computed anew")]

    source = folder / "source"
    source.write_text("a")

    def compiled_files(text: IO[bytes]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        text.write(b'["egg"]\n["mug"]\n')
        return {"text_ends": np.array([8, 16])}, {"digest": "a"}

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
            return [made.value(0)]
        return [str(made.meta)]

    return [
        Subject("cached vectors", kept.name, kept.read_bytes(), cached),
        *(
            Subject(f"compiled {file.name}", file.name, file.read_bytes(), compiled)
            for file in sorted(place.iterdir())
        ),
    ]
