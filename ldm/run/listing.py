"""Recorded runs as a list: kind, progress and score."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ldm.errors import LdmError
from ldm.files import open_own
from ldm.run.runner import SUMMARY
from ldm.runs import Run
from ldm.text import read_json

Status = Literal["finished", "stopped", "running"]
#: The place of a task in a line of a part file.
_INDEX = re.compile(rb'^\{"index": ?(\d+)')


@dataclass(frozen=True, slots=True)
class RunEntry:
    """Hold a line of the list.

    agent: of an evaluation; "" of others. model: those that are called, "" for none. score: the
    success rate of a finished evaluation. tasks, recorded: the numbers of all and of recorded ones.
    """

    id: str
    command: str
    env: str
    split: str
    agent: str
    model: str
    score: float | None
    tasks: int
    recorded: int
    status: Status
    started: str
    fingerprint: str


def entry_of(run: Run) -> RunEntry:
    """Return the line of a run, without importing any module that it names."""
    manifest = run.manifest
    models = {name for role, name in manifest.models.items() if role not in ("embedder", "server")}
    tasks = len(manifest.protocol.get("tasks", ()))
    status, recorded = _progress(run, tasks)
    return RunEntry(
        id=manifest.id,
        command=manifest.command,
        env=run.named("env"),
        split=run.named("split"),
        agent=run.named("agent"),
        model=", ".join(sorted(models)),
        score=_score(run) if status == "finished" else None,
        tasks=tasks,
        recorded=recorded,
        status=status,
        started=manifest.started,
        fingerprint=manifest.fingerprint,
    )


def _progress(run: Run, tasks: int) -> tuple[Status, int]:
    """Return whether a run is finished, and how many of its tasks are recorded."""
    if run.is_finished:
        return "finished", tasks
    places = set()
    for part in run.parts.glob("*.jsonl"):
        with open_own(part) as file:
            places |= {match[1] for line in file if (match := _INDEX.match(line))}
    return "running" if run.is_locked else "stopped", len(places)


def _score(run: Run) -> float | None:
    try:
        summary = read_json(run.directory / SUMMARY)
        rate = summary["overall"]["success_rate"]
    except (LdmError, OSError, ValueError, LookupError, TypeError):
        return None  # it is derived, and may be missing
    return float(rate) if isinstance(rate, int | float) else None
