"""Trials of the gate: goals played with and without parts of what a refinement learnt.

Key steps are checked by the same worker, with the memory as it is (`ldm.explore.confirmation`), and
solved episodes revised (`ldm.explore.hindsight`).
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
from ldm.explore.confirmation import Check, Checked, corresponding_step
from ldm.explore.hindsight import Revision, Solved, revise
from ldm.explore.learnt import Learnt, Remembered
from ldm.explore.positions import Position, Positions
from ldm.explore.refine import ExplorationSetup
from ldm.memory import Memory
from ldm.parallel import Record, Stage
from ldm.policy import Memo, Observed, Policy
from ldm.types import Task

#: Greedy attempts, from which goals are chosen.
ATTEMPTS = "goals.jsonl"
R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class Trial:
    """A goal to be played with some of the candidates.

    recallable: the trajectories among the candidates that it may recall, but for its own. reach: of
    improvements. practice: of some kinds, how their practice is remembered in it.
    """

    index: int
    task: Task
    recallable: tuple[str, ...]
    reach: float
    practice: tuple[tuple[str, Remembered], ...] = ()


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a trial.

    score, steps: of the episode. recalled, followed: candidate trajectory → in how many steps it
    was recalled, and followed. error: the traceback of an episode that failed; it counts with the
    score 0.
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
class Stages:
    """Plays trials and records them in the run, with `stage`."""

    stage: Stage
    learnt: Learnt
    on_progress: Callable[[str, int, int], None]

    def play(self, name: str, trials: Sequence[Trial]) -> list[Played]:
        """Return what came of the trials, in their order, now or as recorded in file `name`."""
        return self._done(name, trials, Played)

    def check(self, name: str, checks: Sequence[Check]) -> list[Checked]:
        """Return what came of the checks, in their order, now or as recorded in file `name`."""
        return self._done(name, checks, Checked)

    def revise(self, name: str, solved: Sequence[Solved]) -> list[Revision]:
        """Return what hindsight says of episodes, in their order, now or as recorded in `name`."""
        return self._done(name, solved, Revision)

    def _done(
        self, name: str, items: Sequence[Trial | Check | Solved], record_type: type[R]
    ) -> list[R]:
        if not items:
            return []
        stage, done = name.removesuffix(".jsonl").replace("_", " "), list[R]()
        self.on_progress(stage, 0, len(items))

        def advance(record: R) -> None:
            done.append(record)
            self.on_progress(stage, len(done), len(items))

        return self.stage(name, partial(_Player, self.learnt), items, record_type, advance)


def greedy_attempts(
    stage: Stage,
    tasks: Sequence[Task],
    on_progress: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Played]:
    """Play each goal greedily with the memory as it is, without its own source, and record it."""
    stages = Stages(stage, Learnt((), (), ()), on_progress)
    return stages.play(ATTEMPTS, [Trial(n, task, (), 0.0) for n, task in enumerate(tasks)])


class _Player:
    """Plays goals greedily with some of the candidates; the worker of the gate."""

    def __init__(self, learnt: Learnt, setup: ExplorationSetup) -> None:
        self._setup = setup
        self._learnt = learnt
        rows = learnt.rows + learnt.plain
        self._by_tuple = {row.tuple.id: row.tuple.trajectory_id for row in rows}
        self._candidates = frozenset(self._by_tuple.values())
        self._own: dict[str, set[str]] = {}
        sources = {(row.tuple.source, row.tuple.trajectory_id) for row in learnt.rows}
        known = setup.memory.rows.columns.pairs("source", "trajectory_id")
        for source, trajectory in sources.union(known):
            self._own.setdefault(source, set()).add(trajectory)
        self._memories: dict[tuple[object, ...], Memory] = {}

    def __call__(self, item: Trial | Check | Solved) -> Any:
        """Play a trial, check a key step or revise; a failure is data, as in an evaluation."""
        try:
            match item:
                case Trial():
                    return self._play(item)
                case Check():
                    return self._check(item)
                case Solved():
                    with closing(Positions(self._setup.env, item.task)) as positions:
                        return revise(positions, item)
        except RunStopped:
            raise
        except Exception:  # one failed episode must not lose the others
            error = traceback.format_exc()
        match item:
            case Trial():
                return Played(item.index, item.task.id, 0.0, 0, error=error)
            case Check():
                return Checked(item.index, item.task.id, item.key.trajectory_id, error=error)
            case Solved():
                return Revision(item.index, item.task.id, item.way.id, error=error)

    def close(self) -> None:
        self._setup.env.close()

    def _play(self, trial: Trial) -> Played:
        policy = self._setup.policy.with_memory(self._memory(trial))
        positions = Positions(self._setup.env, trial.task)
        uses = Counter[str](), Counter[str]()
        try:
            end = self._greedily(positions, positions.start(), trial.task, policy, uses)
        finally:
            positions.close()
        recalled, followed = (tuple(sorted(counts.items())) for counts in uses)
        steps = len(end.past)
        return Played(trial.index, trial.task.id, _score(end), steps, recalled, followed)

    def _check(self, check: Check) -> Checked:
        task, key = check.task, check.key
        own = self._own.get(task.leak_key, set()) | self._own.get(key.source, set())
        policy = self._setup.policy.with_memory(self._setup.memory.without(trajectories=own))
        positions = Positions(self._setup.env, task)
        unchecked = Checked(check.index, task.id, key.trajectory_id)

        def earned(state: Position, action: str) -> float:
            after = positions.after(state, action)
            return _score(self._greedily(positions, after, task, policy))

        try:
            if check.ground is None:
                state = self._walked(positions, key.history.actions)
                now = self._observed(task, state, Memo())
                proposed = policy.propose(now, policy.batches(task.goal), check.siblings + 1)
                others = [p.action for p in proposed.proposals if p.action != key.action]
                tried = [(action, earned(state, action)) for action in others[: check.siblings]]
                action = key.action
            else:
                actions = [step.action for _, _, step in check.ground.states()]
                number = corresponding_step(check.ground, key.observation)
                state = self._walked(positions, actions[:number])
                action = policy.imitate(self._observed(task, state, Memo()), key)
                tried = [(actions[number], check.ground.score)]
                if action in ("", actions[number]):
                    return unchecked
            if not tried:
                return unchecked
            return replace(
                unchecked, action=action, score=earned(state, action), others=tuple(tried)
            )
        finally:
            positions.close()

    def _walked(self, positions: Positions, actions: Sequence[str]) -> Position:
        """Return the position that some actions lead to."""
        position = positions.start()
        for action in actions:
            before, position = position, positions.after(position, action)
            positions.drop(before)
        return position

    def _greedily(
        self,
        positions: Positions,
        position: Position,
        task: Task,
        policy: Policy,
        uses: tuple[Counter[str], Counter[str]] | None = None,
    ) -> Position:
        """Return where greedy decisions lead to. uses: counts candidates recalled and followed."""
        batches, memo = policy.batches(task.goal), Memo()
        while not position.now.done and len(position.past) < self._setup.options.depth:
            decision = policy.decide(self._observed(task, position, memo), batches)
            if uses is not None:
                known = [self._by_tuple.get(recall.id, "") for recall in decision.recalls]
                uses[0].update({*known} - {""})
                uses[1].update({known[place] for place in decision.followed or ()} - {""})
            memo, before = decision.memo, position
            position = positions.after(before, decision.action)
            positions.drop(before)
        return position

    def _observed(self, task: Task, position: Position, memo: Memo) -> Observed:
        return Observed(
            goal=task.goal,
            past=position.past,
            observation=position.now.observation,
            admissible=position.now.admissible,
            previous=memo,
            key=task.id,
            localize=self._setup.env.localize,
            steps_left=self._setup.options.depth - len(position.past),
        )

    def _memory(self, trial: Trial) -> Memory:
        """Return the memory with what the trial may recall.

        The kind of a goal is told from what is left, too.
        """
        learnt, own = self._learnt, self._own.get(trial.task.leak_key, set())
        if not trial.recallable:
            return self._setup.memory.without(trajectories=own)
        how = trial.reach, trial.practice
        if how not in self._memories:
            improvements = [replace(row, reach=trial.reach) for row in learnt.improvements]
            practice = learnt.practice_as(dict(trial.practice))
            self._memories[how] = self._setup.memory.with_rows(
                [*practice, *improvements], learnt.batches
            )
        hidden = (self._candidates - set(trial.recallable)) | own
        return self._memories[how].without(trajectories=hidden)


def _score(position: Position) -> float:
    return min(1.0, max(0.0, position.score))
