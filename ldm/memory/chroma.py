"""A memory in Chroma: published there for any client to search, or kept on a server and queried.

Each environment has four collections, `ldm.<environment>.<part>`:

- tuples: a row per tuple that the newest generation recalls, with the id of the tuple. Its vector
  is [goal; observation], each half of unit length. In its space (l2, the squared distance) a query
  with such a vector gives 4 - 4 · similarity, so the nearest are the most similar (LDM² Eq. 3). The
  document holds goal, observation and action; the metadata hold what to filter by, and on a
  server the tuple in its cell as JSON.
- hidden: the same for the tuples that the newest generation does not recall.
- types: a row per goal type and observation type (§3.2), with the centroid as its vector.
- records: texts in parts: the manifest as in `ldm.memory.record`, on a server also what the tuples
  teach, and the number of the newest generation.

A generation exists once its number is there, which is written last.
"""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from ldm import files, records
from ldm.errors import LdmError, MemoryStoreError
from ldm.memory import record
from ldm.memory.index import NOWHERE, Generation, IndexedTuple, OnProgress
from ldm.memory.lessons import Contents, packed
from ldm.memory.record import LET_IN, is_server
from ldm.memory.retrieval import Retriever
from ldm.memory.rows import Mask, Numbers, Span, Vectors, id_of
from ldm.records import adapter
from ldm.text import guard, is_trusted, redacted
from ldm.types import stable_hash

#: The format of the collections; any other one is refused.
FORMAT = 10
#: The database in a Chroma directory.
DATABASE = "chroma.sqlite3"
#: The graph of a collection of tuples: recall@5 of 0.99 and more on recorded episodes.
GRAPH = {"max_neighbors": 24, "ef_construction": 128, "ef_search": 256}
#: Chroma refuses writes of more than 5,461 rows; smaller ones keep the progress bar moving.
WRITE_ROWS = 500
READ_ROWS = 5_000
#: Timeouts in seconds of the first request to a server, and of any other one.
ANSWER, REPLY = 20.0, 300.0
#: Of an index file of hnswlib: version, offset, capacity, elements, bytes per element.
INDEX_HEADER = struct.Struct("<i4Q")
#: Everything of a row.
ALL = ["metadatas", "documents", "embeddings"]
#: What rows can be filtered by, and its name in a tuple.
NAMED = {
    **{name: name for name in ("goal", "action", "kind", "source", "origin", "step", "generation")},
    **{"task": "task_id", "trajectory": "trajectory_id"},
}
#: Characters of one part of a text.
PART = 1_000_000
#: The text with the number of the newest generation.
NEWEST = "newest"
#: The vector of rows that need none; Chroma demands one.
NO_VECTOR = np.ones(1, np.float32)


#: The process in which Chroma was first embedded: its threads do not survive a fork.
_embedding: dict[str, int] = {}


class Row(NamedTuple):
    """A row of a collection."""

    id: str
    vector: Vectors
    document: str
    metadata: dict[str, Any]


# --- The client, and the meaning of its errors


@contextmanager
def chroma_errors(location: str) -> Iterator[None]:
    """Turn errors of Chroma, SQLite and the file system into MemoryStoreError with a remedy."""
    try:
        yield
    except (LdmError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # Chroma's compiled part panics with a BaseException
        problem, remedy = _meaning(error, location)
        # A server's message may quote the request.
        raise MemoryStoreError(f"{location} {redacted(problem)}.", remedy) from error


def _meaning(error: BaseException, location: str) -> tuple[str, str]:
    """Return what an error of Chroma says of a location, and what to do."""
    text, status = " ".join(str(error).split()), _status(error)
    words = text.lower()
    if status in (401, 403):
        return f"refuses to let us in (HTTP {status})", LET_IN
    if is_server(location) and (status or 0) >= 400:
        return f"answers with HTTP {status}", "Check that it is the address of a Chroma server."
    if is_server(location) and is_unreachable(error):
        return "does not answer", "Start it with `chroma run`, or check the address."
    if "readonly" in words or "read-only" in words or "permission" in words:
        return "cannot be written", "Check its permissions, or name another place."
    if "disk is full" in words or "no space" in words:
        return "cannot be written: the disk is full", "Free space and run it again."
    remedy = "Publish it again with `ldm memory publish`."
    if is_server(location):
        remedy = "Check that it is the address of a Chroma server, and try again."
    return f"cannot be used: {text[:300] or type(error).__name__}", remedy


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _status(error: BaseException) -> int | None:
    """Return the HTTP status that an error stands for, if it is known."""
    for one in _chain(error):
        if (status := getattr(getattr(one, "response", None), "status_code", None)) is not None:
            return int(status)
        if type(one).__name__ in ("ChromaAuthError", "AuthorizationError"):
            return int(one.code())  # type: ignore[attr-defined]  # Chroma's errors have one
    return None


def is_unreachable(error: BaseException) -> bool:
    """Return whether a request got no reply."""
    names = {kind.__name__ for one in _chain(error) for kind in type(one).__mro__}
    return bool(names & {"ConnectionError", "TransportError", "ConnectError"})


def _client(location: str) -> Any:
    """Return a client for a directory or a server; only a trusted one gets credentials."""
    import chromadb
    from chromadb.config import Settings

    # Without _env_file, Chroma reads .env in the working directory, which can name classes to load.
    settings = Settings(_env_file=None, anonymized_telemetry=False)
    trusted = is_trusted(location)
    if not trusted:
        settings.chroma_client_auth_provider = settings.chroma_client_auth_credentials = None
    if credentials := settings.chroma_client_auth_credentials:
        guard([credentials, credentials.partition(":")[2]])
    if not is_server(location):
        folder = Path(location).resolve(strict=True)
        with record.store_errors(location):  # a named pipe would never end, a link lead elsewhere
            files.refuse_foreign(folder)
            files.check_own(folder)
        if _embedding.setdefault("pid", os.getpid()) != os.getpid():
            raise MemoryStoreError(
                "Chroma was open in the process that this one was forked from: it would hang here.",
                "Publish from that process, with `ldm memory publish`, or start workers by spawn.",
            )
        return chromadb.PersistentClient(str(Path(location).absolute()), settings=settings)
    import httpx  # a dependency of Chroma

    url = urlsplit(location)
    secure = url.scheme == "https"
    place = url.hostname or "localhost", url.port or (443 if secure else 8000)
    # Chroma waits without a timeout, so ask first whether the server answers.
    with httpx.Client(verify=secure, timeout=ANSWER, trust_env=trusted) as client:
        answer = client.get(f"{url.scheme}://{url.netloc}/api/v2/heartbeat")
    if answer.status_code not in (401, 403) or not credentials:
        answer.raise_for_status()
        if "heartbeat" not in answer.text[:200]:
            raise ValueError("its answer is not that of a Chroma server")
    if not secure and settings.chroma_server_ssl_verify is None:
        settings.chroma_server_ssl_verify = False  # saves 0.1 s of reading certificates
    made: Any = chromadb.HttpClient(*place, ssl=secure, settings=settings)
    made._server._session.timeout = httpx.Timeout(REPLY, connect=ANSWER)
    return made


def close_client(client: Any) -> None:
    """Close a client with its HTTP connections, which Chroma leaves open."""
    client.close()
    for api in (client._server, client._admin_client._server):
        if session := getattr(api, "_session", None):
            session.close()


class Store:
    """The collections of one environment in a directory or on a server."""

    def __init__(self, location: str, env: str) -> None:
        self.location = location
        self.env = env
        self._opened: tuple[int, Any] | None = None
        self._collections: dict[str, Any] = {}

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        if self._opened is not None and self._opened[0] == os.getpid():
            close_client(self._opened[1])
            if not is_server(self.location):
                _zero_unset(Path(self.location))
        self._opened = None

    @property
    def client(self) -> Any:
        """The open client; a forked process opens its own."""
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), _client(self.location)
            self._collections = {}
        return self._opened[1]

    def collection(self, part: str) -> Any:
        """Return a collection, or None; raise MemoryStoreError if it has another format."""
        if part in self._collections:
            return self._collections[part]
        client = self.client
        from chromadb.errors import NotFoundError

        try:
            opened = client.get_collection(_name(self.env, part), embedding_function=None)
        except NotFoundError:
            return None
        if (version := (opened.metadata or {}).get("format")) != FORMAT:
            raise MemoryStoreError(
                f"The memory at {self.location} has format {version}; this ldm reads {FORMAT}.",
                "Build it again in a new place with `ldm build-memory DATA`.",
            )
        self._collections[part] = opened
        return opened

    def created(self, part: str, generation: Generation) -> Any:
        """Return a collection, which is created if absent."""
        if (opened := self.collection(part)) is None:
            metadata = {
                **{"ldm": part, "env": self.env, "format": FORMAT},
                **{"embedder": generation.embedder, "dimension": generation.dimension},
            }
            if part in ("tuples", "hidden"):
                metadata["vector"] = "goal, then observation, each half of unit length"
                metadata["similarity"] = "1 - distance / 4"
            opened = self._collections[part] = self.client.get_or_create_collection(
                _name(self.env, part),
                metadata=metadata,
                configuration={"hnsw": {"space": "l2", **GRAPH}},
                embedding_function=None,
            )
        return opened

    def text(self, name: str) -> str:
        """Return a text, "" if there is none."""
        if (collection := self.collection("records")) is None:
            return ""
        rows = rows_of(collection.get(where={"record": name}, include=["metadatas"]))
        return "".join(str(row.metadata["content"]) for row in sorted(rows, key=lambda x: x.id))

    def manifest(self) -> record.Manifest | None:
        """Return the manifest of the newest generation, or None if there is none."""
        number = self.text(NEWEST)
        text = number and self.text(f"manifest {number}")
        return records.loads(text, record.Manifest) if text else None

    def generations(self) -> tuple[Generation, ...]:
        """List the complete generations, oldest first."""
        listed = self.manifest()
        return listed.generations if listed else ()

    def pages(self, part: str, *what: str) -> Iterator[Any]:
        """Yield all rows in pages."""
        if (collection := self.collection(part)) is not None:
            for start in range(0, collection.count(), READ_ROWS):
                yield collection.get(limit=READ_ROWS, offset=start, include=list(what))

    def rows(self, part: str) -> Iterator[Row]:
        """Yield all rows."""
        for page in self.pages(part, *ALL):
            yield from rows_of(page)


def rows_of(page: Any) -> list[Row]:
    """Return the rows in an answer of Chroma."""
    vectors, documents = page["embeddings"], page["documents"]
    return [
        Row(
            name,
            NO_VECTOR if vectors is None else np.asarray(vectors[i], np.float32),
            documents[i] or "" if documents else "",
            dict(metadata or {}),
        )
        for i, (name, metadata) in enumerate(zip(page["ids"], page["metadatas"], strict=True))
    ]


def _name(env: str, part: str) -> str:
    """Return the name of a collection; an `env` with characters that Chroma refuses is hashed."""
    plain = all(c.isascii() and (c.isalnum() or c in "-_") for c in env)
    return f"ldm.{env if plain else stable_hash(env)}.{part}"


# --- The rows of a generation


class TupleRows:
    """The rows of a memory's tuples.

    whole: whether they hold the tuples as JSON, for readers who have no other files.
    """

    def __init__(self, contents: Contents, *, whole: bool) -> None:
        self._whole = whole
        self._rows = rows = contents.rows
        self._indices = {batch.id: batch for batch in contents.batches}
        self.hidden = rows.named(contents.generation.hidden)
        self._same = np.unique(rows.same_texts(), return_inverse=True)[1]
        won = rows.with_outcome(lambda x: x is not None and not x.fell_short)
        lost = rows.with_outcome(lambda x: x is not None and x.score <= 0)
        counted = {"tried": np.full(len(rows), True), "succeeded": won, "failed": lost}
        # Of equal goals, observations and actions: new tuples change these in old rows.
        self._evidence = {
            name: np.bincount(self._same, mask & ~self.hidden).astype(int).tolist()
            for name, mask in counted.items()
        }

    def changed(self, before: Generation) -> tuple[Mask, Mask]:
        """Return masks of what the generation after `before` changes, and of what it moves.

        Rows change that are new, become hidden or seen, or whose texts such a row shares: their
        counts do. Those that were hidden or seen before move.
        """
        new = self._rows.columns["generation"] > before.number
        moved = ~new & (self._rows.named(before.hidden) != self.hidden)
        changed = new | moved
        return np.isin(self._same, self._same[changed]), moved

    def part(self, numbers: Numbers) -> list[Row]:
        """Return the rows of these tuples."""
        rows = self._rows.take(numbers)
        vectors = rows.vectors_of(slice(None))
        return [self._row(*one) for one in zip(numbers.tolist(), rows, vectors, strict=True)]

    def _row(self, i: int, indexed: IndexedTuple, vector: Vectors) -> Row:
        one, (batch, g, o) = indexed.tuple, indexed.cell
        goal_type = self._indices[batch].goal_types[g]
        key = one.goal, one.observation, one.action
        metadata: dict[str, Any] = {
            **{name: getattr(one, field) for name, field in NAMED.items()},
            **{"batch": batch, "goal_type": goal_type.name, "goal_type_id": f"{batch}/{g}"},
            "observation_type": goal_type.observation_types[o],
            "observation_type_id": f"{batch}/{g}/{o}",
            "same": stable_hash(*key),
            **{name: counts[self._same[i]] for name, counts in self._evidence.items()},
        }
        if self._whole:
            metadata["ldm"] = adapter(IndexedTuple).dump_json(indexed).decode()
        if one.outcome is not None:
            metadata["score"] = one.outcome.score
            metadata["success"] = not one.outcome.fell_short
            metadata["warning"] = one.is_warning
        if one.time:
            metadata["time"] = round(one.time, 3)  # Chroma may change the last bit of more digits
        for prefix, labels in (("scope", one.scope), ("tag", one.tags)):
            metadata |= {f"{prefix}_{name}": value for name, value in labels}
        document = f"goal: {one.goal}\nobservation: {one.observation}\naction: {one.action}"
        return Row(one.id, vector, document, metadata)


def type_rows(contents: Contents) -> list[Row]:
    """Return the rows of the types of a memory's batches."""
    rows, retriever = [], Retriever(contents.batches, contents.rows)
    for place, span in retriever.spans.items():
        if len(place) == 1:
            continue
        one, generations = retriever.view(place), contents.rows.columns["generation"][span]
        metadata = {
            **{"type": type_id(place), "name": one.name, "examples": json.dumps(one.examples)},
            **{"batch": place[0], "kind": retriever.batches[place[0]].kind},
            **{"level": LEVELS[len(place)], "parent": type_id(place[:-1])},
            **{"tuples": len(generations), "generation": int(generations.min())},
        }
        document = "\n".join([one.name, *one.examples])
        rows.append(Row(type_id(place), np.asarray(one.centroid, np.float32), document, metadata))
    return rows


#: The levels of types by the parts of their places.
LEVELS = {2: "goal", 3: "observation"}


def type_id(place: Span) -> str:
    """Return the id of a type, or of a batch, there."""
    return "/".join(map(str, place))


def text_rows(name: str, text: str) -> list[Row]:
    """Return the rows of a text, in parts that a server accepts."""
    # Not documents, because Chroma indexes all trigrams of those.
    parts = (text[at : at + PART] for at in range(0, len(text), PART))
    return [
        Row(f"{name}:{i:06d}", NO_VECTOR, name, {"record": name, "content": part})
        for i, part in enumerate(parts)
    ]


# --- Publishing


def publish(
    contents: Contents,
    target: str,
    on_progress: OnProgress = lambda *_: None,
    *,
    memory: str = "",
    anew: bool = False,
) -> None:
    """Make a Chroma directory or server show a generation of a memory; its record is elsewhere.

    Where the generation before is shown, only rows that are new or change are written. Otherwise a
    directory is removed before, because Chroma leaves what is removed, such as purged tuples, in
    its files. The caller sees to it that nobody else publishes to the target.

    contents: all tuples, hidden ones included, of the generation.
    target: a directory, or the http(s) address of a Chroma server.
    on_progress: called with ("publish", done, total) in tuples.
    memory: the directory whose other environments are in the target, too.
    anew: write everything, as when there are `differences`.

    Raises MemoryStoreError if the target cannot be written, or holds other files or a link.
    """
    env = contents.generation.env
    if is_server(target):
        with chroma_errors(target), Store(target, env) as store:
            if anew:
                drop_collections(store)
            _write(store, contents, on_progress)
        return
    place = Path(target)
    with chroma_errors(target):
        _refuse_foreign(place)
        if not anew and _published_on(place, contents, on_progress):
            return
        files.remove(place)
        place.mkdir(parents=True)
        others = {*(record.known_generations(memory) if memory else ())} - {env}
        for one in (contents, *(record.load(memory, name) for name in sorted(others))):
            with Store(str(place), one.generation.env) as store:
                _write(store, one, on_progress)


def _published_on(place: Path, contents: Contents, on_progress: OnProgress) -> bool:
    """Publish into a directory if it is sound and holds nothing to remove; return whether."""
    if not (place / DATABASE).exists():
        return False
    try:
        with chroma_errors(str(place)), Store(str(place), contents.generation.env) as store:
            return _write(store, contents, on_progress)
    except MemoryStoreError as error:
        if _meaning(error.__cause__ or error, "")[0].startswith("cannot be written"):
            raise
        return False


def _refuse_foreign(place: Path) -> None:
    """Raise MemoryStoreError if a place is a link or holds what is not Chroma's."""
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        raise MemoryStoreError(
            f"{place} is not a directory of its own.", "Remove it, or name another directory."
        )
    names = os.listdir(place) if place.exists() else []
    if others := [one for one in names if not one.startswith(DATABASE) and not _is_uuid(one)]:
        raise MemoryStoreError(
            f"{place} holds other files than Chroma's, such as {others[0]!r}.",
            "Remove them, or name an empty or new directory.",
        )


def _is_uuid(name: str) -> bool:
    return len(name) == 36 and not set(name) - set("0123456789abcdef-")


def _zero_unset(place: Path) -> None:
    """Zero the room for more elements in the index files of a closed Chroma directory.

    Chroma does not initialise it, so it may hold secrets or purged texts of the process.
    """
    for header in place.glob("*/header.bin"):
        with files.open_own(header) as file:
            start = file.read(INDEX_HEADER.size)
        if len(start) < INDEX_HEADER.size:
            continue
        version, offset, capacity, elements, size = INDEX_HEADER.unpack(start)
        if version != 1 or offset or elements > capacity:
            continue
        for name, used in (("data_level0.bin", elements * size), ("length.bin", elements * 4)):
            with files.open_own(header.with_name(name), "r+b") as file:
                room = file.seek(0, os.SEEK_END) - used
                file.seek(used)
                file.write(bytes(max(room, 0)))


def drop_collections(store: Store) -> None:
    """Remove everything of an environment, its generations first."""
    for part in ("records", "types", "hidden", "tuples"):
        if store.collection(part) is not None:
            store.client.delete_collection(_name(store.env, part))
    store._collections = {}


def _write(store: Store, contents: Contents, on_progress: OnProgress) -> bool:
    """Make the collections of an environment show the contents, the generations last.

    Returns False, without writing, for a directory that holds something to remove.
    """
    served, newest, known = is_server(store.location), contents.generation, store.generations()
    if known == contents.generations:
        return True
    if known != contents.generations[:-1]:
        if known and not served:
            return False
        known = ()
    if not known:
        drop_collections(store)  # what a killed writer has left
    nothing = replace(newest, number=-1, hidden=())
    rows = TupleRows(contents, whole=served)
    changed, moved = rows.changed(known[-1] if known else nothing)
    done, ids = 0, contents.rows.columns["id"]
    for part, other, mask in (
        ("tuples", "hidden", ~rows.hidden),
        ("hidden", "tuples", rows.hidden),
    ):
        for numbers in chunks_of(np.flatnonzero(mask & changed)):
            put_rows(store.created(part, newest), rows.part(numbers))
            if len(gone := numbers[moved[numbers]]):
                store.created(other, newest).delete(ids=[*map(id_of, ids[gone].tolist())])
            done += len(numbers)
            on_progress("publish", done, int(changed.sum()))
    for chunk in chunks_of(type_rows(contents)):
        put_rows(store.created("types", newest), chunk)
    number = newest.number
    listed = record.manifest_of(replace(contents, log=NOWHERE), {})
    texts = {f"manifest {number}": records.dumps(listed)}
    if served:  # whose readers have no other files
        taught = packed(contents.learnt())
        texts[f"relevance {number}"] = base64.b64encode(taught).decode()
    log = store.created("records", newest)
    for name, text in {**texts, NEWEST: str(number)}.items():
        put_rows(log, text_rows(name, text))
    log.delete(where={"record": {"$nin": [NEWEST, *texts, f"manifest {number - 1}"]}})
    return True


def put_rows(collection: Any, rows: Sequence[Row]) -> None:
    """Write rows, replacing those that are there."""
    ids, vectors, documents, metadatas = zip(*rows, strict=True)
    collection.upsert(list(ids), np.stack(vectors), list(metadatas), list(documents))


def chunks_of(rows: Any) -> Iterator[Any]:
    """Yield parts of a sequence of rows that Chroma writes at a time."""
    for start in range(0, len(rows), WRITE_ROWS):
        yield rows[start : start + WRITE_ROWS]


# --- Comparing


def differences(contents: Contents, target: str) -> list[str]:
    """Return how a Chroma directory or server differs from what `publish` would write there.

    Every row is compared with its text, metadata and vector. Empty if nothing differs.
    """
    env, expected = contents.generation.env, TupleRows(contents, whole=is_server(target))
    opened = []
    try:
        with chroma_errors(target), Store(target, env) as store:
            for part, mask in (("tuples", ~expected.hidden), ("hidden", expected.hidden)):
                parts = map(expected.part, chunks_of(np.flatnonzero(mask)))
                opened += _row_differences(part, parts, store)
            opened += _row_differences("types", chunks_of(type_rows(contents)), store)
            listed, expected_last = store.manifest(), (contents.generation, contents.batches)
            if listed is None or (listed.generations[-1], listed.batches) != expected_last:
                opened.append(f"generation {contents.generation.number} is not published")
    except MemoryStoreError as error:
        opened.append(error.message)
    return opened


def _row_differences(part: str, chunks: Iterable[Sequence[Row]], store: Store) -> list[str]:
    """Return the numbers of missing, extra and changed rows of a collection."""
    extra = {name for page in store.pages(part) for name in page["ids"]}
    listed: dict[str, list[str]] = {"missing": [], "changed": []}
    collection = store.collection(part)
    for rows in chunks:  # a memory's vectors are too large to be there twice
        page = collection and collection.get(ids=[row.id for row in rows], include=ALL)
        held = {row.id: row for row in rows_of(page)} if page else {}
        for row in rows:
            there = held.get(row.id)
            alike = there and (there.document, there.metadata) == (row.document, row.metadata)
            if there is None or not alike or not np.array_equal(there.vector, row.vector):
                listed["changed" if there else "missing"].append(row.id)
        extra -= held.keys()
    listed["extra"] = sorted(extra)
    return [
        f"{len(ids)} rows of {part} are {words}, such as {ids[0]}"
        for words, ids in listed.items()
        if ids
    ]


# --- Within a memory's directory


def beside(location: str) -> str:
    """Return the Chroma directory within a memory's directory."""
    return str(Path(location) / record.CHROMA)


def publish_beside(
    location: str,
    contents: Contents,
    on_progress: OnProgress = lambda *_: None,
    *,
    anew: bool = False,
) -> None:
    """Publish to the Chroma directory within a memory, which is derived from the record.

    contents: of its newest generation. anew: as in `publish`.
    """
    publish(contents, beside(location), on_progress, memory=location, anew=anew)
