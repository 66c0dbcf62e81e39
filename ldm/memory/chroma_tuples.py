"""A memory in Chroma: published there for any client to search, or kept on a server and queried.

Each environment has four collections, `ldm.<environment>.<part>`:

- tuples: a row per tuple that the newest generation recalls, with the id of the tuple. Its vector
  is [goal; observation], each half of unit length. In its space (l2, the squared distance) a query
  with such a vector gives 4 - 4 · similarity, so the nearest are the most similar (LDM² Eq. 3). The
  document holds goal, observation and action; the metadata hold what to filter by.
- hidden: the same for the tuples that the newest generation does not recall.
- types: a row per goal type and observation type (§3.2), with the centroid as its vector.
- records: the generations, the indices of batches and the classifiers of kinds, as JSON.

A generation exists once its record does, which is written last. Rows that were added on a server
name in `commit` the generation that they were written for; those of a lost race are ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import stat
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from math import isnan
from pathlib import Path
from traceback import walk_tb
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from ldm import records
from ldm.embed import Embedder, load_embedder
from ldm.errors import LdmError, MemoryStoreError
from ldm.memory import Memory, ranking
from ldm.memory.addresses import is_server, let_in
from ldm.memory.columns import TEXTS, Columns, Vectors, id_of, outcome_of
from ldm.memory.columns_builder import ColumnsBuilder
from ldm.memory.contents import Contents
from ldm.memory.exemplars import Exemplar, nearest
from ldm.memory.index import FORMAT, BatchIndex, Generation, IndexedTuple
from ldm.memory.kind_classifier import KindClassifier, KindWeights
from ldm.memory.known_vectors import OnProgress
from ldm.memory.retrieval import Query, Retriever, _Batch
from ldm.memory.rows import Rows
from ldm.parallel import map_concurrently
from ldm.reason import PAST_OBSERVATION, TypeView
from ldm.text import guard, redacted
from ldm.types import (
    History,
    Past,
    Recall,
    StateActionTuple,
    stable_hash,
    stable_seed,
)

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
#: Columns of pairs of texts, as JSON, which tuples have where they were recorded.
OPTIONAL = ("scope", "tags")
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
        stable = {
            k: v for k, v in self.metadata.items() if k not in (*EVIDENCE, "commit", "digest")
        }
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


def _client(location: str, *, trusted: bool) -> Any:
    """Return a client for a directory or a server, to which only a trusted one gets credentials."""
    import chromadb
    from chromadb.config import Settings

    # Without _env_file, Chroma reads .env in the working directory, which can name classes to load.
    settings = Settings(_env_file=None, anonymized_telemetry=False)
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


class _Store:
    """The collections of one environment in a directory or on a server."""

    def __init__(self, location: str, env: str, *, trusted: bool = True) -> None:
        self.location = location
        self.env = env
        self._trusted = trusted
        self._opened: tuple[int, Any] | None = None
        self._collections: dict[str, Any] = {}

    def __enter__(self) -> _Store:
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
            self._opened = os.getpid(), _client(self.location, trusted=self._trusted)
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

    def asked(self, part: str, method: str, **what: Any) -> Any:
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
            found = client.get_collection(_name(self.env, part), embedding_function=None)
        except NotFoundError:
            return None
        if (version := (found.metadata or {}).get("format")) != FORMAT:
            raise MemoryStoreError(
                f"The memory at {self.location} has format {version}; this ldm reads {FORMAT}.",
                "Build it again in a new place with `ldm build-memory DATA`.",
            )
        self._collections[part] = found
        return found

    def created(self, part: str, generation: Generation) -> Any:
        """Return a collection, which is created if absent.

        Raises MemoryStoreError if its vectors are those of another embedder.
        """
        if (found := self.collection(part)) is None:
            metadata = {
                **{"ldm": part, "env": self.env, "format": FORMAT},
                **{"embedder": generation.embedder, "dimension": generation.dimension},
            }
            if part in ("tuples", "hidden"):
                metadata["vector"] = "goal, then observation, each half of unit length"
                metadata["similarity"] = "1 - distance / 4"
            found = self._collections[part] = self.client.get_or_create_collection(
                _name(self.env, part),
                metadata=metadata,
                configuration={"hnsw": {"space": "l2", **GRAPH}},
                embedding_function=None,
            )
        if found.metadata["embedder"] != generation.embedder:
            replace(generation, embedder=found.metadata["embedder"]).check_embedder(
                generation.embedder
            )
        return found

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

    def pages(self, part: str, *what: str) -> Iterator[Any]:
        """Yield all rows in pages."""
        if (collection := self.collection(part)) is not None:
            for start in range(0, collection.count(), READ_ROWS):
                yield collection.get(limit=READ_ROWS, offset=start, include=list(what))

    def rows(self, part: str) -> Iterator[Row]:
        """Yield all rows."""
        for page in self.pages(part, *ALL):
            yield from _rows_of(page)


def _rows_of(page: Any) -> list[Row]:
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


def generations_at(target: str, *, trusted: bool = True) -> dict[str, tuple[Generation, ...]]:
    """Return the complete generations at a directory or server by environment, oldest first.

    trusted: whether the user named the server, so that it gets the credentials.
    Raises MemoryStoreError if the server does not answer, does not let us in or is not Chroma.
    """
    with chroma_errors(target), _Store(target, "", trusted=trusted) as store:
        known = [one.metadata or {} for one in store.client.list_collections()]
        envs = sorted(str(one["env"]) for one in known if one.get("ldm") == "records")
        present = {}
        for env in envs:
            store.env, store._collections = env, {}
            present[env] = store.generations()
        return {env: found for env, found in present.items() if found}


# --- The rows of a generation


class _TupleRows:
    """The rows of a memory's tuples. commit: see the module."""

    def __init__(self, contents: Contents, commit: str = "") -> None:
        self._contents = contents
        self._commit = commit
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
            **{"goal": texts[0], "action": texts[2], "kind": text("kind", i), "batch": batch},
            **{"goal_type": goal_type.name, "goal_type_id": f"{batch}/{g}"},
            "observation_type": goal_type.observation_types[o],
            "observation_type_id": f"{batch}/{g}/{o}",
            **{"task": text("task_id", i), "source": text("source", i)},
            **{"trajectory": text("trajectory_id", i), "step": int(columns["step"][i])},
            **{"origin": text("origin", i), "generation": int(columns["generation"][i])},
            **{
                name: counts[self._same[i]]
                for name, counts in zip(EVIDENCE, self._evidence, strict=True)
            },
            "same": stable_hash(*texts),
            "commit": self._commit,
        }
        if outcome is not None:
            metadata["score"] = outcome.score
            metadata["success"] = not (outcome.fell_short or outcome.is_warning)
            metadata["warning"] = outcome.is_warning
        if self._last[i]:
            metadata["is_last"] = True
        if "time" in columns.values and not isnan(when := float(columns["time"][i])):
            metadata["time"] = when
        for name in OPTIONAL:
            if pairs := name in columns.values and text(name, i):
                prefix = name.removesuffix("s")
                metadata.update({f"{prefix}_{k}": v for k, v in json.loads(pairs)})
        metadata["ldm"] = json.dumps(self._rest(i), ensure_ascii=False)
        return metadata

    def _rest(self, i: int) -> dict[str, Any]:
        """Return what nobody filters by: texts, the past, and the whole columns of the lead."""
        columns = self._columns
        rest: dict[str, Any] = {
            name: self._text(name, i)
            for name in self._texts
            if name not in ("goal", "observation", "action", "kind", "batch", "task_id", "source")
            and name not in ("trajectory_id", "origin")
        }
        rest["reach"] = float(columns["reach"][i])
        if (before := self._before[i]) >= 0:
            rest["before"] = id_of(int(columns["id"][before]))
        elif past := self._contents.rows.past(int(columns["past"][i])):
            rest["past"] = past
        return {name: value for name, value in rest.items() if value}


def _document(goal: str, observation: str, action: str) -> str:
    return f"goal: {goal}\nobservation: {observation}\naction: {action}"


def _observation(document: str, goal: str, action: str) -> str:
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
    kept: NDArray[np.bool_] = last & ~np.isin(trajectories, trajectories[hidden])
    return kept


def _type_rows(contents: Contents, commit: str = "") -> list[Row]:
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
                    **{"parent": f"{name}/{g}" if suffix else name, "commit": commit},
                    **{"examples": json.dumps(one.examples), "tuples": int(members.sum())},
                    "generation": int(generations[span][members].min()),
                    **{"goal_number": g, "number": int(suffix[1:] or -1)},
                }
                document = "\n".join([one.name, *one.examples])
                key = f"{name}/{g}{suffix}" + (f"@{commit}" if commit else "")
                rows.append(
                    Row(key, np.asarray(one.centroid, np.float32), document, metadata).signed()
                )
    return rows


def _record(key: str, record: object, kind: str, number: int, commit: str = "") -> Row:
    # Not a document, because Chroma indexes all trigrams of those.
    content: dict[str, Any] = {"record": kind, "content": records.dumps(record), "commit": commit}
    content["number"] = number
    return Row(key, NO_VECTOR, kind, content).signed()


def _generation_row(generation: Generation, commit: str = "") -> Row:
    return _record(
        f"generation:{generation.number:06d}", generation, "generation", generation.number, commit
    )


# --- Publishing


def publish(  # noqa: PLR0913 - one parameter a decision of the caller
    contents: Contents,
    target: str,
    on_progress: OnProgress = lambda *_: None,
    *,
    generations: Sequence[Generation] = (),
    others: Callable[[], Iterable[Contents]] = tuple,
    trusted: bool = True,
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
    trusted: whether the user named the server, so that it gets the credentials.
    anew: write everything, as when `differences` are found.

    Raises MemoryStoreError if the target cannot be written, holds other files or a link, or holds
    generations that were added on the server.
    """
    generations = generations or (contents.generation,)
    if is_server(target):
        with (
            chroma_errors(target),
            _Store(target, contents.generation.env, trusted=trusted) as store,
        ):
            if any(metadata["commit"] for metadata, _ in store.records("generation", Generation)):
                raise MemoryStoreError(
                    f"{target} holds generations of {store.env} that were added there.",
                    "Name another server, or export them first with `ldm memory export`.",
                )
            if anew:
                _drop(store)
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
        with chroma_errors(str(place)), _Store(str(place), contents.generation.env) as store:
            present = contents.rows.columns.ids
            for part in ("tuples", "hidden"):
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
    for folder, names, files in os.walk(place):
        for name in (*names, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                return f"{path} is a link or no file"
    if not (place / DATABASE).exists():
        return ""  # it will be created
    with (place / DATABASE).open("rb") as file:
        head = file.read(16)
    return "" if head == b"SQLite format 3\0" else f"{DATABASE} is not a database"


def _zero_unset(place: Path) -> None:
    """Zero the room for more elements in the index files of a closed Chroma directory.

    Chroma does not initialise it, so it may hold secrets or purged texts of the process.
    """
    for header in place.glob("*/header.bin"):
        if len(start := header.read_bytes()[: INDEX_HEADER.size]) < INDEX_HEADER.size:
            continue
        version, offset, capacity, elements, size = INDEX_HEADER.unpack(start)
        if version != 1 or offset or elements > capacity:
            continue
        for name, used in (("data_level0.bin", elements * size), ("length.bin", elements * 4)):
            with header.with_name(name).open("r+b") as file:
                room = file.seek(0, os.SEEK_END) - used
                file.seek(used)
                file.write(bytes(max(room, 0)))


def _drop(store: _Store) -> None:
    for part in ("records", "types", "hidden", "tuples"):
        if store.collection(part) is not None:
            store.client.delete_collection(_name(store.env, part))
    store._collections = {}


def _write(
    store: _Store,
    contents: Contents,
    generations: Sequence[Generation],
    on_progress: OnProgress,
) -> None:
    """Make the collections of an environment show the contents, the generations last."""
    rows, newest = _TupleRows(contents), contents.generation
    if store.generations() == tuple(generations):
        return
    log = store.created("records", newest)
    known = dict(store.metadata_by_id("records"))
    named = {row.id: row for row in map(_generation_row, generations)}
    _delete(log, [name for name in known if name.startswith("generation:") and name not in named])
    stale, done = dict[str, list[str]](), 0
    for part, mask in (("tuples", ~rows.hidden), ("hidden", rows.hidden)):
        numbers = np.flatnonzero(mask)
        if not len(numbers) and store.collection(part) is None:
            continue
        collection = store.created(part, newest)
        states = {name: _state(metadata) for name, metadata in store.metadata_by_id(part)}
        for chunk in _chunks(numbers):
            _put(collection, rows.part(chunk), states)
            done += len(chunk)
            on_progress("publish", done, len(contents.rows))
        shown = set(map(id_of, contents.rows.columns["id"][numbers].tolist()))
        stale[part] = [name for name in states if name not in shown]
    types = store.created("types", newest)
    _replace(types, _type_rows(contents), dict(store.metadata_by_id("types")))
    facts = [
        _record(f"batch:{batch.id}", batch, "batch", batch.generation) for batch in contents.batches
    ]
    for one in generations:
        name = f"kinds:{one.number:06d}"
        if one == newest or known.pop(name, None) is None:
            at = contents if one == newest else contents.at(one)
            facts.append(_record(name, at.trained(), "kinds", one.number))
    others = {name: one for name, one in known.items() if not name.startswith("generation:")}
    _replace(log, facts, others)
    for part, names in stale.items():
        _delete(store.created(part, newest), names)
    _put(log, [*named.values()], {name: _state(one) for name, one in known.items()})


def _state(metadata: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells whether a row has to be written again."""
    return tuple(metadata.get(name) for name in ("digest", *EVIDENCE))


def _put(collection: Any, rows: Sequence[Row], known: Mapping[str, tuple[Any, ...]]) -> None:
    """Write the rows that are not known to be there as they are."""
    if new := [row for row in rows if row.id not in known]:
        ids, vectors, documents, metadatas = zip(*new, strict=True)
        collection.add(list(ids), np.stack(vectors), list(metadatas), list(documents))
    if changed := [r for r in rows if r.id in known and known[r.id] != _state(r.metadata)]:
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
    known = {name: _state(metadata) for name, metadata in present.items()}
    for chunk in _chunks(rows):
        _put(collection, chunk, known)
    _delete(collection, sorted(known.keys() - {row.id for row in rows}))


def _delete(collection: Any, ids: Sequence[str]) -> None:
    for chunk in _chunks(ids):
        collection.delete(ids=chunk)


def _chunks(rows: Any) -> Iterator[Any]:
    """Yield parts of a sequence of rows that Chroma writes at a time."""
    for start in range(0, len(rows), WRITE_ROWS):
        yield rows[start : start + WRITE_ROWS]


# --- Growing on a server


def grow(
    target: str, additions: Contents, base: Generation | None, *, trusted: bool = True
) -> None:
    """Add a generation to a memory whose record is on a server.

    Of several writers that add to the same generation, the first one succeeds; nothing of the
    others is seen. A call repeated after an interruption goes on.

    additions: the record of the new generation, the tuples that it adds, and the batches of these;
        new batches are of that generation. kinds: of the whole memory, None to keep those before.
    base: the newest generation; None for a new memory.
    trusted: whether the user named the server, so that it gets the credentials.

    Raises MemoryStoreError if the memory has changed since `base`.
    """
    generation, commit = additions.generation, additions.generation.digest[:16]
    row = _generation_row(generation, commit)
    with chroma_errors(target), _Store(target, generation.env, trusted=trusted) as store:
        present = store.generations()
        if generation not in present:
            if (present[-1] if present else None) != base:
                raise _changed(store, base)
            _add(store, additions, commit)
            log = store.created("records", generation)
            _put(log, [row], {})
            # Chroma leaves a row as it is that is there already: the first writer's.
            if log.get(ids=[row.id], include=["metadatas"])["metadatas"][0]["commit"] != commit:
                for part in ("tuples", "types", "records"):
                    store.created(part, generation).delete(where={"commit": commit})
                raise _changed(store, base)
        _settle(store, additions, commit, _chosen(store, generation.number).commits)


def _changed(store: _Store, base: Generation | None) -> MemoryStoreError:
    number = "it was empty" if base is None else f"generation {base.number}"
    return MemoryStoreError(
        f"The memory of {store.env} at {store.location} has changed since {number}.",
        "Another writer was first: try again.",
    )


def _add(store: _Store, additions: Contents, commit: str) -> None:
    """Write tuples, types, batches and kinds, which nobody sees before the generation's record."""
    generation, rows = additions.generation, _TupleRows(additions, commit)
    for chunk in _chunks(np.arange(len(additions.rows))):
        _put(store.created("tuples", generation), rows.part(chunk), {})
    batches = [one for one in additions.batches if one.generation == generation.number]
    new = {batch.id for batch in batches}
    types = [row for row in _type_rows(additions, commit) if row.metadata["batch"] in new]
    facts = [_record(f"batch:{b.id}@{commit}", b, "batch", b.generation, commit) for b in batches]
    if additions.kinds or not generation.number:
        name = f"kinds:{generation.number:06d}@{commit}"
        facts.append(_record(name, additions.trained(), "kinds", generation.number, commit))
    for part, others in (("types", types), ("records", facts)):
        for chunk in _chunks(others):
            _put(store.created(part, generation), chunk, {})


def _settle(store: _Store, additions: Contents, commit: str, commits: Collection[str]) -> None:
    """Take over tuples that a loser wrote first, count the evidence, and move hidden tuples."""
    generation, tuples = additions.generation, store.created("tuples", additions.generation)
    rows, same = _TupleRows(additions, commit), set[str]()
    for chunk in _chunks(np.arange(len(additions.rows))):
        part = {row.id: row for row in rows.part(chunk)}
        held = tuples.get(ids=[*part], include=["metadatas"])
        foreign = {
            name
            for name, one in zip(held["ids"], held["metadatas"], strict=True)
            if one["commit"] not in commits
        }
        _delete(tuples, [*foreign])
        missing = part.keys() - (set(held["ids"]) - foreign)
        _put(tuples, [part[name] for name in missing], {})
        same.update(row.metadata["same"] for row in part.values())
    if generation.hidden and (moved := _rows_of(tuples.get(ids=[*generation.hidden], include=ALL))):
        _put(store.created("hidden", generation), moved, {})
        _delete(tuples, [row.id for row in moved])
        same.update(row.metadata["same"] for row in moved)
    for chunk in _chunks(sorted(same)):
        _count(tuples, chunk, commits)


def _count(tuples: Any, same: Sequence[str], commits: Collection[str]) -> None:
    """Write the evidence of tuples with these texts."""
    alike = tuples.get(where={"same": {"$in": same}}, include=["metadatas"])
    counts: dict[str, NDArray[np.int64]] = {}
    rows = [
        (name, one)
        for name, one in zip(alike["ids"], alike["metadatas"], strict=True)
        if one["commit"] in commits
    ]
    for _, one in rows:
        failed = one.get("warning", False) or one.get("score", 1) <= 0
        worth = np.array([1, one.get("success", False), failed], np.int64)
        counts[one["same"]] = counts.get(one["same"], 0) + worth
    changed = {
        name: dict(zip(EVIDENCE, counts[one["same"]].tolist(), strict=True))
        for name, one in rows
        if _state(one)[1:] != tuple(counts[one["same"]].tolist())
    }
    if changed:
        tuples.update([*changed], metadatas=[*changed.values()])


# --- Comparing, and reading everything


def differences(contents: Contents, target: str, *, trusted: bool = True) -> list[str]:
    """Return how a Chroma directory or server differs from what `publish` would write there.

    Every row is compared with its text, metadata and vector. Empty if nothing differs.
    """
    env, expected = contents.generation.env, _TupleRows(contents)
    found = []
    try:
        with chroma_errors(target), _Store(target, env, trusted=trusted) as store:
            for part, mask in (("tuples", ~expected.hidden), ("hidden", expected.hidden)):
                parts = map(expected.part, _chunks(np.flatnonzero(mask)))
                found += _row_differences(part, chain.from_iterable(parts), store)
            found += _row_differences("types", iter(_type_rows(contents)), store)
            if contents.generation not in store.generations():
                found.append(f"generation {contents.generation.number} is not published")
            held = {one for _, one in store.records("batch", BatchIndex)}
            if held != set(contents.batches):
                found.append("the indices of batches differ")
    except MemoryStoreError as error:
        found.append(error.message)
    return found


def _row_differences(part: str, rows: Iterator[Row], store: _Store) -> list[str]:
    """Return the numbers of missing, extra and changed rows of a collection."""
    held = {
        row.id: (row.signed().metadata["digest"], _state(row.metadata), row.vector.tobytes())
        for row in store.rows(part)
    }
    missing, changed, vectors = [], [], []
    for row in rows:
        there = held.pop(row.id, None)
        if there is None:
            missing.append(row.id)
        elif there[2] != row.vector.tobytes():
            vectors.append(row.id)
        elif there[:2] != (row.metadata["digest"], _state(row.metadata)):
            changed.append(row.id)
    listed = {"missing": missing, "extra": sorted(held), "changed": changed}
    listed["with another vector"] = vectors
    return [
        f"{len(ids)} rows of {part} are {words}, such as {ids[0]}"
        for words, ids in listed.items()
        if ids
    ]


def read_all(
    target: str, env: str, generation: int | None = None, *, trusted: bool = True
) -> Contents:
    """Read a whole memory, for those who change or export it; `ServerMemory` does not need it.

    Raises MemoryStoreError if there is no such memory or generation, or its rows are not those of
    its digest.
    """
    with chroma_errors(target), _Store(target, env, trusted=trusted) as store:
        return _read_all(store, _chosen(store, generation))


def _chosen(store: _Store, number: int | None) -> _Snapshot:
    """Return what is readable at a generation, or raise MemoryStoreError."""
    present = store.records("generation", Generation)
    numbers = sorted(one.number for _, one in present)
    if not present:
        raise MemoryStoreError(
            f"{store.location} holds no memory of {store.env}.",
            "Make one with `ldm build-memory DATA`, or name another with --memory.",
        )
    if number is not None and number not in numbers:
        raise MemoryStoreError(
            f"The memory of {store.env} has no generation {number}.",
            f"It has {', '.join(map(str, numbers))}.",
        )
    last = numbers[-1] if number is None else number
    read = [(metadata["commit"], one) for metadata, one in present if one.number <= last]
    record = next(one for _, one in read if one.number == last)
    commits = frozenset(commit for commit, _ in read) | {""}
    return _Snapshot(record, commits, last == numbers[-1])


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The generation that is read. commits: of it and the earlier ones. newest: whether it is."""

    record: Generation
    commits: frozenset[str]
    newest: bool

    def shows(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether a row belongs to it."""
        return metadata["commit"] in self.commits and metadata["generation"] <= self.record.number


def _batches(store: _Store, snapshot: _Snapshot) -> tuple[BatchIndex, ...]:
    present = store.records("batch", BatchIndex)
    last = snapshot.record.number
    known = (b for m, b in present if m["commit"] in snapshot.commits and b.generation <= last)
    return tuple(sorted(known, key=lambda batch: batch.id))


def _kinds(store: _Store, snapshot: _Snapshot) -> KindWeights | None:
    """Return the classifier of kinds of the generation, or of the one before that has one."""
    known = [
        (metadata["number"], one)
        for metadata, one in store.records("kinds", KindWeights)
        if metadata["commit"] in snapshot.commits and metadata["number"] <= snapshot.record.number
    ]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def _read_all(store: _Store, snapshot: _Snapshot) -> Contents:
    record, batches = snapshot.record, _batches(store, snapshot)
    held = [
        _Held.of(row, store.env)
        for part in ("tuples", "hidden")
        for row in store.rows(part)
        if snapshot.shows(row.metadata)
    ]
    columns, vectors = _collected(held, record)
    if len(columns) != record.tuples or columns.digest(record, batches) != record.digest:
        raise MemoryStoreError(
            f"The memory of {store.env} at {store.location} is damaged: it does not hold the tuples"
            " and batches that were written.",
            "Publish it again from its record, or build it again with --rebuild.",
        )
    return Contents(record, batches, Rows(columns), vectors, _kinds(store, snapshot))


@dataclass(frozen=True, slots=True)
class _Held:
    """A tuple that was read. The past of `row` is empty; `before` and `past` tell it."""

    row: IndexedTuple
    vector: NDArray[np.float32]
    metadata: Mapping[str, Any]
    before: str
    past: Past
    id: str

    @classmethod
    def of(cls, row: Row, env: str) -> _Held:
        """Return the tuple of a row."""
        m = row.metadata
        rest = json.loads(m["ldm"])
        goal_type, observation_type = m["observation_type_id"].rsplit("/", 2)[1:]
        optional = {n: tuple(map(tuple, json.loads(rest[n]))) for n in OPTIONAL if n in rest}
        source = StateActionTuple(
            goal=m["goal"],
            history=History(rest.get("assessment", ""), rest.get("summary", "")),
            observation=_observation(row.document, m["goal"], m["action"]),
            action=m["action"],
            kind=m["kind"],
            env=env,
            split=rest.get("split", ""),
            task_id=m["task"],
            source=m["source"],
            trajectory_id=m["trajectory"],
            step=m["step"],
            origin=m["origin"],
            generation=m["generation"],
            outcome=outcome_of(rest.get("outcome", "")),
            **{**optional, **({"time": m["time"]} if "time" in m else {})},
        )
        indexed = IndexedTuple(
            source, m["batch"], int(goal_type), int(observation_type), rest.get("reach", 0.0)
        )
        past = tuple((observation, action) for observation, action in rest.get("past", ()))
        return cls(indexed, row.vector, m, rest.get("before", ""), past, row.id)

    @property
    def source(self) -> StateActionTuple:
        """The tuple without its past."""
        return self.row.tuple

    def with_past(self, past: Past) -> StateActionTuple:
        """Return the whole tuple."""
        return replace(self.source, history=replace(self.source.history, past=past))


def _collected(held: Iterable[_Held], record: Generation) -> tuple[Columns, Vectors]:
    """Return whole trajectories that were read as columns and vectors."""
    links = {one.id: one for one in held}
    builder = ColumnsBuilder(record.env, record.dimension)
    for one in sorted(links.values(), key=lambda one: (one.source.trajectory_id, one.source.step)):
        row = replace(one.row, tuple=one.with_past(_past(one, links)))
        builder.add_rows([row], [one.vector])
    return builder.collected()


def _past(one: _Held, links: Mapping[str, _Held]) -> Past:
    """Return the past of a tuple. links: the tuples of its trajectory by id."""
    later = []
    while one.before:
        one = links[one.before]
        later.append((one.source.observation[:PAST_OBSERVATION], one.source.action))
    return (*one.past, *reversed(later))


# --- A memory that is queried


#: Tells whether a view does not recall a tuple.
_Hidden = Callable[[_Held], bool]


class ServerMemory(Memory):
    """A memory in Chroma, mostly on a server, that is queried and not downloaded.

    It recalls what `Memory` recalls from the same generation, as far as Chroma's approximate index
    finds it: the rows that it finds are scored, ordered and told apart as in a memory of files.
    """

    def __init__(
        self,
        address: str,
        env: str,
        embedder: Embedder | None = None,
        generation: int | None = None,
        *,
        trusted: bool = True,
    ) -> None:
        """Connect to a server (or open a directory).

        address: the http(s) address of a Chroma server, or a Chroma directory.
        embedder: the one that the memory was built with; None loads it.
        generation: the number of the generation to read; None for the newest.
        trusted: whether the user named the server, so that it gets the credentials.

        Raises MemoryStoreError if the server does not answer or does not let us in, if there is no
        such memory or generation, or if it was built with another embedder.
        """
        self._store = _Store(address, env, trusted=trusted)
        with chroma_errors(address), ExitStack() as stack:
            stack.enter_context(self._store)
            self._snapshot = self._store.asking(lambda: _chosen(self._store, generation))
            self._listed = _batches(self._store, self._snapshot)
            self._embedder = embedder or load_embedder(self.record.embedder)
            self.record.check_embedder(self._embedder.name)
            stack.pop_all()  # it stays open
        hidden = frozenset(self.record.hidden)
        self._hidden: Any = lambda one: one.id in hidden

    @property
    def record(self) -> Generation:
        """The record of the generation."""
        return self._snapshot.record

    @property
    def batches(self) -> tuple[BatchIndex, ...]:
        """The indices of its batch memories, sorted by id."""
        return self._listed

    @cached_property
    def contents(self) -> Contents:
        """Everything that it holds, downloaded."""
        return self._store.asking(lambda: _read_all(self._store, self._snapshot))

    @property
    def rows(self) -> Rows:
        """Its tuples, downloaded."""
        return self.contents.rows

    @cached_property
    def _retriever(self) -> _ServerRetriever:
        return _ServerRetriever(self._store, self._snapshot, self.batches)

    @cached_property
    def _kinds(self) -> KindClassifier:
        weights = self._store.asking(lambda: _kinds(self._store, self._snapshot))
        return KindClassifier(weights or KindWeights(("",)))

    def __len__(self) -> int:
        return self.record.tuples

    def close(self) -> None:
        """Close the connections."""
        self._store.__exit__()

    def without(
        self, tuples: Collection[str] = (), trajectories: Collection[str] = ()
    ) -> ServerMemory:
        """Return a view that does not recall these; it predicts kinds as this memory does."""
        view = copy(self)
        view.__dict__["_retriever"] = self._retriever
        before, ids, whole = self._hidden, frozenset(tuples), frozenset(trajectories)
        view._hidden = lambda one: before(one) or one.id in ids or one.source.trajectory_id in whole
        return view

    def with_rows(self, rows: Sequence[IndexedTuple], batches: Sequence[BatchIndex] = ()) -> Memory:
        """Return a copy of the whole memory, downloaded, with `rows` added; nothing is stored."""
        return Memory(self.contents, self._embedder).with_rows(rows, batches)

    def sample(self, k: int, seed: int) -> list[Recall]:
        """Draw `k` tuples at random from the whole memory, as a control.

        Equal seeds draw equal tuples, though not those that `Memory.sample` draws.
        """
        return self._retriever.sample(k, stable_seed("sample", seed), self._hidden)

    def whole_near(self, goal: str) -> Iterator[Exemplar]:
        """Yield whole successful trajectories, one per goal, the most similar goal first."""
        (vector,) = self._embedder.embed([goal])
        return self._retriever.whole(vector, self._hidden)


class _ServerBatch(_Batch):
    """The types of one batch memory, whose centroids were published."""

    def __init__(self, index: BatchIndex, rows: Iterable[Row]) -> None:
        self.index = index
        places = {(row.metadata["goal_number"], row.metadata["number"]): row for row in rows}
        views = {
            place: TypeView(
                row.metadata["name"], tuple(json.loads(row.metadata["examples"])), row.vector
            )
            for place, row in sorted(places.items())
        }
        self._goal_numbers = sorted({g for g, o in views if o >= 0})
        self.goal_types = tuple(views[g, -1] for g in self._goal_numbers)
        self._numbers = [[o for one, o in views if one == g and o >= 0] for g in self._goal_numbers]
        self.observation_types = tuple(
            tuple(views[g, o] for o in numbers)
            for g, numbers in zip(self._goal_numbers, self._numbers, strict=True)
        )

    def _below(self, goal_type: int) -> list[int]:
        return self._numbers[goal_type]


class _ServerRetriever(Retriever):
    """The search in Chroma; telling recalls apart and widening are `Retriever.search`'s.

    A row is a `_Held`, its trajectory and its texts are told by their ids.
    """

    def __init__(self, store: _Store, snapshot: _Snapshot, batches: Sequence[BatchIndex]) -> None:
        self._store = store
        self._snapshot = snapshot
        types: dict[str, list[Row]] = {batch.id: [] for batch in batches}
        for row in store.asking(lambda: [*store.rows("types")]):
            if snapshot.shows(row.metadata):
                types[row.metadata["batch"]].append(row)
        self.batches = {b.id: _ServerBatch(b, types[b.id]) for b in batches}
        self._rows_by_id: dict[str, _Held] = {}
        self._links: dict[str, dict[str, _Held]] = {}
        self._of_kinds = {"": tuple(b.id for b in batches if not b.kind)}
        for kind in {b.kind for b in batches} - {""}:
            self._of_kinds[kind] = tuple(b.id for b in batches if b.kind in (kind, ""))

    def _get(self, parts: Sequence[str], *, include: Sequence[str] = ALL, **what: Any) -> list[Row]:
        """Return the rows with some ids or some metadata."""
        pages = (self._store.asked(part, "get", include=list(include), **what) for part in parts)
        return [row for page in pages if page is not None for row in _rows_of(page)]

    @property
    def _parts(self) -> list[str]:
        """The collections with tuples of the generation; later ones may hide some."""
        return ["tuples"] if self._snapshot.newest else ["tuples", "hidden"]

    def _scopes(self, query: Query, names: Sequence[str]) -> Iterator[Any]:
        """Yield what selects the query's cells, their goal types, and the batches."""
        count = query.classifier.concurrency if query.classifier else 1
        cells = map_concurrently(lambda name: self.batches[name].classify(query), names, count)
        placed = list(zip(names, cells, strict=True))
        yield {"observation_type_id": {"$in": [f"{name}/{g}/{o}" for name, (g, o) in placed]}}
        yield {"goal_type_id": {"$in": [f"{name}/{g}" for name, (g, _) in placed]}}
        yield None if len(names) == len(self.batches) else {"batch": {"$in": list(names)}}

    def _ranked(
        self, candidates: Any, query: Query, hidden: Any, *, own_cell: bool
    ) -> Iterator[list[tuple[Any, float, Any, Any]]]:
        """Yield (row, similarity, trajectory, texts) in parts, the best first."""
        vector = np.concatenate([query.goal_vector, query.observation_vector])

        def score(one: _Held) -> float:
            goal, observation = np.split(one.vector, 2)
            return float(
                ranking.score(
                    np.vecdot(goal, query.goal_vector),
                    np.vecdot(observation, query.observation_vector),
                )
            )

        def is_reached(one: _Held) -> bool:
            near = np.vecdot(np.split(one.vector, 2)[0], query.goal_vector)
            return own_cell and round(float(near), ranking.DECIMALS) >= one.row.reach

        for part in self._nearest_rows(
            vector, candidates, score, lambda distance: 1 - distance / 4
        ):
            yield [
                (one, similarity, one.source.trajectory_id, one.metadata["same"])
                for similarity, one in part
                if not hidden(one) and (not one.row.reach or is_reached(one))
            ]

    def _nearest_rows(
        self,
        vector: NDArray[np.float32],
        where: Any,
        exact: Callable[[_Held], float],
        approximate: Callable[[float], float],
    ) -> Iterator[list[tuple[float, _Held]]]:
        """Yield (similarity, row) in parts, the most similar first, equal ones by id.

        More is asked for as long as the caller goes on. A row is yielded once it is certain that
        none of those that were not read yet is more similar.

        exact: the similarity of a row. approximate: the one that a distance stands for.
        """
        waiting: list[tuple[float, str, _Held]] = []
        known: set[str] = set()
        for near, end in self._searches(vector, where):
            new = [(name, approximate(d)) for name, d in near if name not in known]
            known.update(name for name, _ in new)
            for start in range(0, max(len(new), 1), READ):
                names = [name for name, _ in new[start : start + READ]]
                waiting += [(-exact(one), one.id, one) for one in self._read(names)]
                waiting.sort(key=lambda entry: entry[:2])
                later = new[start + READ : start + READ + 1]
                bound = (later[0][1] if later else approximate(end)) + MARGIN
                ready = [entry for entry in waiting if -entry[0] > bound]
                waiting = waiting[len(ready) :]
                yield [(-similarity, one) for similarity, _, one in ready]

    def _searches(
        self, vector: NDArray[np.float32], where: Any
    ) -> Iterator[tuple[list[tuple[str, float]], float]]:
        """Yield ever more of the nearest rows, with the distance within which none is missing.

        Chroma walks through its whole graph where few rows fit, so those that fit are looked for
        among the nearest of all rows first.
        """
        if where is not None:
            near, end = self._query(vector, None, AROUND)
            pages = [
                self._store.asked(part, "get", where=where, include=[]) for part in self._parts
            ]
            fitting = {name for page in pages if page for name in page["ids"]}
            yield [(name, distance) for name, distance in near if name in fitting], end
        size, end = ASKED, 0.0
        while end < np.inf:
            near, end = self._query(vector, where, size)
            yield near, end
            size *= 4

    def _query(
        self, vector: NDArray[np.float32], where: Any, size: int
    ) -> tuple[list[tuple[str, float]], float]:
        """Return the ids and distances of the nearest rows, and the distance that was reached."""
        near: list[tuple[float, str]] = []
        what = {"query_embeddings": vector[None], "n_results": size, "where": where}
        for part in self._parts:
            if found := self._store.asked(part, "query", include=["distances"], **what):
                near += zip(found["distances"][0], found["ids"][0], strict=True)
        near = sorted(near)[:size]
        return [(name, d) for d, name in near], near[-1][0] if len(near) == size else np.inf

    def _read(self, names: Sequence[str]) -> list[_Held]:
        """Return the rows with these ids that the generation shows."""
        missing = [name for name in names if name not in self._rows_by_id]
        if missing:
            if len(self._rows_by_id) > KEPT_ROWS:
                self._rows_by_id = {}
            self._rows_by_id.update(
                (row.id, _Held.of(row, self._store.env))
                for row in self._get(self._parts, ids=missing)
            )
        rows = (self._rows_by_id.get(name) for name in names)
        return [row for row in rows if row is not None and self._snapshot.shows(row.metadata)]

    def search(
        self, query: Query, batches: Sequence[str], k: int, hidden: Any = None
    ) -> list[Recall]:
        """Return the best `k` recalls over `batches`, as `Retriever.search`."""
        recalls = super().search(query, batches, k, hidden)
        return self._whole_recalls(recalls)

    def recall(self, row: Any, similarity: float, fallback: Any = "") -> Recall:
        """Return a row as a recall, without its past."""
        names = row.metadata["goal_type"], row.metadata["observation_type"]
        batch, reach = row.row.batch, row.row.reach
        return Recall(row.source, similarity, batch, *names, fallback, row.id, reach)

    def _whole_recalls(self, recalls: Sequence[Recall]) -> list[Recall]:
        """Return the recalls with their pasts."""
        links = self._linked({one.tuple.trajectory_id: one.id for one in recalls if one.tuple.step})
        whole = []
        for one in recalls:
            steps = links.get(one.tuple.trajectory_id, {})
            past = _past(steps[one.id], steps) if one.id in steps else ()
            history = replace(one.tuple.history, past=past)
            whole.append(replace(one, tuple=replace(one.tuple, history=history)))
        return whole

    def _linked(self, trajectories: Mapping[str, str]) -> dict[str, dict[str, _Held]]:
        """Return the tuples of trajectories by id. trajectories: with a tuple that each has."""
        missing = [t for t, one in trajectories.items() if one not in self._links.get(t, {})]
        if missing:
            if len(self._links) > KEPT_TRAJECTORIES:
                self._links = {}
            links: dict[str, dict[str, _Held]] = {name: {} for name in missing}
            where = {"trajectory": {"$in": missing}}
            for row in self._get(["tuples", "hidden"], include=ALL[:2], where=where):
                one = _Held.of(row, self._store.env)
                links[one.source.trajectory_id][one.id] = one
            self._links.update(links)
        return {name: self._links[name] for name in trajectories}

    def sample(self, k: int, seed: int, hidden: _Hidden) -> list[Recall]:
        """Return `k` random recalls."""
        pages = (page for part in self._parts for page in self._store.pages(part))
        names = sorted(name for page in pages for name in page["ids"])
        random.Random(seed).shuffle(names)
        drawn = (one for name in names for one in self._read([name]) if not hidden(one))
        return self._whole_recalls([self.recall(one, 0.0) for one in islice(drawn, k)])

    def whole(self, goal: NDArray[np.float32], hidden: _Hidden) -> Iterator[Exemplar]:
        """Yield whole successful trajectories, one per goal, the most similar goal first."""
        # Without an observation, the squared distance is 1 + 2 - 2 · cosine of the goals.
        vector = np.concatenate([goal, np.zeros_like(goal)])

        def cosine(one: _Held) -> float:
            return round(float(np.vecdot(np.split(one.vector, 2)[0], goal)), ranking.DECIMALS)

        goals: set[str] = set()
        for part in self._nearest_rows(vector, {"is_last": True}, cosine, lambda d: (3 - d) / 2):
            if not part:
                continue
            where = {"trajectory": {"$in": [one.source.trajectory_id for _, one in part]}}
            steps = [_Held.of(row, self._store.env) for row in self._get(self._parts, where=where)]
            gone = {one.source.trajectory_id for one in steps if hidden(one)}
            left = (one for one in steps if one.source.trajectory_id not in gone)
            columns, vectors = _collected(left, self._snapshot.record)
            for exemplar in nearest(Rows(columns), vectors, goal):
                if (found := exemplar.trajectory.task.goal) not in goals:
                    goals.add(found)
                    yield exemplar
