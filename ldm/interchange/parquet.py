"""Read and write Parquet: a row a step, with what was seen before its action and what followed.

What concerns the whole trajectory stands in each of its rows; one without steps has one row. Rows
stay in their order; columns that others have added are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ldm import records
from ldm.errors import LdmError
from ldm.interchange.foreign import NOTHING, Assumed
from ldm.records import Problem
from ldm.text import check_file, parse_json
from ldm.types import Trajectory

SUFFIX = ".parquet"
#: Of the columns; it changes where an older reader would lose something.
VERSION = 1
#: Column → field of our own schema. The same in all rows of a trajectory.
WHOLE = {
    "env": "task.env",
    "split": "task.split",
    "kind": "task.kind",
    "task_id": "task.id",
    "source": "task.source",
    "goal": "task.goal",
    "origin": "origin",
    "score": "score",
    "success": "success",
}
#: Column → field of a step.
EACH = {
    "action": "action",
    "next_observation": "observation",
    "reward": "reward",
    "thought": "thought",
    "valid": "valid",
    "recalls": "recalls",
    "followed": "followed",
}
COLUMNS = ("version", "trajectory_id", *WHOLE, "step", "is_last", "observation", *EACH)
#: Lists are JSON, which every reader of Parquet can show.
_JSON = ("recalls", "followed")

Row = Mapping[str, Any]


def detect(line: Row) -> bool:
    """Return False: no line of a text has this format."""
    del line
    return False


def detect_file(path: Path) -> bool:
    """Return whether a file's columns look like ours; LdmError if it is not Parquet."""
    return {"step", "observation", "action"} <= set(_columns(path))


def read(path: Path, assumed: Assumed = NOTHING) -> Iterator[Trajectory | Problem]:
    """Yield the trajectories of a file, or the problem with one, its line being the row from 1.

    assumed: nothing, as all is told.
    """
    if missing := [column for column in COLUMNS if column not in _columns(path)]:
        yield Problem(str(path), 1, missing[0], "there is no such column")
        return
    start, rows = 1, list[Row]()
    for number, row in enumerate(_rows(path), start=1):
        if rows and row["step"] in (0, None):
            yield _trajectory(rows, str(path), start)
            start, rows = number, []
        rows.append(row)
    if rows:
        yield _trajectory(rows, str(path), start)


def write(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Replace a file by these trajectories."""
    import polars as pl

    types: dict[str, Any] = dict.fromkeys(COLUMNS, pl.String)
    types |= {"version": pl.Int32, "step": pl.Int32, "score": pl.Float64, "reward": pl.Float64}
    types |= dict.fromkeys(("success", "is_last", "valid"), pl.Boolean)
    rows = [row for trajectory in trajectories for row in _rows_of(trajectory)]
    with records.replaced(path) as temporary:
        pl.DataFrame(rows, types, orient="row").write_parquet(temporary)


def _rows_of(trajectory: Trajectory) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a trajectory, in the order of COLUMNS."""
    task = trajectory.task
    whole = (
        *(VERSION, trajectory.id, task.env, task.split, task.kind, task.id, task.source, task.goal),
        *(trajectory.origin, trajectory.score, trajectory.success),
    )
    observed, last = trajectory.opening, len(trajectory.steps) - 1
    for number, step in enumerate(trajectory.steps):
        recalls = json.dumps(step.recalls)
        followed = None if step.followed is None else json.dumps(step.followed)
        yield (
            *(*whole, number, number == last, observed, step.action, step.observation, step.reward),
            *(step.thought, step.valid, recalls, followed),
        )
        observed = _next(observed, step.action, step.observation)
    if last < 0:
        yield (*whole, None, True, observed, *[None] * len(EACH))


def _next(observed: str, action: str, observation: str) -> str:
    """Return what the agent sees after a step; thinking changes nothing."""
    return observation if action else observed


def _trajectory(rows: Sequence[Row], file: str, start: int) -> Trajectory | Problem:
    """Return the trajectory of some rows. start: the number of the first."""
    if problem := _disorder(rows, file, start):
        return problem
    first = rows[0]
    record: dict[str, Any] = {"task": {}, "opening": first["observation"], "steps": []}
    for column, field in WHOLE.items():
        below, _, name = field.rpartition(".")
        (record[below] if below else record)[name] = first[column]
    for number, row in enumerate(rows if first["step"] is not None else ()):
        step = {field: row[column] for column, field in EACH.items()}
        for column in _JSON:
            value = parse_json(row[column] or "null", file, start + number)
            if isinstance(value, Problem):
                return replace(value, line=start + number, field=column)
            step[column] = value
        record["steps"].append(step)
    trajectory = records.parse(json.dumps(record), Trajectory, file, start)
    return _located(trajectory, start) if isinstance(trajectory, Problem) else trajectory


def _disorder(rows: Sequence[Row], file: str, start: int) -> Problem | None:
    """Return why these rows are not one trajectory, whole and in order."""
    first, observed = rows[0], rows[0]["observation"]
    for number, row in enumerate(rows):
        place = start + number
        if row["version"] != VERSION:
            message = f"version {row['version']!r} is not known: a newer ldm may read it"
            return Problem(file, place, "version", message)
        if row["step"] != number and not (row["step"] is None and len(rows) == 1):
            message = f"should be {number}: a row is missing, or the rows are out of order"
            return Problem(file, place, "step", message)
        if row["is_last"] is not (number == len(rows) - 1):
            message = "a row is missing, or the rows are out of order"
            return Problem(file, place, "is_last", message)
        for column in ("trajectory_id", *WHOLE):
            if row[column] != first[column]:
                return Problem(file, place, column, "is another than in the row before")
        if row["observation"] != observed:
            message = "is not what followed the last action (next_observation)"
            return Problem(file, place, "observation", message)
        observed = _next(observed, row["action"], row["next_observation"])
    return None


def _located(problem: Problem, start: int) -> Problem:
    """Name the row and the column of a problem with a field of our own schema."""
    columns = {field: column for column, field in WHOLE.items()} | {"opening": "observation"}
    of_step = {field: column for column, field in EACH.items()}
    match problem.field.split("."):
        case ["steps", number, field, *below]:
            name = ".".join((of_step.get(field, field), *below))
            return replace(problem, line=start + int(number), field=name)
    return replace(problem, field=columns.get(problem.field, problem.field))


def _columns(path: Path) -> Sequence[str]:
    import polars as pl

    with _reading(path):
        return list(pl.read_parquet_schema(path))


def _rows(path: Path) -> Iterator[Row]:
    import polars as pl

    with _reading(path):
        frame = pl.read_parquet(path, columns=list(COLUMNS))
    return frame.iter_rows(named=True)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what polars raises at a damaged file into an LdmError."""
    import polars as pl

    check_file(path)
    try:
        yield
    # A panic of its Rust code is no Exception.
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = str(error).strip().partition("\n")[0]
        raise LdmError(
            f"{path} cannot be read as Parquet: {reason}.", "It may be damaged: write it again."
        ) from error
