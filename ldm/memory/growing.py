"""A memory that grows one episode at a time.

Additions go to a log (`ldm.memory.additions`) and are recalled at once, beside the newest
generation. When those of one kind fill a batch, a background thread forms it into the next
generation. So n additions make about n / B batches and generations, and existing generations are
never changed or removed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ldm.embed import Embedder, chosen_embedder
from ldm.errors import MemoryLocked, MemoryStoreError
from ldm.memory import Memory, additions, snapshot
from ldm.memory.additions import Addition, Feedback
from ldm.memory.addresses import is_server
from ldm.memory.building import build
from ldm.memory.chroma import store_errors
from ldm.memory.directory import DATABASE, check_free
from ldm.memory.formation import FormationOptions, texts_of
from ldm.memory.index import Generation
from ldm.memory.known_vectors import KnownVectors
from ldm.memory.opening import known_generations, load
from ldm.memory.pending import extended, vectors_of
from ldm.memory.recalls import Recalls, Worth
from ldm.memory.recording import Recording
from ldm.reason.offline import OfflineReasoner
from ldm.types import Origin, Recall, Trajectory

#: Trajectories in a batch unless the memory records another number (LDM²).
BATCH_SIZE = 50
#: (inode, modification time) of a file, which differ after it is replaced.
_Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _View:
    """The searchable state: the newest generation and the pending additions.

    base: the newest generation. pending: the additions in no generation, in order. added: a memory
    of these. known: ids of the trajectories of both. catalog, log: the states of the files that
    this was read from.
    """

    base: Memory | None
    added: Memory | None
    known: frozenset[str]
    pending: tuple[Addition, ...] = ()
    catalog: _Stamp = (0, 0)
    log: additions.State = (0, 0)

    @classmethod
    def of(cls, base: Memory | None) -> _View:
        """Return the view of a generation, without additions."""
        batches = base.batches if base else ()
        return cls(base, None, frozenset(name for b in batches for name in b.trajectories))


class GrowingMemory:
    """A memory that an agent adds to and recalls from, safe across threads and processes.

    `len(memory)` is the number of its tuples, pending additions included.
    """

    def __init__(self, location: str, env: str, embedder: Embedder, batch_size: int) -> None:
        """Read the memory; callers use `open` instead."""
        self.location = location
        self.env = env
        self.batch_size = batch_size
        self._embedder = embedder
        self._reasoner = OfflineReasoner(embedder)
        self._log = additions.additions(location, env)
        self._feedback = additions.feedback(location, env)
        self._worth, self._counted = dict[str, Worth](), (0, 0)
        self._lock = threading.RLock()
        self._folding = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._forming = False
        self._ready: _View | None = None
        self._view = self._read(None)

    @classmethod
    def open(
        cls,
        location: str,
        env: str,
        *,
        embedder: Embedder | str | None = None,
        create: bool = False,
        batch_size: int = 0,
    ) -> GrowingMemory:
        """Open a memory to add to it.

        location, env, embedder, create: as in `Memory.open`, but the location is a directory, and
            `env` may be any name.
        batch_size: the number of additions of a kind that make a batch; 0 for the memory's own, or
            50.

        Raises MemoryStoreError if there is no memory and `create` is False, it is damaged or has
        another embedder, or it is on a server, because additions are files.
        """
        if is_server(location):
            raise MemoryStoreError(
                f"{location} is a server, which does not take single episodes.",
                "Name a directory, or add many trajectories at a time with ldm.build_memory.",
            )
        _check_place(location)
        newest = _generations(location, env)[-1:]
        # The additions are read for their embedder only if there is no generation.
        added = [] if newest else additions.additions(location, env).read()[0]
        if not (newest or added or create):
            raise MemoryStoreError(
                f"{location} holds no memory of {env}.",
                "Create one with create=True, or check the path.",
            )
        names = [*(one.embedder for one in newest), *(one.embedder for one in added)]
        recorded = newest[0].settings.get("batch_size", "") if newest else ""
        size = batch_size or (int(recorded) if recorded.isdecimal() else 0) or BATCH_SIZE
        return cls(location, env, chosen_embedder(embedder, next(iter(names), None)), size)

    def __enter__(self) -> GrowingMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        view = self._current()
        return sum(len(part) for part in (view.base, view.added) if part)

    @property
    def pending(self) -> int:
        """The number of added trajectories that are in no generation yet."""
        return len(self._current().pending)

    @property
    def newest(self) -> Memory | None:
        """The newest generation, without pending additions."""
        return self._current().base

    def add(self, trajectory: Trajectory) -> bool:
        """Add a trajectory durably; it is recalled at once.

        A score of 0 or less is a failure: its tuples are warnings against their actions.

        Returns False if the memory holds it already.
        Raises ValueError if it is of another environment or holds no action, MemoryStoreError if it
        cannot be written, and any error of a batch that was formed since the last call.
        """
        if trajectory.task.env != self.env:
            raise ValueError(f"the trajectory is of {trajectory.task.env}, not of {self.env}")
        if not any(step.action for step in trajectory.steps):
            raise ValueError("the trajectory holds no action")
        if trajectory.id in self._current().known:
            return False
        vectors = self._embedder.embed(texts_of([trajectory]))
        with self._lock:
            if trajectory.id in self._current().known:
                return False
            _check_place(self.location)
            self._log.append(Addition.of(trajectory, self._embedder.name, vectors))
            self._current()
        self._fold_when_full()
        return True

    @contextmanager
    def record(
        self, goal: str, kind: str = "", *, source: str = "", origin: Origin = "agent"
    ) -> Iterator[Recording]:
        """Record an episode: `with memory.record(goal) as episode: episode.step(…)`.

        It is added when the block ends, unless with an exception: an error of the program says
        nothing about the actions. A failed episode ends with `finish(score=0)`.

        kind: of the task; additions are divided into batches by kind. source: what an evaluation
            must not share with the memory; "" for the task itself. origin: of the actions.

        Raises what `add` raises, and LdmError if the episode has neither a score nor rewards.
        """
        episode = Recording(self.env, goal, kind, source, origin)
        yield episode
        if (trajectory := episode.trajectory()) is not None:
            self.add(trajectory)

    def recall(self, goal: str, observation: str, k: int = 5) -> Recalls:
        """Recall the `k` tuples most similar to a goal and an observation, failures included.

        Returns at most `k` recalls, the most similar first.
        """
        view = self._current()
        self._count()
        candidates = [
            recall
            for part in (view.added, view.base)
            if part is not None
            for recall in part.retrieve(goal, observation, k)
        ]
        recalls = tuple(_best(candidates, k))
        worth = {one.id: self._worth[one.id] for one in recalls if one.id in self._worth}
        return Recalls(goal, observation, recalls, worth)

    def feedback(self, recalls: Iterable[Recall], reward: float) -> None:
        """Record the reward of an action that was based on recalls; prompts show the mean.

        recalls: the result of `recall`, or those of it that were followed.
        reward: in [-1, 1].
        """
        if not -1 <= reward <= 1:
            raise ValueError("a reward is a number from -1 to 1")
        if ids := tuple(dict.fromkeys(one.id for one in recalls)):
            with self._lock:
                _check_place(self.location)
                self._feedback.append(Feedback(ids, float(reward)))
                self._count()

    def fold(self) -> Generation | None:
        """Form all pending additions into the next generation, which commands see.

        Returns the newest generation, or None if there is none.
        Raises MemoryStoreError if it cannot be written, or another process is writing.
        """
        self.close()
        with self._folding:
            pending = self._current().pending
            if pending:
                self._form(pending, "kind")
        newest = self._current().base
        return newest.record if newest else None

    def close(self) -> None:
        """Wait for a batch that is being formed; the memory stays usable."""
        thread = self._thread
        if thread is not None:
            thread.join()
        self._raise_failure()

    def _current(self) -> _View:
        """Return the searchable state, updated if a file has changed."""
        view = self._view
        if (self._catalog(view), self._log.state()) == (view.catalog, view.log):
            return view
        with self._lock:
            self._view = self._read(self._view)
            return self._view

    def _read(self, before: _View | None) -> _View:
        """Read everything, or what has changed since `before`.

        The log is read first, because additions are removed from it after their generation exists.
        """
        self._count()
        log = self._log.state()
        same_log = before is not None and before.log[0] == log[0] and before.log[1] <= log[1]
        new, log = self._log.read(before.log[1] if before and same_log else 0)
        if before and same_log:
            new = [*before.pending, *new]
        logged = {one.trajectory.id: one for one in new}
        catalog = self._catalog(before)
        start = before if before and before.catalog == catalog else self._newest(before)
        if any(one.trajectory.id not in logged for one in start.pending):
            start = _View.of(start.base)
        fresh = [one for name, one in logged.items() if name not in start.known]
        return replace(self._with(start, fresh), catalog=catalog, log=log)

    def _with(self, view: _View, fresh: Sequence[Addition]) -> _View:
        """Return a view with more additions."""
        if not fresh:
            return view
        self._check(fresh)
        number = view.base.generation + 1 if view.base else 0
        return replace(
            view,
            added=extended(view.added, number, fresh, self._reasoner, self._embedder),
            known=view.known.union(one.trajectory.id for one in fresh),
            pending=(*view.pending, *fresh),
        )

    def _check(self, fresh: Sequence[Addition]) -> None:
        """Raise MemoryStoreError if additions do not belong to this memory."""
        for one in fresh:
            if one.embedder != self._embedder.name:
                raise MemoryStoreError(
                    f"{self._log.path} holds additions with the embedder {one.embedder!r}, not"
                    f" with {self._embedder.name!r}.",
                    "Open the memory with that embedder.",
                )
            problem = "is of another environment" if one.trajectory.task.env != self.env else ""
            try:
                widths = {len(vector) for vector in one.by_text().values()}
                if widths != {self._embedder.dimension}:
                    problem = "has vectors of another dimension"
            except ValueError as error:
                problem = f"is damaged: {error}"
            if problem:
                raise MemoryStoreError(
                    f"In {self._log.path} the trajectory {one.trajectory.id} {problem}.",
                    "Remove its line.",
                )

    def _newest(self, before: _View | None) -> _View:
        """Return a view of the newest generation, if possible the one that `_form` prepared."""
        present = _generations(self.location, self.env)
        if not present:
            return _View.of(None)
        ready, self._ready = self._ready, None
        for known in (ready, before):
            if known and known.base and known.base.record == present[-1]:
                return known
        return _View.of(Memory(load(self.location, self.env), self._embedder))

    def _catalog(self, view: _View | None) -> _Stamp:
        """Return the state of the catalog; while a batch is being formed, the one in `view`."""
        if view and self._forming:
            return view.catalog
        try:
            status = (snapshot.folder_of(self.location) / snapshot.CATALOG).stat()
        except OSError:
            return 0, 0
        return status.st_ino, status.st_mtime_ns

    def _fold_when_full(self) -> None:
        """Start a thread that forms full batches unless one is running."""
        self._raise_failure()
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            if additions.first_full(self._view.pending, self.batch_size) is None:
                return
            # The interpreter waits for it at exit; the next addition restarts a killed one.
            self._thread = threading.Thread(target=self._fold_full, name="ldm-memory")
            self._thread.start()

    def _fold_full(self) -> None:
        try:
            with self._folding:
                while full := additions.first_full(self._current().pending, self.batch_size):
                    self._form(*full)
        except MemoryLocked:
            return  # another process is writing, perhaps this batch; the next addition retries
        except Exception as error:  # raised by the next call
            self._failure = error

    def _form(self, full: Sequence[Addition], batching: Literal["kind", "mixed"]) -> None:
        """Make a generation of additions and remove them from the log.

        It also prepares the next view, so that no other call has to wait for it.
        """
        trajectories = [one.trajectory for one in full]
        vectors = vectors_of(full)
        self._forming = True
        try:
            built = build(
                self.location,
                trajectories,
                KnownVectors(self._embedder, vectors),
                OfflineReasoner,
                options=FormationOptions(self.batch_size, batching, failures="contrast"),
            )
            view = _View.of(Memory(load(self.location, self.env), self._embedder))
            if view.base is not None:
                view.base.batches_for(trajectories[0].task.goal)
            rest = [one for one in self._view.pending if one.trajectory.id not in view.known]
            self._ready = self._with(view, rest)
        finally:
            self._forming = False
        # Not only these: an interrupted process may have left others.
        formed = {name for batch in built.batches for name in batch.trajectories}
        additions.drop(self.location, self.env, formed)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _count(self) -> None:
        """Count the feedback that was recorded since the last call."""
        state = self._feedback.state()
        if state == self._counted:
            return
        with self._lock:
            if state[0] != self._counted[0] or state[1] < self._counted[1]:
                self._worth, self._counted = {}, (0, 0)
            new, self._counted = self._feedback.read(self._counted[1])
            for one in new:
                for name in one.tuples:
                    self._worth[name] = self._worth.get(name, Worth()).after(one.reward)


def _check_place(location: str) -> None:
    """Raise MemoryStoreError if there is something other than a memory."""
    with store_errors(location):
        if Path(location).exists():
            check_free(location)


def _generations(location: str, env: str) -> tuple[Generation, ...]:
    """Return the generations of a memory, which may have none."""
    if not (Path(location) / DATABASE).is_file():
        return ()
    return known_generations(location).get(env, ())


def _best(recalls: Iterable[Recall], k: int) -> list[Recall]:
    """Return the `k` most similar, one per text and, if there are enough, one per trajectory."""
    ranked = sorted(recalls, key=lambda one: (-one.similarity, one.id))
    distinct = {
        (one.tuple.goal, one.tuple.observation, one.tuple.action): one for one in reversed(ranked)
    }
    texts = [one for one in ranked if distinct[_texts(one)] is one]
    first = {one.tuple.trajectory_id: one.id for one in reversed(texts)}
    spread = [one for one in texts if first[one.tuple.trajectory_id] == one.id]
    others = [one for one in texts if first[one.tuple.trajectory_id] != one.id]
    return sorted([*spread, *others][:k], key=lambda one: (-one.similarity, one.id))


def _texts(one: Recall) -> tuple[str, str, str]:
    return one.tuple.goal, one.tuple.observation, one.tuple.action
