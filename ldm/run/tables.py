"""Results as a table for other programs: a CSV file with one row per episode."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ldm.errors import LdmError
from ldm.records import replacing, writing
from ldm.run.results import Report
from ldm.run.statistics import with_measures
from ldm.text import redacted

SUFFIX = ".csv"


def check_table(path: Path) -> None:
    """Raise LdmError if a file's ending names another format."""
    if path.suffix != SUFFIX:
        raise LdmError(f"{path} is not a {SUFFIX} file.", f"Let its name end in {SUFFIX}.")


def episodes(reports: Sequence[Report]) -> Iterator[dict[str, Any]]:
    """Yield a row for each episode of the reports, in their order: column → value or None.

    Every row has the conditions, so that rows of several files can be concatenated.
    """
    for report in reports:
        had, memory = report.conditions, report.conditions.memory
        columns = with_measures(report.measures)
        directories = report.directories or (report.directory,)
        repeats = zip(directories, report.repeats, strict=True)
        for number, (directory, results) in enumerate(repeats, 1):
            for result in results:
                yield {
                    "label": report.label,
                    "agent": result.agent,
                    "env": report.env,
                    "split": report.split,
                    "run": str(directory),
                    "repeat": number,
                    "task": result.task.id,
                    "kind": result.task.kind,
                    "goal": result.task.goal,
                    "success": result.solved,
                    "score": 0.0 if result.end == "error" else result.score,
                    "end": result.end,
                    "error": redacted(result.error),
                    "sees_reward": report.sees_reward,
                    "actions_listed": had.actions,
                    "demonstrations": had.demonstrations,
                    "memory_episodes": memory and memory.episodes,
                    "memory_generation": memory and memory.generation,
                    "models": had.model,
                    **{column.name: column.of(result) for column in columns},
                }


def write_table(reports: Sequence[Report], path: Path) -> int:
    """Write the episodes of the reports to a file, and return their number.

    Raises LdmError if its ending names another format, or if it cannot be written.
    """
    check_table(path)
    rows = list(episodes(reports))
    columns = dict.fromkeys(name for row in rows for name in row)
    with writing(path), replacing(path) as file:
        table = csv.DictWriter(file, columns, lineterminator="\n")
        table.writeheader()
        table.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return len(rows)


def _cell(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
