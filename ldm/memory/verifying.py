"""Verifying a memory: whether its files are sound and agree, and whether Chroma holds the same."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from ldm import records
from ldm.embed import Embedder
from ldm.errors import LdmError, MemoryStoreError
from ldm.memory import chroma, places, record
from ldm.memory.index import IndexedTuple
from ldm.memory.lessons import Contents
from ldm.memory.log import EpisodeLog
from ldm.memory.record import is_server
from ldm.records import adapter

#: The minimum cosine of a new vector to the stored one; embedders differ in the last bits.
SAME = 0.999
#: Tolerance for the length of a unit vector.
UNIT = 1e-3
#: Vectors compared at a time.
ROWS = 10_000
#: Texts embedded again.
TEXTS_TRIED = 200


def verify(location: str, env: str, embedder: Embedder | None = None) -> list[str]:
    """Return the problems of an environment's memory in words; an empty list if it is sound.

    The checksum of every file, and the count and hash of every generation are compared with their
    record. Vectors must have unit length, cells must exist and hold a tuple, the logs must be
    undamaged, and Chroma must hold the same tuples.

    embedder: the one that the memory was built with. It embeds some texts again, to compare the
        vectors; None skips this.

    Raises MemoryStoreError if there is no memory or it cannot be read at all.
    """
    contents = places.load(location, env)
    problems = problems_of(contents)
    if embedder is not None:
        problems += _text_problems(contents, embedder)
    if is_server(location):
        return problems
    folder = record.folder_of(location, env)
    try:
        EpisodeLog(folder).read()
    except MemoryStoreError as error:
        problems.append(f"log: {error.message}")
    problems += [f"Chroma: {one}" for one in chroma.differences(contents, chroma.beside(location))]
    return problems


def problems_of(contents: Contents) -> list[str]:
    """Return the problems within the contents of a memory's newest generation."""
    problems = []
    if len({(one.env, one.embedder, one.dimension) for one in contents.generations}) > 1:
        problems.append("its generations are not those of one memory")
    for one in contents.generations:
        held = contents.at(one.number)
        digest = held.rows.digest(one, held.batches)
        if (len(held.rows), digest) != (one.tuples, one.digest):
            problems.append(f"generation {one.number} does not match its record")
    checks = (_value_problems, _vector_problems, _cell_problems)
    return [*problems, *(problem for check in checks for problem in check(contents))]


def _value_problems(contents: Contents) -> Iterator[str]:
    written = adapter(IndexedTuple)
    try:
        for row in contents.rows:
            records.loads(written.dump_json(row, warnings=False), IndexedTuple)
    except (LdmError, ValueError) as error:
        yield f"a tuple has a value that none can have: {error}"


def _vector_problems(contents: Contents) -> Iterator[str]:
    distinct = contents.rows.vectors
    for start in range(0, len(distinct), ROWS):
        with np.errstate(all="ignore"):
            lengths = np.linalg.norm(distinct[start : start + ROWS], axis=1)
        if wrong := int(np.count_nonzero(~(np.abs(lengths - 1) <= UNIT))):
            yield f"{wrong} vectors are not of unit length"


def _cell_problems(contents: Contents) -> Iterator[str]:
    filled = contents.rows.spans().keys()
    if {one[0] for one in filled} != {batch.id for batch in contents.batches}:
        yield "its batches do not match its tuples"
    known = {
        (batch.id, g, o)
        for batch in contents.batches
        for g, goal_type in enumerate(batch.goal_types)
        for o in range(len(goal_type.observation_types))
    }
    if wrong := {one for one in filled if len(one) == 3} - known:
        yield f"there are tuples in cells that do not exist: {sorted(wrong)}"


def _text_problems(contents: Contents, embedder: Embedder) -> Iterator[str]:
    contents.generation.check_embedder(embedder.name)
    known = contents.vectors_of_texts()
    for text in random.Random(0).sample(sorted(known), min(TEXTS_TRIED, len(known))):
        [vector] = embedder.embed([text])
        cosine = float(np.vecdot(known[text], vector))
        if not cosine >= SAME:
            yield f"the vector of {text[:60]!r} is not the embedder's (cosine {cosine:.3f})"
