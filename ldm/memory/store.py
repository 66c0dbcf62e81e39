"""The store of a memory in Chroma: an embedded directory or a server. Only here is chromadb used.

Each environment has two collections: tuples, each with the vector [goal; observation], and records,
which hold the batches' indices and the generations. A generation exists once its record does;
tuples and batches beyond the last one were left by an interrupted writer and are invisible to
readers.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

import numpy as np

from ldm import records
from ldm.errors import MemoryStoreError, RecordError
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.types import FULL_OUTCOME, History, Outcome, StateActionTuple, stable_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")

#: Chroma refuses larger writes (5,461 rows); smaller ones keep the progress bar moving.
WRITE_ROWS = 2_000
READ_ROWS = 5_000
#: How often a memory is read before it counts as damaged, and the seconds between.
READS = 3
PAUSE = 0.1
#: A disk with fewer free bytes counts as full: one write may need more.
LITTLE_SPACE = 16 * 1024**2
DATABASE = "chroma.sqlite3"
LOCK = ".lock"
#: Folder inside a memory for vectors that an unfinished formation has already computed.
STAGING = "staging"
#: Folder inside a memory for the model calls of formation; it belongs to the caller.
CALLS = "calls"
_PREFIX = "ldm"
#: Records carry no meaning in their vector, but Chroma wants one.
_NO_VECTOR = [1.0]


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a memory holds of one environment up to a generation.

    batches: sorted by id.
    rows: the n tuples, sorted by cell, trajectory and step, those that the generation hides
        included; equal memories are equal values.
    vectors: (n, 2 · dimension) float32, row i = [goal; observation] of rows[i], each half of unit
        length.
    """

    generation: Generation
    batches: tuple[BatchIndex, ...]
    rows: tuple[IndexedTuple, ...]
    vectors: NDArray[np.float32]

    def recallable(self) -> tuple[IndexedTuple, ...]:
        """Return the tuples that the generation does not hide, in their order."""
        hidden = frozenset(self.generation.hidden)
        return tuple(row for row in self.rows if row.tuple.id not in hidden)

    def sources(self) -> frozenset[str]:
        """Return the sources that no evaluated task may share (compared with `Task.leak_key`)."""
        return frozenset(row.tuple.source for row in self.rows)


@contextmanager
def store_errors(location: str) -> Iterator[None]:
    """Turn errors of Chroma, SQLite and the file system into MemoryStoreError with a remedy."""
    import sqlite3

    from chromadb.errors import ChromaError

    try:
        yield
    except (ChromaError, sqlite3.Error, OSError, ValueError) as error:
        text = " ".join(str(error).split()).lower()
        if "readonly" in text or "permission" in text or "read-only" in text:
            problem, remedy = "cannot be written", "Check its permissions, or use another --memory."
        elif "full" in text or "no space" in text or _is_nearly_full(location):
            problem, remedy = "cannot be written: the disk is full", "Free space and run it again."
        elif "connect" in text and is_server(location):
            problem = "does not answer"
            remedy = "Start it with `chroma run`, or check the address."
        else:
            problem, remedy = f"cannot be used: {error}", "Check that it is a memory made by ldm."
        raise MemoryStoreError(f"The memory at {location} {problem}.", remedy) from error


def _is_nearly_full(location: str) -> bool:
    """Return whether the disk is the likely cause of a failure: Chroma does not always say so."""
    place = Path(location)
    return place.is_dir() and shutil.disk_usage(place).free < LITTLE_SPACE


def _with_store_errors(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], R]:
    @wraps(method)
    def wrapper(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        with store_errors(self.location):
            return method(self, *args, **kwargs)

    return wrapper  # type: ignore[return-value]  # mypy keeps the name of `self`


class Store:
    """A memory location, opened for reading or (one process at a time) for writing.

    Every method raises MemoryStoreError where the store fails.
    """

    def __init__(self, location: str, client: Any) -> None:
        """Wrap an open Chroma client; callers use `reading` or `writing` instead."""
        self.location = location
        self._client = client

    @_with_store_errors
    def environments(self) -> tuple[str, ...]:
        """List the environments with at least one complete generation, sorted."""
        names = set()
        for collection in self._client.list_collections():
            if (collection.metadata or {}).get("ldm") == "records" and self._generations(
                collection
            ):
                names.add(str(collection.metadata["env"]))
        return tuple(sorted(names))

    @_with_store_errors
    def generations(self, env: str) -> tuple[Generation, ...]:
        """List the complete generations of `env`, oldest first; empty where there is no memory."""
        collection = self._collection(env, "records")
        return self._generations(collection) if collection else ()

    @_with_store_errors
    def load(self, env: str, generation: int | None = None) -> Contents:
        """Read the memory of `env` up to `generation` (None: the newest).

        Raises MemoryStoreError where there is none, no such generation, or it is damaged.
        """
        from chromadb.errors import InternalError

        for attempt in range(1, READS + 1):
            # A writer that meanwhile removes rows shifts the pages that are read here, or deletes
            # a row between its being listed and read, which Chroma reports as internal.
            try:
                if contents := self._read(env, generation):
                    return contents
            except MemoryStoreError as error:
                if not isinstance(error.__cause__, InternalError) or attempt == READS:
                    raise
            time.sleep(PAUSE)
        raise MemoryStoreError(
            f"The memory of {env} in {self.location} is damaged: it does not hold the tuples and"
            " batches that were written.",
            "Build it again with `ldm build-memory DATA --rebuild`.",
        )

    def _read(self, env: str, generation: int | None) -> Contents | None:
        """Read as `load` does; return None where what is read is incomplete."""
        present = self.generations(env)
        if not present:
            raise MemoryStoreError(
                f"{self.location} holds no memory of {env}.",
                "Make one with `ldm build-memory DATA`.",
            )
        number = present[-1].number if generation is None else generation
        chosen = next((g for g in present if g.number == number), None)
        if chosen is None:
            raise MemoryStoreError(
                f"The memory of {env} has no generation {number}.",
                f"It has {', '.join(str(g.number) for g in present)}.",
            )
        batches = tuple(b for b in self.batches(env) if b.generation <= number)
        rows, vectors = self.rows(env, number, chosen.dimension)
        complete = len(rows) == chosen.tuples and digest(rows, chosen) == chosen.digest
        if not complete or {row.batch for row in rows} != {batch.id for batch in batches}:
            return None
        return Contents(chosen, batches, rows, vectors)

    @_with_store_errors
    def batches(self, env: str) -> tuple[BatchIndex, ...]:
        """List the complete batches, also of a generation still being written, sorted by id."""
        collection = self._collection(env, "records")
        if collection is None:
            return ()
        texts = collection.get(where={"record": "batch"}, include=["documents"])["documents"]
        return tuple(
            sorted((records.loads(text, BatchIndex) for text in texts), key=lambda b: b.id)
        )

    @_with_store_errors
    def embedder(self, env: str) -> str:
        """Return the name of the embedder that made the vectors; "" where there are none.

        Vectors of an incomplete generation count, too.
        """
        collection = self._collection(env, "tuples")
        return str(collection.metadata["embedder"]) if collection else ""

    @_with_store_errors
    def add_tuples(
        self, rows: Sequence[IndexedTuple], vectors: NDArray[np.float32], embedder: str
    ) -> None:
        """Write n tuples of one environment; writing one again changes nothing.

        vectors: (n, 2 · dimension), as in `Contents`. embedder: the name of what made them.
        """
        if not rows:
            return
        collection = self._collection(rows[0].tuple.env, "tuples", embedder)
        for start in range(0, len(rows), WRITE_ROWS):
            part = rows[start : start + WRITE_ROWS]
            collection.upsert(
                ids=[row.tuple.id for row in part],
                embeddings=vectors[start : start + WRITE_ROWS],
                documents=[row.tuple.observation for row in part],
                metadatas=[_metadata(row) for row in part],
            )

    @_with_store_errors
    def add_batch(self, env: str, batch: BatchIndex) -> None:
        """Write a batch's index, after its tuples: a batch with an index is complete."""
        self._put(env, f"batch:{batch.id}", {"record": "batch"}, batch)

    @_with_store_errors
    def commit(self, generation: Generation) -> None:
        """Write a generation's record, which makes it exist; its data must be written before."""
        name = f"generation:{generation.number:06d}"
        self._put(generation.env, name, {"record": "generation"}, generation)

    @_with_store_errors
    def drop_after(self, env: str, generation: int, keep: Iterable[str] = ()) -> None:
        """Remove all data of later generations, except batches with ids in `keep`."""
        log, tuples = self._collection(env, "records"), self._collection(env, "tuples")
        if log is None:  # nothing was finished, or `drop` was interrupted
            self.drop(env)
            return
        kept_ids = set(keep)
        if later := [g.number for g in self._generations(log) if g.number > generation]:
            log.delete(ids=[f"generation:{number:06d}" for number in later])
        stale_batches = [
            b.id for b in self.batches(env) if b.generation > generation and b.id not in kept_ids
        ]
        if stale_batches:
            log.delete(ids=[f"batch:{batch}" for batch in stale_batches])
        if tuples is None:
            return
        later_rows = tuples.get(where={"generation": {"$gt": generation}}, include=["metadatas"])
        stale = [
            row_id
            for row_id, values in zip(later_rows["ids"], later_rows["metadatas"], strict=True)
            if values["batch"] not in kept_ids
        ]
        for start in range(0, len(stale), WRITE_ROWS):
            tuples.delete(ids=stale[start : start + WRITE_ROWS])

    @_with_store_errors
    def drop(self, env: str) -> None:
        """Remove everything of `env`."""
        for content in ("records", "tuples"):
            if self._collection(env, content) is not None:
                self._client.delete_collection(_collection_name(env, content))

    @_with_store_errors
    def rows(
        self, env: str, generation: int, dimension: int
    ) -> tuple[tuple[IndexedTuple, ...], NDArray[np.float32]]:
        """Read the n tuples up to `generation`, complete or not, and vectors (n, 2 · dimension).

        Both are ordered as in `Contents`.
        """
        collection = self._collection(env, "tuples")
        pairs: list[tuple[IndexedTuple, NDArray[np.float32]]] = []
        include = ["documents", "metadatas", "embeddings"]
        for start in range(0, collection.count() if collection else 0, READ_ROWS):
            page = collection.get(limit=READ_ROWS, offset=start, include=include)
            columns = page["documents"], page["metadatas"], page["embeddings"]
            for text, values, vector in zip(*columns, strict=True):
                if values["generation"] <= generation:
                    pairs.append((_row(env, text, values), np.asarray(vector, np.float32)))
        pairs.sort(key=lambda pair: sort_key(pair[0]))
        vectors = np.empty((len(pairs), 2 * dimension), np.float32)
        for i, (_, vector) in enumerate(pairs):
            vectors[i] = vector
        return tuple(row for row, _ in pairs), vectors

    def _generations(self, collection: Any) -> tuple[Generation, ...]:
        texts = collection.get(where={"record": "generation"}, include=["documents"])["documents"]
        try:
            parsed = [records.loads(text, Generation) for text in texts]
        except RecordError as error:
            raise MemoryStoreError(
                f"The memory at {self.location} holds a generation that this version of ldm cannot "
                f"read: {error}",
                "Use the version of ldm that wrote it, or a newer one.",
            ) from error
        return tuple(sorted(parsed, key=lambda g: g.number))

    def _put(self, env: str, name: str, metadata: dict[str, str], record: object) -> None:
        collection = self._collection(env, "records", "-")
        document = records.dumps(record)
        collection.upsert(
            ids=[name], embeddings=[_NO_VECTOR], documents=[document], metadatas=[metadata]
        )

    def _collection(self, env: str, content: str, embedder: str = "") -> Any:
        """Return a collection of `env`; where it is absent, create it for `embedder`, else None."""
        name = _collection_name(env, content)
        if embedder:
            return self._client.get_or_create_collection(
                name,
                metadata={"ldm": content, "env": env, "embedder": embedder},
                configuration={"hnsw": {"space": "ip"}},
                embedding_function=None,
            )
        from chromadb.errors import NotFoundError

        try:
            return self._client.get_collection(name, embedding_function=None)
        except (NotFoundError, ValueError):
            return None


@contextmanager
def reading(location: str) -> Iterator[Store]:
    """Open the store at a directory or http(s) address, to read.

    Raises MemoryStoreError where there is none.
    """
    if not is_server(location):
        path = Path(location)
        if not path.exists():
            raise MemoryStoreError(
                f"There is no memory at {location}.",
                "Make one with `ldm build-memory DATA`, or name another with --memory.",
            )
        if not (path / DATABASE).is_file():
            raise MemoryStoreError(
                f"{location} is not a memory: it has no {DATABASE}.",
                "Name the directory that `ldm build-memory` wrote with --memory.",
            )
    with _open(location) as store:
        yield store


@contextmanager
def writing(location: str) -> Iterator[Store]:
    """Open the store at `location`, to write; a directory is created where it is absent.

    Raises MemoryStoreError where another process is writing to the directory, or it holds something
    other than a memory, or cannot be written.
    """
    if is_server(location):
        with _open(location) as store:
            yield store
        return
    path = Path(location)
    with store_errors(location):
        path.mkdir(parents=True, exist_ok=True)
        others = {p.name for p in path.iterdir()} - {LOCK, STAGING, CALLS}
        if others and DATABASE not in others:
            raise MemoryStoreError(
                f"{location} is not empty and holds no memory.", "Name another with --memory."
            )
        lock = (path / LOCK).open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise MemoryStoreError(
                f"Another process is writing to {location}.", "Wait until it has finished."
            ) from error
        with _open(location) as store:
            yield store  # the system releases the lock with the process, however that ends


def is_server(location: str) -> bool:
    """Return whether a memory location is the address of a Chroma server."""
    return location.startswith(("http://", "https://"))


def sort_key(row: IndexedTuple) -> tuple[str, int, int, str, int]:
    """Return what a snapshot's rows are sorted by: cell, trajectory and step."""
    return (*row.cell, row.tuple.trajectory_id, row.tuple.step)


def digest(rows: Iterable[IndexedTuple], base: Generation | None = None) -> str:
    """Return the hash of the tuples' ids, histories, cells and outcomes, whatever their order.

    What is not recorded or as usual adds nothing: digests of older memories stay as they are.
    base: the generation whose hidden tuples and utilities count as well; None for none.
    """
    further = [sorted(base.hidden), base.utilities] if base else []
    parts = [part for part in further if part]
    return stable_hash(sorted(_digested(row) for row in rows), *parts, length=32)


def _digested(row: IndexedTuple) -> list[Any]:
    parts: list[Any] = [row.tuple.id, *row.cell, row.tuple.history.text]
    if row.tuple.outcome not in (None, FULL_OUTCOME):
        parts.append(records.dumps(row.tuple.outcome))
    return [*parts, f"reach {row.reach}"] if row.reach else parts


@contextmanager
def _open(location: str) -> Iterator[Store]:
    with store_errors(location):
        try:
            client = _client(location)
        except AttributeError as error:
            # Chroma fails so where an earlier attempt in this process to open it has failed.
            raise OSError("it could not be opened before") from error
    try:
        yield Store(location, client)
    finally:
        # Chroma caches clients by path: one left open would answer for whatever is there later.
        client.close()
        for api in (client._server, client._admin_client._server):
            if session := getattr(api, "_session", None):
                session.close()  # Chroma's HTTP client leaves it open


def _client(location: str) -> Any:
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    if not is_server(location):
        if Path(location, DATABASE).exists() and not os.access(location, os.W_OK):
            raise PermissionError(f"permission denied: {location}")  # SQLite needs to write its log
        return chromadb.PersistentClient(str(Path(location).absolute()), settings=settings)
    url = urlsplit(location)
    secure = url.scheme == "https"
    return chromadb.HttpClient(
        url.hostname or "localhost",
        url.port or (443 if secure else 8000),
        ssl=secure,
        settings=settings,
    )


def _collection_name(env: str, content: str) -> str:
    """Return the name of a collection; an `env` with characters that Chroma refuses is hashed."""
    plain = all(c.isascii() and (c.isalnum() or c in "-_") for c in env)
    return f"{_PREFIX}.{env if plain else stable_hash(env)}.{content}"


def _metadata(row: IndexedTuple) -> dict[str, str | int | float]:
    t = row.tuple
    recorded: dict[str, str | int | float] = {"reach": row.reach} if row.reach else {}
    if t.outcome is not None:
        recorded["outcome"] = records.dumps(t.outcome)
    return {
        **recorded,
        "goal": t.goal,
        "action": t.action,
        "assessment": t.history.assessment,
        "summary": t.history.summary,
        "past": json.dumps(t.history.past, ensure_ascii=False),
        "kind": t.kind,
        "split": t.split,
        "task_id": t.task_id,
        "source": t.source,
        "trajectory_id": t.trajectory_id,
        "step": t.step,
        "origin": t.origin,
        "generation": t.generation,
        "batch": row.batch,
        "goal_type": row.goal_type,
        "observation_type": row.observation_type,
    }


def _row(env: str, observation: str, values: dict[str, Any]) -> IndexedTuple:
    # A trajectory's observations recur in the past of each of its later tuples: share the strings.
    past = tuple((intern(seen), intern(action)) for seen, action in json.loads(values["past"]))
    outcome = values.get("outcome")
    return IndexedTuple(
        tuple=StateActionTuple(
            goal=values["goal"],
            history=History(values["assessment"], values["summary"], past),
            observation=observation,
            action=values["action"],
            kind=values["kind"],
            env=env,
            split=values["split"],
            task_id=values["task_id"],
            source=values["source"],
            trajectory_id=values["trajectory_id"],
            step=values["step"],
            origin=values["origin"],
            generation=values["generation"],
            outcome=records.loads(outcome, Outcome) if outcome else None,
        ),
        batch=values["batch"],
        goal_type=values["goal_type"],
        observation_type=values["observation_type"],
        reach=values.get("reach", 0.0),
    )
