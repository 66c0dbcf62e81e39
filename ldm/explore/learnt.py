"""What a refinement may add to the memory: solved episodes, and better ways.

A solved episode is *practice*: it is remembered whole, in a batch memory of its own. A better way
is an *improvement*: it is remembered from its key step on, in present cells (LDM² §3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from ldm.episode import FULL_SCORE
from ldm.explore.hindsight import Revision, revised
from ldm.explore.refine import ExplorationFactory, ExploredGoal, best_trajectory
from ldm.memory import BatchIndex, FormationOptions, IndexedTuple, form_batch, plan_batches
from ldm.types import Outcome, StateActionTuple, Task, Trajectory


@dataclass(frozen=True, slots=True)
class Remembered:
    """How practice is remembered. reach: see `IndexedTuple`. plain: without hindsight."""

    reach: float = 0.0
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a refinement may add.

    practice, batches: the tuples of solved episodes, in batches of their own. improvements: tuples
    in cells of batches that exist. plain: the practice without hindsight, row by row; empty where
    that is the same.
    """

    practice: tuple[IndexedTuple, ...]
    batches: tuple[BatchIndex, ...]
    improvements: tuple[IndexedTuple, ...]
    plain: tuple[IndexedTuple, ...] = ()

    @property
    def rows(self) -> tuple[IndexedTuple, ...]:
        return self.practice + self.improvements

    def practice_as(self, kinds: Mapping[str, Remembered]) -> list[IndexedTuple]:
        """Return the practice as that of each kind is remembered; by default with hindsight."""
        of_batch = {batch.id: kinds.get(batch.kind, Remembered()) for batch in self.batches}
        rows = []
        for row, plain in zip(self.practice, self.plain or self.practice, strict=True):
            how = of_batch[row.batch]
            rows.append(replace(plain if how.plain else row, reach=how.reach))
        return rows

    def only(self, practised: Collection[str], ways: Iterable[Improvement]) -> Learnt:
        """Return the practice of these trajectories, and these improvements."""
        chosen = [row.tuple.trajectory_id in practised for row in self.practice]
        practice = tuple(compress(self.practice, chosen))
        batches = {row.batch for row in practice}
        return Learnt(
            practice,
            tuple(batch for batch in self.batches if batch.id in batches),
            tuple(row for way in ways for row in way.rows),
            tuple(compress(self.plain, chosen)),
        )


def learn(
    factory: ExplorationFactory,
    explored: Sequence[ExploredGoal],
    formation: FormationOptions,
    *,
    practice: bool,
    solved: bool = True,
    revise: Callable[[Sequence[Trajectory]], Iterable[Revision]] = lambda _: (),
) -> Learnt:
    """Return what the goals came to: solved episodes as batches, and improvements.

    solved: whether the ground process's successes are practice, too (self-imitation). revise:
    looks at new solutions in hindsight.

    Goals of which the memory holds a full-score episode already give no practice.
    """
    improvements = {row.tuple.id: row for one in explored for row in one.added}
    solutions = {
        one.task.id: way
        for one in explored
        if practice and (way := solution(one)) is not None and (solved or way.origin == "explored")
    }
    if not solutions:
        return Learnt((), (), tuple(improvements.values()))
    setup = factory()
    try:
        columns = setup.memory.rows.columns
        full = columns.take(columns.with_outcome(_full_score))
        remembered = frozenset(full.distinct("source").values())
        new = [way for way in solutions.values() if way.task.leak_key not in remembered]
        existing = [batch.id for batch in setup.memory.batches]
        advantages = {
            solutions[one.task.id].id: advantage(one)
            for one in explored
            if one.task.id in solutions
        }
        formed = [
            form_batch(
                plan,
                setup.reasoner,
                setup.memory.generation + 1,
                advantage=lambda trajectory: advantages[trajectory.id],
            )
            for plan in plan_batches(new, formation, existing)
        ]
    finally:
        setup.env.close()
    plain = tuple(row for batch in formed for row in batch.rows)
    rows = revised(plain, revise(new))
    return Learnt(
        rows,
        tuple(batch.index for batch in formed),
        tuple(improvements.values()),
        plain if rows != plain else (),
    )


def _full_score(outcome: Outcome | None) -> bool:
    return outcome is None or outcome.score >= FULL_SCORE


def solution(explored: ExploredGoal) -> Trajectory | None:
    """Return an episode with the full score: the ground process, or the best way explored."""
    grounds = [tree.ground for tree in explored.trees if tree.ground.success]
    if grounds:
        trees = [tree for tree in explored.trees if tree.ground.success and tree.improved]
        shorter = [best_trajectory(explored.task, tree) for tree in trees]
        return min((*grounds, *shorter), key=lambda way: len(way.steps))
    ways = [best_trajectory(explored.task, tree) for tree in explored.trees if tree.nodes]
    return min((w for w in ways if w.success), key=lambda way: len(way.steps), default=None)


def advantage(explored: ExploredGoal) -> float:
    """Return how much more the solution of a goal earned than its ground process."""
    return round(1.0 - max(tree.ground.score for tree in explored.trees), 9) + 0.0


@dataclass(frozen=True, slots=True)
class Improvement:
    """The tuples of one better way, from its key step on. key: the key step's."""

    task: Task
    rows: tuple[IndexedTuple, ...]
    key: StateActionTuple

    @property
    def trajectory(self) -> str:
        return self.key.trajectory_id


def improvements(explored: Iterable[ExploredGoal]) -> tuple[Improvement, ...]:
    """Return what was improved, each way once."""
    by_trajectory: dict[str, Improvement] = {}
    for one in explored:
        for tree in one.trees:
            rows = {row.tuple.step: row for row in tree.added}
            if rows:
                key = rows.get(tree.key, tree.added[0]).tuple
                way = Improvement(one.task, tuple(rows[step] for step in sorted(rows)), key)
                by_trajectory.setdefault(key.trajectory_id, way)
    return tuple(by_trajectory.values())
