"""A memory as one JSONL file to read, without its vectors; `ldm.memory.packs` moves memories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import not_
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ldm import records
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.memory.places import known_generations, load


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an exported memory: a generation, the index of a batch, or a tuple in its cell.

    id: of the tuple; recorded recalls name it.
    """

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
