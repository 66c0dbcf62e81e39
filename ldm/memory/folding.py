"""Folding: forming the finished episodes of a log into the next generation.

A growing memory does this in a process of its own (`python -m ldm.memory.folding`), so that neither
the threads of the libraries that it needs nor its memory stay in the agent's process. It gives that
process an order and the vectors of the texts.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from ldm import records
from ldm.embed import Embedder
from ldm.embed.caching import remove as remove_vectors
from ldm.errors import LdmError, MemoryLocked, MemoryStoreError
from ldm.memory import chroma, record
from ldm.memory.formation import FormationOptions, form
from ldm.memory.index import Place
from ldm.memory.lessons import Known
from ldm.memory.log import EpisodeLog, Episodes
from ldm.memory.places import newest
from ldm.reason.offline import OfflineReasoner

#: Episodes of the first generation. A later one has at most as many as all before it together, as a
#: memory learns early what its episodes call for, and at least this share of them, because to
#: write one costs as much as to read them all.
FIRST, SHARE = 10, 0.1


def enough(batch_size: int, folded: int) -> int:
    """Return the number of episodes of the next generation. folded: the number in batches."""
    return min(max(batch_size, int(SHARE * folded)), max(FIRST, folded))


@dataclass(frozen=True, slots=True)
class Order:
    """What to form. episodes: the ids of trajectories. least: the number of new ones to form.

    embedder: its name. texts: those whose vectors follow. patience: seconds to wait for another
        process that writes.
    """

    location: str
    env: str
    embedder: str
    texts: tuple[str, ...]
    episodes: tuple[str, ...]
    batch_size: int
    least: int
    patience: float


def fold(order: Order, embedder: Embedder) -> None:
    """Form finished episodes into the next generation, if they are enough.

    embedder: knows their texts.

    Raises MemoryStoreError if it cannot be written, or another process is writing.
    """
    with record.writing(order.location, order.patience):
        folder = record.folder_of(order.location, order.env)
        base = newest(order.location, order.env, embedder)
        events, end = EpisodeLog(folder).read(base.log)
        episodes = Episodes()
        finished = episodes.take(event for _, event in events)
        waiting = {one.id: one for one in finished.values() if one.id not in base.trajectories}
        new = [waiting.pop(name) for name in order.episodes if name in waiting]
        if not new or len(new) < order.least:
            return
        options = FormationOptions(order.batch_size, failures="contrast")
        contents = form(new, options, embedder, OfflineReasoner(embedder), base)
        # The next reading begins at the first event of an episode that is not in it.
        left = (name for name, one in finished.items() if one.id in waiting)
        later = {*episodes.running, *left}
        first = [at for at, event in events if getattr(event, "episode", "") in later]
        contents = replace(contents, log=Place(end.log, min(first, default=end.end)))
        record.commit(order.location, contents)
        with suppress(OSError):
            remove_vectors(folder)
        with suppress(MemoryStoreError):  # `ldm memory verify` tells, and the next batch repeats it
            chroma.publish_beside(order.location, contents)


def main() -> None:
    """Carry out the order in standard input; print an error as JSON to standard error."""
    order = records.loads(sys.stdin.buffer.readline(), Order)
    vectors = np.load(sys.stdin.buffer)
    by_text = dict(zip(order.texts, vectors, strict=True))
    known = Known(order.embedder, vectors.shape[1], by_text)
    try:
        fold(order, known)
    except LdmError as error:
        if order.patience or not isinstance(error, MemoryLocked):
            sys.exit(json.dumps([error.message, error.remedy]))


if __name__ == "__main__":
    main()
