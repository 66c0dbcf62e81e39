"""A memory to which an agent adds what it lives through, one episode after the other.

Additions go to a log (`ldm.memory.additions`) and are recalled at once, beside the newest
generation. Those of a kind that fill a batch are formed into one, which is clustered and becomes
the next generation, by a thread of its own. So n additions leave about n / B batches and
generations, and no generation that is there is ever changed or removed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ldm.embed import Embedder, load_embedder
from ldm.errors import MemoryLocked, MemoryStoreError
from ldm.memory import HISTORY_CANDIDATES, Memory, additions, ranked_by_utility, snapshot
from ldm.memory.additions import Addition, Feedback, KnownVectors
from ldm.memory.addresses import is_server
from ldm.memory.building import build
from ldm.memory.chroma import store_errors
from ldm.memory.directory import DATABASE, check_free
from ldm.memory.formation import FormationOptions, texts_of
from ldm.memory.generations import value
from ldm.memory.index import Generation
from ldm.memory.opening import known_generations, load
from ldm.memory.recalls import Recalls
from ldm.memory.recent import extended, vectors_of
from ldm.memory.recording import Recording
from ldm.memory.utility import Tallies
from ldm.reason import Notes
from ldm.reason.offline import OfflineReasoner
from ldm.types import History, Origin, Recall, Trajectory

#: Trajectories in a batch, where the memory does not say: those of LDM².
BATCH_SIZE = 50
#: What changes whenever a file is replaced: (inode, time).
_Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _View:
    """What is recalled from: the newest generation, and what was added since.

    base, recent: None where there is nothing. known: trajectories of either. pending: additions in
    no generation, in their order. catalog, log: the states of the files that this was read from.
    """

    base: Memory | None
    recent: Memory | None
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
    """A memory that an agent adds to and recalls from; safe in threads and beside processes.

    `len(memory)` is the number of its tuples, those of the latest additions included.
    """

    def __init__(self, location: str, env: str, embedder: Embedder, batch_size: int) -> None:
        """Name its parts; `open` does that."""
        self.location = location
        self.env = env
        self.batch_size = batch_size
        self._embedder = embedder
        self._reasoner = OfflineReasoner(embedder)
        self._log = additions.additions(location, env)
        self._feedback = additions.feedback(location, env)
        self._tallies, self._counted = Tallies(), (0, 0)
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
        embedder: Embedder | None = None,
        create: bool = False,
        batch_size: int = 0,
    ) -> GrowingMemory:
        """Open a memory to add to it.

        location, env, embedder, create: see `Memory.open`, but the location is a directory, and env
            any name: a directory holds a memory of each.
        batch_size: how many additions of a kind make a batch; 0 for what the memory was built with,
            or 50.

        Raises MemoryStoreError where there is no memory and none is to be created, it is damaged or
        of another embedder, or it is on a server: additions are files.
        """
        if is_server(location):
            raise MemoryStoreError(
                f"{location} is a server, to which nothing can be added one by one.",
                "Name a directory, or add many trajectories at a time with ldm.build_memory.",
            )
        _check_place(location)
        newest = _generations(location, env)[-1:]
        # Which embedder it has is asked of the additions only where there is nothing else.
        added = [] if newest else additions.additions(location, env).read()[0]
        if not (newest or added or create):
            raise MemoryStoreError(
                f"{location} holds no memory of {env}.",
                "Begin one with create=True, or check the path.",
            )
        names = [*(one.embedder for one in newest), *(one.embedder for one in added)]
        recorded = newest[0].settings.get("batch_size", "") if newest else ""
        size = batch_size or (int(recorded) if recorded.isdecimal() else 0) or BATCH_SIZE
        return cls(location, env, embedder or load_embedder(next(iter(names), None)), size)

    def __enter__(self) -> GrowingMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        view = self._current()
        return sum(len(part) for part in (view.base, view.recent) if part)

    @property
    def pending(self) -> int:
        """How many trajectories were added that are in no generation yet."""
        return len(self._current().pending)

    @property
    def newest(self) -> Memory | None:
        """The newest generation, without what was added since; None where there is none."""
        return self._current().base

    def add(self, trajectory: Trajectory) -> bool:
        """Add a trajectory for good; it is recalled from now on.

        A score of 0 or less is a failure: its tuples are warnings against their actions.

        Returns whether it is new: what the memory holds already is left out.
        Raises ValueError where it is of another environment or holds no action, MemoryStoreError
        where it cannot be written, and what the forming of a batch raised since the last call.
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

        It is added when the block ends. Where that is with an exception, nothing is: a fault in the
        program says nothing of the actions. An episode that failed ends with `finish(score=0)`.

        kind: of the task; additions are divided into batches by kind. source: what an evaluation
            must not share with the memory; "" for the task itself. origin: whose actions they are.

        Raises what `add` raises, and LdmError where nothing says what the episode earned.
        """
        episode = Recording(self.env, goal, kind, source, origin)
        yield episode
        if (trajectory := episode.trajectory()) is not None:
            self.add(trajectory)

    def recall(
        self,
        goal: str,
        observation: str,
        k: int = 5,
        *,
        history: str | Sequence[tuple[str, str]] = "",
        utility: bool = False,
    ) -> Recalls:
        """Recall the `k` tuples that fit a goal and an observation best, failures included.

        history: what was done before, in words or as pairs (observation, action); tuples with a
            similar one rank higher.
        utility: whether tuples rank higher that `feedback` spoke for.

        Returns at most `k` recalls, the most similar first; none where the memory is empty.
        """
        view = self._current()
        self._count()
        count = k * HISTORY_CANDIDATES if utility else k
        past = self._in_words(goal, observation, history)
        candidates = [
            recall
            for part in (view.recent, view.base)
            if part is not None
            for recall in part.retrieve(goal, observation, count, history=past)
        ]
        recalls = _best(candidates, count)
        worth = {one.id: known for one in recalls if (known := self._tallies.worth(one.id))}
        if utility:
            learnt = {name: known.utility for name, known in worth.items()}
            before = view.base.record.utilities if view.base else {}
            same_scope = [replace(one, fallback="") for one in recalls]
            order = [one.id for one in ranked_by_utility(same_scope, {**before, **learnt})]
            recalls = sorted(recalls, key=lambda one: order.index(one.id))
        return Recalls(goal, observation, tuple(recalls[:k]), worth)

    def feedback(self, recalls: Iterable[Recall], reward: float) -> None:
        """Record what came of an action that rests on recalls.

        recalls: what `recall` returned, or those of it that were followed.
        reward: what was earned, in [-1, 1]; each tuple is credited with how much that is above what
            is usual for its kind of task. `recall(…, utility=True)` ranks by it.
        """
        if not -1 <= reward <= 1:
            raise ValueError("a reward is a number from -1 to 1")
        named = list(recalls)
        if not named:
            return
        with self._lock:
            _check_place(self.location)
            ids = tuple(dict.fromkeys(one.id for one in named))
            self._feedback.append(Feedback(named[0].tuple.kind, ids, float(reward)))
            self._count()

    def fold(self) -> Generation | None:
        """Form all additions into batches now: the next generation, which commands see.

        What was learnt from `feedback` becomes one more, where it is new.

        Returns the newest generation; None where there is none.
        Raises MemoryStoreError where it cannot be written, or another process is writing.
        """
        self.close()
        with self._folding:
            pending = self._current().pending
            if pending:
                self._form(additions.Full(pending, "kind"))
            with self._lock:
                self._count()
                learnt = self._tallies.utilities()
            base = self._current().base
            if base is not None:
                known, before = base.rows.columns.ids, base.record.utilities
                learnt = {name: one for name, one in learnt.items() if name in known}
                if any(one != before.get(name, 0.0) for name, one in learnt.items()):
                    settings = {"feedback": str(len(learnt))}
                    utilities = {**before, **learnt}
                    value(self.location, base.record, utilities, settings=settings)
        newest = self._current().base
        return newest.record if newest else None

    def close(self) -> None:
        """Wait until a batch that is being formed is there; the memory can still be used."""
        thread = self._thread
        if thread is not None:
            thread.join()
        self._raise_failure()

    def _current(self) -> _View:
        """Return what to recall from, read anew where a file has changed."""
        view = self._view
        if (self._catalog(view), self._log.state()) == (view.catalog, view.log):
            return view
        with self._lock:
            self._view = self._read(self._view)
            return self._view

    def _read(self, before: _View | None) -> _View:
        """Read what has changed since `before`; None for everything.

        The log is read first: what a generation takes over is removed from it afterwards.
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
            recent=extended(view.recent, number, fresh, self._reasoner, self._embedder),
            known=view.known.union(one.trajectory.id for one in fresh),
            pending=(*view.pending, *fresh),
        )

    def _check(self, fresh: Sequence[Addition]) -> None:
        """Raise MemoryStoreError where additions that were read are not of this memory."""
        for one in fresh:
            if one.embedder != self._embedder.name:
                raise MemoryStoreError(
                    f"{self._log.path} holds what was added with the embedder {one.embedder!r}, not"
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
        """Return a view of the newest generation: what was made ready, or without additions."""
        present = _generations(self.location, self.env)
        if not present:
            return _View.of(None)
        ready, self._ready = self._ready, None
        for known in (ready, before):
            if known and known.base and known.base.record == present[-1]:
                return known
        return _View.of(Memory(load(self.location, self.env), self._embedder))

    def _catalog(self, view: _View | None) -> _Stamp:
        """Return the state of the catalog; that of `view` until what is being formed is there."""
        if view and self._forming:
            return view.catalog
        try:
            status = (snapshot.folder_of(self.location) / snapshot.CATALOG).stat()
        except OSError:
            return 0, 0
        return status.st_ino, status.st_mtime_ns

    def _fold_when_full(self) -> None:
        """Have a thread form what fills a batch, unless one is at it."""
        self._raise_failure()
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            if additions.first_full(self._view.pending, self.batch_size) is None:
                return
            # The interpreter waits for it when it ends; what is cut off is done by the next one.
            self._thread = threading.Thread(target=self._fold_full, name="ldm-memory")
            self._thread.start()

    def _fold_full(self) -> None:
        try:
            with self._folding:
                while full := additions.first_full(self._current().pending, self.batch_size):
                    self._form(full)
        except MemoryLocked:
            return  # another process is writing, perhaps this very batch: the next addition asks
        except Exception as error:  # raised by the next call, in its thread
            self._failure = error

    def _form(self, full: additions.Full) -> None:
        """Make a generation of additions, and remove them from the log.

        What is then to be recalled from is made ready here, so that no call has to wait for that.
        """
        trajectories = [one.trajectory for one in full.additions]
        vectors = vectors_of(full.additions)
        self._forming = True
        try:
            built = build(
                self.location,
                trajectories,
                KnownVectors(self._embedder, vectors),
                OfflineReasoner,
                options=FormationOptions(self.batch_size, full.batching, failures="contrast"),
            )
            view = _View.of(Memory(load(self.location, self.env), self._embedder))
            if view.base is not None:
                view.base.batches_for(trajectories[0].task.goal)
            rest = [one for one in self._view.pending if one.trajectory.id not in view.known]
            self._ready = self._with(view, rest)
        finally:
            self._forming = False
        # All that are in a generation: an interrupted process may have left some.
        formed = {name for batch in built.batches for name in batch.trajectories}
        additions.drop(self.location, self.env, formed)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _count(self) -> None:
        """Count the feedback that was recorded since the last time."""
        state = self._feedback.state()
        if state == self._counted:
            return
        with self._lock:
            if state[0] != self._counted[0] or state[1] < self._counted[1]:
                self._tallies, self._counted = Tallies(), (0, 0)
            new, self._counted = self._feedback.read(self._counted[1])
            for one in new:
                self._tallies.add(one)

    def _in_words(self, goal: str, observation: str, past: str | Sequence[tuple[str, str]]) -> str:
        if isinstance(past, str):
            return past
        if not past:
            return ""
        notes = self._reasoner.notes(goal, tuple(past), observation, Notes())
        return History(notes.assessment, notes.summary).text


def _check_place(location: str) -> None:
    """Raise MemoryStoreError where there is something other than a memory."""
    with store_errors(location):
        if Path(location).exists():
            check_free(location)


def _generations(location: str, env: str) -> tuple[Generation, ...]:
    """Return the generations of a memory, none where none was ever formed."""
    if not (Path(location) / DATABASE).is_file():
        return ()
    return known_generations(location).get(env, ())


def _best(recalls: Iterable[Recall], k: int) -> list[Recall]:
    """Return the `k` most similar: one a text and, as long as there are enough, a trajectory."""
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
