"""Building a memory generation from trajectories: resumable, and idle where nothing is new."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ldm.embed import Embedder
from ldm.errors import LdmError
from ldm.memory.formation import BatchPlan, FormationOptions, FormedBatch, cut, form, texts_of
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.memory.store import STAGING, Store, digest, is_server, translated, writing
from ldm.parallel import iterate_concurrently
from ldm.reasoner import Reasoner
from ldm.types import Trajectory, stable_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Texts embedded, and staged on disk, at a time.
CHUNK = 256

#: Told (stage, done, total) as the work goes on.
OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Built:
    """What a build did. seconds: wall time per stage; empty where nothing was new.

    trajectories: those added; skipped: those that were in the memory already, occurred twice or
    hold no action.
    """

    env: str
    generation: Generation
    batches: tuple[BatchIndex, ...]
    rows: tuple[IndexedTuple, ...]
    trajectories: int
    skipped: int
    seconds: dict[str, float] = field(default_factory=dict)


class StagedEmbedder:
    """An embedder that keeps what it has computed in a folder until the generation is complete.

    Texts are embedded in fixed chunks, so that an interrupted and an uninterrupted build get the
    same bits: a vector depends a little on what it was padded with.
    """

    def __init__(self, embedder: Embedder, folder: Path | None) -> None:
        """folder: None keeps nothing on disk."""
        self.name = embedder.name
        self.dimension = embedder.dimension
        self._embedder = embedder
        self._folder = folder
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def prepare(self, texts: Sequence[str], on_progress: OnProgress) -> None:
        """Embed the distinct, sorted `texts`, or read what an earlier attempt staged."""
        for start in range(0, len(texts), CHUNK):
            chunk = texts[start : start + CHUNK]
            self._vectors.update(zip(chunk, self._chunk(chunk), strict=True))
            on_progress("embed", min(start + CHUNK, len(texts)), len(texts))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) unit vectors: prepared ones, and computed ones for other texts."""
        for text in texts:
            # One by one: which texts come together is a matter of chance among threads.
            if text not in self._vectors:
                self._vectors[text] = self._embedder.embed([text])[0]
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return np.stack([self._vectors[text] for text in texts])

    def embed_rows(self, rows: Sequence[IndexedTuple]) -> NDArray[np.float32]:
        """(n, 2 · dimension): the goal's vector and the observation's, side by side."""
        goals = self.embed([row.tuple.goal for row in rows])
        return np.concatenate([goals, self.embed([row.tuple.observation for row in rows])], axis=1)

    def _chunk(self, chunk: Sequence[str]) -> NDArray[np.float32]:
        if self._folder is None:
            return self._embedder.embed(chunk)
        path = self._folder / f"{stable_hash(self.name, list(chunk))}.npy"
        if path.is_file():
            staged: NDArray[np.float32] = np.load(path)
            return staged
        vectors = self._embedder.embed(chunk)
        with translated(str(self._folder)):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".tmp.npy")
            np.save(temporary, vectors)
            temporary.replace(path)
        return vectors


def build(  # noqa: PLR0913 - one parameter a decision of the caller
    location: str,
    trajectories: Sequence[Trajectory],
    embedder: Embedder,
    reasoner_for: Callable[[Embedder], Reasoner],
    *,
    options: FormationOptions | None = None,
    rebuild: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> Built:
    """Add `trajectories` (of one environment) to the memory at `location` as a new generation.

    Those that it already holds are left out; without any new one nothing is written. rebuild: drop
    the environment's memory first. An interrupted build goes on where it was and ends in the same
    memory. Raises LdmError without any action to remember, MemoryStoreError where the location
    cannot be written, holds another embedder's vectors or something else than a memory.
    """
    chosen = options or FormationOptions()
    distinct = {t.id: t for t in trajectories if any(step.action for step in t.steps)}
    if not distinct:
        raise LdmError(
            f"None of these {len(trajectories)} trajectories holds an action.",
            "A memory is made of actions; `ldm schema trajectory` shows where they belong.",
        )
    env = trajectories[0].task.env
    with writing(location) as store:
        if rebuild:
            _begin_rebuild(store, env)
        present = store.generations(env)
        if present:
            present[-1].check_embedder(embedder.name)
        elif store.embedder(env) != embedder.name:
            store.drop(env)  # leftovers of an interrupted build are of no use to this one
        newest = present[-1].number if present else -1
        known = {t for b in store.batches(env) if b.generation <= newest for t in b.trajectories}
        new = [distinct[i] for i in sorted(distinct) if i not in known]
        skipped = len(trajectories) - len(new)
        if present and not new:
            contents = store.load(env)
            return Built(env, present[-1], contents.batches, contents.rows, 0, skipped)
        folder = None if is_server(location) else Path(location) / STAGING / stable_hash(env)
        staged = StagedEmbedder(embedder, folder)
        work = _Work(store, env, newest + 1, chosen, staged, reasoner_for(staged), on_progress)
        built = work.carry_out(new)
        if folder is not None:
            shutil.rmtree(folder.parent, ignore_errors=True)
        return replace(built, skipped=skipped)


@dataclass(slots=True)
class _Work:
    """One generation in the making."""

    store: Store
    env: str
    number: int
    options: FormationOptions
    embedder: StagedEmbedder
    reasoner: Reasoner
    on_progress: OnProgress
    seconds: dict[str, float] = field(default_factory=dict)

    def carry_out(self, new: Sequence[Trajectory]) -> Built:
        taken = [b.id for b in self.store.batches(self.env) if b.generation < self.number]
        plans = cut(new, self.options, taken)
        whole = self._resume(plans)
        with self._timed("embed"):
            self.embedder.prepare(texts_of(new), self.on_progress)
        done, lock = 0, threading.Lock()

        def advance(by: int = 1) -> None:
            nonlocal done
            with lock:
                done += by
                self.on_progress("form", done, len(new))

        advance(sum(len(plan.trajectories) for plan in plans if plan.id in whole))
        self._form([plan for plan in plans if plan.id not in whole], advance)
        with self._timed("check"):
            rows, _ = self.store.rows(self.env, self.number, self.embedder.dimension)
            generation = self._generation(rows)
            self.store.commit(generation)
        batches = tuple(b for b in self.store.batches(self.env) if b.generation <= self.number)
        return Built(self.env, generation, batches, rows, len(new), 0, self.seconds)

    def _resume(self, plans: Sequence[BatchPlan]) -> set[str]:
        """Ids of planned batches that an interrupted build has finished; other leftovers go."""
        planned = {plan.id: tuple(t.id for t in plan.trajectories) for plan in plans}
        left = [b for b in self.store.batches(self.env) if b.generation == self.number]
        whole = {
            b.id
            for b in left
            if planned.get(b.id) == b.trajectories and b.reasoner == self.reasoner.name
        }
        self.store.drop_after(self.env, self.number - 1, keep=whole)
        return whole

    def _form(self, plans: Sequence[BatchPlan], on_trajectory: Callable[[], None]) -> None:
        """Form the batches, several at a time where the reasoner can, and store them in order."""

        def formed(plan: BatchPlan) -> FormedBatch:
            return form(plan, self.reasoner, self.number, on_trajectory)

        with closing(iterate_concurrently(formed, plans, self.reasoner.concurrency)) as coming:
            for _ in plans:
                with self._timed("form"):
                    batch = next(coming)
                with self._timed("store"):
                    vectors = self.embedder.embed_rows(batch.rows)
                    self.store.add_tuples(batch.rows, vectors, self.embedder.name)
                    self.store.add_batch(self.env, batch.index)

    def _generation(self, rows: Sequence[IndexedTuple]) -> Generation:
        return Generation(
            number=self.number,
            origin="formed",
            env=self.env,
            embedder=self.embedder.name,
            dimension=self.embedder.dimension,
            tuples=len(rows),
            digest=digest(rows),
            settings={
                "batch_size": str(self.options.batch_size),
                "batching": self.options.batching,
                "seed": str(self.options.seed),
                "reasoner": self.reasoner.name,
            },
        )

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        spent = time.perf_counter() - started
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + spent, 3)


def _begin_rebuild(store: Store, env: str) -> None:
    """Drop the environment's complete memory, but go on with a rebuild that was interrupted."""
    if store.generations(env):
        store.drop(env)
