"""Packs: a memory as one file with its vectors, so that importing embeds nothing.

A pack is a zip archive with exactly these members:

- `manifest.json`: `Manifest`;
- `batches.jsonl`: one `BatchIndex` per line;
- `passages.jsonl`: per line one passage (`ldm.memory.passages`) with its `generation`;
- `vectors.npy`: the distinct unit vectors, (n, dimension) float32. Passages refer to a vector by
  the first 24 hexadecimal digits of the SHA-256 of its bytes.

Equal memories give equal bytes. Members are never unpacked to a disk, and all are checked before
anything is written to a memory.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, ClassVar

import numpy as np
from pydantic import Field

from ldm import records
from ldm.errors import LdmError, MemoryStoreError
from ldm.memory import snapshot
from ldm.memory.access import creating
from ldm.memory.columns_builder import ColumnsBuilder
from ldm.memory.contents import Contents
from ldm.memory.index import FORMAT, BatchIndex, Generation
from ldm.memory.opening import known_generations, load
from ldm.memory.passages import add_passage, passages
from ldm.memory.rows import Rows
from ldm.memory.store import vector_id
from ldm.text import check_file, read_array
from ldm.types import Count, Origin, Outcome

SUFFIX = ".ldmpack"
MANIFEST, BATCHES, PASSAGES, VECTORS = MEMBERS = (
    "manifest.json",
    "batches.jsonl",
    "passages.jsonl",
    "vectors.npy",
)
#: A million tuples take some 600 MB; a manifest lists hidden tuples.
MAX_BYTES = {MANIFEST: 1 << 28, BATCHES: 1 << 30, PASSAGES: 1 << 33, VECTORS: 1 << 34}
#: Texts compress by a factor of about 20, a bomb by 1,000.
MAX_RATIO = 200
#: Maximum bytes of a line, enough for a trajectory of some thousand steps.
MAX_LINE = 1 << 26
#: The timestamp of every member, so that equal memories give equal bytes.
TIME = (1980, 1, 1, 0, 0, 0)
UNIT = 1e-3
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Member:
    """The size of a member in bytes, and its SHA-256."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a pack: its complete generations and the other members."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    format: int
    generations: tuple[Generation, ...]
    files: dict[str, Member]


def export_pack(location: str, env: str, path: Path, generation: int | None = None) -> int:
    """Write the memory of `env` up to `generation` (None: the newest) to a pack.

    Returns the number of tuples.
    Raises MemoryStoreError if there is no such memory or generation.
    """
    contents = load(location, env, generation)
    number = contents.generation.number
    present = [g for g in known_generations(location).get(env, ()) if g.number <= number]
    used = np.unique(np.concatenate([contents.vectors.goals, contents.vectors.observations]))
    distinct = {vector_id(one): one for one in contents.vectors.distinct[used]}
    ordered = np.stack([distinct[name] for name in sorted(distinct)])
    files: dict[str, Member] = {}
    with records.replaced(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as pack:
        batches = (records.dumps(batch) for batch in contents.batches)
        files[BATCHES] = _written(pack, BATCHES, (f"{line}\n".encode() for line in batches))
        lines = (f"{line}\n".encode() for line in _lines(contents))
        files[PASSAGES] = _written(pack, PASSAGES, lines)
        buffer = io.BytesIO()
        np.save(buffer, ordered)
        files[VECTORS] = _written(pack, VECTORS, iter([buffer.getvalue()]))
        manifest = Manifest(FORMAT, tuple(present), files)
        _written(pack, MANIFEST, iter([records.dumps(manifest).encode()]))
    return len(contents.rows)


def import_pack(location: str, path: Path) -> Generation:
    """Import a pack into `location`, which must have no memory of its environment.

    Returns its newest generation.
    Raises MemoryStoreError, before writing anything, if the pack is damaged, hostile or of another
    format, or the location already has a memory of its environment.
    """
    contents, generations = read_pack(path)
    with creating(location, contents.generation.env) as store:
        for _ in store.add_memory(contents, generations):
            pass
        snapshot.write(location, contents)
    return contents.generation


def read_pack(path: Path) -> tuple[Contents, tuple[Generation, ...]]:
    """Return the contents of a pack's newest generation, and all its generations.

    Raises MemoryStoreError if it is damaged, hostile or of another format.
    """
    check_file(path)
    try:
        with zipfile.ZipFile(path) as pack:
            return _read(pack)
    except _Refused as reason:
        problem = str(reason)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError) as error:
        problem = f"it is damaged ({' '.join(str(error).split())[:200]})"
    except RecursionError:
        problem = "it is nested too deeply"
    except LdmError as error:
        problem = error.message
    raise MemoryStoreError(
        f"{path} cannot be read as a pack: {problem}.", "Get it again, or export it again."
    )


class _Refused(Exception):
    """The reason why a pack is refused."""


def _read(pack: zipfile.ZipFile) -> tuple[Contents, tuple[Generation, ...]]:
    _check_members(pack)
    manifest = records.loads(_bytes(pack, MANIFEST), Manifest, file=MANIFEST)
    if manifest.format != FORMAT:
        raise _Refused(f"its manifest does not name format {FORMAT}")
    if not manifest.generations or {*manifest.files} != {*MEMBERS} - {MANIFEST}:
        raise _Refused("its manifest is incomplete")
    newest = manifest.generations[-1]
    made = {(one.env, one.embedder, one.dimension) for one in manifest.generations}
    numbers = [one.number for one in manifest.generations]
    if len(made) > 1 or numbers != [*range(len(numbers))]:
        raise _Refused("its generations are not those of one memory, numbered from 0")
    for name, member in manifest.files.items():
        _check_sum(pack, name, member)
    batches = tuple(
        records.loads(line, BatchIndex) for line in _bytes(pack, BATCHES).splitlines() if line
    )
    vectors = _vectors(pack, newest.dimension)
    builder = ColumnsBuilder(newest.env, newest.dimension)
    cells = {
        batch.id: [len(goal_type.observation_types) for goal_type in batch.goal_types]
        for batch in batches
    }
    with pack.open(PASSAGES) as file:
        for number, line in enumerate(_limited(file), 1):
            passage = records.loads(line, _Line, file=PASSAGES, line=number)
            try:
                _check_line(passage, newest, cells, vectors)
            except _Refused as error:
                raise _Refused(f"{PASSAGES}, line {number}: {error}") from error
            add_passage(builder, passage.generation, line, vectors)
    columns, of_rows = builder.collected()
    contents = Contents(newest, batches, Rows(columns), of_rows)
    for one in manifest.generations:
        held = contents.at(one)
        digest = held.rows.columns.digest(one, held.batches)
        if (len(held.rows), digest) != (one.tuples, one.digest):
            raise _Refused(f"generation {one.number} does not match its record")
    if {*columns.distinct("batch").values()} != {*cells}:
        raise _Refused("its batches do not match its tuples")
    return contents, manifest.generations


def _check_members(pack: zipfile.ZipFile) -> None:
    infos = pack.infolist()
    if sorted(info.filename for info in infos) != sorted(MEMBERS):
        raise _Refused(f"its members are not {', '.join(MEMBERS)}")
    for info in infos:
        if info.file_size > MAX_BYTES[info.filename]:
            raise _Refused(f"{info.filename} has more than {MAX_BYTES[info.filename]} bytes")
        if info.file_size > MAX_RATIO * max(info.compress_size, 1_000):
            raise _Refused(f"{info.filename} is compressed more than {MAX_RATIO} times")


def _check_sum(pack: zipfile.ZipFile, name: str, member: Member) -> None:
    digest, size = hashlib.sha256(), 0
    with pack.open(name) as file:
        while part := file.read(CHUNK):
            digest.update(part)
            size += len(part)
    if (size, digest.hexdigest()) != (member.size, member.sha256):
        raise _Refused(f"{name} does not have the size and checksum in the manifest")


def _bytes(pack: zipfile.ZipFile, name: str) -> bytes:
    with pack.open(name) as file:
        content = file.read(MAX_BYTES[name] + 1)
    if len(content) > MAX_BYTES[name]:
        raise _Refused(f"{name} is longer than it says")
    return content


def _limited(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise _Refused(f"a line of {PASSAGES} has more than {MAX_LINE} bytes")
        yield line


def _vectors(pack: zipfile.ZipFile, dimension: int) -> dict[str, bytes]:
    with pack.open(VECTORS) as file:
        array = read_array(io.BytesIO(file.read()))
    if not isinstance(array, np.ndarray):
        raise _Refused("its vectors are an archive")
    if array.dtype != np.float32 or array.ndim != 2 or array.shape[1] != dimension:
        raise _Refused(f"its vectors are not (n, {dimension}) float32")
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(array, axis=1)
    if not (np.abs(lengths - 1) <= UNIT).all():
        raise _Refused("a vector is not of unit length")
    return {vector_id(one): one.tobytes() for one in array}


_Share = Annotated[float, Field(ge=0, le=1)]
#: OWN_TEXTS, OWN_NUMBERS, and the two vectors of a tuple in a line.
_Values = tuple[Count, Count, Count, Count, Count, int, Count, Count, Count, _Share, Count, Count]


@dataclass(frozen=True, slots=True)
class _Line:
    """A passage (`ldm.memory.passages`) of a generation; the lists of its tuples are `_Values`."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    generation: Count
    goal: str
    kind: str
    split: str
    task_id: str
    source: str
    trajectory_id: str
    origin: Origin
    batch: str
    texts: tuple[str, ...]
    steps: tuple[tuple[int, int, int], ...]
    vectors: tuple[str, ...]
    tuples: tuple[_Values, ...]


def _check_line(
    one: _Line, newest: Generation, cells: Mapping[str, Sequence[int]], vectors: Mapping[str, bytes]
) -> None:
    """Raise _Refused if a line refers to something unknown."""
    if one.generation > newest.number:
        raise _Refused(f"there is no generation {one.generation}")
    if one.batch not in cells:
        raise _Refused(f"there is no batch {one.batch!r}")
    if not vectors.keys() >= {*one.vectors}:
        raise _Refused("one of its vectors is missing")
    for number, (before, *pair) in enumerate(one.steps):
        if not (-1 <= before < number and all(0 <= i < len(one.texts) for i in pair)):
            raise _Refused(f"its step {number} refers to an unknown text or step")
    widths = cells[one.batch]
    for *own, past, _, goal_type, observation_type, _, goal, observation in one.tuples:
        if max(own) >= len(one.texts):
            raise _Refused("a tuple refers to an unknown text")
        if not -1 <= past < len(one.steps):
            raise _Refused("a tuple has an invalid past")
        if goal_type >= len(widths) or observation_type >= widths[goal_type]:
            raise _Refused("a tuple is outside the cells of its batch")
        if max(goal, observation) >= len(one.vectors):
            raise _Refused("a tuple refers to an unknown vector")
        if outcome := one.texts[own[-1]]:
            records.loads(outcome, Outcome)


def _lines(contents: Contents) -> Iterator[str]:
    names = [vector_id(one) for one in contents.vectors.distinct]
    goals, observations = contents.vectors.goals, contents.vectors.observations
    for span in contents.rows.columns.batch_spans().values():
        pairs = [(names[goals[i]], names[observations[i]]) for i in range(span.start, span.stop)]
        for one in passages(contents.rows[span], pairs):
            head = json.dumps({"generation": one.generation})
            yield f"{head[:-1]},{one.content[1:]}"


def _written(pack: zipfile.ZipFile, name: str, parts: Iterator[bytes]) -> Member:
    info = zipfile.ZipInfo(name, TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    digest, size = hashlib.sha256(), 0
    with pack.open(info, "w", force_zip64=True) as file:
        for part in parts:
            file.write(part)
            digest.update(part)
            size += len(part)
    return Member(size, digest.hexdigest())
