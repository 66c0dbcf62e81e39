"""Trials of the gate: goals played with and without some of the candidates.

The same worker checks key steps, with the memory as it is (`ldm.explore.confirmation`), and looks
at solved episodes in hindsight (`ldm.explore.hindsight`).
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

from ldm.errors import RunStopped
from ldm.explore.candidates import Candidates, Remembered
from ldm.explore.confirmation import SIBLINGS, Check, Checked, corresponding_step
from ldm.explore.hindsight import Solved, revise
from ldm.explore.positions import Position, Positions
from ldm.explore.refine import ExplorationSetup
from ldm.memory import Memory
from ldm.parallel import Record, Stage
from ldm.policy import Decision, Policy
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
    """Carries out the gate's stages with some candidates. on_progress: see `judge`."""

    stage: Stage
    on_progress: Callable[[str, int, int], None] = lambda *_: None
    candidates: Candidates = Candidates()  # noqa: RUF009 - frozen

    def results(
        self, name: str, items: Sequence[Trial | Check | Solved], record_type: type[R]
    ) -> list[R]:
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

    def attempts(self, tasks: Sequence[Task]) -> list[Played]:
        """Play each goal greedily with the memory as it is, without its own source."""
        return self.results("goals", [Trial(n, task) for n, task in enumerate(tasks)], Played)


class _Player:
    """Plays trials, checks key steps and revises episodes; the worker of the gate."""

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

    def __call__(self, item: Trial | Check | Solved) -> Any:
        """Return the item's result; a failure is data, as in an evaluation."""
        try:
            with closing(Positions(self._setup.env, item.task)) as positions:
                match item:
                    case Trial():
                        return self._played(positions, item)
                    case Check():
                        return self._checked(positions, item)
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

        def count(decision: Decision) -> None:
            known = [self._by_tuple.get(recall.id, "") for recall in decision.recalls]
            recalled.update({*known} - {""})
            followed.update({known[place] for place in decision.followed or ()} - {""})

        end = self._end(positions, positions.start(), trial.task, policy, count)
        return Played(
            *(trial.index, trial.task.id, end.earned, len(end.past)),
            recalled=tuple(sorted(recalled.items())),
            followed=tuple(sorted(followed.items())),
        )

    def _checked(self, positions: Positions, check: Check) -> Checked:
        task, key, setup = check.task, check.key, self._setup
        own = self._own.get(task.leak_key, set()) | self._own.get(key.source, set())
        policy = setup.policy.with_memory(setup.memory.without(trajectories=own))
        unchecked = Checked(check.index, task.id, key.trajectory_id)

        def earned(state: Position, action: str) -> float:
            return self._end(positions, positions.after(state, action), task, policy).earned

        if check.ground is None:
            action = key.action
            state = positions.walk(key.history.actions)
            now = setup.observed(task, state)
            proposed = policy.propose(now, policy.batches(task.goal), SIBLINGS + 1)
            others = [p.action for p in proposed.proposals if p.action != action]
            tried = [(other, earned(state, other)) for other in others[:SIBLINGS]]
        else:
            actions = [step.action for _, _, step in check.ground.states()]
            number = corresponding_step(check.ground, key.observation)
            state = positions.walk(actions[:number])
            action = policy.imitate(setup.observed(task, state), key)
            tried = [(actions[number], check.ground.score)]
            if action in ("", actions[number]):
                return unchecked
        if not tried:
            return unchecked
        return replace(unchecked, action=action, score=earned(state, action), others=tuple(tried))

    def _end(
        self,
        positions: Positions,
        start: Position,
        task: Task,
        policy: Policy,
        on_decision: Callable[[Decision], None] = lambda _: None,
    ) -> Position:
        """Return the position where greedy decisions end."""
        end = start
        batches = policy.batches(task.goal)
        for decision, position in self._setup.greedy(positions, start, task, policy, batches):
            on_decision(decision)
            end = position
        return end

    def _memory(self, trial: Trial) -> Memory:
        """Return the memory with the candidates that the trial may recall.

        The kind of a goal is told from what is left, too.
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
