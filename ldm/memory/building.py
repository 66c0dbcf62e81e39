"""Building a generation of a memory from trajectories.

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
from ldm.memory import places
from ldm.memory.columns import ColumnsBuilder
from ldm.memory.contents import Contents
from ldm.memory.formation import (
    BatchPlan,
    FormationOptions,
    FormedBatch,
    form_batch,
    plan_batches,
    texts_of,
)
from ldm.memory.index import BatchIndex, Generation
from ldm.memory.known_vectors import KnownVectors, OnProgress
from ldm.memory.rows import Rows
from ldm.parallel import iterate_concurrently
from ldm.reason import Reasoner
from ldm.reason.offline import OfflineReasoner
from ldm.types import Trajectory


@dataclass(frozen=True, slots=True)
class BuildResult:
    """The result of a build.

    generation: the newest one; a new one unless no trajectory was new.
    batches, rows: all batches and tuples of the memory up to that generation.
    trajectories: number of added ones.
    skipped: number of trajectories that are duplicates or hold no action.
    left_out: number of trajectories that the options exclude by their score.
    seconds: wall time per stage ("embed", "form", "store"); empty if nothing was new.
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
    nothing is written. An interrupted build changes nothing; recorded calls of a model are answered
    from the record when it is repeated.

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
    with places.writing(location):
        if rebuild:
            places.drop(location, env)
        base = _base(location, env, embedder.name)
        held = {t for b in base.batches for t in b.trajectories} if base else set[str]()
        new = [distinct[i] for i in sorted(distinct) if i not in held]
        skipped = len(trajectories) - left_out - len(new)
        if base and not new:
            newest = base.generation
            places.publish(location, base, on_progress)
            return BuildResult(env, newest, base.batches, base.rows, 0, skipped, left_out)
        known = KnownVectors(embedder)
        builder = _Builder(options, known, reasoner_for(known), on_progress, base, env_class)
        contents = builder.build(env, new, left_out)
        with builder.timed("store"):
            places.commit(location, contents, places.generations(location, env), on_progress)
    made = contents.generation
    return BuildResult(
        *(env, made, contents.batches, contents.rows, len(new), skipped, left_out), builder.seconds
    )


def form_next(
    env: str,
    new: Sequence[Trajectory],
    embedder: Embedder,
    options: FormationOptions,
    base: Contents | None,
) -> Contents:
    """Form the generation after `base` (None: the first one) without a model; store nothing."""
    known = KnownVectors(embedder)
    builder = _Builder(options, known, OfflineReasoner(known), lambda *_: None, base, "")
    return builder.build(env, new, 0)


def _base(location: str, env: str, embedder: str) -> Contents | None:
    """Return the newest contents, or None; raise MemoryStoreError if of another embedder."""
    if not (present := places.generations(location, env)):
        return None
    present[-1].check_embedder(embedder)
    return places.load(location, env)


@dataclass(slots=True)
class _Builder:
    """Forms the generation after `base`."""

    options: FormationOptions
    embedder: KnownVectors
    reasoner: Reasoner
    on_progress: OnProgress
    base: Contents | None
    env_class: str
    seconds: dict[str, float] = field(default_factory=dict)

    def build(self, env: str, new: Sequence[Trajectory], left_out: int) -> Contents:
        """Form all batches of new trajectories; return the contents with them."""
        base = self.base
        number = base.generation.number + 1 if base else 0
        before = (base.rows.columns, base.vectors) if base else None
        present = base.batches if base else ()
        plans = plan_batches(new, self.options, [batch.id for batch in present])
        with self.timed("embed"):
            self.embedder.prepare(texts_of(new), self.on_progress)
        added = ColumnsBuilder(env, self.embedder.dimension, before)
        batches = [*present, *self._form(plans, number, len(new), added)]
        columns, vectors = added.collected()
        rows = Rows(columns)
        generation = Generation(
            number=number,
            origin="formed",
            env=env,
            embedder=self.embedder.name,
            dimension=self.embedder.dimension,
            tuples=len(rows),
            digest="",
            settings={
                "batch_size": str(self.options.batch_size),
                "batching": self.options.batching,
                "seed": str(self.options.seed),
                "reasoner": self.reasoner.name,
                **{f"env.{name}": value for name, value in self.options.rendering},
                **self._selection(rows, number, left_out),
            },
            hidden=base.generation.hidden if base else (),
            env_class=self.env_class or (base.generation.env_class if base else ""),
        )
        ordered = tuple(sorted(batches, key=lambda batch: batch.id))
        digest = columns.digest(generation, ordered)
        return Contents(replace(generation, digest=digest), ordered, rows, vectors)

    def _form(
        self, plans: Sequence[BatchPlan], number: int, count: int, added: ColumnsBuilder
    ) -> Iterator[BatchIndex]:
        """Yield the indices of the batches, formed concurrently if the reasoner can.

        count: of trajectories. added: receives the tuples.
        """
        done, lock = 0, threading.Lock()

        def advance() -> None:
            nonlocal done
            with lock:
                done += 1
                self.on_progress("form", done, count)

        def form(plan: BatchPlan) -> FormedBatch:
            return form_batch(plan, self.reasoner, number, advance, self.options.warns)

        with closing(iterate_concurrently(form, plans, self.reasoner.concurrency)) as batches:
            for _ in plans:
                with self.timed("form"):
                    batch = next(batches)
                added.add_rows(batch.rows, self.embedder.embed_rows(batch.rows))
                yield batch.index

    def _selection(self, rows: Rows, number: int, left_out: int) -> dict[str, str]:
        """Return the options that excluded trajectories or made them warnings."""
        warned = any(row.tuple.is_warning for row in rows.after(number - 1))
        if not (left_out or warned):
            return {}
        settings: dict[str, str] = {"failures": self.options.failures}
        if self.options.min_reward:
            settings["min_reward"] = f"{self.options.min_reward:g}"
        return settings | ({"left_out": str(left_out)} if left_out else {})

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time that a stage takes to `seconds`."""
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
