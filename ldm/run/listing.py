"""Recorded runs as a list: kind, progress, score and dependents."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ldm.config import Evaluate
from ldm.errors import LdmError
from ldm.text import counted, read_json, short

if TYPE_CHECKING:
    from ldm.runs import Run

State = Literal["finished", "stopped", "running"]
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
    state: State
    started: str
    fingerprint: str


def entry_of(run: Run) -> RunEntry:
    """Return the line of a run, without importing any module that it names."""
    manifest = run.manifest
    spec = manifest.spec
    models = {name for role, name in manifest.models.items() if role not in ("embedder", "server")}
    tasks = len(manifest.protocol.get("tasks", ()))
    state, recorded = _progress(run, tasks)
    return RunEntry(
        id=manifest.id,
        command=manifest.command,
        env=run.named("env"),
        split=str(spec.get("split", "")),
        agent=run.named("agent"),
        model=", ".join(sorted(models)),
        score=_score(run) if state == "finished" else None,
        tasks=tasks,
        recorded=recorded,
        state=state,
        started=manifest.started,
        fingerprint=manifest.fingerprint,
    )


def entries(
    runs: Path,
    criteria: Mapping[str, str],
    unreadable: Callable[[LdmError], None] = lambda error: None,
) -> list[RunEntry]:
    """Return the lines of the runs below a folder that match, oldest first.

    criteria: field of RunEntry → its value, of classes also without their module; "" matches all.
    unreadable: called with why a run cannot be read.
    """
    from ldm.runs import list_runs

    return [
        one
        for one in map(entry_of, list_runs(runs, unreadable))
        if all(
            value in ("", getattr(one, name), short(getattr(one, name)))
            for name, value in criteria.items()
        )
    ]


def _progress(run: Run, tasks: int) -> tuple[State, int]:
    """Return whether a run is finished, and how many of its tasks are recorded."""
    if any((run.directory / name).is_file() for name in _results(run)):
        return "finished", tasks
    places = set()
    for part in run.parts.glob("*.jsonl"):
        with part.open("rb") as file:
            places |= {match[1] for line in file if (match := _INDEX.match(line))}
    return "running" if run.is_locked else "stopped", len(places)


def _results(run: Run) -> tuple[str, ...]:
    """Return the names of the files that mark a finished run."""
    from ldm.explore.refine import TREES
    from ldm.run.runner import EPISODES

    return {"eval": (EPISODES,), "refine": (TREES,)}.get(run.manifest.command, ())


def _score(run: Run) -> float | None:
    from ldm.run.runner import SUMMARY

    try:
        summary = read_json(run.directory / SUMMARY)
        rate = summary["overall"]["success_rate"]
    except (LdmError, OSError, ValueError, LookupError, TypeError):
        return None  # it is derived, and may be missing
    return float(rate) if isinstance(rate, int | float) else None


def dependents(run: Run) -> Iterator[str]:
    """Yield a sentence on each consequence of deleting a run."""
    from ldm.runs import list_runs

    manifest, runs = run.manifest, run.directory.parent
    if manifest.command == Evaluate.command:
        yield (
            f"`ldm refine` with --runs {runs} may then explore its "
            f"{counted(len(manifest.protocol.get('tasks', ())), 'task')}, which it leaves out now "
            "because they were evaluated."
        )
    if run.companion:
        yield f"It was started together with {run.companion.name}, which is resumed through it."
    for other in list_runs(runs):
        if other.companion == run.directory:
            yield f"{other.directory} names it as its companion: that run can no longer be resumed."


def delete(run: Run) -> None:
    """Remove a run's directory with all that is in it.

    Raises LdmError if a process works on the run, or if the directory cannot be removed.
    """
    from ldm.records import writing

    gone = run.directory.with_name(f".{run.directory.name}.deleted")
    with run.lock(), writing(run.directory):
        run.directory.rename(gone)  # from now on it is not a run, even if this is interrupted
    with writing(gone):
        shutil.rmtree(gone)
