"""Trials of the gate: goals played with and without some of the candidates.

The same worker looks at solved episodes in hindsight (`ldm.explore.hindsight`).
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

from ldm.errors import RunStopped
from ldm.explore.candidates import Candidates, Remembered
from ldm.explore.hindsight import Solved, revise
from ldm.explore.positions import Positions
from ldm.explore.refine import ExplorationSetup
from ldm.memory import Memory
from ldm.parallel import Record, Stage
from ldm.types import Task

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class Trial:
    """A goal to be played with some of the candidates.

    recallable: the candidate trajectories that it may recall, except its own. practice: how the
    practice of some kinds is remembered in it.
    """

    index: int
    task: Task
    recallable: tuple[str, ...] = ()
    practice: tuple[tuple[str, Remembered], ...] = ()

    def failed(self, error: str) -> Played:
        return Played(self.index, self.task.id, 0.0, 0, error=error)


@dataclass(frozen=True, slots=True)
class Played:
    """The result of a trial.

    score, steps: of the episode. recalled, followed: candidate trajectory → in how many steps it
    was recalled, and followed. error: the traceback of an episode that failed; its score is 0.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    index: int
    task: str
    score: float
    steps: int
    recalled: tuple[tuple[str, int], ...] = ()
    followed: tuple[tuple[str, int], ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Trials:
    """Runs the gate's stages with some candidates. on_progress: see `judge`."""

    stage: Stage
    on_progress: Callable[[str, int, int], None] = lambda *_: None
    candidates: Candidates = Candidates()  # noqa: RUF009 - frozen

    def results(self, name: str, items: Sequence[Trial | Solved], record_type: type[R]) -> list[R]:
        """Return the results of the stage `name`, in the items' order, recorded in its file."""
        if not items:
            return []
        done = list[R]()
        self.on_progress(name.replace("_", " "), 0, len(items))

        def advance(record: R) -> None:
            done.append(record)
            self.on_progress(name.replace("_", " "), len(done), len(items))

        worker = partial(_Player, self.candidates)
        return self.stage(f"{name}.jsonl", worker, items, record_type, advance)


class _Player:
    """Plays trials and revises episodes; the worker of the gate."""

    def __init__(self, candidates: Candidates, setup: ExplorationSetup) -> None:
        self._setup = setup
        self._candidates = candidates
        rows = candidates.rows + candidates.plain
        self._by_tuple = {row.tuple.id: row.tuple.trajectory_id for row in rows}
        self._own: dict[str, set[str]] = {}
        sources = {(row.tuple.source, row.tuple.trajectory_id) for row in candidates.rows}
        known = setup.memory.rows.columns.pairs("source", "trajectory_id")
        for source, trajectory in sources.union(known):
            self._own.setdefault(source, set()).add(trajectory)
        self._memories: dict[object, Memory] = {}

    def __call__(self, item: Trial | Solved) -> Any:
        """Return the item's result; a failure is data, as in an evaluation."""
        try:
            with closing(Positions(self._setup.env, item.task)) as positions:
                match item:
                    case Trial():
                        return self._played(positions, item)
                    case Solved():
                        return revise(positions, item)
        except RunStopped:
            raise
        except Exception:  # one failed episode must not lose the others
            return item.failed(traceback.format_exc())

    def close(self) -> None:
        self._setup.env.close()

    def _played(self, positions: Positions, trial: Trial) -> Played:
        policy = self._setup.policy.with_memory(self._memory(trial))
        recalled, followed = Counter[str](), Counter[str]()
        start, batches = positions.start(), policy.batches(trial.task.goal)
        end = start
        for decision, position in self._setup.greedy(positions, start, trial.task, policy, batches):
            end = position
            known = [self._by_tuple.get(recall.id, "") for recall in decision.recalls]
            recalled.update({*known} - {""})
            followed.update({known[place] for place in decision.followed or ()} - {""})
        return Played(
            *(trial.index, trial.task.id, end.earned, len(end.past)),
            recalled=tuple(sorted(recalled.items())),
            followed=tuple(sorted(followed.items())),
        )

    def _memory(self, trial: Trial) -> Memory:
        """Return the memory with the candidates that the trial may recall.

        The kind of a goal is also told from the remaining tuples only.
        """
        own = self._own.get(trial.task.leak_key, set())
        if not trial.recallable:
            return self._setup.memory.without(trajectories=own)
        if trial.practice not in self._memories:
            practice = self._candidates.practice_as(dict(trial.practice))
            improvements = [row for way in self._candidates.improvements for row in way.rows]
            self._memories[trial.practice] = self._setup.memory.with_rows(
                [*practice, *improvements], self._candidates.batches
            )
        hidden = {*self._by_tuple.values()}.difference(trial.recallable)
        return self._memories[trial.practice].without(trajectories=hidden | own)
