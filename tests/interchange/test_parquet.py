"""Parquet: a row a step; what is missing, moved or damaged is named by its row and column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from ldm.envs import formats
from ldm.errors import LdmError
from ldm.interchange import parquet
from ldm.records import Problem
from ldm.types import Trajectory
from tests.test_types import TRAJECTORY
from tests.toy import expert_trajectories

Change = Callable[[pl.DataFrame], pl.DataFrame]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three steps, then those of another trajectory."""
    formats.write(tmp_path / "x.parquet", [TRAJECTORY, expert_trajectories()[0]])
    return tmp_path / "x.parquet"


def changed(path: Path, change: Change) -> list[Trajectory | Problem]:
    change(pl.read_parquet(path)).write_parquet(path)
    return list(formats.read(path, "parquet"))


def cell(row: int, column: str, value: object) -> Change:
    """Return what puts a value into one cell. row: from 1."""

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        values = frame[column].to_list()
        values[row - 1] = value
        return frame.with_columns(pl.Series(column, values, strict=False))

    return change


def test_a_row_says_what_was_seen_before_the_action_and_after_it(path: Path) -> None:
    columns = ["step", "observation", "action", "next_observation", "thought", "is_last"]
    kitchen = "You are in a kitchen."
    assert pl.read_parquet(path)[:3].select(columns).rows() == [
        (0, kitchen, "open fridge", "You see an egg.", "", False),
        (1, "You see an egg.", "", "", "The egg is there.", False),
        (2, "You see an egg.", "take egg", "You hold an egg.", "", True),
    ]


def test_what_concerns_the_whole_stands_in_each_row(path: Path) -> None:
    rows = pl.read_parquet(path)[:3].select("trajectory_id", "env", "goal", "score").unique()
    assert rows.rows() == [(TRAJECTORY.id, "kitchen", "heat an egg", 0.0)]


def test_columns_may_be_added_moved_and_stored_otherwise(path: Path) -> None:
    before = list(formats.read(path, "parquet"))

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        other = frame.with_columns(
            pl.col("kind").cast(pl.Categorical), pl.col("step").cast(pl.Int64), length=pl.lit(1)
        )
        return other.select(reversed(other.columns))

    assert changed(path, change) == before


def test_trajectories_may_be_selected_and_put_together(path: Path) -> None:
    def change(frame: pl.DataFrame) -> pl.DataFrame:
        kitchen = frame.filter(pl.col("env") == "kitchen")
        return pl.concat([frame, kitchen, kitchen])

    first, second = formats.read(path, "parquet")
    assert changed(path, change) == [first, second, first, first]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: pl.concat([f[:1], f[2:]]), "2:step: should be 1: a row is missing"),
        (lambda f: pl.concat([f[:2], f[3:]]), "2:is_last: a row is missing"),
        (lambda f: pl.concat([f[1:2], f[:1], f[2:]]), "1:step: should be 0"),
        (cell(2, "observation", "Nothing."), "2:observation: is not what followed"),
        (cell(2, "goal", "boil an egg"), "2:goal: is another than in the row before"),
        (cell(2, "action", None), "2:action: Input should be a valid string"),
        (cell(3, "next_observation", None), "3:next_observation: Input should be"),
        (cell(3, "reward", None), "3:reward: Input should be a valid number"),
        (cell(3, "followed", "[[["), "3:followed: not JSON"),
        (cell(3, "followed", "[" * 100_000), "3:followed: not JSON"),
        (cell(3, "recalls", '[["a", "b"]]'), "3:recalls.0.1: Input should be a valid number"),
        (cell(3, "recalls", '[["\\ud800", 1]]'), "3:recalls: not JSON"),
        (cell(1, "version", 2), "1:version: version 2 is not known: a newer ldm may read it"),
    ],
)
def test_a_bad_row_is_named_and_loses_no_other(change: Change, message: str, path: Path) -> None:
    good = expert_trajectories()[0]
    results = changed(path, change)
    problems = [str(one) for one in results if isinstance(one, Problem)]
    assert message in problems[0].removeprefix(f"{path}:")
    assert results[-1] == good


@pytest.mark.parametrize("column", ["goal", "origin", "step"])
def test_a_column_of_another_type_is_named(column: str, path: Path) -> None:
    results = changed(path, lambda frame: frame.with_columns(pl.lit(0.5).alias(column)))
    assert all(isinstance(one, Problem) and one.field == column for one in results)


def test_a_column_that_is_missing_is_named(path: Path) -> None:
    (problem,) = changed(path, lambda frame: frame.drop("goal", "reward"))
    assert str(problem) == f"{path}:1:goal: there is no such column"


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "missing", "flipped"])
def test_a_damaged_file_is_refused(damage: str, path: Path) -> None:
    whole = path.read_bytes()
    middle = bytes(255 - byte for byte in whole[4:2000])
    damaged = {
        "cut": whole[: len(whole) // 2],
        "text": b"step,action\n",
        "empty": b"",
        "flipped": whole[:4] + middle + whole[2000:],
    }
    path.unlink()
    if damage != "missing":
        path.write_bytes(damaged[damage])
    with pytest.raises(LdmError, match="cannot be read") as refused:
        list(formats.read(path, "parquet"))
    assert str(path) in refused.value.message
    assert "\n" not in refused.value.message


def test_another_table_is_not_ours(tmp_path: Path) -> None:
    pl.DataFrame({"step": [1], "action": ["x"]}).write_parquet(tmp_path / "x.parquet")
    assert formats.format_of(tmp_path / "x.parquet") is None


def test_what_goes_wrong_leaves_the_old_file(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(AttributeError):
        parquet.write(path, [TRAJECTORY, None])  # type: ignore[list-item]
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["x.parquet"]
