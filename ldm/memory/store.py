"""The tuples in Chroma: an embedded directory or a server. The only user of chromadb.

Two collections an environment: tuples, each with the vector [goal; observation], and records, which
hold the batches' indices and the generations. A generation exists once its record does; tuples and
batches beyond the last one are leftovers of an interrupted writer and invisible to readers.
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
from ldm.errors import MemoryStoreError
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.types import History, StateActionTuple, stable_hash

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
#: Bytes free on a disk that is as good as full: less than one write may need.
LITTLE_SPACE = 16 * 1024**2
DATABASE = "chroma.sqlite3"
LOCK = ".lock"
#: Folder inside a memory for vectors that an unfinished formation has already computed.
STAGING = "staging"
#: A folder for the model calls of formation; the caller's, and not looked into here.
CALLS = "calls"
_PREFIX = "ldm"
#: Records carry no meaning in their vector, but Chroma wants one.
_NO_VECTOR = [1.0]


@dataclass(frozen=True, slots=True)
class Contents:
    """What a store holds of one environment up to a generation.

    vectors: (n, 2 · dimension) float32, row i = [goal; observation] of rows[i], each half unit.
    rows and batches are sorted, so that equal memories are equal values.
    """

    generation: Generation
    batches: tuple[BatchIndex, ...]
    rows: tuple[IndexedTuple, ...]
    vectors: NDArray[np.float32]

    def sources(self) -> frozenset[str]:
        """What tasks' `leak_key`s are compared with before an evaluation."""
        return frozenset(row.tuple.source for row in self.rows)


@contextmanager
def translated(location: str) -> Iterator[None]:
    """Errors of Chroma, SQLite and the file system in words for users."""
    import sqlite3

    from chromadb.errors import ChromaError

    try:
        yield
    except (ChromaError, sqlite3.Error, OSError, ValueError) as error:
        text = " ".join(str(error).split()).lower()
        if "readonly" in text or "permission" in text or "read-only" in text:
            what, remedy = "cannot be written", "Check its permissions, or use another --memory."
        elif "full" in text or "no space" in text or _is_nearly_full(location):
            what, remedy = "cannot be written: the disk is full", "Free space and run it again."
        elif "connect" in text and is_server(location):
            what, remedy = "does not answer", "Start it with `chroma run`, or check the address."
        else:
            what, remedy = f"cannot be used: {error}", "Check that it is a memory made by ldm."
        raise MemoryStoreError(f"The memory at {location} {what}.", remedy) from error


def _is_nearly_full(location: str) -> bool:
    """Asked after a failure: Chroma does not always say that the disk was the reason."""
    place = Path(location)
    return place.is_dir() and shutil.disk_usage(place).free < LITTLE_SPACE


def _guarded(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    @wraps(method)
    def guarded(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        with translated(self.location):
            return method(self, *args, **kwargs)

    return guarded  # type: ignore[return-value]  # mypy keeps the name of `self`


class Store:
    """A memory location, opened for reading or (one process at a time) for writing."""

    def __init__(self, location: str, client: Any) -> None:
        """Use `reading` or `writing`."""
        self.location = location
        self._client = client

    @_guarded
    def environments(self) -> tuple[str, ...]:
        """The environments with at least one complete generation, sorted."""
        names = set()
        for collection in self._client.list_collections():
            if (collection.metadata or {}).get("ldm") == "records" and self._generations(
                collection
            ):
                names.add(str(collection.metadata["env"]))
        return tuple(sorted(names))

    @_guarded
    def generations(self, env: str) -> tuple[Generation, ...]:
        """The complete generations of `env`, oldest first; empty where there is no memory."""
        collection = self._collection(env, "records")
        return self._generations(collection) if collection else ()

    @_guarded
    def load(self, env: str, generation: int | None = None) -> Contents:
        """All tuples of `env` up to `generation` (None: the newest). Raises MemoryStoreError."""
        from chromadb.errors import InternalError

        for attempt in range(1, READS + 1):
            # A writer that removes leftovers meanwhile shifts the pages that are read here, or
            # takes a row away between its being listed and read, which Chroma calls internal.
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
        """As `load`; None where what is read is not whole."""
        known = self.generations(env)
        if not known:
            raise MemoryStoreError(
                f"{self.location} holds no memory of {env}.",
                "Make one with `ldm build-memory DATA`.",
            )
        wanted = known[-1].number if generation is None else generation
        chosen = next((g for g in known if g.number == wanted), None)
        if chosen is None:
            raise MemoryStoreError(
                f"The memory of {env} has no generation {wanted}.",
                f"It has {', '.join(str(g.number) for g in known)}.",
            )
        batches = tuple(b for b in self.batches(env) if b.generation <= wanted)
        rows, vectors = self.rows(env, wanted, chosen.dimension)
        whole = len(rows) == chosen.tuples and digest(rows) == chosen.digest
        if not whole or {row.batch for row in rows} != {batch.id for batch in batches}:
            return None
        return Contents(chosen, batches, rows, vectors)

    @_guarded
    def batches(self, env: str) -> tuple[BatchIndex, ...]:
        """Every complete batch, also of a generation that is still being written; sorted by id."""
        collection = self._collection(env, "records")
        if collection is None:
            return ()
        found = collection.get(where={"record": "batch"}, include=["documents"])["documents"]
        return tuple(
            sorted((records.loads(text, BatchIndex) for text in found), key=lambda b: b.id)
        )

    @_guarded
    def embedder(self, env: str) -> str:
        """The embedder of the vectors that are there, of leftovers too; "" where there are none."""
        collection = self._collection(env, "tuples")
        return str(collection.metadata["embedder"]) if collection else ""

    @_guarded
    def add_tuples(
        self, rows: Sequence[IndexedTuple], vectors: NDArray[np.float32], embedder: str
    ) -> None:
        """Write tuples of one environment with vectors (n, 2 · dimension); twice is harmless."""
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

    @_guarded
    def add_batch(self, env: str, batch: BatchIndex) -> None:
        """Write a batch's index; its tuples come first, so that a batch that is there is whole."""
        self._put(env, f"batch:{batch.id}", {"record": "batch"}, batch)

    @_guarded
    def commit(self, generation: Generation) -> None:
        """Make `generation` exist. Everything it holds must have been written before."""
        name = f"generation:{generation.number:06d}"
        self._put(generation.env, name, {"record": "generation"}, generation)

    @_guarded
    def drop_after(self, env: str, generation: int, keep: Iterable[str] = ()) -> None:
        """Remove what belongs to later generations, but for the batches with ids in `keep`."""
        log, tuples = self._collection(env, "records"), self._collection(env, "tuples")
        if log is None:  # nothing was finished, or `drop` was interrupted
            self.drop(env)
            return
        kept = set(keep)
        if later := [g.number for g in self._generations(log) if g.number > generation]:
            log.delete(ids=[f"generation:{number:06d}" for number in later])
        gone = [b.id for b in self.batches(env) if b.generation > generation and b.id not in kept]
        if gone:
            log.delete(ids=[f"batch:{batch}" for batch in gone])
        if tuples is None:
            return
        found = tuples.get(where={"generation": {"$gt": generation}}, include=["metadatas"])
        stale = [
            row_id
            for row_id, values in zip(found["ids"], found["metadatas"], strict=True)
            if values["batch"] not in kept
        ]
        for start in range(0, len(stale), WRITE_ROWS):
            tuples.delete(ids=stale[start : start + WRITE_ROWS])

    @_guarded
    def drop(self, env: str) -> None:
        """Remove everything of `env`."""
        for what in ("records", "tuples"):
            if self._collection(env, what) is not None:
                self._client.delete_collection(_collection_name(env, what))

    @_guarded
    def rows(
        self, env: str, generation: int, dimension: int
    ) -> tuple[tuple[IndexedTuple, ...], NDArray[np.float32]]:
        collection = self._collection(env, "tuples")
        pairs: list[tuple[IndexedTuple, NDArray[np.float32]]] = []
        include = ["documents", "metadatas", "embeddings"]
        for start in range(0, collection.count() if collection else 0, READ_ROWS):
            found = collection.get(limit=READ_ROWS, offset=start, include=include)
            columns = found["documents"], found["metadatas"], found["embeddings"]
            for text, values, vector in zip(*columns, strict=True):
                if values["generation"] <= generation:
                    pairs.append((_row(env, text, values), np.asarray(vector, np.float32)))
        pairs.sort(
            key=lambda pair: (*pair[0].cell, pair[0].tuple.trajectory_id, pair[0].tuple.step)
        )
        vectors = np.empty((len(pairs), 2 * dimension), np.float32)
        for i, (_, vector) in enumerate(pairs):
            vectors[i] = vector
        return tuple(row for row, _ in pairs), vectors

    def _generations(self, collection: Any) -> tuple[Generation, ...]:
        found = collection.get(where={"record": "generation"}, include=["documents"])["documents"]
        parsed = (records.loads(text, Generation) for text in found)
        return tuple(sorted(parsed, key=lambda g: g.number))

    def _put(self, env: str, name: str, metadata: dict[str, str], record: object) -> None:
        collection = self._collection(env, "records", "-")
        document = records.dumps(record)
        collection.upsert(
            ids=[name], embeddings=[_NO_VECTOR], documents=[document], metadatas=[metadata]
        )

    def _collection(self, env: str, what: str, embedder: str = "") -> Any:
        """A collection of `env`; made where `embedder` is given, else None where it is absent."""
        name = _collection_name(env, what)
        if embedder:
            return self._client.get_or_create_collection(
                name,
                metadata={"ldm": what, "env": env, "embedder": embedder},
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
    """The store at a directory or http(s) address. Raises MemoryStoreError where there is none."""
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
    """The store at `location`, made where it is absent, for the one writer at a time.

    Raises MemoryStoreError where another process writes, the directory holds something else, or
    cannot be written.
    """
    if is_server(location):
        with _open(location) as store:
            yield store
        return
    path = Path(location)
    with translated(location):
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
            yield store  # the lock goes with the process, however that ends


def is_server(location: str) -> bool:
    """Whether a memory location is the address of a Chroma server."""
    return location.startswith(("http://", "https://"))


def digest(rows: Iterable[IndexedTuple]) -> str:
    """Of the tuples' ids, histories and cells, whatever their order."""
    told = sorted([row.tuple.id, *row.cell, row.tuple.history.text] for row in rows)
    return stable_hash(told, length=32)


@contextmanager
def _open(location: str) -> Iterator[Store]:
    with translated(location):
        try:
            client = _client(location)
        except AttributeError as error:  # Chroma's, once opening it has failed in this process
            raise OSError("it could not be opened before") from error
    try:
        yield Store(location, client)
    finally:
        # Chroma keeps clients by path: one left open would answer for whatever is there later.
        client.close()
        for api in (client._server, client._admin_client._server):
            if session := getattr(api, "_session", None):
                session.close()  # which Chroma's client of a server leaves open


def _client(location: str) -> Any:
    import chromadb
    from chromadb.config import Settings

    quiet = Settings(anonymized_telemetry=False)
    if not is_server(location):
        if Path(location, DATABASE).exists() and not os.access(location, os.W_OK):
            raise PermissionError(f"permission denied: {location}")  # SQLite needs to write its log
        return chromadb.PersistentClient(str(Path(location).absolute()), settings=quiet)
    url = urlsplit(location)
    secure = url.scheme == "https"
    return chromadb.HttpClient(
        url.hostname or "localhost",
        url.port or (443 if secure else 8000),
        ssl=secure,
        settings=quiet,
    )


def _collection_name(env: str, what: str) -> str:
    """Chroma's names are letters, digits and ._- only; other names of environments are hashed."""
    plain = all(c.isascii() and (c.isalnum() or c in "-_") for c in env)
    return f"{_PREFIX}.{env if plain else stable_hash(env)}.{what}"


def _metadata(row: IndexedTuple) -> dict[str, str | int]:
    t = row.tuple
    return {
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
    # A trajectory's observations come back in the past of each of its later tuples.
    past = tuple((intern(seen), intern(action)) for seen, action in json.loads(values["past"]))
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
        ),
        batch=values["batch"],
        goal_type=values["goal_type"],
        observation_type=values["observation_type"],
    )
