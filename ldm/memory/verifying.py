"""Verifying a memory: whether its parts agree, and its snapshot with Chroma."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ldm.embed import Embedder
from ldm.errors import MemoryStoreError
from ldm.memory import additions, locks, snapshot
from ldm.memory.access import reading
from ldm.memory.addresses import is_server
from ldm.memory.contents import Contents
from ldm.memory.index import Generation
from ldm.memory.purging import leftovers

#: The minimum cosine of a new vector to the stored one; embedders differ in the last bits.
SAME = 0.999
#: Tolerance for the length of a unit vector.
UNIT = 1e-3
#: Rows compared at a time.
ROWS = 10_000
#: Texts embedded again.
TEXTS_TRIED = 200


def verify(
    location: str,
    env: str,
    embedder: Embedder | None = None,
    texts: int = TEXTS_TRIED,
    seed: int = 0,
) -> list[str]:
    """Return the problems of an environment's memory in words; an empty list if it is sound.

    Every generation is read from Chroma, and its count and hash are compared with its record.
    Vectors must have unit length, cells must exist and hold a tuple, the snapshot must equal
    Chroma's contents, and the logs of additions must be undamaged.

    embedder: the one that the memory was built with. It embeds up to `texts` distinct texts again,
        chosen by `seed`, to compare the vectors; None skips this.

    Raises MemoryStoreError if there is no memory or it cannot be read at all.
    """
    problems: list[str] = []
    with reading(location) as store:
        complete = store.complete()
        present = complete.get(env, ())
        if not present:
            raise MemoryStoreError(
                f"{location} holds no memory of {env}.", "Make one with `ldm build-memory DATA`."
            )
        contents = None
        for generation in present:
            try:
                contents = store.load(env, generation.number)
            except MemoryStoreError as error:
                problems.append(f"generation {generation.number}: {error.message}")
                contents = None
    if contents is not None:
        problems += _vector_problems(contents)
        problems += _cell_problems(contents)
        problems += _snapshot_problems(location, present, contents)
        if embedder is not None:
            problems += _text_problems(contents, embedder, texts, seed)
    if not is_server(location):
        problems += _addition_problems(location, env)
    if not is_server(location) and not locks.is_held(location):
        newest = [generations[-1] for generations in complete.values()]
        unused = [path.name for path in snapshot.outdated(location, newest)]
        problems += [f"left over: {name}" for name in (*leftovers(Path(location)), *unused)]
    return problems


def _addition_problems(location: str, env: str) -> Iterator[str]:
    """Yield the problems of the logs of additions and feedback."""
    for log in (additions.additions(location, env), additions.feedback(location, env)):
        try:
            log.read()
        except MemoryStoreError as error:
            yield f"added: {error.message}"


def _vector_problems(contents: Contents) -> Iterator[str]:
    distinct = contents.vectors.distinct
    for start in range(0, len(distinct), ROWS):
        lengths = np.linalg.norm(distinct[start : start + ROWS], axis=1)
        if wrong := int(np.count_nonzero(~(np.abs(lengths - 1) <= UNIT))):
            yield f"{wrong} vectors are not of unit length"


def _cell_problems(contents: Contents) -> Iterator[str]:
    for batch in contents.batches:
        cells = {(g, o) for _, g, o in batch.cells()}
        filled = contents.rows.sizes(batch.id).keys()
        for words, wrong in (
            ("has tuples in cells that it does not have", filled - cells),
            ("has empty cells", cells - filled),
        ):
            if wrong:
                yield f"batch {batch.id} {words}: {sorted(wrong)}"


def _snapshot_problems(
    location: str, present: tuple[Generation, ...], contents: Contents
) -> Iterator[str]:
    """Yield the differences to the snapshot, if there is one."""
    if not is_server(location) and locks.is_held(location):
        return
    mapped = snapshot.read(location, present)
    if mapped is None:
        return
    generation = contents.generation
    if mapped.rows.columns.digest(generation, mapped.batches) != generation.digest:
        yield "the snapshot differs from Chroma in its tuples or batches"
        return
    for start in range(0, len(mapped.rows), ROWS):
        part = slice(start, start + ROWS)
        if not np.array_equal(mapped.vectors[part], contents.vectors[part]):
            yield "the snapshot differs from Chroma in its vectors"
            return


def _text_problems(contents: Contents, embedder: Embedder, limit: int, seed: int) -> Iterator[str]:
    contents.generation.check_embedder(embedder.name)
    columns, vectors = contents.rows.columns, contents.vectors
    pairs = {
        int(columns[name][i]): int(numbers[i])
        for name, numbers in (("goal", vectors.goals), ("observation", vectors.observations))
        for i in np.unique(columns[name], return_index=True)[1].tolist()
    }
    drawn = sorted(random.Random(seed).sample(sorted(pairs), min(limit, len(pairs))))
    for text in drawn:
        [vector] = embedder.embed([columns.texts[text]])
        cosine = float(np.vecdot(vectors.distinct[pairs[text]], vector))
        if not cosine >= SAME:
            yield (
                f"the vector of {columns.texts[text][:60]!r} is not the embedder's"
                f" (cosine {cosine:.3f})"
            )
