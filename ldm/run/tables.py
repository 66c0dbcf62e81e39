"""Results as tables for other programs: one row per episode, as Parquet or CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldm.errors import LdmError
from ldm.records import replaced, writing
from ldm.run.results import Report
from ldm.run.statistics import with_measures
from ldm.text import redacted

if TYPE_CHECKING:
    import polars as pl

PARQUET, CSV = ".parquet", ".csv"
#: Further columns of a row, apart from the figures: name → type; None is an empty cell.
DESCRIBED: dict[str, type[Any]] = {
    **dict.fromkeys(("label", "agent", "env", "split", "run"), str),
    "repeat": int,
    **dict.fromkeys(("task", "kind", "goal"), str),
    "success": bool,
    "score": float,
    **dict.fromkeys(("end", "error"), str),
    **dict.fromkeys(("sees_reward", "actions_listed"), bool),
    **dict.fromkeys(("demonstrations", "memory_episodes", "memory_generation"), int),
    "models": str,
}


def check_table(path: Path) -> None:
    """Raise LdmError if a file's ending names no format for results."""
    if path.suffix not in (PARQUET, CSV):
        raise LdmError(
            f"{path} is neither a {PARQUET} nor a {CSV} file.", "Let its name end in one of them."
        )


def episodes(reports: Sequence[Report]) -> pl.DataFrame:
    """Return a row for each episode of the reports, in their order.

    Every row has the conditions, so that rows of several files can be concatenated.
    """
    import polars as pl

    kinds = {str: pl.String, bool: pl.Boolean, float: pl.Float64, int: pl.Int64}
    figures = [column.name for report in reports for column in with_measures(report.measures)]
    schema = {
        **{name: kinds[kind] for name, kind in DESCRIBED.items()},
        **{name: pl.Float64 for name in figures if name not in DESCRIBED},
    }
    return pl.DataFrame([row for report in reports for row in _rows(report)], schema)


def write_table(reports: Sequence[Report], path: Path) -> int:
    """Write the episodes of the reports to a file, and return their number.

    Raises LdmError if its ending names no format, or if it cannot be written.
    """
    check_table(path)
    table = episodes(reports)
    with writing(path), replaced(path) as temporary:
        if path.suffix == PARQUET:
            table.write_parquet(temporary)
        else:
            table.write_csv(temporary)
    return len(table)


def _rows(report: Report) -> Iterator[dict[str, Any]]:
    had, memory = report.conditions, report.conditions.memory
    same = {
        "label": report.label,
        "env": report.env,
        "split": report.split,
        "sees_reward": report.sees_reward,
        "actions_listed": had.actions,
        "demonstrations": had.demonstrations,
        "memory_episodes": None if memory is None else memory.episodes,
        "memory_generation": None if memory is None else memory.generation,
        "models": had.model,
    }
    directories = report.directories or (report.directory,)
    columns = with_measures(report.measures)
    for number, (directory, results) in enumerate(zip(directories, report.repeats, strict=True), 1):
        for result in results:
            failed = result.end == "error"
            yield {
                **{column.name: column.of(result) for column in columns},
                **same,
                "agent": result.agent,
                "run": str(directory),
                "repeat": number,
                "task": result.task.id,
                "kind": result.task.kind,
                "goal": result.task.goal,
                "success": result.success and not failed,
                "score": 0.0 if failed else result.score,
                "end": result.end,
                "error": redacted(result.error),
            }
