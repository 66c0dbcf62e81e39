"""Whole successful trajectories of a memory, the most similar goal first: examples for prompts.

They are reconstructed from the last tuple of each trajectory and its past; only the observation
that followed the last action is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldm.memory.columns import Vectors
from ldm.memory.ranking import DECIMALS
from ldm.memory.rows import Rows
from ldm.types import Outcome, Step, Task, Trajectory


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A whole trajectory. id: of the recorded one. similarity: the rounded cosine of the goals."""

    id: str
    similarity: float
    trajectory: Trajectory


def nearest(
    rows: Rows,
    vectors: Vectors,
    goal_vector: NDArray[np.float32],
    hidden: NDArray[np.bool_] | None = None,
) -> Iterator[Exemplar]:
    """Yield one whole successful trajectory per goal, the shortest, the most similar goal first.

    A trajectory with a hidden tuple is left out.
    """
    columns = rows.columns
    fitting = columns.with_outcome(_earned_everything)
    if hidden is not None:
        fitting &= ~np.isin(columns["trajectory_id"], columns["trajectory_id"][hidden])
    last = _last_rows(columns["trajectory_id"], columns["step"])
    last = last[fitting[last]]
    numbers, place = np.unique(vectors.goals[last], return_inverse=True)
    products = np.vecdot(vectors.numbered(numbers), goal_vector).astype(np.float64)[place]
    similar = np.round(products, DECIMALS)
    names = [columns.texts[i] for i in columns["trajectory_id"][last].tolist()]
    steps = columns["step"][last].tolist()
    order = sorted(range(len(last)), key=lambda i: (-similar[i], steps[i], names[i]))
    goals: set[int] = set()
    for i in order:
        row = int(last[i])
        goal = int(columns["goal"][row])
        whole = None if goal in goals else _whole(rows, row)
        if whole is not None:
            goals.add(goal)
            yield Exemplar(names[i], float(similar[i]), whole)


def _earned_everything(outcome: Outcome | None) -> bool:
    """Return whether the trajectory earned everything; one without an outcome counts as if."""
    return outcome is None or not (outcome.fell_short or outcome.is_warning)


def _last_rows(trajectories: NDArray[np.uint32], steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the row of each trajectory's last step, the first of equals."""
    order = np.lexsort((np.arange(len(steps)), -steps, trajectories))
    _, first = np.unique(trajectories[order], return_index=True)
    rows: NDArray[np.int64] = order[first]
    return rows


def _whole(rows: Rows, number: int) -> Trajectory | None:
    """Return the trajectory that ends with this tuple, or None if its past is incomplete."""
    last = rows[number].tuple
    past = last.history.past
    if len(past) != last.step:
        return None
    # Pasts hold long observations in shortened form; the tuple of the step itself has all of it.
    same = np.flatnonzero(rows.columns["trajectory_id"] == rows.columns["trajectory_id"][number])
    observed = {one.step: one.observation for one in (rows[int(i)].tuple for i in same)}
    observations = [observed.get(step, observation) for step, (observation, _) in enumerate(past)]
    observations.append(last.observation)
    actions = [*(action for _, action in past), last.action]
    answers = [*observations[1:], ""]
    return Trajectory(
        task=Task(last.task_id, last.env, last.split, last.goal, last.kind, last.source),
        opening=observations[0],
        steps=tuple(map(Step, actions, answers)),
        score=1.0,
        success=True,
        origin=last.origin,
    )
