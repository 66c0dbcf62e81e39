"""An environment as trainers use it: numbered tasks, a budget of steps, a score, saved states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from ldm import records
from ldm.config import Section
from ldm.episode import EnvironmentBase
from ldm.errors import LdmError
from ldm.run.builders import build_environment
from ldm.text import Problem
from ldm.types import Task, TimeStep

#: Steps of an episode unless another number is given: those of `ldm eval` for act and react.
STEPS = 60


@dataclass(frozen=True, slots=True)
class Standing:
    """What a session counts. earned: the sum of the rewards."""

    task: Task
    steps: int
    earned: float


class Session:
    """One task at a time, scored as `ldm eval` scores it.

    task: the running one. steps, earned: actions and rewards so far.
    """

    def __init__(
        self, env: str, split: str | None = None, max_steps: int = STEPS, **options: Any
    ) -> None:
        """Open an environment.

        env: its name, or package.module:Class. split: None for the first training split.
        options: of the environment, such as data="…".

        Raises LdmError for an unknown name, split or option, and where data are missing.
        """
        if max_steps < 1:
            raise LdmError(f"max_steps must be at least 1, not {max_steps}.", "Raise it.")
        self._env: EnvironmentBase = build_environment(Section.read({"name": env, **options}))
        self.card = self._env.card
        self.max_steps = max_steps
        self.tasks: Sequence[Task] = self._env.tasks(split or self._env.train_splits[0])
        self.task: Task | None = None
        self.now = TimeStep("")
        self.steps = 0
        self.earned = 0.0

    @property
    def protocol(self) -> Mapping[str, Any]:
        """What scores depend on; see `ldm.episode.Environment.protocol`."""
        return self._env.protocol()

    @property
    def score(self) -> float:
        """The score of the episode so far, in [0, 1]."""
        return min(1.0, max(0.0, self.earned))

    @property
    def over(self) -> bool:
        """Whether the task has ended or its steps are spent."""
        return self.now.done or self.steps >= self.max_steps

    def reset(self, task: int | str) -> TimeStep:
        """Start a task, by its number in the split or by its id."""
        number = task if isinstance(task, int) else self._numbers.get(task)
        if number is None:
            raise LdmError(f"There is no task {task!r}.", f"The first is {self.tasks[0].id!r}.")
        chosen = self.tasks[number % len(self.tasks)]
        self.now, self.steps, self.earned, self.task = self._env.reset(chosen), 0, 0.0, chosen
        return self.now

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {task.id: number for number, task in enumerate(self.tasks)}

    def step(self, action: str) -> TimeStep:
        """Execute an action; an impossible one is answered, and takes a step, too."""
        if self.task is None or self.over:
            raise LdmError("No task is running.", "Call reset.")
        self.now = self._env.step(action)
        self.steps += 1
        self.earned += self.now.reward
        return self.now

    def state(self) -> bytes:
        """Return the present state; see `ldm.episode.EnvironmentBase.state`."""
        if self.task is None:
            raise LdmError("No task is running.", "Call reset.")
        standing = records.dumps(Standing(self.task, self.steps, self.earned))
        return standing.encode() + b"\n" + self._env.state()

    def restore(self, state: bytes) -> TimeStep:
        """Go to a state of this or another session; return its last answer."""
        first, _, rest = state.partition(b"\n")
        standing = records.parse(first, Standing, "state", 1)
        if isinstance(standing, Problem):
            raise LdmError("These bytes are no state.", "Pass what `state()` returned.")
        self.task = None
        self.now = self._env.restore(rest)
        self.task, self.steps, self.earned = standing.task, standing.steps, standing.earned
        return self.now

    def fork(self) -> Session:
        """Return an independent copy in the same state."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._env = cast(EnvironmentBase, self._env.fork())
        return twin

    def close(self) -> None:
        """Release the environment."""
        self._env.close()
        self.task = None

    def describe(self) -> str:
        """Return the rules and the forms of actions, for the prompt of a model."""
        return "\n".join([self.card.rules, "Actions:", *self.card.actions])
