"""Shared parts of the environments: listings of splits, and errors for unknown names."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from ldm.episode import EnvironmentBase
from ldm.errors import LdmError
from ldm.types import Task

G = TypeVar("G")


def unknown_split(env: str, split: str, known: Iterable[str]) -> LdmError:
    """Return the error for a split that an environment does not have."""
    return LdmError(f"{env} has no split {split!r}.", f"Known splits: {', '.join(known)}.")


def unknown_task(env: str, task: Task) -> LdmError:
    """Return the error for a task that is not in its split."""
    return LdmError(f"{env} has no task {task.id!r}.", f"Use a task of the split {task.split}.")


class ListedEnvironment(EnvironmentBase, Generic[G]):
    """Base of environments whose splits are lists of games; each split is read once.

    splits: their names. version: increased when the same game yields other texts or rewards.
    Subclasses define `_games`, `_digest` and `_conditions`.
    """

    splits: ClassVar[tuple[str, ...]]
    version: ClassVar[str] = "1"

    def __init__(self, options: Any) -> None:
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

    def fork(self) -> Self:
        """Return a copy in the same state: states are never modified, only replaced."""
        return copy.copy(self)

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
