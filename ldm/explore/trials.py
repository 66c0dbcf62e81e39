"""Trials of the gate: goals played with and without parts of what a refinement learnt."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ldm import records
from ldm.errors import RunStopped
from ldm.explore.positions import Positions
from ldm.explore.refine import ExplorationFactory, ExplorationSetup
from ldm.memory import BatchIndex, IndexedTuple, Memory
from ldm.policy import Observed
from ldm.reasoner import Notes
from ldm.runs import Run, run_items, writing
from ldm.types import Task


@dataclass(frozen=True, slots=True)
class Trial:
    """A goal to be played with some of the candidates.

    shown: the trajectories among the candidates that it may recall, but for its own. reach: of
    improvements. practice_reach: of practice.
    """

    index: int
    task: Task
    shown: tuple[str, ...]
    reach: float
    practice_reach: float = 0.0


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a trial.

    score, steps: of the episode. recalled: candidate trajectory → in how many steps it was
    recalled. error: the traceback of an episode that failed; it counts with the score 0.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    index: int
    task: str
    score: float
    steps: int
    recalled: tuple[tuple[str, int], ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a refinement may add.

    practice, batches: the tuples of solved episodes, in batches of their own. improvements: tuples
    in cells of batches that exist.
    """

    practice: tuple[IndexedTuple, ...]
    batches: tuple[BatchIndex, ...]
    improvements: tuple[IndexedTuple, ...]

    @property
    def rows(self) -> tuple[IndexedTuple, ...]:
        return self.practice + self.improvements


@dataclass(frozen=True, slots=True)
class Stages:
    """Plays trials, several at a time, and records them in the run."""

    run: Run
    factory: ExplorationFactory
    learnt: Learnt
    workers: int
    threads: bool
    on_progress: Callable[[str, int, int], None]

    def play(self, name: str, trials: Sequence[Trial]) -> list[Played]:
        """Return what came of the trials, in their order, now or as recorded in file `name`."""
        if not trials:
            return []
        path = self.run.directory / name
        stage = name.removesuffix(".jsonl").replace("_", " ")
        with self.run.lock():
            if path.is_file():
                played = records.read(path, Played)
            else:
                done = Counter[str]()

                def advance(_: Played) -> None:
                    done[stage] += 1
                    self.on_progress(stage, done[stage], len(trials))

                played = run_items(
                    self.run,
                    _PlayerFactory(self.factory, self.learnt),
                    trials,
                    Played,
                    workers=self.workers,
                    threads=self.threads,
                    on_result=advance,
                )
                with writing(path):
                    records.write(path, played)
            self.run.discard_parts()
        return played


@dataclass(frozen=True, slots=True)
class _PlayerFactory:
    factory: ExplorationFactory
    learnt: Learnt = field(repr=False)

    def __call__(self) -> _Player:
        return _Player(self.factory(), self.learnt)


class _Player:
    """Plays goals greedily with some of the candidates; the worker of the gate."""

    def __init__(self, setup: ExplorationSetup, learnt: Learnt) -> None:
        self._setup = setup
        self._learnt = learnt
        self._by_tuple = {row.tuple.id: row.tuple.trajectory_id for row in learnt.rows}
        self._candidates = frozenset(self._by_tuple.values())
        self._own: dict[str, set[str]] = {}
        sources = {(row.tuple.source, row.tuple.trajectory_id) for row in learnt.rows}
        known = setup.memory.rows.columns.pairs("source", "trajectory_id")
        for source, trajectory in sources.union(known):
            self._own.setdefault(source, set()).add(trajectory)
        self._memories: dict[tuple[float, float], Memory] = {}

    def __call__(self, trial: Trial) -> Played:
        """Play a trial; a failure is data, as in an evaluation."""
        try:
            return self._play(trial)
        except RunStopped:
            raise
        except Exception:  # one failed episode must not lose the others
            return Played(trial.index, trial.task.id, 0.0, 0, error=traceback.format_exc())

    def close(self) -> None:
        self._setup.env.close()

    def _play(self, trial: Trial) -> Played:
        policy = self._setup.policy.with_memory(self._memory(trial))
        task, batches = trial.task, policy.batches(trial.task.goal)
        recalled: Counter[str] = Counter()
        positions = Positions(self._setup.env, task)
        notes, steps = Notes(), 0
        try:
            position = positions.start()
            while not position.now.done and steps < self._setup.options.depth:
                now = Observed(
                    goal=task.goal,
                    past=position.past,
                    observation=position.now.observation,
                    admissible=position.now.admissible,
                    previous_notes=notes,
                    key=task.id,
                    localize=self._setup.env.localize,
                )
                decision = policy.decide(now, batches)
                recalled.update(
                    {self._by_tuple[i] for i, _ in decision.used if i in self._by_tuple}
                )
                notes, steps, before = decision.notes, steps + 1, position
                position = positions.after(before, decision.action)
                positions.drop(before)
        finally:
            positions.close()
        score = min(1.0, max(0.0, position.score))
        return Played(trial.index, task.id, score, steps, tuple(sorted(recalled.items())))

    def _memory(self, trial: Trial) -> Memory:
        """Return the memory with what the trial may recall.

        The kind of a goal is told from what is left, too.
        """
        learnt, own = self._learnt, self._own.get(trial.task.leak_key, set())
        if not trial.shown:
            return self._setup.memory.without(trajectories=own)
        reaches = trial.reach, trial.practice_reach
        if reaches not in self._memories:
            improvements = [replace(row, reach=trial.reach) for row in learnt.improvements]
            practice = [replace(row, reach=trial.practice_reach) for row in learnt.practice]
            self._memories[reaches] = self._setup.memory.with_rows(
                [*practice, *improvements], learnt.batches
            )
        hidden = (self._candidates - set(trial.shown)) | own
        return self._memories[reaches].without(trajectories=hidden)
