"""The candidates for addition to the memory: solved episodes, and better processes.

A solved episode is *practice*: it is remembered whole, in a batch memory of its own. A better
process is an *improvement*: it is remembered from its key step on, in present cells (LDM² §3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from ldm.episode import FULL_SCORE
from ldm.explore.hindsight import Revision, revised
from ldm.explore.refine import ExplorationFactory, ExploredGoal, best_trajectory
from ldm.memory import BatchIndex, FormationOptions, IndexedTuple, form_batch, plan_batches
from ldm.types import Outcome, Task, Trajectory


@dataclass(frozen=True, slots=True)
class Remembered:
    """The form in which practice is kept. reach: see `IndexedTuple`. plain: without hindsight."""

    reach: float = 0.0
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Improvement:
    """The tuples of a better process, `trajectory`, from its key step on."""

    task: Task
    trajectory: str
    rows: tuple[IndexedTuple, ...]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The tuples that a refinement may add.

    practice, batches: of solved episodes, in batches of their own. improvements: better processes,
    in cells of present batches. plain: the practice without hindsight, row by row; empty if that is
    the same.
    """

    practice: tuple[IndexedTuple, ...] = ()
    batches: tuple[BatchIndex, ...] = ()
    improvements: tuple[Improvement, ...] = ()
    plain: tuple[IndexedTuple, ...] = ()

    @property
    def rows(self) -> tuple[IndexedTuple, ...]:
        return (*self.practice, *(row for way in self.improvements for row in way.rows))

    def practice_as(self, kinds: Mapping[str, Remembered]) -> list[IndexedTuple]:
        """Return the practice in the form chosen for each kind; by default with hindsight."""
        of_batch = {batch.id: kinds.get(batch.kind, Remembered()) for batch in self.batches}
        rows = []
        for row, plain in zip(self.practice, self.plain or self.practice, strict=True):
            how = of_batch[row.batch]
            rows.append(replace(plain if how.plain else row, reach=how.reach))
        return rows

    def only(self, practised: Collection[str], reach: float) -> Candidates:
        """Return the practice of these trajectories, and the improvements of others.

        reach: of the improvements, see `IndexedTuple`.
        """
        chosen = [row.tuple.trajectory_id in practised for row in self.practice]
        practice = tuple(compress(self.practice, chosen))
        batches = {row.batch for row in practice}
        return Candidates(
            practice,
            tuple(batch for batch in self.batches if batch.id in batches),
            tuple(
                replace(way, rows=tuple(replace(row, reach=reach) for row in way.rows))
                for way in self.improvements
                if way.trajectory not in practised
            ),
            tuple(compress(self.plain, chosen)),
        )


def collect(
    factory: ExplorationFactory,
    explored: Sequence[ExploredGoal],
    formation: FormationOptions,
    *,
    solved: bool = True,
    revise: Callable[[Sequence[Trajectory]], Iterable[Revision]] = lambda _: (),
) -> Candidates:
    """Return the solved episodes of explored goals, formed as batches, and the improvements.

    solved: whether the ground process's successes are practice, too (self-imitation). revise:
    looks at the solutions in hindsight. Goals whose solution the memory holds give no practice.
    """
    ways = {one.task.id: solution(one) for one in explored}
    solutions = {
        task: way
        for task, way in ways.items()
        if way is not None and (solved or way.origin == "explored")
    }
    if not solutions:
        return Candidates(improvements=improvements(explored))
    advantages = {
        solutions[one.task.id].id: advantage(one) for one in explored if one.task.id in solutions
    }
    setup = factory()
    try:
        columns = setup.memory.rows.columns
        full = columns.take(columns.with_outcome(_full_score))
        remembered = frozenset(full.distinct("source").values())
        new = [way for way in solutions.values() if way.task.leak_key not in remembered]
        formed = [
            form_batch(
                plan,
                setup.reasoner,
                setup.memory.generation + 1,
                advantage=lambda trajectory: advantages[trajectory.id],
            )
            for plan in plan_batches(new, formation, [one.id for one in setup.memory.batches])
        ]
    finally:
        setup.env.close()
    plain = tuple(row for batch in formed for row in batch.rows)
    rows = revised(plain, revise(new))
    batches = tuple(batch.index for batch in formed)
    return Candidates(rows, batches, improvements(explored), plain if rows != plain else ())


def _full_score(outcome: Outcome | None) -> bool:
    return outcome is None or outcome.score >= FULL_SCORE


def solution(explored: ExploredGoal) -> Trajectory | None:
    """Return the shortest episode with the full score, a ground process if there is one."""
    grounds = [tree.ground for tree in explored.trees if tree.ground.success]
    ways = (best_trajectory(explored.task, tree) for tree in explored.trees if tree.nodes)
    solved = grounds or [way for way in ways if way.success]
    return min(solved, key=lambda way: len(way.steps), default=None)


def advantage(explored: ExploredGoal) -> float:
    """Return how much more the solution of a goal earned than its ground process."""
    return round(1.0 - max(tree.ground.score for tree in explored.trees), 9) + 0.0


def improvements(explored: Iterable[ExploredGoal]) -> tuple[Improvement, ...]:
    """Return the better processes that exploration found, each once."""
    ways: dict[str, Improvement] = {}
    for one in explored:
        for tree in one.trees:
            if tree.added:
                rows = sorted(tree.added, key=lambda row: row.tuple.step)
                way = rows[0].tuple.trajectory_id
                ways.setdefault(way, Improvement(one.task, way, tuple(rows)))
    return tuple(ways.values())
