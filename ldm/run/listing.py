"""Recorded runs as a list: what each is, how far it is, what it came to, and what rests on it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ldm.config import Evaluate, OptimisePlan, Refine
from ldm.errors import LdmError
from ldm.text import counted, read_json

if TYPE_CHECKING:
    from ldm.runs import Run

State = Literal["finished", "stopped", "running"]
#: The place of a task in a line of a part file.
_INDEX = re.compile(rb'^\{"index": ?(\d+)')
_AGO = re.compile(r"(\d+)([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
#: Memories and files that a warning names.
NAMED = 3


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A line of the list.

    agent: of an evaluation; "" of others. model: those that are called, "" for none. score: the
    success rate of a finished evaluation. tasks: how many it has; recorded: how many are there.
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


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are listed: those that fit all that is given; "" is anything.

    since: a date (2026-11-24), a time, or how long ago: 7d, 12h, 30m.
    """

    command: str = ""
    env: str = ""
    agent: str = ""
    state: str = ""
    since: str = ""

    def fits(self, entry: RunEntry) -> bool:
        """Return whether a run is listed. Raises LdmError where `since` is not a date."""
        for criterion, value in (
            (self.command, entry.command),
            (self.env, entry.env),
            (self.agent, entry.agent),
            (self.state, entry.state),
        ):
            if criterion and criterion not in (value, value.rpartition(":")[2]):
                return False
        return not self.since or datetime.fromisoformat(entry.started) >= _moment(self.since)


def _moment(text: str) -> datetime:
    now = datetime.now().astimezone()
    if ago := _AGO.fullmatch(text):
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise LdmError(
            f"--since {text} is not a date.", "Use a date such as 2026-11-24, or 7d, 12h, 30m."
        ) from error
    return moment if moment.tzinfo else moment.astimezone()


def entry_of(run: Run) -> RunEntry:
    """Return the line of a run; nothing that it names is imported."""
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
    runs: Path, chosen: RunFilter, unreadable: Callable[[LdmError], None] = lambda error: None
) -> list[RunEntry]:
    """Return the lines of the runs below a folder that fit, oldest first.

    unreadable: called with why a run cannot be read.
    """
    from ldm.runs import list_runs

    return [one for run in list_runs(runs, unreadable) if chosen.fits(one := entry_of(run))]


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
    """Return the names of the files of which one marks a finished run."""
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
    """Yield in sentences what is lost or no longer works once a run is deleted."""
    manifest = run.manifest
    yield from _companions(run)
    if manifest.command == Evaluate.command:
        yield (
            f"`ldm refine` with --runs {run.directory.parent} may then explore its "
            f"{counted(len(manifest.protocol.get('tasks', ())), 'task')}, which it leaves out now "
            "because they were evaluated."
        )
    elif manifest.command == Refine.command:
        yield from _generations(run)
    elif manifest.command == OptimisePlan.command:
        folder = Path(run.spec(OptimisePlan).out)
        files = [path for path in sorted(folder.glob("*.json")) if _names(path, manifest.id)]
        if files:
            listed = ", ".join(map(str, files[:NAMED])) + (", …" if len(files) > NAMED else "")
            yield f"The plans in {listed} name it as where they come from."


def _companions(run: Run) -> Iterator[str]:
    from ldm.runs import list_runs

    if run.companion:
        yield f"It was started together with {run.companion.name}, which is resumed through it."
    for other in list_runs(run.directory.parent):
        if other.companion == run.directory:
            yield f"{other.directory} names it as its companion: that run can no longer be resumed."


def _generations(run: Run) -> Iterator[str]:
    """Yield which generation of a memory a refinement made, if it is still there."""
    from ldm.memory import environments, generations

    spec = run.spec(Refine)
    memory = spec.memory
    try:
        made = [g for env in environments(memory) for g in generations(memory, env)]
    except LdmError:
        return
    for one in made:
        after = one.number == (spec.generation or 0) + 1
        if one.origin == "refined" and after and one.tasks and {*one.tasks} <= {*spec.tasks}:
            yield (
                f"Generation {one.number} of {one.env} in {memory} comes from it: its trees and "
                "judgements are here alone. The memory itself stays as it is."
            )


def _names(path: Path, run: str) -> bool:
    try:
        return run.encode() in path.read_bytes()
    except OSError:
        return False


def delete(run: Run) -> None:
    """Remove a run's directory with all that is in it.

    Raises LdmError where a process works on the run, or the directory cannot be removed.
    """
    from ldm.runs import writing

    gone = run.directory.with_name(f".{run.directory.name}.deleted")
    with run.lock(), writing(run.directory):
        run.directory.rename(gone)  # from now on it is no run, even if this is interrupted
    with writing(gone):
        shutil.rmtree(gone)
