"""A memory as one JSONL file without its vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import not_
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from ldm import records
from ldm.embed import Embedder
from ldm.errors import MemoryStoreError
from ldm.memory import snapshot
from ldm.memory.access import creating
from ldm.memory.columns_builder import digest
from ldm.memory.contents import empty
from ldm.memory.index import BatchIndex, Cell, Generation, IndexedTuple
from ldm.memory.known_vectors import KnownVectors, OnProgress
from ldm.memory.opening import known_generations, load


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an exported memory: a generation, the index of a batch, or a tuple in its cell.

    id: of the tuple, for readers of the file; recorded recalls name it. It is not imported.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    generation: Generation | None = None
    batch: BatchIndex | None = None
    tuple: IndexedTuple | None = None
    id: Annotated[str, Field(exclude_if=not_)] = ""


def export(location: str, env: str, path: Path, generation: int | None = None) -> int:
    """Write the memory of `env` up to `generation` to a file; equal memories give equal bytes.

    location: a directory or the http(s) address of a Chroma server.
    path: the JSONL file; .gz compresses it.
    generation: the last exported one; None for the newest.

    Returns the number of tuples.
    Raises MemoryStoreError if there is no such memory or generation.
    """
    contents = load(location, env, generation)
    present = known_generations(location).get(env, ())

    def lines() -> Iterator[Line]:
        yield from (Line(generation=g) for g in present if g.number <= contents.generation.number)
        yield from (Line(batch=b) for b in contents.batches)
        yield from (Line(tuple=r, id=r.tuple.id) for r in contents.rows)

    records.write(path, lines())
    return len(contents.rows)


def import_memory(
    location: str,
    path: Path,
    embedder: Embedder,
    on_progress: OnProgress = lambda *_: None,
    *,
    as_new: bool = False,
) -> Generation:
    """Import an exported memory into `location`, embedding its texts again.

    location: a directory, created if absent, or the http(s) address of a Chroma server.
    path: a file that `export` wrote.
    embedder: the one that the exported memory was built with.
    on_progress: called with (stage, done, total) as texts are embedded.
    as_new: accept an edited file; its content becomes a memory of one generation.

    Returns the newest generation of the file.
    Raises RecordError for an invalid line, MemoryStoreError if the file is incomplete or was made
    with another embedder, or the location already has a memory of that environment.
    """
    lines = records.read(path, Line)
    generations = [line.generation for line in lines if line.generation]
    rows = [line.tuple for line in lines if line.tuple]
    if not generations:
        raise MemoryStoreError(
            f"{path} is not an exported memory.", "`ldm memory export` makes one."
        )
    newest = generations[-1]
    newest.check_embedder(embedder.name)
    batches = [line.batch for line in lines if line.batch]
    if as_new:
        newest, batches, rows = _as_new(path, newest, batches, rows)
        generations = [newest]
    complete = all(_is_whole(one, rows, batches) for one in generations)
    if not complete or {row.batch for row in rows} != {batch.id for batch in batches}:
        raise MemoryStoreError(
            f"{path} is incomplete or was changed.",
            "Export it again, or accept its content with --as-new.",
        )
    with creating(location, newest.env) as store:
        vectors = KnownVectors(embedder).embed_rows(rows, on_progress)
        contents = empty(newest).extended(rows, vectors, batches)
        for _ in store.add_memory(contents, generations):
            pass
        snapshot.write(location, contents)
    return newest


def _as_new(
    path: Path, newest: Generation, batches: list[BatchIndex], rows: list[IndexedTuple]
) -> tuple[Generation, list[BatchIndex], list[IndexedTuple]]:
    """Return the content of an edited file as a memory of one generation.

    Raises MemoryStoreError if a tuple is outside the cells of its batch, or a cell is empty.
    """
    cells = frozenset[Cell]().union(*(batch.cells() for batch in batches))
    distinct = {row.tuple.id: row for row in rows}
    if not rows or {row.cell for row in distinct.values()} != cells:
        raise MemoryStoreError(
            f"{path} has a tuple outside the cells of its batches, or a cell without any tuple.",
            "Give each tuple a cell of its batch, and remove empty types.",
        )
    renumbered = [replace(row, tuple=replace(row.tuple, generation=0)) for row in distinct.values()]
    generation = replace(
        newest,
        number=0,
        origin="formed",
        tuples=len(renumbered),
        tasks=(),
        hidden=tuple(name for name in newest.hidden if name in distinct),
    )
    batches = [replace(batch, generation=0) for batch in batches]
    generation = replace(generation, digest=digest(renumbered, generation, batches))
    return generation, batches, renumbered


def _is_whole(
    generation: Generation, rows: Sequence[IndexedTuple], batches: Sequence[BatchIndex]
) -> bool:
    """Return whether the tuples and batches of a generation match its record."""
    number = generation.number
    held = [row for row in rows if row.tuple.generation <= number]
    indices = [batch for batch in batches if batch.generation <= number]
    return (len(held), digest(held, generation, indices)) == (generation.tuples, generation.digest)
