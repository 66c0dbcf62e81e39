"""A memory on a Chroma server: queried and not downloaded, and added to by anybody."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.embed import Embedder, load_embedder
from ldm.errors import MemoryStoreError
from ldm.memory import Memory, ranking
from ldm.memory.chroma import (
    ALL,
    AROUND,
    ASKED,
    EVIDENCE,
    KEPT_ROWS,
    KEPT_TRAJECTORIES,
    MARGIN,
    OPTIONAL,
    READ,
    Row,
    Store,
    TupleRows,
    chroma_errors,
    chunks_of,
    delete_rows,
    drop_collections,
    generation_row,
    observation_in,
    put_rows,
    record_row,
    rows_of,
    state_of,
    type_rows,
)
from ldm.memory.columns import Columns, Vectors, labels_of, outcome_of
from ldm.memory.columns_builder import ColumnsBuilder
from ldm.memory.contents import Contents
from ldm.memory.exemplars import Exemplar, nearest
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.memory.kind_classifier import KindClassifier, KindWeights
from ldm.memory.retrieval import Query, Retriever, _Batch
from ldm.memory.rows import Rows
from ldm.parallel import map_concurrently
from ldm.reason import PAST_OBSERVATION, TypeView
from ldm.types import (
    History,
    Past,
    Recall,
    StateActionTuple,
    stable_seed,
)

# --- The whole, and growing


def generations_at(target: str, *, trusted: bool = True) -> dict[str, tuple[Generation, ...]]:
    """Return the complete generations at a directory or server by environment, oldest first.

    trusted: whether the user named the server, so that it gets the credentials.
    Raises MemoryStoreError if the server does not answer, does not let us in or is not Chroma.
    """
    with chroma_errors(target), Store(target, "", trusted=trusted) as store:
        known = [one.metadata or {} for one in store.client.list_collections()]
        envs = sorted(str(one["env"]) for one in known if one.get("ldm") == "records")
        present = {}
        for env in envs:
            store.env, store._collections = env, {}
            present[env] = store.generations()
        return {env: found for env, found in present.items() if found}


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
    row = generation_row(generation, commit)
    with chroma_errors(target), Store(target, generation.env, trusted=trusted) as store:
        present = store.generations()
        if generation not in present:
            if (present[-1] if present else None) != base:
                raise _changed(store, base)
            _add(store, additions, commit)
            log = store.created("records", generation)
            put_rows(log, [row], {})
            # Chroma leaves a row as it is that is there already: the first writer's.
            if log.get(ids=[row.id], include=["metadatas"])["metadatas"][0]["commit"] != commit:
                for part in ("tuples", "types", "records"):
                    store.created(part, generation).delete(where={"commit": commit})
                raise _changed(store, base)
        _settle(store, additions, commit, _chosen(store, generation.number).commits)


def _changed(store: Store, base: Generation | None) -> MemoryStoreError:
    number = "it was empty" if base is None else f"generation {base.number}"
    return MemoryStoreError(
        f"The memory of {store.env} at {store.location} has changed since {number}.",
        "Another writer was first: try again.",
    )


def _add(store: Store, additions: Contents, commit: str) -> None:
    """Write tuples, types, batches and kinds, which nobody sees before the generation's record."""
    generation, rows = additions.generation, TupleRows(additions, commit)
    for chunk in chunks_of(np.arange(len(additions.rows))):
        put_rows(store.created("tuples", generation), rows.part(chunk), {})
    batches = [one for one in additions.batches if one.generation == generation.number]
    new = {batch.id for batch in batches}
    types = [row for row in type_rows(additions, commit) if row.metadata["batch"] in new]
    facts = [
        record_row(f"batch:{b.id}@{commit}", b, "batch", b.generation, commit) for b in batches
    ]
    if additions.kinds or not generation.number:
        name = f"kinds:{generation.number:06d}@{commit}"
        facts.append(record_row(name, additions.trained(), "kinds", generation.number, commit))
    for part, others in (("types", types), ("records", facts)):
        for chunk in chunks_of(others):
            put_rows(store.created(part, generation), chunk, {})


def _settle(store: Store, additions: Contents, commit: str, commits: Collection[str]) -> None:
    """Take over tuples that a loser wrote first, count the evidence, and move hidden tuples."""
    generation, tuples = additions.generation, store.created("tuples", additions.generation)
    rows, same = TupleRows(additions, commit), set[str]()
    for chunk in chunks_of(np.arange(len(additions.rows))):
        part = {row.id: row for row in rows.part(chunk)}
        held = tuples.get(ids=[*part], include=["metadatas"])
        foreign = {
            name
            for name, one in zip(held["ids"], held["metadatas"], strict=True)
            if one["commit"] not in commits
        }
        delete_rows(tuples, [*foreign])
        missing = part.keys() - (set(held["ids"]) - foreign)
        put_rows(tuples, [part[name] for name in missing], {})
        same.update(row.metadata["same"] for row in part.values())
    if generation.hidden and (moved := rows_of(tuples.get(ids=[*generation.hidden], include=ALL))):
        put_rows(store.created("hidden", generation), moved, {})
        delete_rows(tuples, [row.id for row in moved])
        same.update(row.metadata["same"] for row in moved)
    for chunk in chunks_of(sorted(same)):
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
        if state_of(one)[1:] != tuple(counts[one["same"]].tolist())
    }
    if changed:
        tuples.update([*changed], metadatas=[*changed.values()])


def read_all(
    target: str, env: str, generation: int | None = None, *, trusted: bool = True
) -> Contents:
    """Read a whole memory, for those who change or export it; `ServerMemory` does not need it.

    Raises MemoryStoreError if there is no such memory or generation, or its rows are not those of
    its digest.
    """
    with chroma_errors(target), Store(target, env, trusted=trusted) as store:
        return _read_all(store, _chosen(store, generation))


def _chosen(store: Store, number: int | None) -> _Snapshot:
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


def _batches(store: Store, snapshot: _Snapshot) -> tuple[BatchIndex, ...]:
    present = store.records("batch", BatchIndex)
    last = snapshot.record.number
    known = (b for m, b in present if m["commit"] in snapshot.commits and b.generation <= last)
    return tuple(sorted(known, key=lambda batch: batch.id))


def _kinds(store: Store, snapshot: _Snapshot) -> KindWeights | None:
    """Return the classifier of kinds of the generation, or of the one before that has one."""
    known = [
        (metadata["number"], one)
        for metadata, one in store.records("kinds", KindWeights)
        if metadata["commit"] in snapshot.commits and metadata["number"] <= snapshot.record.number
    ]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def _read_all(store: Store, snapshot: _Snapshot) -> Contents:
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
        optional = {name: labels_of(rest.get(name, "")) for name in OPTIONAL}
        source = StateActionTuple(
            goal=m["goal"],
            history=History(rest.get("assessment", ""), rest.get("summary", "")),
            observation=observation_in(row.document, m["goal"], m["action"]),
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
            time=m.get("time", 0.0),
            **optional,
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


def extend(address: str, contents: Contents, before: Sequence[Generation]) -> None:
    """Add a generation to a memory. contents: all of it. before: the earlier generations."""
    columns = contents.rows.columns
    new = columns.take(columns["generation"] == contents.generation.number)
    vectors = Vectors.of(contents.vectors.distinct, new)
    additions = replace(contents, rows=Rows(new), vectors=vectors, kinds=contents.trained())
    grow(address, additions, before[-1] if before else None)


def drop(address: str, env: str) -> None:
    """Remove everything of an environment."""
    with chroma_errors(address), Store(address, env) as store:
        drop_collections(store)


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
        self._store = Store(address, env, trusted=trusted)
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

    def __init__(self, store: Store, snapshot: _Snapshot, batches: Sequence[BatchIndex]) -> None:
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
        return [row for page in pages if page is not None for row in rows_of(page)]

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
