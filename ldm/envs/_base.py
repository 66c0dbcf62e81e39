"""Shared parts of the environments: tables of facts, states, splits, errors for unknown names."""

from __future__ import annotations

import tomllib
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from ldm import records
from ldm.episode import EnvironmentBase
from ldm.errors import LdmError
from ldm.text import Problem
from ldm.types import Task, TimeStep, stable_hash


def facts(module: str, name: str = "facts.toml") -> dict[str, Any]:
    """Return the tables of a file beside `module`, the `__file__` of the module that asks."""
    return tomllib.loads(Path(module).with_name(name).read_text("utf-8"))


#: The most bytes of a state when it is unpacked: tens of thousands of actions.
MOST_STATE = 1 << 20
_REMEDY = "Pass what `state()` returned."

G = TypeVar("G")


def unknown_split(env: str, split: str, known: Iterable[str]) -> LdmError:
    """Return the error for a split that an environment does not have."""
    return LdmError(f"{env} has no split {split!r}.", f"Known splits: {', '.join(known)}.")


def unknown_task(env: str, task: Task) -> LdmError:
    """Return the error for a task that is not in its split."""
    return LdmError(f"{env} has no task {task.id!r}.", f"Use a task of the split {task.split}.")


@dataclass(frozen=True, slots=True)
class Played:
    """What was done since a task began, by which its state is reached again.

    answer: a hash of the last answer to a valid action.
    """

    task: Task
    actions: tuple[str, ...]
    answer: str


class ReplayedEnvironment(EnvironmentBase):
    """Base of deterministic environments: a state is the task and the valid actions since.

    So it is small, holds no code, and means the same in another process and version. Subclasses
    define `_start` and `_act` in place of `reset` and `step`.
    """

    def __init__(self, options: Any = None) -> None:
        """Create the environment; without options it has the defaults."""
        super().__init__(self.Options() if options is None else options)
        self._task: Task | None = None
        self._actions: tuple[str, ...] = ()
        self._answered = TimeStep("")

    def reset(self, task: Task) -> TimeStep:
        """Start or restart `task`; the observation is the opening."""
        self._task = None
        self._answered = self._start(task)
        self._task, self._actions = task, ()
        return self._answered

    def step(self, action: str) -> TimeStep:
        """Execute an action; an impossible one is answered and changes nothing."""
        if self._task is None:
            raise RuntimeError("no task is running: call reset first")
        now = self._act(action)
        if now.valid:
            self._actions, self._answered = (*self._actions, action), now
        return now

    def close(self) -> None:
        """End the running task."""
        self._task = None

    def state(self) -> bytes:
        """Return the state of the running task, for `restore`."""
        if self._task is None:
            raise RuntimeError("no task is running: call reset first")
        played = Played(self._task, self._actions, _fingerprint(self._answered))
        return zlib.compress(records.dumps(played).encode(), 9)

    def restore(self, state: bytes) -> TimeStep:
        """Go to a state; return its last answer. Raise LdmError if it is no state of such a task.

        The same options are needed: with others, the actions lead elsewhere, and that is an error.
        """
        played = _unpacked(state)
        self.reset(played.task)
        try:
            valid = all(self.step(action).valid for action in played.actions)
        except RuntimeError:  # an action after the end
            valid = False
        if not valid or _fingerprint(self._answered) != played.answer:
            self.close()
            raise LdmError(
                f"The state of {played.task.id!r} leads elsewhere here.",
                "Restore it with the options and the version of ldm that it was made with.",
            )
        return self._answered

    def fork(self) -> Self:
        """Return a copy in the same state: states are never modified, only replaced."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the options and the state; data are read again where it is unpickled."""
        return _rebuilt, (type(self), self.options, self.state() if self._task else None)

    @abstractmethod
    def _start(self, task: Task) -> TimeStep:
        """Start `task`; the observation is the opening."""

    @abstractmethod
    def _act(self, action: str) -> TimeStep:
        """Execute an action of the running task."""


def _fingerprint(now: TimeStep) -> str:
    return stable_hash(now.observation, now.reward, now.done)


def _unpacked(state: bytes) -> Played:
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(state, MOST_STATE)
    except zlib.error as error:
        raise LdmError(f"These {len(state)} bytes are no state: {error}.", _REMEDY) from None
    played = records.parse(text, Played, "state", 1)
    if isinstance(played, Problem) or not unpacking.eof:
        raise LdmError(f"These {len(state)} bytes are no state of an environment.", _REMEDY)
    return played


def _rebuilt(kind: Any, options: Any, state: bytes | None) -> Any:
    env = kind(options)
    if state is not None:
        env.restore(state)
    return env


class ListedEnvironment(ReplayedEnvironment, Generic[G]):
    """Base of environments whose splits are lists of games; each split is read once.

    splits: their names. version: increased when the same game yields other texts or rewards.
    Subclasses define `_games`, `_digest` and `_conditions`.
    """

    splits: ClassVar[tuple[str, ...]]
    version: ClassVar[str] = "1"

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self._listings: dict[str, dict[str, tuple[Task, G]]] = {}
        self._digests: dict[str, str] = {}

    def protocol(self) -> Mapping[str, Any]:
        """Return the conditions of scores: options, sources, and digests of the splits used."""
        return {
            "environment": self.card.name,
            "version": self.version,
            **self._conditions(),
            "data": dict(sorted(self._digests.items())),
        }

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split; raise LdmError if it is unknown, or its data are missing."""
        listing = self._listing(split).values()
        if split not in self._digests:
            self._digests[split] = self._digest([game for _, game in listing])
        return tuple(task for task, _ in listing)

    def _game(self, task: Task) -> G:
        """Return the game of a task; raise LdmError if there is none."""
        listing = self._listing(task.id.partition("/")[0])
        if task.id not in listing:
            raise unknown_task(type(self).__name__, task)
        return listing[task.id][1]

    def _listing(self, split: str) -> dict[str, tuple[Task, G]]:
        if split not in self._listings:
            if split not in self.splits:
                raise unknown_split(type(self).__name__, split, self.splits)
            self._listings[split] = {task.id: (task, game) for task, game in self._games(split)}
        return self._listings[split]

    def _games(self, split: str) -> Iterable[tuple[Task, G]]:
        """Yield each task of a split with its game, in their order."""
        raise NotImplementedError

    def _digest(self, games: list[G]) -> str:
        """Return a hash of all that the games of a split show."""
        raise NotImplementedError

    def _conditions(self) -> Mapping[str, Any]:
        """Return the options and sources that scores depend on, as JSON values."""
        raise NotImplementedError
