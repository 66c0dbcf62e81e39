"""States of a task that exploration goes back to: by `fork()`, or by replay where there is none."""

from __future__ import annotations

from dataclasses import dataclass, field

from ldm.episode import NO_ACTION, Environment
from ldm.errors import ForkUnsupported, ReplayDivergence
from ldm.types import Past, Task, TimeStep, stable_hash


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """A state that a task was brought to.

    now: what is seen there. past: (o_1, a_1) … up to there. score: the rewards so far, summed.
    held: the environment in this state, None where it has to be replayed.
    """

    now: TimeStep
    past: Past
    score: float
    held: Environment | None = field(default=None, repr=False)

    @property
    def state(self) -> str:
        """A hash of what can be seen; equal for states that look the same."""
        return stable_hash(self.now.observation, self.now.admissible, self.now.done)


class Positions:
    """Goes from position to position within one task. Close it when done.

    steps: environment steps to new positions. replayed: steps that only led back to known ones.
    """

    def __init__(self, env: Environment, task: Task) -> None:
        """env: used while this lives, and left open."""
        self.steps = 0
        self.replayed = 0
        self._env = env
        self._task = task
        self._forks = True
        self._open: list[Environment] = []
        self._standing: Position | None = None

    def start(self) -> Position:
        """The task's opening."""
        now = self._env.reset(self._task)
        held = self._forked(self._env)
        start = Position(now, (), now.reward, held)
        if held is None:
            self._standing = start
        return start

    def after(self, position: Position, action: str) -> Position:
        """The position that `action` leads to; `position` itself can be gone on from again.

        Raises ReplayDivergence where replaying the way to `position` shows something else.
        """
        action = action if action.strip() else NO_ACTION
        env = self._environment_at(position)
        now = env.step(action)
        self.steps += 1
        past = (*position.past, (position.now.observation, action))
        held = None if position.held is None else env
        found = Position(now, past, position.score + now.reward, held)
        if held is None:
            self._standing = found
        return found

    def drop(self, position: Position) -> None:
        """Give back what `position` holds; it is not gone on from any more."""
        if position.held is not None and position.held in self._open:
            self._open.remove(position.held)
            position.held.close()

    def close(self) -> None:
        """Give back everything that is held."""
        while self._open:
            self._open.pop().close()

    def _environment_at(self, position: Position) -> Environment:
        if position.held is not None:
            forked = self._forked(position.held)
            if forked is not None:
                return forked
        if position is not self._standing:
            self._replay(position)
        self._standing = None
        return self._env

    def _forked(self, env: Environment) -> Environment | None:
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
        """Bring the environment into the state of `position`, seeing what was seen before."""
        now = self._env.reset(self._task)
        seen = [observation for observation, _ in position.past] + [position.now.observation]
        for number, expected in enumerate(seen):
            if now.observation != expected:
                raise ReplayDivergence(
                    f"{self._task.id}: the same actions led elsewhere after step {number}: "
                    f"{_short(now.observation)!r} instead of {_short(expected)!r}.",
                    "The environment is not deterministic; it cannot be explored by replay.",
                )
            if number < len(position.past):
                now = self._env.step(position.past[number][1])
                self.replayed += 1


def _short(text: str, length: int = 80) -> str:
    return text if len(text) <= length else text[:length] + "…"
