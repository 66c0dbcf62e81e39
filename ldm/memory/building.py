"""Building a generation of a memory from trajectories.

This drives LDM²'s memory formation (§3.1–3.2); `ldm.memory.formation` forms the batches.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from ldm.embed import Embedder
from ldm.embed.caching import CachingEmbedder
from ldm.errors import LdmError
from ldm.memory import places
from ldm.memory.formation import (
    BatchPlan,
    FormationOptions,
    FormedBatch,
    OnProgress,
    embed_rows,
    embed_texts,
    form_batch,
    plan_batches,
    texts_of,
)
from ldm.memory.index import BatchIndex, Generation
from ldm.memory.lessons import Contents, empty
from ldm.memory.rows import Rows
from ldm.parallel import give_back, iterate_concurrently
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
    nothing is written. An interrupted build changes nothing.

    location: a directory, created if absent, or the http(s) address of a Chroma server.
    trajectories: of one environment; those without any action are skipped.
    embedder: for an existing memory the one that it was built with.
    reasoner_for: makes a reasoner with the given embedder, such as `OfflineReasoner`.
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
            places.publish(location, base, on_progress)
            return BuildResult(env, base.generation, base.batches, base.rows, 0, skipped, left_out)
        known, seconds = CachingEmbedder(embedder, size=sys.maxsize), dict[str, float]()
        with _timed(seconds, "embed"):
            embed_texts(known, texts_of(new), on_progress)
        with _timed(seconds, "form"):
            contents = form(
                *(new, options, known, reasoner_for(known), base),
                on_progress=on_progress,
                env_class=env_class,
                left_out=left_out,
            )
        del known  # the contents have its vectors
        give_back()
        with _timed(seconds, "store"):
            places.commit(location, contents, places.generations(location, env), on_progress)
    made, counts = contents.generation, (len(new), skipped, left_out)
    return BuildResult(env, made, contents.batches, contents.rows, *counts, seconds)


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Note the time that a stage takes."""
    started = time.perf_counter()
    yield
    seconds[stage] = round(time.perf_counter() - started, 3)


def _base(location: str, env: str, embedder: str) -> Contents | None:
    """Return the newest contents, or None; raise MemoryStoreError if of another embedder."""
    if not (present := places.generations(location, env)):
        return None
    present[-1].check_embedder(embedder)
    return places.load(location, env)


def form(  # noqa: PLR0913 - one parameter a decision of the caller
    new: Sequence[Trajectory],
    options: FormationOptions,
    embedder: Embedder,
    reasoner: Reasoner,
    base: Contents | None,
    *,
    on_progress: OnProgress = lambda *_: None,
    env_class: str = "",
    left_out: int = 0,
) -> Contents:
    """Form all batches of n ≥ 1 new trajectories; return the generation after `base` with them."""
    number = base.generation.number + 1 if base else 0
    plans = plan_batches(new, options, [batch.id for batch in base.batches] if base else ())
    formed = [*_formed(plans, options, reasoner, number, on_progress)]
    rows = [row for batch in formed for row in batch.rows]
    selection: dict[str, str] = {}
    if left_out or any(row.tuple.is_warning for row in rows):
        selection = {"failures": options.failures}
        if options.min_reward:
            selection["min_reward"] = f"{options.min_reward:g}"
        if left_out:
            selection["left_out"] = str(left_out)
    generation = Generation(
        number=number,
        origin="formed",
        env=new[0].task.env,
        embedder=embedder.name,
        dimension=embedder.dimension,
        tuples=0,
        digest="",
        settings={
            "batch_size": str(options.batch_size),
            "seed": str(options.seed),
            "reasoner": reasoner.name,
            **{f"env.{name}": value for name, value in options.rendering},
            **selection,
        },
        hidden=base.generation.hidden if base else (),
        env_class=env_class or (base.generation.env_class if base else ""),
    )
    vectors = (one for batch in formed for one in embed_rows(embedder, batch.rows))
    indices = [batch.index for batch in formed]
    return (base or empty(generation)).extended(rows, vectors, indices).made(generation)


def _formed(
    plans: Sequence[BatchPlan],
    options: FormationOptions,
    reasoner: Reasoner,
    number: int,
    on_progress: OnProgress,
) -> Iterator[FormedBatch]:
    """Yield the batches of generation `number`, formed concurrently if the reasoner can."""
    count, done, lock = sum(len(plan.trajectories) for plan in plans), 0, threading.Lock()

    def advance() -> None:
        nonlocal done
        with lock:
            done += 1
            on_progress("form", done, count)

    def formed(plan: BatchPlan) -> FormedBatch:
        return form_batch(plan, reasoner, number, advance, options.warns)

    with closing(iterate_concurrently(formed, plans, reasoner.concurrency)) as batches:
        yield from batches


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
