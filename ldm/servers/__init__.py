"""A memory on a Chroma server: queried and not downloaded, and added to by anybody."""

from __future__ import annotations

import base64
import json
import os
import random
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ldm import records
from ldm.embed import Embedder, chosen_embedder
from ldm.errors import MemoryLocked, MemoryStoreError
from ldm.memory import Memory, chroma
from ldm.memory.chroma import Row, Store, chroma_errors
from ldm.memory.index import Generation, IndexedTuple, OnProgress
from ldm.memory.lessons import Contents, empty, unpacked
from ldm.memory.record import chosen_of
from ldm.memory.retrieval import Query, Retriever, Tree, score
from ldm.memory.rows import RowsBuilder, Span, Vectors
from ldm.reason import TypeView
from ldm.reason.relevance import Relevance
from ldm.types import Recall, stable_seed

#: The collection that a writer creates, and the seconds after which it counts as a dead one's.
LOCK, STALE = "ldm.lock", 1_800.0
#: Rows that a query asks for at first, among all and among those that fit; rows read at a time.
AROUND, ASKED, READ = 256, 64, 16
#: Difference of a similarity to the one that Chroma's distance, a rounded sum, stands for.
MARGIN = 1e-5
#: Rows that are cached.
KEPT_ROWS = 5_000

#: Attempts of a request, and the seconds before the second one.
REQUESTS, PAUSE = 4, 0.1

T = TypeVar("T")


class _Store(Store):
    """A store that is asked again if it does not answer."""

    def asking(self, request: Callable[[], T]) -> T:
        """Return the result of a repeatable request, which is repeated if the server is away."""
        for attempt in range(1, REQUESTS):
            try:
                return request()
            except Exception as error:
                if not chroma.is_unreachable(error):
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


# --- The whole, and changes


def known_generations(target: str) -> dict[str, tuple[Generation, ...]]:
    """Return the complete generations at a directory or server by environment, oldest first.

    Raises MemoryStoreError if the server does not answer, does not let us in or is not Chroma.
    """
    with chroma_errors(target), Store(target, "") as store:
        known = [one.metadata or {} for one in store.client.list_collections()]
        envs = sorted(str(one["env"]) for one in known if one.get("ldm") == "records")
        present = {}
        for env in envs:
            store.env, store._collections = env, {}
            present[env] = store.generations()
        return {env: answer for env, answer in present.items() if answer}


def commit(address: str, contents: Contents, on_progress: OnProgress = lambda *_: None) -> None:
    """Add a generation to a memory, or a whole one where there is none; the caller has the lock.

    Raises MemoryStoreError if the memory has changed since.
    """
    env = contents.generation.env
    if generations(address, env) not in ((), contents.generations[:-1]):
        raise MemoryStoreError(
            f"The memory of {env} at {address} has changed meanwhile.", "Repeat the command."
        )
    chroma.publish(contents, address, on_progress)


def generations(address: str, env: str) -> tuple[Generation, ...]:
    """Return the complete generations of an environment, oldest first, or ()."""
    return known_generations(address).get(env, ())


@contextmanager
def writing(address: str) -> Iterator[None]:
    """Hold the lock of a server: a collection, because Chroma creates one for one client alone.

    Raises MemoryLocked if another process holds it.
    """
    with chroma_errors(address), Store(address, "") as store:
        lock = next((c for c in store.client.list_collections() if c.name == LOCK), None)
        if lock is not None and time.time() - float((lock.metadata or {}).get("time", 0)) > STALE:
            store.client.delete_collection(LOCK)
        try:
            held = {"time": time.time(), "host": socket.gethostname(), "pid": os.getpid()}
            store.client.create_collection(LOCK, metadata=held, embedding_function=None)
        except Exception as error:
            if not any("exists" in str(one) for one in (error, error.__cause__)):
                raise
            by = (lock.metadata or {}) if lock is not None else {}
            raise MemoryLocked(
                f"Another process is writing to the memory at {address}"
                f" ({by.get('host', 'host unknown')}, process {by.get('pid', 'unknown')}).",
                f"Wait until it has finished; the lock of a killed one ends after {STALE / 60:.0f}"
                " minutes.",
            ) from error
    try:
        yield
    finally:
        with chroma_errors(address), Store(address, "") as store:
            if any(one.name == LOCK for one in store.client.list_collections()):
                store.client.delete_collection(LOCK)


def load(target: str, env: str, generation: int | None = None) -> Contents:
    """Read a whole memory, for those who change or export it; `ServerMemory` does not need it.

    Raises MemoryStoreError if there is no such memory or generation, or its rows are not those of
    its digest.
    """
    with chroma_errors(target), Store(target, env) as store:
        return _read_all(store, _chosen(store, generation))


def _chosen(store: Store, number: int | None) -> Contents:
    """Return a generation without its tuples, or raise MemoryStoreError."""
    if (listed := store.manifest()) is None:
        raise MemoryStoreError(
            f"{store.location} holds no memory of {store.env}.",
            "Make one with `ldm build-memory DATA`, or name another with --memory.",
        )
    newest = listed.generations[-1]
    chosen = chosen_of(listed.generations, store.env, number)
    whole = Contents(listed.generations, listed.batches, empty(newest).rows, listed.kinds)
    return whole if chosen == newest else whole.at(chosen.number)


def _shows(contents: Contents, metadata: Mapping[str, Any]) -> bool:
    """Return whether a row belongs to a generation."""
    return bool(metadata["generation"] <= contents.generation.number)


def _read_all(store: Store, contents: Contents) -> Contents:
    """Return a generation with its tuples. contents: without them."""
    builder, record = RowsBuilder(contents.rows), contents.generation
    for part in ("tuples", "hidden"):
        held = [_Held.of(row) for row in store.rows(part) if _shows(contents, row.metadata)]
        builder.add_rows((x.row for x in held), (x.vector.reshape(2, -1) for x in held))
    rows = builder.collected()
    if len(rows) != record.tuples or rows.digest(record, contents.batches) != record.digest:
        raise MemoryStoreError(
            f"The memory of {store.env} at {store.location} is damaged: it does not hold the tuples"
            " and batches that were written.",
            "Publish it again from its record, or build it again with --rebuild.",
        )
    return replace(contents, rows=rows)


class _Held(NamedTuple):
    """A tuple that was read."""

    row: IndexedTuple
    vector: Vectors
    metadata: Mapping[str, Any]
    id: str

    @classmethod
    def of(cls, row: Row) -> _Held:
        """Return the tuple of a row."""
        indexed = records.loads(row.metadata["ldm"], IndexedTuple)
        return cls(indexed, row.vector, row.metadata, row.id)

    @property
    def trajectory(self) -> str:
        """The id of its trajectory."""
        return self.row.tuple.trajectory_id

    def similarity(self, query: Query) -> float:
        """Return the similarity to a query."""
        goal, observation = np.split(self.vector, 2)
        near = np.vecdot(goal, query.goal_vector)
        return float(score(near, np.vecdot(observation, query.observation_vector)))


def drop(address: str, env: str) -> None:
    """Remove everything of an environment."""
    with chroma_errors(address), Store(address, env) as store:
        chroma.drop_collections(store)


# --- A memory that is queried


#: Tells whether a view does not recall a tuple.
_Hidden = Callable[[_Held], bool]


class ServerMemory(Memory):
    """A memory on a Chroma server, which is queried and not downloaded.

    It recalls what `Memory` recalls from the same generation, as far as Chroma's approximate index
    finds it: the rows that it finds are scored, ordered and told apart as in a memory of files.
    """

    def __init__(
        self,
        address: str,
        env: str,
        embedder: Embedder | str | None = None,
        generation: int | None = None,
    ) -> None:
        """Connect to a server.

        address: the http(s) address of a Chroma server.
        embedder: the one that the memory was built with; None loads it.
        generation: the number of the generation to read; None for the newest.

        Raises MemoryStoreError if the server does not answer or does not let us in, if there is no
        such memory or generation, or if it was built with another embedder.
        """
        self._store = _Store(address, env)
        with chroma_errors(address), ExitStack() as stack:
            stack.enter_context(self._store)
            self._contents = self._store.asking(lambda: _chosen(self._store, generation))
            self._embedder = chosen_embedder(embedder, self.record.embedder)
            self.record.check_embedder(self._embedder.name)
            stack.pop_all()  # it stays open
        hidden = frozenset(self.record.hidden)
        self._hidden = lambda one: one.id in hidden

    @cached_property
    def contents(self) -> Contents:
        """Everything that it holds, downloaded."""
        return self._store.asking(lambda: _read_all(self._store, self._contents))

    @cached_property
    def _retriever(self) -> _ServerRetriever:
        return _ServerRetriever(self._store, self._contents)

    def __len__(self) -> int:
        return self.record.tuples

    def close(self) -> None:
        """Close the connections."""
        self._store.__exit__()

    @cached_property
    def relevance(self) -> Relevance:
        """What its tuples teach, as it was published, or learnt from them, downloaded."""
        known = self._store.asking(lambda: self._store.text(f"relevance {self.generation}"))
        return unpacked(base64.b64decode(known)) if known else self.contents.learnt()

    def without(
        self, tuples: Collection[str] = (), trajectories: Collection[str] = ()
    ) -> ServerMemory:
        """Return a view that does not recall these; it decides by what all of them taught."""
        view = copy(self)
        view.__dict__["_retriever"] = self._retriever
        before, ids, whole = self._hidden, frozenset(tuples), frozenset(trajectories)
        view._hidden = lambda one: before(one) or one.id in ids or one.trajectory in whole
        return view

    def sample(self, k: int, seed: int) -> list[Recall]:
        """Draw `k` tuples at random from the whole memory, as a control.

        Equal seeds draw equal tuples, though not those that `Memory.sample` draws.
        """
        return self._retriever.sample(k, stable_seed("sample", seed), self._hidden)


class _ServerRetriever(Retriever):
    """The search in Chroma; telling recalls apart and widening are `Retriever.search`'s.

    A row is a `_Held`, its trajectory and its texts are told by their ids.
    """

    def __init__(self, store: _Store, contents: Contents) -> None:
        self._store = store
        self._contents = contents
        views: dict[Span, TypeView] = {}
        for row in store.asking(lambda: [*store.rows("types")]):
            if _shows(contents, m := row.metadata):
                view = TypeView(m["name"], tuple(json.loads(m["examples"])), row.vector)
                types = row.id.removeprefix(m["batch"]).strip("/").split("/")
                views[m["batch"], *map(int, types)] = view
        Tree.__init__(self, contents.batches, sorted({*views, *(one[:1] for one in views)}))
        self._views = views
        self._rows_by_id: dict[str, _Held] = {}

    def view(self, span: Span) -> TypeView:
        """Return a type, as it was published."""
        return self._views[span]

    @property
    def _parts(self) -> list[str]:
        """The collections with tuples of the generation; later ones may hide some."""
        newest = self._contents.kinds is not None
        return ["tuples"] if newest else ["tuples", "hidden"]

    def _ranked(
        self, spans: Sequence[Span], query: Query, hidden: Any, count: int = 0
    ) -> Iterator[tuple[Any, float, Any, Any]]:
        """Yield (row, similarity, trajectory, texts), the best first, equal ones by id.

        More is asked for as long as the caller goes on. A row is yielded once it is certain that
        none of those that were not read yet is more similar.
        """
        name = ("batch", "goal_type_id", "observation_type_id")[len(spans[0]) - 1]
        everywhere = len(spans[0]) == 1 and len(spans) == len(self.batches)
        where = None if everywhere else {name: {"$in": [*map(chroma.type_id, spans)]}}
        waiting: list[tuple[float, str, _Held]] = []
        known: set[str] = set()
        for near, end in self._searches(query, where):
            new = {name: distance for name, distance in near if name not in known}
            known |= new.keys()
            names, distances = [*new], [*new.values(), end]
            for start in range(0, max(len(new), 1), READ):
                stop = min(start + READ, len(new))
                read = self._read(names[start:stop])
                waiting += [(-one.similarity(query), one.id, one) for one in read]
                waiting.sort(key=lambda entry: entry[:2])
                bound = 1 - distances[stop] / 4 + MARGIN
                ready = [entry for entry in waiting if -entry[0] > bound]
                waiting = waiting[len(ready) :]
                for similarity, _, one in ready:
                    if not hidden(one):
                        yield one, -similarity, one.trajectory, one.metadata["same"]

    def _searches(
        self, query: Query, where: Any
    ) -> Iterator[tuple[list[tuple[str, float]], float]]:
        """Yield ever more of the nearest rows, with the distance within which none is missing.

        Chroma walks through its whole graph where few rows fit, so those that fit are looked for
        among the nearest of all rows first.
        """
        vector = np.concatenate([query.goal_vector, query.observation_vector])
        if where is not None:
            near, end = self._query(vector, None, AROUND)
            pages = [
                self._store.answered(part, "get", where=where, include=[]) for part in self._parts
            ]
            fitting = {name for page in pages if page for name in page["ids"]}
            yield [(name, distance) for name, distance in near if name in fitting], end
        size, end = ASKED, 0.0
        while end < np.inf:
            near, end = self._query(vector, where, size)
            yield near, end
            size *= 4

    def _query(
        self, vector: Vectors, where: Any, size: int
    ) -> tuple[list[tuple[str, float]], float]:
        """Return the ids and distances of the nearest rows, and the distance that was reached."""
        near: list[tuple[float, str]] = []
        what = {"query_embeddings": vector[None], "n_results": size, "where": where}
        for part in self._parts:
            if answer := self._store.answered(part, "query", include=["distances"], **what):
                near += zip(answer["distances"][0], answer["ids"][0], strict=True)
        near = sorted(near)[:size]
        return [(name, d) for d, name in near], near[-1][0] if len(near) == size else np.inf

    def _read(self, names: Sequence[str]) -> list[_Held]:
        """Return the rows with these ids that the generation shows."""
        if len(self._rows_by_id) > KEPT_ROWS:
            self._rows_by_id = {}
        if missing := [name for name in names if name not in self._rows_by_id]:
            what = {"ids": missing, "include": chroma.ALL}
            pages = (self._store.answered(part, "get", **what) for part in self._parts)
            rows = [row for page in pages if page is not None for row in chroma.rows_of(page)]
            self._rows_by_id |= {row.id: _Held.of(row) for row in rows}
        held = (self._rows_by_id.get(name) for name in names)
        return [one for one in held if one is not None and _shows(self._contents, one.metadata)]

    def recall(self, row: Any, similarity: float, fallback: Any = "") -> Recall:
        """Return a row as a recall."""
        names = row.metadata["goal_type"], row.metadata["observation_type"]
        return Recall(row.row.tuple, similarity, row.row.batch, *names, fallback, row.id)

    def sample(self, k: int, seed: int, hidden: _Hidden) -> list[Recall]:
        """Return `k` random recalls."""
        pages = (page for part in self._parts for page in self._store.pages(part))
        names = sorted(name for page in pages for name in page["ids"])
        random.Random(seed).shuffle(names)
        drawn = (one for name in names for one in self._read([name]) if not hidden(one))
        return [self.recall(one, 0.0) for one in islice(drawn, k)]
