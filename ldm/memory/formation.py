"""Formation (LDM² §3.1–3.2): trajectories → batches → tuples, their vectors → two indices.

`build` forms a memory from trajectories, or adds a generation to it.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ldm.embed import Embedder
from ldm.embed.caching import CachingEmbedder
from ldm.errors import LdmError
from ldm.memory import places
from ldm.memory.index import BatchIndex, Generation, GoalType, IndexedTuple, OnProgress
from ldm.memory.lessons import EMBEDDED, Contents
from ldm.memory.rows import Rows
from ldm.parallel import both, give_back, map_concurrently
from ldm.reason import Clustering, Reasoner, shortened
from ldm.reason.features import MOST_STEPS
from ldm.types import History, Outcome, StateActionTuple, Trajectory, by_key, stable_seed

MIXED = "mixed"
#: Tolerance for the difference of the score and the sum of complete rewards.
TOLERANCE = 1e-6
#: `Outcome.value` of a warning.
WARNING = -1.0

Failures = Literal["drop", "keep", "contrast"]

_GoalTypes = tuple[GoalType, ...]
#: (goal, observation) → the numbers of their types.
_Cells = dict[tuple[str, str], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class FormationOptions:
    """The selection of trajectories to remember, and their division into batch memories.

    batch_size: B, trajectories per batch; `ldm.envs.metadata.batch_size` knows the paper's.
    seed: of the shuffle before dividing.
    min_reward: the minimum score in [0, 1] of remembered trajectories.
    failures: trajectories with a score of 0 or less: "drop" skips them, "keep" includes them like
        others (their score may be unknown), "contrast" remembers them as warnings, which vote
        against their actions, regardless of `min_reward`.
    rendering: options of the environment that render the trajectories, for the record.
    """

    batch_size: int = 50
    seed: int = 0
    min_reward: float = 0.0
    failures: Failures = "drop"
    rendering: tuple[tuple[str, str], ...] = ()

    def takes(self, trajectory: Trajectory) -> bool:
        """Return whether a trajectory is remembered."""
        if failed(trajectory) and self.failures != "keep":
            return self.failures == "contrast"
        return trajectory.score >= self.min_reward


def failed(trajectory: Trajectory) -> bool:
    """Return whether a trajectory is known to have earned nothing."""
    return trajectory.success is not None and trajectory.score <= 0


def plan_batches(
    trajectories: Iterable[Trajectory], options: FormationOptions, existing: Iterable[str] = ()
) -> dict[str, tuple[Trajectory, ...]]:
    """Divide N trajectories into n batches of about B (LDM² §3.1), independent of their order.

    Returns the trajectories of each batch, all of one kind, by its id.

    existing: ids of the memory's batches; new ones get the next free numbers.
    """
    groups = by_key((one.task.kind, one) for one in trajectories)
    used, plans = set(existing), dict[str, tuple[Trajectory, ...]]()
    for kind in sorted(groups):
        members = sorted(groups[kind], key=lambda t: t.id)
        random.Random(stable_seed(options.seed, kind)).shuffle(members)
        count = -(-len(members) // options.batch_size)
        names = (f"{kind or MIXED}-{number}" for number in itertools.count(1))
        free = (name for name in names if name not in used and name not in plans)
        for i in range(count):
            # Near-equal sizes, because a small last batch would be a poor memory.
            start, end = len(members) * i // count, len(members) * (i + 1) // count
            plans[next(free)] = tuple(members[start:end])
    return plans


def tuples_of(
    trajectory: Trajectory,
    reasoner: Reasoner,
    generation: int,
    first: int = 0,
    advantage: float = 0.0,
    *,
    warning: bool = False,
) -> list[StateActionTuple]:
    """Turn a trajectory into tuples ⟨g, h_τ, o_τ → a_τ⟩, one for each action (LDM² Eq. 1).

    Steps without an action (thoughts) give no tuple.

    reasoner: writes the histories h_τ.
    generation: of the tuples.
    first: index of the first action that gives a tuple; its history covers the earlier ones.
    advantage: for `Outcome.advantage`.
    warning: whether the tuples vote against their actions.
    """
    task = trajectory.task
    moves = list(trajectory.moves())
    values = _values(trajectory.score, [step.reward for _, step in moves])
    if warning:
        values = [WARNING] * len(values)
    steps = tuple((observation, step.action) for observation, step in moves)
    notes_by_step = reasoner.annotate(task.goal, steps)
    trajectory_id, cut = trajectory.id, shortened(steps)
    return [
        StateActionTuple(
            goal=task.goal,
            history=History(notes.assessment, notes.summary, cut[_start_of_past(number) : number]),
            observation=observation,
            action=step.action,
            kind=task.kind,
            env=task.env,
            split=task.split,
            task_id=task.id,
            source=task.leak_key,
            trajectory_id=trajectory_id,
            step=number,
            origin=trajectory.origin,
            generation=generation,
            outcome=None
            if trajectory.success is None
            else Outcome(trajectory.score, values[number], advantage),
            time=trajectory.time,
            scope=trajectory.scope,
            tags=trajectory.tags,
            possible=step.possible,
        )
        for number, ((observation, step), notes) in enumerate(
            zip(moves, notes_by_step, strict=True)
        )
        if number >= first and notes is not None
    ]


def _start_of_past(number: int) -> int:
    """Return the step with which the recorded past of a step begins.

    Nothing reads more than the last MOST_STEPS pairs, and whole pasts would take memory with the
    square of an episode's length. It moves seldom, so that most pasts continue one another.
    """
    return max(0, number // MOST_STEPS - 1) * MOST_STEPS


def _values(score: float, rewards: Sequence[float]) -> list[float]:
    """Return the rewards earned from each step on, in [0, 1]; the score if they are incomplete."""
    if abs(sum(rewards) - score) > TOLERANCE:
        return [score] * len(rewards)
    later = list(itertools.accumulate(reversed(rewards)))[::-1]
    return [round(min(1.0, max(0.0, value)), 9) for value in later]


def form_batch(
    name: str,
    trajectories: Sequence[Trajectory],
    reasoner: Reasoner,
    generation: int,
    tuples_from: Callable[[Trajectory], list[StateActionTuple]] | None = None,
) -> tuple[BatchIndex, list[IndexedTuple]]:
    """Form a batch memory M_b: tuples, goal types, and observation types within each.

    This is LDM² §3.2 with Eq. 7 (goal index) and Eq. 8 (an observation index per goal type).

    Returns its index, and its tuples in the order of trajectories and steps.

    name: its id. trajectories: of one kind.
    generation: of the tuples.
    tuples_from: makes a trajectory's tuples, in any thread; None for `tuples_of` as it is.
    """
    made_by = tuples_from or (lambda one: tuples_of(one, reasoner, generation))
    by_trajectory, (goal_types, cells) = both(
        lambda: map_concurrently(made_by, trajectories, reasoner.concurrency),
        lambda: _indexed(trajectories, reasoner),
        reasoner.concurrency,
    )
    kind, ids = trajectories[0].task.kind, tuple(one.id for one in trajectories)
    index = BatchIndex(name, kind, generation, ids, goal_types, reasoner.name)
    tuples = [t for tuples in by_trajectory for t in tuples]
    return index, [IndexedTuple(t, name, *cells[t.goal, t.observation]) for t in tuples]


def _indexed(trajectories: Sequence[Trajectory], reasoner: Reasoner) -> tuple[_GoalTypes, _Cells]:
    """Make the goal types, and the observation types within each."""
    observations = by_key((one.task.goal, text) for one in trajectories for text, _ in one.moves())
    goals = sorted(observations)
    by_goal = _partition(reasoner.cluster_goals(goals), goals)
    texts_by_goal = [
        sorted(set().union(*(observations[goal] for goal in members))) for _, members in by_goal
    ]
    clustered = map_concurrently(reasoner.cluster_observations, texts_by_goal, reasoner.concurrency)
    goal_types: list[GoalType] = []
    cells: _Cells = {}
    for g, (name, members) in enumerate(by_goal):
        by_observation = _partition(clustered[g], texts_by_goal[g])
        goal_types.append(GoalType(name, tuple(type_name for type_name, _ in by_observation)))
        for goal in members:
            for o, (_, alike) in enumerate(by_observation):
                cells.update({(goal, observation): (g, o) for observation in alike})
    return tuple(goal_types), cells


def texts_of(trajectories: Iterable[Trajectory]) -> list[str]:
    """Return the sorted distinct goals and observations, which formation embeds."""
    texts = ((one.task.goal, *(text for text, _ in one.moves())) for one in trajectories)
    return sorted({*itertools.chain.from_iterable(texts)})


def _partition(clustering: Clustering, items: Sequence[str]) -> list[tuple[str, frozenset[str]]]:
    """Return (name, members) of each type that has any."""
    members = by_key(zip(clustering.assignment, items, strict=True))
    return [(clustering.names[label], frozenset(members[label])) for label in sorted(members)]


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

    All of it is one generation, which readers see once it is complete. Trajectories that the memory
    holds already are skipped; if none is new, nothing is written. An interrupted build changes
    nothing.

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
    acted = {t.id: t for t in trajectories if any(step.action for step in t.steps)}
    distinct = {name: t for name, t in acted.items() if options.takes(t)}
    if not distinct:
        raise _refused(trajectories, acted.values(), options)
    left_out, env = len(acted) - len(distinct), trajectories[0].task.env
    with places.writing(location):
        if rebuild:
            places.drop(location, env)
        base = places.newest(location, env, embedder)
        new = [distinct[i] for i in sorted(distinct) if i not in base.trajectories]
        skipped = len(trajectories) - left_out - len(new)
        if not new:
            places.publish(location, base, on_progress)
            return BuildResult(env, base.generation, base.batches, base.rows, 0, skipped, left_out)
        vectors, seconds = CachingEmbedder(embedder, size=sys.maxsize), dict[str, float]()
        with _timed(seconds, "embed"):
            _embed_all(vectors, texts_of(new), on_progress)
        with _timed(seconds, "form"):
            how: Any = {"on_progress": on_progress, "env_class": env_class, "left_out": left_out}
            contents = form(new, options, vectors, reasoner_for(vectors), base, **how)
        del vectors  # the contents have its vectors
        give_back()
        with _timed(seconds, "store"):
            places.commit(location, contents, on_progress)
    made, counts = contents.generation, (len(new), skipped, left_out)
    return BuildResult(env, made, contents.batches, contents.rows, *counts, seconds)


def _embed_all(embedder: CachingEmbedder, texts: Sequence[str], on_progress: OnProgress) -> None:
    for start in range(0, len(texts), EMBEDDED):
        part = texts[start : start + EMBEDDED]
        embedder.embed(part)
        on_progress("embed", start + len(part), len(texts))


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Note the time that a stage takes."""
    started = time.perf_counter()
    yield
    seconds[stage] = round(time.perf_counter() - started, 3)


def form(  # noqa: PLR0913 - one parameter a decision of the caller
    new: Sequence[Trajectory],
    options: FormationOptions,
    embedder: Embedder,
    reasoner: Reasoner,
    base: Contents,
    *,
    on_progress: OnProgress = lambda *_: None,
    env_class: str = "",
    left_out: int = 0,
) -> Contents:
    """Form all batches of n ≥ 1 new trajectories; return the generation after `base` with them."""
    number, done = base.generation.number + 1, itertools.count(1)
    plans = plan_batches(new, options, [batch.id for batch in base.batches])

    def tuples_from(one: Trajectory) -> list[StateActionTuple]:
        warning = options.failures == "contrast" and failed(one)
        tuples = tuples_of(one, reasoner, number, warning=warning)
        on_progress("form", next(done), len(new))
        return tuples

    def formed(name: str) -> tuple[BatchIndex, list[IndexedTuple]]:
        return form_batch(name, plans[name], reasoner, number, tuples_from)

    batches = map_concurrently(formed, [*plans], reasoner.concurrency)
    rows = [row for _, of_batch in batches for row in of_batch]
    settings = {
        "batch_size": str(options.batch_size),
        "seed": str(options.seed),
        "reasoner": reasoner.name,
        **{f"env.{name}": value for name, value in options.rendering},
    }
    if left_out or any(row.tuple.is_warning for row in rows):
        settings["failures"] = options.failures
        if options.min_reward:
            settings["min_reward"] = f"{options.min_reward:g}"
        if left_out:
            settings["left_out"] = str(left_out)
    stated = replace(base.generation, number=number, origin="formed", settings=settings, tasks=())
    if env_class:
        stated = replace(stated, env_class=env_class)
    return base.extended(rows, embedder, [index for index, _ in batches]).made(stated)


def _refused(
    trajectories: Sequence[Trajectory], acted: Collection[Trajectory], options: FormationOptions
) -> LdmError:
    """Return the error about trajectories of which none is taken. acted: those with an action."""
    if not acted:
        return LdmError(
            f"None of these {len(trajectories)} trajectories holds an action.",
            "A memory needs actions; `ldm validate --schema trajectory` shows where they belong.",
        )
    best = max(one.score for one in acted)
    if best <= 0 and options.failures == "drop":
        return LdmError(
            f"All {len(acted)} trajectories are failures (a score of 0), which are skipped.",
            "Include them with --failures keep if their scores are unknown, or as warnings with"
            " --failures contrast; in Python, failures=….",
        )
    return LdmError(
        f"None of the {len(acted)} trajectories has a score of {options.min_reward:g} or"
        f" more: the best is {best:g}.",
        "Lower --min-reward; in Python, min_reward.",
    )
