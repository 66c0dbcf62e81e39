"""Panels: fixed tasks to evaluate on, and a check that training shares nothing with them.

    panel = Panel.of("alfworld", "valid_seen", limit=50)
    panel.check(Session("alfworld", "train").tasks)
    panel.write("panel.json")        # Panel.read("panel.json") has the same digest

The check is that of `ldm eval`: of the same game, product or item, not of the same id alone.

A `Session` is an environment as trainers use it: numbered tasks, a budget of steps, a score, saved
states.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from ldm import records
from ldm.config import Section
from ldm.episode import EnvironmentBase
from ldm.errors import LdmError
from ldm.run.builders import build_environment
from ldm.run.selection import check_leakage, select
from ldm.text import Problem, read_bytes
from ldm.types import Task, TimeStep, stable_hash

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
        twin = copy.copy(self)
        twin._env = cast(EnvironmentBase, self._env.fork())
        return twin

    def close(self) -> None:
        """Release the environment."""
        self._env.close()
        self.task = None

    def describe(self) -> str:
        """Return the rules and the forms of actions, for the prompt of a model."""
        return "\n".join([self.card.rules, "Actions:", *self.card.actions])


@dataclass(frozen=True, slots=True)
class Panel:
    """Tasks to evaluate on. protocol: what scores depend on besides, such as data and dialect."""

    tasks: tuple[Task, ...]
    protocol: Mapping[str, Any]

    @classmethod
    def of(cls, env: str, split: str, limit: int | None = None, **options: Any) -> Panel:
        """Return a panel of a split: all tasks, or `limit` with an even share of each kind."""
        session = Session(env, split, **options)
        return cls(select(session.tasks, limit=limit), session._env.protocol())

    @property
    def digest(self) -> str:
        """What names the panel: results on panels of one digest can be compared."""
        return stable_hash(records.plain(self))

    def check(self, training: Iterable[Task]) -> None:
        """Raise LeakageError if tasks that are trained on are, or come from, tasks of the panel."""
        sources = (task.leak_key for task in training)
        check_leakage(sources, self.tasks, what="the training", remedy="Train on other tasks.")

    def write(self, path: str | Path) -> None:
        """Write the panel to a JSON file."""
        records.write(Path(path), [self])

    @classmethod
    def read(cls, path: str | Path) -> Panel:
        """Read a panel that `write` wrote; raise LdmError if the file is none."""
        panel = records.parse(read_bytes(Path(path)), cls, str(path), 1)
        if isinstance(panel, Problem):
            raise LdmError(f"{panel}.", "Name a file that Panel.write wrote.")
        return panel
