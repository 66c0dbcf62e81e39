"""Panels: fixed tasks to evaluate on, and a check that training shares nothing with them.

    panel = Panel.of("alfworld", "valid_seen", limit=50)
    panel.check(Session("alfworld", "train").tasks)
    panel.write("panel.json")        # Panel.read("panel.json") has the same digest

The check is that of `ldm eval`: of the same game, product or item, not of the same id alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm import records
from ldm.errors import LdmError
from ldm.integrations.sessions import Session
from ldm.run.selection import check_leakage, select
from ldm.text import Problem, read_bytes
from ldm.types import Task, stable_hash


@dataclass(frozen=True, slots=True)
class Panel:
    """Tasks to evaluate on. protocol: what scores depend on besides, such as data and dialect."""

    tasks: tuple[Task, ...]
    protocol: Mapping[str, Any]

    @classmethod
    def of(cls, env: str, split: str, limit: int | None = None, **options: Any) -> Panel:
        """Return a panel of a split: all tasks, or `limit` with an even share of each kind."""
        session = Session(env, split, **options)
        return cls(select(session.tasks, limit=limit), session.protocol)

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
