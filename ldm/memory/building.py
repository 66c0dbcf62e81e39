"""Building a generation of a memory from trajectories, resumable after an interruption.

This drives LDM²'s memory formation (§3.1–3.2); `ldm.memory.formation` forms the batches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

from ldm.embed import Embedder
from ldm.errors import LdmError
from ldm.memory import additions, snapshot
from ldm.memory.access import writing
from ldm.memory.addresses import is_server
from ldm.memory.columns_builder import ColumnsBuilder
from ldm.memory.contents import Contents
from ldm.memory.formation import (
    BatchPlan,
    FormationOptions,
    FormedBatch,
    failed,
    form_batch,
    plan_batches,
    texts_of,
)
from ldm.memory.index import BatchIndex, Generation
from ldm.memory.known_vectors import KnownVectors, OnProgress
from ldm.memory.opening import stored
from ldm.memory.rows import Rows
from ldm.memory.store import Store
from ldm.parallel import iterate_concurrently
from ldm.reason import Reasoner
from ldm.types import Trajectory


@dataclass(frozen=True, slots=True)
class BuildResult:
    """The result of a build.

    generation: the newest one; a new one unless no trajectory was new.
    batches, rows: all batches and tuples of the memory up to that generation.
    trajectories: number of added ones.
    skipped: number of trajectories that are duplicates or hold no action.
    left_out: number of trajectories that the options exclude by their score.
    seconds: wall time per stage ("embed", "form", "store", "check"); empty if nothing was new.
    """

    env: str
    generation: Generation
    batches: tuple[BatchIndex, ...] = field(repr=False)
    rows: Rows = field(repr=False)
    trajectories: int
    skipped: int
    left_out: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


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
    """Form a memory from trajectories of one environment, or add them to an existing one.

    Trajectories are divided into batches, every action becomes a tuple, and each batch gets a goal
    index and observation indices (LDM² §3.1–3.2). All of it is one generation, which readers see
    once it is complete. Trajectories that the memory holds already are skipped; if none is new,
    nothing is written. An interrupted build resumes when it is called again, with the same result.

    location: a directory, created if absent, or the http(s) address of a Chroma server.
    trajectories: of one environment; those without any action are skipped.
    embedder: for an existing memory the one that it was built with.
    reasoner_for: returns the reasoner that writes histories and types with the given embedder, such
        as `OfflineReasoner`.
    options: what to remember and how to batch it; None for the paper's sizes, without failures.
    rebuild: remove the environment's memory first, pending additions included.
    env_class: see `Generation.env_class`; "" to keep the recorded one.
    on_progress: called with (stage, done, total), from any thread.

    Raises LdmError if no trajectory holds an action or has a sufficient score, MemoryStoreError if
    the location cannot be written, holds another embedder's vectors or is not a memory.
    """
    options = options or FormationOptions()
    acted = _with_actions(trajectories)
    distinct = _earning(acted, options)
    left_out = len(acted) - len(distinct)
    env = trajectories[0].task.env
    with writing(location) as store:
        if rebuild:
            if store.generations(env):  # otherwise it may be an interrupted rebuild to resume
                store.drop(env)
            if not is_server(location):
                additions.drop(location, env)
        newest = _newest_generation(store, env, embedder.name)
        number = newest.number if newest else -1
        held = {t for b in store.batches(env) if b.generation <= number for t in b.trajectories}
        new = [distinct[i] for i in sorted(distinct) if i not in held]
        skipped = len(trajectories) - left_out - len(new)
        if newest and not new:
            contents = stored(store, env)
            return BuildResult(env, newest, contents.batches, contents.rows, 0, skipped, left_out)
        if store.withdrawn(env):  # a rollback that becomes final
            store.drop_after(env, number)
        known = KnownVectors(embedder)
        parts = options, known, reasoner_for(known), on_progress
        builder = _GenerationBuilder(store, env, number + 1, *parts, newest, left_out, env_class)
        return replace(builder.build(new), skipped=skipped)


@dataclass(slots=True)
class _GenerationBuilder:
    """Forms and stores generation `number` of an environment's memory, after `base`."""

    store: Store
    env: str
    number: int
    options: FormationOptions
    embedder: KnownVectors
    reasoner: Reasoner
    on_progress: OnProgress
    base: Generation | None
    left_out: int
    env_class: str
    seconds: dict[str, float] = field(default_factory=dict)

    def build(self, new: Sequence[Trajectory]) -> BuildResult:
        """Form the missing batches and commit the generation."""
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
        base = stored(self.store, self.env, self.base.number) if self.base else None
        before = (base.rows.columns, base.vectors) if base else None
        added = ColumnsBuilder(self.env, self.embedder.dimension, before)
        self._form([plan for plan in plans if plan.id not in complete], advance, added)
        with self._timed("check"):
            if complete:  # batches of an interrupted build have to be read
                rows, vectors = self.store.rows(self.env, self.number, self.embedder.dimension)
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

    def _resume(self, plans: Sequence[BatchPlan]) -> set[str]:
        """Return the ids of usable batches of an interrupted build; remove its other data."""
        planned = {plan.id: tuple(t.id for t in plan.trajectories) for plan in plans}
        earlier = [b for b in self.store.batches(self.env) if b.generation == self.number]
        complete = {
            b.id
            for b in earlier
            if planned.get(b.id) == b.trajectories and b.reasoner == self.reasoner.name
        }
        complete -= self._warned_otherwise([plan for plan in plans if plan.id in complete])
        self.store.drop_after(self.env, self.number - 1, keep=complete)
        return complete

    def _warned_otherwise(self, plans: Sequence[BatchPlan]) -> set[str]:
        """Return the ids of stored batches whose failures were formed with another option."""
        failures = {t.id: self.options.warns(t) for p in plans for t in p.trajectories if failed(t)}
        if not failures:
            return set()
        rows, _ = self.store.rows(self.env, self.number, self.embedder.dimension)
        return {
            row.batch
            for row in rows.after(self.number - 1)
            if row.tuple.trajectory_id in failures
            and failures[row.tuple.trajectory_id] != row.tuple.is_warning
        }

    def _form(
        self, plans: Sequence[BatchPlan], on_trajectory: Callable[[], None], added: ColumnsBuilder
    ) -> None:
        """Form the batches, concurrently if the reasoner can, and store them in order.

        added: receives the stored tuples, so that they need not be read back.
        """

        def form(plan: BatchPlan) -> FormedBatch:
            warns = self.options.warns
            return form_batch(plan, self.reasoner, self.number, on_trajectory, warns)

        with closing(iterate_concurrently(form, plans, self.reasoner.concurrency)) as batches:
            for _ in plans:
                with self._timed("form"):
                    batch = next(batches)
                with self._timed("store"):
                    vectors = self.embedder.embed_rows(batch.rows)
                    self.store.add_tuples(batch.rows, vectors, self.embedder.name)
                    self.store.add_batch(self.env, batch.index)
                    added.add_rows(batch.rows, vectors)

    def _generation(self, rows: Rows, batches: Sequence[BatchIndex]) -> Generation:
        made = Generation(
            number=self.number,
            origin="formed",
            env=self.env,
            embedder=self.embedder.name,
            dimension=self.embedder.dimension,
            tuples=len(rows),
            digest="",
            settings={
                "batch_size": str(self.options.batch_size),
                "batching": self.options.batching,
                "seed": str(self.options.seed),
                "reasoner": self.reasoner.name,
                **self._selection(rows),
            },
            hidden=self.base.hidden if self.base else (),
            env_class=self.env_class or (self.base.env_class if self.base else ""),
        )
        return replace(made, digest=rows.columns.digest(made, batches))

    def _selection(self, rows: Rows) -> dict[str, str]:
        """Return the options that excluded trajectories or made them warnings."""
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
    """Return the trajectories with an action by id; raise LdmError if there is none."""
    distinct = {t.id: t for t in trajectories if any(step.action for step in t.steps)}
    if not distinct:
        raise LdmError(
            f"None of these {len(trajectories)} trajectories holds an action.",
            "A memory needs actions; `ldm validate --schema trajectory` shows where they belong.",
        )
    return distinct


def _earning(
    trajectories: dict[str, Trajectory], options: FormationOptions
) -> dict[str, Trajectory]:
    """Return the trajectories that the options include; raise LdmError if there is none."""
    taken = {name: t for name, t in trajectories.items() if options.takes(t)}
    if taken:
        return taken
    best = max(t.score for t in trajectories.values())
    if best <= 0 and options.failures == "drop":
        raise LdmError(
            f"All {len(trajectories)} trajectories are failures (a score of 0), which are skipped.",
            "Include them with --failures keep if their scores are unknown, or as warnings with"
            " --failures contrast; in Python, failures=….",
        )
    raise LdmError(
        f"None of the {len(trajectories)} trajectories has a score of {options.min_reward:g} or"
        f" more: the best is {best:g}.",
        "Lower --min-reward; in Python, min_reward.",
    )


def _newest_generation(store: Store, env: str, embedder: str) -> Generation | None:
    """Return the newest generation; without one, drop unfinished data of another embedder.

    Raises MemoryStoreError if the generation was built with another embedder.
    """
    present = store.generations(env)
    if present:
        present[-1].check_embedder(embedder)
        return present[-1]
    if store.embedder(env) != embedder:
        store.drop(env)
    return None
