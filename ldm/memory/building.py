"""Building a memory generation from trajectories: resumable, and idle where nothing is new.

This is the driver of LDM²'s memory formation (§3.1–3.2); `formation` makes the batches.
"""

from __future__ import annotations

import io
import shutil
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ldm.embed import Embedder
from ldm.errors import LdmError, MemoryStoreError
from ldm.memory import additions, snapshot
from ldm.memory.access import writing
from ldm.memory.addresses import is_server
from ldm.memory.chroma import store_errors
from ldm.memory.columns_builder import ColumnsBuilder
from ldm.memory.contents import Contents
from ldm.memory.directory import STAGING
from ldm.memory.formation import (
    BatchPlan,
    FormationOptions,
    FormedBatch,
    failed,
    form_batch,
    plan_batches,
    texts_of,
)
from ldm.memory.index import BatchIndex, Generation, IndexedTuple
from ldm.memory.rows import Rows
from ldm.memory.store import Store
from ldm.parallel import iterate_concurrently, map_concurrently
from ldm.reason import AsksAhead, Reasoner
from ldm.text import check_file, read_array
from ldm.types import Trajectory, stable_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Texts embedded, and staged on disk, at a time.
CHUNK = 256

#: Called with (stage, done, total) as the work goes on.
OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build did, and the memory as it is now.

    generation: the newest one: that of this build, or the present one where nothing was new.
    batches, rows: all of the memory's batches and tuples up to that generation.
    trajectories: how many were added.
    skipped: how many were in the memory already, occurred twice or hold no action.
    left_out: how many earned too little by the options.
    seconds: wall time per stage ("embed", "form", "store", "check"); empty where nothing was new.
    """

    env: str
    generation: Generation
    batches: tuple[BatchIndex, ...] = field(repr=False)
    rows: Rows = field(repr=False)
    trajectories: int
    skipped: int
    left_out: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


#: Bytes of the checksum behind staged vectors.
SUM = 4


class StagedEmbedder:
    """An embedder that keeps computed vectors in a folder until the generation is complete.

    Texts are embedded in fixed chunks, so that an interrupted build finds what it has computed.
    """

    def __init__(self, embedder: Embedder, folder: Path | None) -> None:
        """Wrap `embedder`; folder: where vectors are kept, None for in memory only."""
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
        """Return (n, dimension) unit vectors; texts that were not prepared are embedded now."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, self._embedder.embed(new), strict=True))
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return np.stack([self._vectors[text] for text in texts])

    def embed_rows(self, rows: Sequence[IndexedTuple]) -> NDArray[np.float32]:
        """Return (n, 2 · dimension): each row's goal vector and observation vector side by side."""
        goals = self.embed([row.tuple.goal for row in rows])
        return np.concatenate([goals, self.embed([row.tuple.observation for row in rows])], axis=1)

    def _chunk(self, chunk: Sequence[str]) -> NDArray[np.float32]:
        if self._folder is None:
            return self._embedder.embed(chunk)
        path = self._folder / f"{stable_hash(self.name, list(chunk))}.npy"
        if path.is_file():
            return self._staged(path, len(chunk))
        vectors = self._embedder.embed(chunk)
        with store_errors(str(self._folder)):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".tmp.npy")
            content = io.BytesIO()
            np.save(content, vectors)
            temporary.write_bytes(content.getvalue() + _sum(content.getvalue()))
            temporary.replace(path)
        return vectors

    def _staged(self, path: Path, count: int) -> NDArray[np.float32]:
        """Return the vectors in a file; raise MemoryStoreError where they are damaged."""
        try:
            check_file(path)
            content = path.read_bytes()
            if _sum(content[:-SUM]) != content[-SUM:]:
                raise ValueError("it is not as it was written")
            staged: NDArray[np.float32] = read_array(io.BytesIO(content[:-SUM]))
            if staged.shape != (count, self.dimension) or not np.isfinite(staged).all():
                raise ValueError("it holds other vectors")
        except (OSError, ValueError, LdmError) as error:
            raise MemoryStoreError(
                f"{path}, which an interrupted command left, is damaged: {error}.",
                "Remove it: its vectors are then computed anew.",
            ) from error
        return staged


def _sum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(SUM, "big")


def build(  # noqa: PLR0913 - one parameter a decision of the caller
    location: str,
    trajectories: Sequence[Trajectory],
    embedder: Embedder,
    reasoner_for: Callable[[Embedder], Reasoner],
    *,
    options: FormationOptions | None = None,
    rebuild: bool = False,
    env_class: str = "",
    on_progress: OnProgress = lambda *_: None,
) -> BuildResult:
    """Form a memory from trajectories of one environment, or add them to the one that is there.

    Trajectories are cut into batches, every action becomes a tuple, and each batch gets its goal
    and observation index (LDM² §3.1–3.2). What is added together is one generation, which readers
    see once it is complete. Trajectories that the memory holds already are left out; with nothing
    new, nothing is written. An interrupted build, called again, resumes and ends in the same
    memory.

    location: a directory, made where it is absent, or the http(s) address of a Chroma server.
    trajectories: of one environment; those without any action are left out.
    embedder: must be the one that an existing memory was built with.
    reasoner_for: makes the reasoner that writes histories and types, from the embedder that it is
        to use; `OfflineReasoner` itself is one.
    options: which are remembered, in which batches; None for the paper's sizes, without failures.
    rebuild: remove the environment's memory first, with what was added one by one.
    env_class: the environment's class, see `Generation.env_class`; "" for what is known of it.
    on_progress: called with (stage, done, total), from any thread.

    Raises LdmError where no trajectory holds an action or earned enough, MemoryStoreError where the
    location cannot be written, holds another embedder's vectors or something else than a memory.
    """
    options = options or FormationOptions()
    acted = _with_actions(trajectories)
    distinct = _earning(acted, options)
    left_out = len(acted) - len(distinct)
    env = trajectories[0].task.env
    with writing(location) as store:
        if rebuild:
            _begin_rebuild(store, env)
            if not is_server(location):
                additions.drop(location, env)
        newest = _newest_generation(store, env, embedder.name)
        number = newest.number if newest else -1
        known = {t for b in store.batches(env) if b.generation <= number for t in b.trajectories}
        new = [distinct[i] for i in sorted(distinct) if i not in known]
        skipped = len(trajectories) - left_out - len(new)
        if newest and not new:
            contents = snapshot.read(location, store.generations(env)) or store.load(env)
            return BuildResult(env, newest, contents.batches, contents.rows, 0, skipped, left_out)
        if store.withdrawn(env):  # by a rollback, which can no longer be undone
            store.drop_after(env, number)
        folder = None if is_server(location) else Path(location) / STAGING / stable_hash(env)
        staged = StagedEmbedder(embedder, folder)
        parts = options, staged, reasoner_for(staged), on_progress
        builder = _GenerationBuilder(store, env, number + 1, *parts, newest, left_out, env_class)
        result = builder.build(new)
        if folder is not None:
            shutil.rmtree(folder.parent, ignore_errors=True)
        return replace(result, skipped=skipped)


@dataclass(slots=True)
class _GenerationBuilder:
    """Forms and stores generation `number` of an environment's memory."""

    store: Store
    env: str
    number: int
    options: FormationOptions
    embedder: StagedEmbedder
    reasoner: Reasoner
    on_progress: OnProgress
    base: Generation | None
    left_out: int
    env_class: str
    seconds: dict[str, float] = field(default_factory=dict)

    def build(self, new: Sequence[Trajectory]) -> BuildResult:
        """Form the batches that an interrupted build left open, and commit the generation."""
        existing = [b.id for b in self.store.batches(self.env) if b.generation < self.number]
        plans = plan_batches(new, self.options, existing)
        complete = self._resume(plans)
        with self._timed("embed"):
            self.embedder.prepare(texts_of(new), self.on_progress)
        done, lock = 0, threading.Lock()

        def advance(by: int = 1) -> None:
            nonlocal done
            with lock:
                done += by
                self.on_progress("form", done, len(new))

        advance(sum(len(plan.trajectories) for plan in plans if plan.id in complete))
        base = self._base_contents()
        before = (base.rows.columns, base.vectors) if base else None
        added = ColumnsBuilder(self.env, self.embedder.dimension, before)
        self._form([plan for plan in plans if plan.id not in complete], advance, added)
        with self._timed("check"):
            if complete:  # what was written by an interrupted build has to be read
                rows, vectors = self.store.rows(
                    self.env, self.number, self.embedder.dimension, base
                )
            else:
                columns, vectors = added.collected()
                rows = Rows(columns)
            written = self.store.batches(self.env)
            batches = tuple(b for b in written if b.generation <= self.number)
            generation = self._generation(rows, batches)
            self.store.commit(generation)
        with self._timed("check"):
            snapshot.write(self.store.location, Contents(generation, batches, rows, vectors))
        return BuildResult(
            self.env, generation, batches, rows, len(new), 0, self.left_out, self.seconds
        )

    def _base_contents(self) -> Contents | None:
        if self.base is None:
            return None
        present = self.store.generations(self.env)
        mapped = snapshot.read(self.store.location, present, self.base.number)
        return mapped or self.store.load(self.env, self.base.number)

    def _resume(self, plans: Sequence[BatchPlan]) -> set[str]:
        """Return the ids of batches that an interrupted build completed; remove its other data."""
        planned = {plan.id: tuple(t.id for t in plan.trajectories) for plan in plans}
        earlier = [b for b in self.store.batches(self.env) if b.generation == self.number]
        complete = {
            b.id
            for b in earlier
            if planned.get(b.id) == b.trajectories and b.reasoner == self.reasoner.name
        }
        complete -= self._otherwise_warned([plan for plan in plans if plan.id in complete])
        self.store.drop_after(self.env, self.number - 1, keep=complete)
        return complete

    def _otherwise_warned(self, plans: Sequence[BatchPlan]) -> set[str]:
        """Return the ids of stored batches whose failures another option made (no) warnings."""
        failures = {t.id: self.options.warns(t) for p in plans for t in p.trajectories if failed(t)}
        if not failures:
            return set()
        dimension = self.embedder.dimension
        rows, _ = self.store.rows(self.env, self.number, dimension, self._base_contents())
        return {
            row.batch
            for row in rows.after(self.number - 1)
            if row.tuple.trajectory_id in failures
            and failures[row.tuple.trajectory_id] != row.tuple.is_warning
        }

    def _form(
        self,
        plans: Sequence[BatchPlan],
        on_trajectory: Callable[[], None],
        added: ColumnsBuilder,
    ) -> None:
        """Form the batches, several at a time where the reasoner can, and store them in order.

        added: gets what is stored, which thus need not be read back.
        """

        def form(plan: BatchPlan) -> FormedBatch:
            warns = self.options.warns
            return form_batch(plan, self.reasoner, self.number, on_trajectory, warns)

        with self._timed("form"):
            self._ask_ahead(plans)
        with closing(iterate_concurrently(form, plans, self.reasoner.concurrency)) as batches:
            for _ in plans:
                with self._timed("form"):
                    batch = next(batches)
                with self._timed("store"):
                    vectors = self.embedder.embed_rows(batch.rows)
                    self.store.add_tuples(batch.rows, vectors, self.embedder.name)
                    self.store.add_batch(self.env, batch.index)
                    added.add_rows(batch.rows, vectors)

    def _ask_ahead(self, plans: Sequence[BatchPlan]) -> None:
        """Let a reasoner that can ask the questions of all batches together, stage by stage."""
        if isinstance(self.reasoner, AsksAhead):
            self.reasoner.ask_ahead(
                lambda reasoner: map_concurrently(
                    lambda plan: form_batch(plan, reasoner, self.number), plans, 1
                ),
                self.on_progress,
            )

    def _generation(self, rows: Rows, batches: Sequence[BatchIndex]) -> Generation:
        made = Generation(
            number=self.number,
            origin="formed",
            env=self.env,
            embedder=self.embedder.name,
            dimension=self.embedder.dimension,
            tuples=len(rows),
            digest=self.base.digest if self.base else "",
            settings={
                "batch_size": str(self.options.batch_size),
                "batching": self.options.batching,
                "seed": str(self.options.seed),
                "reasoner": self.reasoner.name,
                **self._selection(rows),
            },
            hidden=self.base.hidden if self.base else (),
            utilities=self.base.utilities if self.base else {},
            kinds_by_count=self.base.kinds_by_count if self.base else False,
            env_class=self.env_class or (self.base.env_class if self.base else ""),
        )
        return replace(made, digest=rows.columns.digest(made, batches))

    def _selection(self, rows: Rows) -> dict[str, str]:
        """Return the options that made a difference to which trajectories are remembered, how."""
        warned = any(row.tuple.is_warning for row in rows.after(self.number - 1))
        if not (self.left_out or warned):
            return {}
        settings: dict[str, str] = {"failures": self.options.failures}
        if self.options.min_reward:
            settings["min_reward"] = f"{self.options.min_reward:g}"
        return settings | ({"left_out": str(self.left_out)} if self.left_out else {})

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        elapsed = time.perf_counter() - started
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + elapsed, 3)


def _with_actions(trajectories: Sequence[Trajectory]) -> dict[str, Trajectory]:
    """Return the trajectories with an action by id; raise LdmError where there is none."""
    distinct = {t.id: t for t in trajectories if any(step.action for step in t.steps)}
    if not distinct:
        raise LdmError(
            f"None of these {len(trajectories)} trajectories holds an action.",
            "A memory is made of actions; `ldm schema trajectory` shows where they belong.",
        )
    return distinct


def _earning(
    trajectories: dict[str, Trajectory], options: FormationOptions
) -> dict[str, Trajectory]:
    """Return the trajectories that the options take; raise LdmError where they take none."""
    taken = {name: t for name, t in trajectories.items() if options.takes(t)}
    if taken:
        return taken
    best = max(t.score for t in trajectories.values())
    if best <= 0 and options.failures == "drop":
        raise LdmError(
            f"All {len(trajectories)} trajectories are failures (a score of 0), which are left"
            " out.",
            "Take them as they are with --failures keep (their scores may just be unknown), or"
            " as warnings with --failures contrast; in Python, failures=….",
        )
    raise LdmError(
        f"None of the {len(trajectories)} trajectories has a score of {options.min_reward:g} or"
        f" more: the best is {best:g}.",
        "Lower --min-reward; in Python, min_reward.",
    )


def _newest_generation(store: Store, env: str, embedder: str) -> Generation | None:
    """Return the newest generation; without one, drop what another embedder left unfinished.

    Raises MemoryStoreError where the generation was built with another embedder.
    """
    present = store.generations(env)
    if present:
        present[-1].check_embedder(embedder)
        return present[-1]
    if store.embedder(env) != embedder:
        store.drop(env)
    return None


def _begin_rebuild(store: Store, env: str) -> None:
    """Drop the environment's complete memory; leave an interrupted rebuild, which is resumed."""
    if store.generations(env):
        store.drop(env)
