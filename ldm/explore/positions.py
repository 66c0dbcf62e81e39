"""States of a task to which exploration returns, by `fork()` or else by replay; its new goals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ldm.config import Section
from ldm.episode import NO_ACTION, Environment, checked
from ldm.errors import ForkUnsupported, LdmError, ReplayDivergence
from ldm.runs import list_runs
from ldm.types import Past, Task, TimeStep, stable_hash


def evaluated_leak_keys(
    runs: Path, name: str, env: Environment, open_env: Callable[[Section], Environment]
) -> frozenset[str]:
    """Return the `leak_key`s of all tasks of environment `name` that a run in `runs` evaluates.

    open_env: opens the environment as a run had it: its options may decide on a split's tasks.
    env: the present environment, for runs whose data have moved.
    """
    splits: dict[tuple[str, Section], set[str]] = {}
    for run in list_runs(runs):
        manifest = run.manifest
        if manifest.command == "eval" and run.named("env") == name:
            section = run.section("env")
            ids = splits.setdefault((str(manifest.protocol.get("split", "")), section), set())
            ids.update(manifest.protocol.get("tasks", ()))
    leak_keys: set[str] = set()
    for (split, section), ids in splits.items():
        by_id: dict[str, str] = {}
        with suppress(LdmError), closing(open_env(section)) as evaluated_env:
            by_id = _leak_keys(evaluated_env, split)
        if not by_id:
            with suppress(LdmError):  # the data are missing now
                by_id = _leak_keys(env, split)
        leak_keys.update(by_id.get(task_id, task_id) for task_id in ids)
    return frozenset(leak_keys)


def _leak_keys(env: Environment, split: str) -> dict[str, str]:
    """Return task id → `leak_key` of a split."""
    return {task.id: task.leak_key for task in env.tasks(split)}


def new_goals(
    tasks: Iterable[Task],
    *,
    evaluated: frozenset[str],
    remembered: frozenset[str],
    explored: frozenset[str],
    reuse: bool = False,
) -> tuple[Task, ...]:
    """Return the tasks that may be explored.

    evaluated, remembered: `leak_key`s of evaluated tasks and of the memory's own trajectories.
    explored: ids of the goals of earlier refinements. reuse: allow remembered and explored ones.
    """
    return tuple(
        task
        for task in tasks
        if task.leak_key not in evaluated
        and (reuse or (task.leak_key not in remembered and task.id not in explored))
    )


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """A state of a task that exploration has reached.

    now: its observation. past: (o_1, a_1) … up to it. score: the sum of the rewards so far. env:
    the environment in this state, or None if it has to be replayed.
    """

    now: TimeStep
    past: Past
    score: float
    env: Environment | None = field(default=None, repr=False)

    @property
    def earned(self) -> float:
        """The score, from 0 to 1."""
        return min(1.0, max(0.0, self.score))

    @property
    def state(self) -> str:
        """A hash of the observation: equal for states that look the same."""
        return stable_hash(self.now.observation, self.now.admissible, self.now.done)

    @property
    def situation(self) -> str:
        """A hash that is equal for states that look the same, with the same observed before.

        Earlier observations count, in any order: decisions rest on them, and they tell states apart
        that look the same (a cold egg and a hot one, out of sight).
        """
        before = sorted({observation for observation, _ in self.past})
        return stable_hash(self.state, round(self.score, 9), before)


class Positions:
    """Navigation between positions of one task; close it when done.

    steps: environment steps to new positions. replayed: steps back to known ones.
    """

    def __init__(self, env: Environment, task: Task) -> None:
        """Prepare a task. env: used until `close`, which does not close it."""
        self.steps = 0
        self.replayed = 0
        self._env = env
        self._task = task
        self._forks = True
        self._open: list[Environment] = []
        self._current: Position | None = None

    def start(self) -> Position:
        """Return the task's opening."""
        now = self._env.reset(self._task)
        start = Position(now, (), now.reward, self._fork(self._env))
        if start.env is None:
            self._current = start
        return start

    def after(self, position: Position, action: str) -> Position:
        """Return the position that `action` leads to; `position` itself can be used again.

        Raise ReplayDivergence if replaying the path to `position` gives other observations.
        """
        action = action if action.strip() else NO_ACTION
        env = self._environment_at(position)
        now = checked(env.step(action), self._task)
        self.steps += 1
        past = (*position.past, (position.now.observation, action))
        reached = Position(
            now, past, position.score + now.reward, None if position.env is None else env
        )
        if reached.env is None:
            self._current = reached
        return reached

    def moved(self, position: Position, action: str) -> Position:
        """Return the position that `action` leads to, and drop `position`."""
        reached = self.after(position, action)
        self.drop(position)
        return reached

    def drop(self, position: Position) -> None:
        """Close the environment of `position`, which cannot be used after that."""
        if position.env is not None and position.env in self._open:
            self._open.remove(position.env)
            position.env.close()

    def close(self) -> None:
        """Close the environments of all positions."""
        while self._open:
            self._open.pop().close()

    def _environment_at(self, position: Position) -> Environment:
        if position.env is not None:
            fork = self._fork(position.env)
            if fork is not None:
                return fork
        if position is not self._current:
            self._replay(position)
        self._current = None
        return self._env

    def _fork(self, env: Environment) -> Environment | None:
        if not self._forks:
            return None
        try:
            fork = env.fork()
        except ForkUnsupported:
            self._forks = False
            return None
        self._open.append(fork)
        return fork

    def _replay(self, position: Position) -> None:
        """Replay the path to `position`, checking every observation."""
        now = self._env.reset(self._task)
        observations = [observation for observation, _ in position.past]
        for number, expected in enumerate([*observations, position.now.observation]):
            if now.observation != expected:
                raise ReplayDivergence(
                    f"{self._task.id}: the same actions led elsewhere after step {number}: "
                    f"{now.observation[:80]!r} instead of {expected[:80]!r}.",
                    "The environment is not deterministic; it cannot be explored by replay.",
                )
            if number < len(position.past):
                now = self._env.step(position.past[number][1])
                self.replayed += 1
