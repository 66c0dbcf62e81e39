"""Folding: forming the finished episodes of a log into the next generation.

A growing memory does this in a process of its own (`python -m ldm.memory.folding`), so that neither
the threads of the libraries that it needs nor its memory stay in the agent's process.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from ldm.errors import LdmError, MemoryLocked, MemoryStoreError
from ldm.memory import chroma, record
from ldm.memory.building import form_next
from ldm.memory.formation import FormationOptions
from ldm.memory.index import Generation
from ldm.memory.log import EpisodeLog, Episodes, Place, key_of

#: Seconds to wait for another process that writes, where its batch is not the one that is wanted.
PATIENCE = 60.0
#: Episodes of the first batch. Each later one is at most as large as all before it together, until
#: it has the size that was asked for: a memory learns early what its episodes call for.
FIRST = 10


def enough(batch_size: int, folded: int) -> int:
    """Return the number of episodes of the next batch. folded: the number in batches."""
    return min(batch_size, max(FIRST, folded))


class StoredVectors:
    """An embedder that knows the texts of a log only."""

    def __init__(self, name: str, vectors: Mapping[bytes, NDArray[np.float32]], size: int) -> None:
        """Take the vectors by the keys of their texts. size: their dimension."""
        self.name = name
        self.dimension = size
        self._vectors = vectors

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, dimension) unit vectors; raise MemoryStoreError if one is not stored."""
        try:
            known = [self._vectors[key_of(text)] for text in texts]
        except KeyError as error:
            raise MemoryStoreError(
                "The vector of a recorded text is missing.",
                "Open the memory in Python, which computes it, and repeat the command.",
            ) from error
        return np.stack(known) if known else np.empty((0, self.dimension), np.float32)


def fold(
    location: str,
    env: str,
    dimension: int,
    batch_size: int,
    *,
    everything: bool = False,
    rest: bool = False,
) -> Generation | None:
    """Form the finished episodes into the next generation, if they fill a batch.

    dimension: of the stored vectors. everything, rest: whether fewer than a batch are
        enough; for everything, another process that is writing is waited for.

    Returns the newest generation, or None if there is none.
    Raises MemoryStoreError if it cannot be written, or another process is writing.
    """
    with record.writing(location, PATIENCE if everything else 0.0):
        folder = record.folder_of(location, env)
        listed = record.manifest(folder)
        present = listed.visible if listed else ()
        base = record.load(location, env) if listed else None
        log = EpisodeLog(folder)
        events, end = log.read(Place(*listed.log) if listed else Place())
        episodes = Episodes()
        finished = episodes.take(event for _, event in events)
        held = {name for batch in base.batches for name in batch.trajectories} if base else set()
        new = [one for one in finished.values() if one.id not in held]
        if not new or (len(new) < enough(batch_size, len(held)) and not (everything or rest)):
            return present[-1] if present else None
        options = FormationOptions(batch_size, failures="contrast")
        embedder = StoredVectors(log.embedder(), log.vectors(dimension), dimension)
        contents = form_next(env, new, embedder, options, base)
        first = [at for at, event in events if getattr(event, "episode", "") in episodes.running]
        made = (*present, contents.generation)
        record.commit(location, contents, made, (end.log, min(first, default=end.end)))
        log.drop_vectors(end)
        with suppress(MemoryStoreError):  # `ldm memory verify` tells, and the next batch repeats it
            chroma.publish_beside(location, contents, made)
        return contents.generation


def main() -> None:
    """Fold one memory; print an error as JSON in the last line of standard error."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("location")
    parser.add_argument("env")
    parser.add_argument("--dimension", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--everything", action="store_true")
    parser.add_argument("--rest", action="store_true")
    given = parser.parse_args()
    try:
        fold(**vars(given))
    except LdmError as error:
        if given.everything or not isinstance(error, MemoryLocked):
            sys.exit(json.dumps([error.message, error.remedy]))


if __name__ == "__main__":
    main()
