"""The store of a memory in Chroma: an embedded directory or a server.

Each environment has three collections: passages (`ldm.memory.passages`), the distinct vectors of
goals and observations, and records, which hold the indices of batches and the generations. A
generation exists once its record does; readers ignore tuples and batches beyond the last one, which
an interrupted writer left.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldm import records
from ldm.errors import MemoryStoreError, RecordError
from ldm.memory import locks
from ldm.memory.chroma import collection_of, is_internal, with_store_errors
from ldm.memory.columns import Vectors
from ldm.memory.columns_builder import ColumnsBuilder
from ldm.memory.contents import Contents
from ldm.memory.directory import chosen_of
from ldm.memory.index import FORMAT, BatchIndex, Generation, IndexedTuple
from ldm.memory.passages import add_passage, passages, vectors_of
from ldm.memory.rows import Rows
from ldm.types import stable_hash

T = TypeVar("T")
#: Chroma refuses writes of more than 5,461 rows; smaller ones keep the progress bar moving.
WRITE_ROWS = 2_000
READ_ROWS = 5_000
#: Passages have some thousand characters each.
PASSAGES = 500
#: Attempts to read a memory before it counts as damaged, and the seconds between them.
READS = 3
PAUSE = 0.1
#: Hexadecimal digits of a vector's id.
VECTOR_ID = 24
#: Errors that a changed or dangling passage may raise.
DAMAGE = (KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError)
_PREFIX = "ldm"
#: The vector of rows that need none; Chroma demands one.
_NO_VECTOR = [1.0]


class Store:
    """A memory location, opened for reading or (by one process at a time) for writing.

    Every method raises MemoryStoreError if the store fails.
    lock: the lock of a writer on a server; every write checks that it is still held.
    """

    def __init__(self, location: str, client: Any) -> None:
        """Wrap an open Chroma client; callers use `reading` or `writing` instead."""
        self.location = location
        self.client = client
        self.lock: locks.ServerLock | None = None

    @with_store_errors
    def complete(self) -> dict[str, tuple[Generation, ...]]:
        """Return the complete generations by environment, sorted, oldest first."""
        by_env = {}
        for collection in self.client.list_collections():
            metadata = collection.metadata or {}
            if metadata.get("ldm") == "records":
                by_env[str(metadata["env"])] = self._generations(self._current(collection))
        return {env: by_env[env] for env in sorted(by_env) if by_env[env]}

    @with_store_errors
    def generations(self, env: str) -> tuple[Generation, ...]:
        """List the complete generations of `env`, oldest first; empty if there is no memory."""
        collection = self._collection(env, "records")
        return self._generations(collection) if collection else ()

    @with_store_errors
    def load(self, env: str, generation: int | None = None) -> Contents:
        """Read the memory of `env` up to `generation` (None: the newest).

        Raises MemoryStoreError if there is no such memory or generation, or it is damaged.
        """
        for attempt in range(1, READS + 1):
            # A writer that removes rows meanwhile shifts the pages that are read here, or removes
            # a row between its being listed and read, which Chroma calls an internal error.
            try:
                if contents := self._read(env, generation):
                    return contents
            except MemoryStoreError as error:
                if not is_internal(error.__cause__) or attempt == READS:
                    raise
            time.sleep(PAUSE)
        raise MemoryStoreError(
            f"The memory of {env} in {self.location} is damaged: it does not hold the tuples and "
            "batches that were written.",
            "Build it again with `ldm build-memory DATA --rebuild`.",
        )

    def _read(self, env: str, generation: int | None) -> Contents | None:
        """Read a memory once; return None if the result is incomplete."""
        chosen = chosen_of(self.generations(env), self.location, env, generation)
        number = chosen.number
        batches = tuple(b for b in self.batches(env) if b.generation <= number)
        try:
            rows, vectors = self.rows(env, number, chosen.dimension)
        except DAMAGE:
            return None
        columns = rows.columns
        complete = len(rows) == chosen.tuples and columns.digest(chosen, batches) == chosen.digest
        if not complete or {*columns.distinct("batch").values()} != {b.id for b in batches}:
            return None
        return Contents(chosen, batches, rows, vectors)

    @with_store_errors
    def batches(self, env: str) -> tuple[BatchIndex, ...]:
        """List the complete batches by id, those of an unfinished generation included."""
        collection = self._collection(env, "records")
        batches = _records(collection, "batch", BatchIndex) if collection else []
        return tuple(sorted(batches, key=lambda batch: batch.id))

    @with_store_errors
    def embedder(self, env: str) -> str:
        """Return the embedder of the stored vectors, even of an unfinished generation, or ""."""
        collection = self._collection(env, "vectors")
        return str(collection.metadata["embedder"]) if collection else ""

    @with_store_errors
    def add_tuples(
        self, rows: Sequence[IndexedTuple], vectors: NDArray[np.float32], embedder: str
    ) -> None:
        """Write n tuples of one environment; writing a tuple again changes nothing.

        vectors: (n, 2 · dimension), as in `Contents`. embedder: the name of their embedder.
        """
        if not rows:
            return
        self._check_lock()
        env = rows[0].tuple.env
        halves = np.asarray(vectors, np.float32).reshape(2 * len(rows), -1)
        ids = [vector_id(half) for half in halves]
        self._add_vectors(env, dict(zip(ids, halves, strict=True)), embedder)
        collection = self._collection(env, "trajectories", embedder)
        new = list(passages(rows, list(zip(ids[::2], ids[1::2], strict=True))))
        for start in range(0, len(new), PASSAGES):
            part = new[start : start + PASSAGES]
            collection.upsert(
                ids=[one.id for one in part],
                embeddings=[_NO_VECTOR] * len(part),
                # Not documents, because Chroma indexes all trigrams of those.
                metadatas=[
                    {"generation": one.generation, "batch": one.batch, "content": one.content}
                    for one in part
                ],
            )

    def _add_vectors(
        self, env: str, vectors: dict[str, NDArray[np.float32]], embedder: str
    ) -> None:
        collection = self._collection(env, "vectors", embedder)
        names = list(vectors)
        for start in range(0, len(names), WRITE_ROWS):
            part = names[start : start + WRITE_ROWS]
            known = frozenset(collection.get(ids=part, include=[])["ids"])
            new = [name for name in part if name not in known]
            if new:
                collection.upsert(ids=new, embeddings=np.stack([vectors[name] for name in new]))

    def add_memory(self, contents: Contents, generations: Sequence[Generation]) -> Iterator[int]:
        """Write a whole memory, its generations last; yield the number of tuples of each step."""
        env, embedder = contents.generation.env, contents.generation.embedder
        for span in contents.rows.columns.batch_spans().values():
            self.add_tuples(contents.rows[span], contents.vectors[span], embedder)
            yield span.stop - span.start
        for batch in contents.batches:
            self.add_batch(env, batch)
        self.commit(*generations)

    @with_store_errors
    def add_batch(self, env: str, batch: BatchIndex) -> None:
        """Write the index of a batch, after its tuples: an index marks a complete batch."""
        self._put(env, "batch", {f"batch:{batch.id}": batch})

    @with_store_errors
    def commit(self, *generations: Generation) -> None:
        """Write the records of generations of one environment, after their data, all at once."""
        self._check_lock()
        named = {f"generation:{one.number:06d}": one for one in generations}
        self._put(generations[0].env, "generation", named)

    @with_store_errors
    def withdraw_after(self, env: str, generation: int) -> None:
        """Withdraw later generations from readers, until `restore` or `drop_after`."""
        self._check_lock()
        log = self._collection(env, "records")
        if later := [g for g in self._generations(log) if g.number > generation]:
            self._put(env, "withdrawn", {f"withdrawn:{g.number:06d}": g for g in later})
            log.delete(ids=[f"generation:{g.number:06d}" for g in later])

    @with_store_errors
    def withdrawn(self, env: str) -> tuple[Generation, ...]:
        """List the withdrawn generations that can be restored, oldest first."""
        log = self._collection(env, "records")
        if log is None:
            return ()
        last = max((g.number for g in self._generations(log)), default=-1)
        return tuple(g for g in self._generations(log, "withdrawn") if g.number > last)

    @with_store_errors
    def restore(self, env: str, generation: int) -> None:
        """Restore the withdrawn generations up to `generation`."""
        if generations := [g for g in self.withdrawn(env) if g.number <= generation]:
            self.commit(*generations)
            names = [f"withdrawn:{g.number:06d}" for g in generations]
            self._collection(env, "records").delete(ids=names)

    @with_store_errors
    def drop_after(self, env: str, generation: int, keep: Iterable[str] = ()) -> None:
        """Remove all data of later generations, withdrawn ones included, except batches `keep`."""
        log = self._collection(env, "records")
        if log is None:  # nothing was ever completed, or `drop` was interrupted
            self.drop(env)
            return
        self._check_lock()
        kept_ids = set(keep)
        log.delete(where={"record": "withdrawn"})
        if later := [g.number for g in self._generations(log) if g.number > generation]:
            log.delete(ids=[f"generation:{number:06d}" for number in later])
        stale_batches = [
            b.id for b in self.batches(env) if b.generation > generation and b.id not in kept_ids
        ]
        if stale_batches:
            log.delete(ids=[f"batch:{batch}" for batch in stale_batches])
        if collection := self._collection(env, "trajectories"):
            self._drop_rows(env, collection, generation, kept_ids)

    def _drop_rows(self, env: str, collection: Any, generation: int, keep: set[str]) -> None:
        later = collection.get(where={"generation": {"$gt": generation}}, include=["metadatas"])
        stale = [
            row_id
            for row_id, values in zip(later["ids"], later["metadatas"], strict=True)
            if values["batch"] not in keep
        ]
        for start in range(0, len(stale), WRITE_ROWS):
            collection.delete(ids=stale[start : start + WRITE_ROWS])
        if stale:
            self._drop_unused_vectors(env)

    def _drop_unused_vectors(self, env: str) -> None:
        collection = self._collection(env, "vectors")
        if collection is None:
            return
        used = {name for values in self._passages(env) for name in vectors_of(values["content"])}
        unused = [name for name in collection.get(include=[])["ids"] if name not in used]
        for start in range(0, len(unused), WRITE_ROWS):
            collection.delete(ids=unused[start : start + WRITE_ROWS])

    @with_store_errors
    def drop(self, env: str) -> None:
        """Remove everything of `env`."""
        self._check_lock()
        for content in ("records", "trajectories", "vectors"):
            if self._collection(env, content) is not None:
                self.client.delete_collection(_collection_name(env, content))

    @with_store_errors
    def rows(self, env: str, generation: int, dimension: int) -> tuple[Rows, Vectors]:
        """Read the n tuples up to `generation`, complete or not, and vectors (n, 2 · dimension).

        Both are ordered as in `Contents`. Raises KeyError if a vector is missing.
        """
        builder = ColumnsBuilder(env, dimension)
        stored = [v for v in self._passages(env) if v["generation"] <= generation]
        vectors = self._vectors(env)
        for values in sorted(stored, key=lambda values: int(values["generation"])):
            add_passage(builder, values["generation"], values["content"], vectors)
        columns, of_rows = builder.collected()
        return Rows(columns), of_rows

    def _passages(self, env: str) -> Iterator[dict[str, Any]]:
        for page in self._pages(env, "trajectories", PASSAGES, "metadatas"):
            yield from page["metadatas"]

    def _vectors(self, env: str) -> dict[str, bytes]:
        """Return the vectors by id."""
        vectors: dict[str, bytes] = {}
        for page in self._pages(env, "vectors", READ_ROWS, "embeddings"):
            for name, vector in zip(page["ids"], page["embeddings"], strict=True):
                held = np.asarray(vector, np.float32)
                if vector_id(held) != name:
                    raise KeyError(name)  # it was changed
                vectors[name] = held.tobytes()
        return vectors

    def _pages(self, env: str, content: str, size: int, what: str) -> Iterator[Any]:
        if collection := self._collection(env, content):
            for start in range(0, collection.count(), size):
                yield collection.get(limit=size, offset=start, include=[what])

    def _check_lock(self) -> None:
        if self.lock is not None:
            self.lock.check()

    def _generations(self, collection: Any, kind: str = "generation") -> tuple[Generation, ...]:
        return tuple(sorted(_records(collection, kind, Generation), key=lambda g: g.number))

    def _put(self, env: str, kind: str, named: Mapping[str, object]) -> None:
        """Write records of a kind by name, all or none."""
        self._collection(env, "records", "-").upsert(
            ids=[*named],
            embeddings=[_NO_VECTOR] * len(named),
            documents=[records.dumps(record) for record in named.values()],
            metadatas=[{"record": kind}] * len(named),
        )

    def _collection(self, env: str, content: str, embedder: str = "") -> Any:
        """Return a collection of `env`; if absent, create it for `embedder` or return None."""
        name = _collection_name(env, content)
        if embedder:
            return self.client.get_or_create_collection(
                name,
                metadata={"ldm": content, "env": env, "embedder": embedder, "format": FORMAT},
                # Retrieval does not use the graph: a sparse one takes less space and time.
                configuration={"hnsw": {"space": "ip", "max_neighbors": 4, "ef_construction": 10}},
                embedding_function=None,
            )
        collection = collection_of(self.client, name)
        return None if collection is None else self._current(collection)

    def _current(self, collection: Any) -> Any:
        """Return the collection; raise MemoryStoreError if it has another format."""
        if (version := (collection.metadata or {}).get("format")) != FORMAT:
            raise MemoryStoreError(
                f"The memory at {self.location} has format {version}; this ldm reads {FORMAT}.",
                "Build it again in a new directory with `ldm build-memory DATA`.",
            )
        return collection


def vector_id(vector: NDArray[np.float32]) -> str:
    """Return the id of a vector, a hash of its content."""
    return hashlib.sha256(vector.tobytes()).hexdigest()[:VECTOR_ID]


def _records(collection: Any, kind: str, record_type: type[T]) -> list[T]:
    """Return all records of a kind; raise ValueError if one is damaged."""
    texts = collection.get(where={"record": kind}, include=["documents"])["documents"]
    try:
        return [records.loads(text or "", record_type) for text in texts]
    except RecordError as error:
        raise ValueError(f"a record of a {kind} is damaged ({error})") from error


def _collection_name(env: str, content: str) -> str:
    """Return the name of a collection; an `env` with characters that Chroma refuses is hashed."""
    plain = all(c.isascii() and (c.isalnum() or c in "-_") for c in env)
    return f"{_PREFIX}.{env if plain else stable_hash(env)}.{content}"
