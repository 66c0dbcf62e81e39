"""States of a task to which exploration returns: by `fork()`, or else by replay."""

from __future__ import annotations

from dataclasses import dataclass, field

from ldm.episode import NO_ACTION, Environment, checked
from ldm.errors import ForkUnsupported, ReplayDivergence
from ldm.types import Past, Task, TimeStep, stable_hash


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
