"""A memory in Chroma: published there for any client to search, or kept on a server and queried.

Each environment has four collections, `ldm.<environment>.<part>`:

- tuples: a row per tuple that the newest generation recalls, with the id of the tuple. Its vector
  is [goal; observation], each half of unit length. In its space (l2, the squared distance) a query
  with such a vector gives 4 - 4 · similarity, so the nearest are the most similar (LDM² Eq. 3). The
  document holds goal, observation and action; the metadata hold what to filter by.
- hidden: the same for the tuples that the newest generation does not recall.
- types: a row per goal type and observation type (§3.2), with the centroid as its vector.
- records: the generations, the indices of batches and the classifiers of kinds, as JSON.

A generation exists once its record does, which is written last.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from traceback import walk_tb
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from ldm import files, records
from ldm.errors import LdmError, MemoryStoreError
from ldm.memory import record
from ldm.memory.addresses import is_server, let_in
from ldm.memory.columns import TEXTS, Columns, id_of, labels_of, outcome_of
from ldm.memory.contents import Contents
from ldm.memory.index import FORMAT, BatchIndex, Generation
from ldm.memory.known_vectors import OnProgress
from ldm.memory.lessons import packed
from ldm.memory.retrieval import Retriever
from ldm.reason import PAST_OBSERVATION
from ldm.text import guard, is_trusted, redacted
from ldm.types import stable_hash

T = TypeVar("T")
#: The database in a Chroma directory.
DATABASE = "chroma.sqlite3"
#: Suffixes of the directory that is being published, and of the one that it replaces.
FRESH, OLD = ".new", ".old"
#: The graph of a collection of tuples: recall@5 of 0.99 and more on recorded episodes.
GRAPH = {"max_neighbors": 24, "ef_construction": 128, "ef_search": 256}
#: Chroma refuses writes of more than 5,461 rows; smaller ones keep the progress bar moving.
WRITE_ROWS = 2_000
READ_ROWS = 5_000
#: Rows that a query asks for at first, among all and among those that fit; rows read at a time.
AROUND, ASKED, READ = 256, 64, 16
#: Difference of a similarity to the one that Chroma's distance, a rounded sum, stands for.
MARGIN = 1e-5
#: Rows, and trajectories with the links of their steps, that are cached.
KEPT_ROWS, KEPT_TRAJECTORIES = 5_000, 1_000
#: Attempts of a request to a server, and the seconds before the second one.
REQUESTS, PAUSE = 4, 0.1
#: Timeouts in seconds of the first request to a server, and of any other one.
ANSWER, REPLY = 20.0, 300.0
#: Counts of equal goals, observations and actions, which new tuples change in old rows.
EVIDENCE = ("tried", "succeeded", "failed")
#: Of an index file of hnswlib: version, offset, capacity, elements, bytes per element.
INDEX_HEADER = struct.Struct("<i4Q")
#: Everything of a row.
ALL = ["metadatas", "documents", "embeddings"]
#: Columns of texts that rows can be filtered by, and their names there.
NAMED = {
    **{name: name for name in ("goal", "action", "kind", "batch", "source", "origin")},
    **{"task_id": "task", "trajectory_id": "trajectory"},
}
#: Columns of pairs of texts, as JSON, which tuples have where they were recorded.
OPTIONAL = {"scope": "scope", "tags": "tag"}
#: Characters of one part of what the tuples teach.
PART = 1_000_000
#: The vector of rows that need none; Chroma demands one.
NO_VECTOR = np.ones(1, np.float32)


#: The process in which Chroma was first embedded: its threads do not survive a fork.
_embedding: dict[str, int] = {}


class Row(NamedTuple):
    """A row of a collection."""

    id: str
    vector: NDArray[np.float32]
    document: str
    metadata: dict[str, Any]

    def signed(self) -> Row:
        """Return the row with a hash of all that does not change in it."""
        stable = {k: v for k, v in self.metadata.items() if k not in (*EVIDENCE, "digest")}
        text = json.dumps([self.id, self.document, stable], sort_keys=True)
        whole = hashlib.sha256(text.encode("utf-8", "replace") + self.vector.tobytes())
        return self._replace(metadata={**self.metadata, "digest": whole.hexdigest()[:16]})


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
        return f"refuses to let us in (HTTP {status})", let_in()
    if is_server(location) and (status or 0) >= 400:
        return f"answers with HTTP {status}", "Check that it is the address of a Chroma server."
    if is_server(location) and _is_unreachable(error):
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


def _is_unreachable(error: BaseException) -> bool:
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
        if damage := _damage(Path(location).resolve(strict=True)):
            raise OSError(damage)
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
    try:
        made: Any = chromadb.HttpClient(*place, ssl=secure, settings=settings)
    except Exception as error:
        for one in _chain(error):  # Chroma leaves its connections open
            for frame, _ in walk_tb(one.__traceback__):
                if session := getattr(frame.f_locals.get("self"), "_session", None):
                    session.close()
        raise
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

    def asking(self, request: Callable[[], T]) -> T:
        """Return the result of a repeatable request, which is repeated if a server is away."""
        for attempt in range(1, REQUESTS if is_server(self.location) else 1):
            try:
                return request()
            except Exception as error:
                if not _is_unreachable(error):
                    break
                time.sleep(PAUSE * 4**attempt)
        with chroma_errors(self.location):
            return request()

    def answered(self, part: str, method: str, **what: Any) -> Any:
        """Return the answer of a collection's method, or None if there is no such collection."""

        def request() -> Any:
            collection = self.collection(part)
            return None if collection is None else getattr(collection, method)(**what)

        return self.asking(request)

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
        """Return a collection, which is created if absent.

        Raises MemoryStoreError if its vectors are those of another embedder.
        """
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
        if opened.metadata["embedder"] != generation.embedder:
            replace(generation, embedder=opened.metadata["embedder"]).check_embedder(
                generation.embedder
            )
        return opened

    def records(self, kind: str, record_type: type[T]) -> list[tuple[dict[str, Any], T]]:
        """Return the metadata and the value of all records of a kind."""
        if (collection := self.collection("records")) is None:
            return []
        listed = collection.get(where={"record": kind}, include=["metadatas"])["metadatas"]
        return [(one, records.loads(str(one["content"]), record_type)) for one in listed]

    def generations(self) -> tuple[Generation, ...]:
        """List the complete generations, oldest first."""
        present = (one for _, one in self.records("generation", Generation))
        return tuple(sorted(present, key=lambda one: one.number))

    def metadata_by_id(self, part: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the ids and metadata of all rows."""
        for page in self.pages(part, "metadatas"):
            yield from zip(page["ids"], page["metadatas"], strict=True)

    def metadata_of(
        self, part: str, ids: Sequence[str]
    ) -> Iterator[Iterable[tuple[str, dict[str, Any]]]]:
        """Yield in chunks the ids and metadata of those rows that exist."""
        collection = self.collection(part)
        for chunk in chunks_of(ids):
            page = collection.get(ids=list(chunk), include=["metadatas"])
            yield zip(page["ids"], page["metadatas"], strict=True)

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
    vectors = page["embeddings"]
    parts = (page["ids"], page["documents"], page["metadatas"])
    return [
        Row(
            name,
            NO_VECTOR if vectors is None else np.asarray(vectors[i], np.float32),
            document or "",
            dict(metadata or {}),
        )
        for i, (name, document, metadata) in enumerate(zip(*parts, strict=True))
    ]


def _name(env: str, part: str) -> str:
    """Return the name of a collection; an `env` with characters that Chroma refuses is hashed."""
    plain = all(c.isascii() and (c.isalnum() or c in "-_") for c in env)
    return f"ldm.{env if plain else stable_hash(env)}.{part}"


# --- The rows of a generation


class TupleRows:
    """The rows of a memory's tuples."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._columns = columns = contents.rows.columns
        self._indices = {batch.id: batch for batch in contents.batches}
        self._texts = {name: columns.distinct(name) for name in TEXTS}
        self.hidden = columns.named(contents.generation.hidden)
        self._before = _steps_before(columns, self.hidden)
        self._last = _last_steps(columns, self.hidden)
        self._same = np.unique(columns.same_texts(), return_inverse=True)[1]
        won = columns.with_outcome(
            lambda one: one is not None and not (one.fell_short or one.is_warning)
        )
        lost = columns.with_outcome(
            lambda one: one is not None and (one.is_warning or one.score <= 0)
        )
        self._evidence = [
            np.bincount(self._same, mask & ~self.hidden).astype(int).tolist()
            for mask in (np.ones(len(columns), np.bool_), won, lost)
        ]

    def touched(self) -> NDArray[np.bool_]:
        """Return a mask of the newest generation's tuples and their equals, whose counts change."""
        new = self._columns["generation"] == self._contents.generation.number
        touched: NDArray[np.bool_] = np.isin(self._same, self._same[new])
        return touched

    def ids(self, numbers: NDArray[np.int64]) -> list[str]:
        """Return the ids of tuples."""
        return [id_of(number) for number in self._columns["id"][numbers].tolist()]

    def part(self, numbers: NDArray[np.int64]) -> list[Row]:
        """Return the rows of these tuples."""
        vectors = self._contents.vectors[numbers]
        return [
            Row(
                id_of(int(self._columns["id"][i])), vector, self._document(i), self._metadata(i)
            ).signed()
            for i, vector in zip(numbers.tolist(), vectors, strict=True)
        ]

    def _text(self, name: str, i: int) -> str:
        return self._texts[name][int(self._columns[name][i])]

    def _document(self, i: int) -> str:
        return _document(*(self._text(name, i) for name in ("goal", "observation", "action")))

    def _metadata(self, i: int) -> dict[str, Any]:
        columns, text = self._columns, self._text
        batch = text("batch", i)
        g, o = int(columns["goal_type"][i]), int(columns["observation_type"][i])
        goal_type = self._indices[batch].goal_types[g]
        texts = [text(name, i) for name in ("goal", "observation", "action")]
        outcome = outcome_of(text("outcome", i))
        metadata: dict[str, Any] = {
            **{name: text(column, i) for column, name in NAMED.items()},
            **{"goal_type": goal_type.name, "goal_type_id": f"{batch}/{g}"},
            "observation_type": goal_type.observation_types[o],
            "observation_type_id": f"{batch}/{g}/{o}",
            **{name: int(columns[name][i]) for name in ("step", "generation")},
            **{
                name: counts[self._same[i]]
                for name, counts in zip(EVIDENCE, self._evidence, strict=True)
            },
            "same": stable_hash(*texts),
        }
        if outcome is not None:
            metadata["score"] = outcome.score
            metadata["success"] = not (outcome.fell_short or outcome.is_warning)
            metadata["warning"] = outcome.is_warning
        if self._last[i]:
            metadata["is_last"] = True
        if when := float(columns["time"][i]):
            metadata["time"] = round(when, 3)  # Chroma may change the last bit of more digits
        for column, prefix in OPTIONAL.items():
            metadata |= {f"{prefix}_{name}": v for name, v in labels_of(text(column, i))}
        metadata["ldm"] = json.dumps(self._rest(i), ensure_ascii=False)
        return metadata

    def _rest(self, i: int) -> dict[str, Any]:
        """Return what nobody filters by: texts, the past, and the whole columns of the lead."""
        columns = self._columns
        rest: dict[str, Any] = {
            name: self._text(name, i) for name in TEXTS if name not in (*NAMED, "observation")
        }
        if (before := self._before[i]) >= 0:
            rest["before"] = id_of(int(columns["id"][before]))
        elif past := self._contents.rows.past(int(columns["past"][i])):
            rest["past"] = past
        return {name: value for name, value in rest.items() if value}


def _document(goal: str, observation: str, action: str) -> str:
    return f"goal: {goal}\nobservation: {observation}\naction: {action}"


def observation_in(document: str, goal: str, action: str) -> str:
    """Return the observation in a document."""
    observation = document[len(f"goal: {goal}\nobservation: ") : -len(f"\naction: {action}")]
    if _document(goal, observation, action) != document:
        raise ValueError("the document of a tuple does not fit its goal and action")
    return observation


def _steps_before(columns: Columns, hidden: NDArray[np.bool_]) -> list[int]:
    """Return for each tuple the one of the step before, whose past and pair are its past, or -1.

    So a row need not repeat the steps that other rows of its trajectory hold.
    """
    texts = columns.distinct("observation")
    cut = {i: text[:PAST_OBSERVATION] for i, text in texts.items()}
    names = ("trajectory_id", "past", "observation", "action")
    ends: dict[tuple[int, int, str, int], int] = {}
    for i, values in enumerate(zip(*(columns[name].tolist() for name in names), strict=True)):
        trajectory, past, observation, action = values
        if not hidden[i]:
            ends.setdefault((trajectory, past, cut[observation], action), i)
    before = []
    for trajectory, past in zip(
        columns["trajectory_id"].tolist(), columns["past"].tolist(), strict=True
    ):
        if past < 0:
            before.append(-1)
            continue
        parent, observation, action = columns.pasts[past].tolist()
        before.append(ends.get((trajectory, parent, columns.texts[observation], action), -1))
    return before


def _last_steps(columns: Columns, hidden: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of the last step of each trajectory without a hidden tuple."""
    trajectories = columns["trajectory_id"]
    order = np.lexsort((np.arange(len(columns)), -columns["step"], trajectories))
    last = np.zeros(len(columns), np.bool_)
    last[order[np.unique(trajectories[order], return_index=True)[1]]] = True
    complete: NDArray[np.bool_] = last & ~np.isin(trajectories, trajectories[hidden])
    return complete


def type_rows(contents: Contents) -> list[Row]:
    """Return the rows of the types of a memory's batches."""
    columns = contents.rows.columns
    rows = []
    retriever = Retriever(contents.batches, contents.rows, contents.vectors)
    generations = columns["generation"]
    for name, span in columns.batch_spans().items():
        batch, index = retriever.batches[name], retriever.batches[name].index
        counts = contents.rows.sizes(name)
        goals = sorted({g for g, _ in counts})
        in_goal, in_cell = columns["goal_type"][span], columns["observation_type"][span]
        for g, view, below in zip(goals, batch.goal_types, batch.observation_types, strict=True):
            numbers = sorted(o for one, o in counts if one == g)
            cells = [("", view, in_goal == g)]
            cells += [
                (f"/{o}", v, (in_goal == g) & (in_cell == o))
                for o, v in zip(numbers, below, strict=True)
            ]
            for suffix, one, members in cells:
                metadata = {
                    **{"type": f"{name}/{g}{suffix}", "name": one.name, "batch": name},
                    **{"level": "observation" if suffix else "goal", "kind": index.kind},
                    **{"parent": f"{name}/{g}" if suffix else name},
                    **{"examples": json.dumps(one.examples), "tuples": int(members.sum())},
                    "generation": int(generations[span][members].min()),
                    **{"goal_number": g, "number": int(suffix[1:] or -1)},
                }
                document = "\n".join([one.name, *one.examples])
                key = f"{name}/{g}{suffix}"
                rows.append(
                    Row(key, np.asarray(one.centroid, np.float32), document, metadata).signed()
                )
    return rows


def record_row(key: str, record: object, kind: str, number: int) -> Row:
    """Return the row of a record of a kind, as JSON."""
    # Not a document, because Chroma indexes all trigrams of those.
    content: dict[str, Any] = {"record": kind, "content": records.dumps(record)}
    content["number"] = number
    return Row(key, NO_VECTOR, kind, content).signed()


def relevance_rows(contents: Contents) -> list[Row]:
    """Return the rows of what the tuples of a generation teach, in parts that a server accepts."""
    number = contents.generation.number
    text = base64.b64encode(packed(contents.learnt())).decode()
    parts = [text[at : at + PART] for at in range(0, len(text), PART)]
    return [
        record_row(f"relevance:{number:06d}:{i:04d}", f"{i:04d}{part}", "relevance", number)
        for i, part in enumerate(parts)
    ]


def generation_row(generation: Generation) -> Row:
    """Return the row of a generation, which is written last."""
    return record_row(
        f"generation:{generation.number:06d}", generation, "generation", generation.number
    )


# --- Publishing


def publish(
    contents: Contents,
    target: str,
    on_progress: OnProgress = lambda *_: None,
    *,
    generations: Sequence[Generation] = (),
    others: Callable[[], Iterable[Contents]] = tuple,
    anew: bool = False,
) -> None:
    """Make a Chroma directory or server show a generation of a memory; its record is elsewhere.

    Only rows that are new or differ are written. A directory that lacks something to remove, such
    as purged tuples, which Chroma would leave in its files, or that is damaged, is written afresh
    beside and renamed. A call repeated after an interruption goes on. The caller sees to it that
    nobody else publishes to the target.

    contents: all tuples, hidden ones included, of the generation.
    target: a directory, or the http(s) address of a Chroma server.
    on_progress: called with ("publish", done, total) in tuples.
    generations: the records of this and the earlier generations.
    others: returns the contents of the other environments in a directory.
    anew: write everything, as when `differences` are found.

    Raises MemoryStoreError if the target cannot be written, or holds other files or a link.
    """
    generations = generations or (contents.generation,)
    if is_server(target):
        with chroma_errors(target), Store(target, contents.generation.env) as store:
            if anew:
                drop_collections(store)
            _write(store, contents, generations, on_progress)
        return
    place = Path(target)
    fresh, old = place.with_name(place.name + FRESH), place.with_name(place.name + OLD)
    with chroma_errors(target):
        for directory in (place, fresh, old):
            _refuse_foreign(directory)
        if not anew and _published_into(place, contents, generations, on_progress):
            return
        everything = [(contents, generations)] + [(one, (one.generation,)) for one in others()]
        for one, recorded in everything:
            if not _published_into(fresh, one, recorded, on_progress, create=True):
                shutil.rmtree(fresh)
                _published_into(fresh, one, recorded, on_progress, create=True)
        shutil.rmtree(old, ignore_errors=True)
        if place.exists():
            place.rename(old)
        fresh.rename(place)
        shutil.rmtree(old, ignore_errors=True)


def _published_into(
    place: Path,
    contents: Contents,
    generations: Sequence[Generation],
    on_progress: OnProgress,
    *,
    create: bool = False,
) -> bool:
    """Publish into a directory; return whether it is sound and held nothing to remove."""
    if not (place / DATABASE).exists():
        if not create:
            return False
        if place.exists():
            shutil.rmtree(place)
        place.mkdir(parents=True)
    elif _damage(place):
        return False
    try:
        with chroma_errors(str(place)), Store(str(place), contents.generation.env) as store:
            present = contents.rows.columns.ids
            for part in ("tuples", "hidden") if not _follows(store, generations) else ():
                for page in store.pages(part):
                    if not present.issuperset(page["ids"]):
                        return False
            _write(store, contents, generations, on_progress)
    except MemoryStoreError as error:
        if create or _meaning(error.__cause__ or error, "")[0].startswith("cannot be written"):
            raise
        return False
    return True


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


def _damage(place: Path) -> str:
    """Return what keeps a Chroma directory from being opened safely, or "".

    Opening a named pipe would wait forever, and a link may lead out of the directory.
    """
    try:
        files.check_own(place)
        with files.open_own(place / DATABASE) as file:
            head = file.read(16)
    except FileNotFoundError:
        return ""  # it will be created
    except LdmError as error:
        return error.message.rstrip(".")
    return "" if head == b"SQLite format 3\0" else f"{DATABASE} is not a database"


def _zero_unset(place: Path) -> None:
    """Zero the room for more elements in the index files of a closed Chroma directory.

    Chroma does not initialise it, so it may hold secrets or purged texts of the process.
    """
    for header in place.glob("*/header.bin"):
        if len(start := files.read_own(header)[: INDEX_HEADER.size]) < INDEX_HEADER.size:
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


def _write(
    store: Store, contents: Contents, generations: Sequence[Generation], on_progress: OnProgress
) -> None:
    """Make the collections of an environment show the contents, the generations last."""
    rows, newest = TupleRows(contents), contents.generation
    if store.generations() == tuple(generations):
        return
    touched = rows.touched() if _follows(store, generations) else None
    log = store.created("records", newest)
    known = dict(store.metadata_by_id("records"))
    named = {row.id: row for row in map(generation_row, generations)}
    delete_rows(
        log, [name for name in known if name.startswith("generation:") and name not in named]
    )
    stale, done = dict[str, list[str]](), 0
    for part, mask in (("tuples", ~rows.hidden), ("hidden", rows.hidden)):
        numbers = np.flatnonzero(mask if touched is None else mask & touched)
        if not len(numbers) and (touched is not None or store.collection(part) is None):
            continue
        collection = store.created(part, newest)
        if touched is None:
            held = store.metadata_by_id(part)
        else:
            held = chain.from_iterable(store.metadata_of(part, rows.ids(numbers)))
        states = {name: state_of(metadata) for name, metadata in held}
        for chunk in chunks_of(numbers):
            put_rows(collection, rows.part(chunk), states)
            done += len(chunk)
            on_progress("publish", done, len(contents.rows))
        present_ids = set(rows.ids(numbers))
        stale[part] = [name for name in states if name not in present_ids]
    types = store.created("types", newest)
    _replace(types, type_rows(contents), dict(store.metadata_by_id("types")))
    facts = [
        record_row(f"batch:{batch.id}", batch, "batch", batch.generation)
        for batch in contents.batches
    ]
    for one in generations:
        name = f"kinds:{one.number:06d}"
        if one == newest or known.pop(name, None) is None:
            at = contents if one == newest else contents.at(one)
            facts.append(record_row(name, at.trained(), "kinds", one.number))
    if is_server(store.location):  # whose readers have no other files
        facts += relevance_rows(contents)
    others = {name: one for name, one in known.items() if not name.startswith("generation:")}
    _replace(log, facts, others)
    for part, names in stale.items():
        delete_rows(store.created(part, newest), names)
    put_rows(log, [*named.values()], {name: state_of(one) for name, one in known.items()})


def _follows(store: Store, generations: Sequence[Generation]) -> bool:
    """Return whether the last generation only adds tuples to what is published."""
    *before, newest = generations
    present = store.generations()
    return bool(before) and present == tuple(before) and before[-1].hidden == newest.hidden


def state_of(metadata: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells whether a row has to be written again."""
    return tuple(metadata.get(name) for name in ("digest", *EVIDENCE))


def put_rows(collection: Any, rows: Sequence[Row], known: Mapping[str, tuple[Any, ...]]) -> None:
    """Write the rows that are not known to be there as they are."""
    if new := [row for row in rows if row.id not in known]:
        ids, vectors, documents, metadatas = zip(*new, strict=True)
        collection.add(list(ids), np.stack(vectors), list(metadatas), list(documents))
    if changed := [r for r in rows if r.id in known and known[r.id] != state_of(r.metadata)]:
        ids, vectors, documents, metadatas = zip(*changed, strict=True)
        before = collection.get(ids=list(ids), include=["metadatas"])
        old = dict(zip(before["ids"], before["metadatas"], strict=True))
        # Chroma keeps the keys that an update does not name.
        whole = [{**dict.fromkeys(old.get(row.id, ())), **row.metadata} for row in changed]
        collection.update(list(ids), np.stack(vectors), whole, list(documents))


def _replace(
    collection: Any, rows: Sequence[Row], present: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write rows and remove all others that are present."""
    known = {name: state_of(metadata) for name, metadata in present.items()}
    for chunk in chunks_of(rows):
        put_rows(collection, chunk, known)
    delete_rows(collection, sorted(known.keys() - {row.id for row in rows}))


def delete_rows(collection: Any, ids: Sequence[str]) -> None:
    """Remove rows."""
    for chunk in chunks_of(ids):
        collection.delete(ids=chunk)


def chunks_of(rows: Any) -> Iterator[Any]:
    """Yield parts of a sequence of rows that Chroma writes at a time."""
    for start in range(0, len(rows), WRITE_ROWS):
        yield rows[start : start + WRITE_ROWS]


# --- Comparing


def differences(contents: Contents, target: str) -> list[str]:
    """Return how a Chroma directory or server differs from what `publish` would write there.

    Every row is compared with its text, metadata and vector. Empty if nothing differs.
    """
    env, expected = contents.generation.env, TupleRows(contents)
    opened = []
    try:
        with chroma_errors(target), Store(target, env) as store:
            for part, mask in (("tuples", ~expected.hidden), ("hidden", expected.hidden)):
                parts = map(expected.part, chunks_of(np.flatnonzero(mask)))
                opened += _row_differences(part, chain.from_iterable(parts), store)
            opened += _row_differences("types", iter(type_rows(contents)), store)
            if contents.generation not in store.generations():
                opened.append(f"generation {contents.generation.number} is not published")
            held = {one for _, one in store.records("batch", BatchIndex)}
            if held != set(contents.batches):
                opened.append("the indices of batches differ")
    except MemoryStoreError as error:
        opened.append(error.message)
    return opened


def _row_differences(part: str, rows: Iterator[Row], store: Store) -> list[str]:
    """Return the numbers of missing, extra and changed rows of a collection."""
    held = {
        row.id: (row.signed().metadata["digest"], state_of(row.metadata), row.vector.tobytes())
        for row in store.rows(part)
    }
    listed: dict[str, list[str]] = {"missing": [], "changed": []}
    for row in rows:
        there = held.pop(row.id, None)
        whole = row.metadata["digest"], state_of(row.metadata), row.vector.tobytes()
        if there != whole:
            listed["changed" if there else "missing"].append(row.id)
    listed["extra"] = sorted(held)
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
    present: Sequence[Generation],
    on_progress: OnProgress = lambda *_: None,
) -> None:
    """Publish to the Chroma directory within a memory, which is derived from the record.

    present: all generations of the environment.
    """

    def others() -> Iterator[Contents]:
        for env in record.environments(location):
            if env != contents.generation.env and record.generations(location, env):
                yield record.load(location, env)

    publish(contents, beside(location), on_progress, generations=present, others=others)


def remove(location: str) -> None:
    """Remove the Chroma directory within a memory; nothing behind a link."""
    files.remove(Path(beside(location)))
