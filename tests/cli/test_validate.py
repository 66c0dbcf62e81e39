"""`ldm validate` names every problem as file:line:field; with --schema it prints one."""

import json
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from ldm.types import Trajectory
from tests.cli.conftest import run
from tests.toy import expert_trajectories

DOCS = Path(__file__).parents[2] / "docs" / "schemas"


@pytest.fixture
def trajectories() -> list[Trajectory]:
    return expert_trajectories()[:3]


@pytest.fixture
def file(tmp_path: Path, trajectories: list[Trajectory]) -> Path:
    path = tmp_path / "episodes.jsonl"
    records.write(path, trajectories)
    return path


def change(file: Path, line: int, **fields: Any) -> None:
    """Set fields of the record on a line, counted from 1; None removes a field."""
    lines = file.read_text().splitlines()
    record = json.loads(lines[line - 1])
    for name, value in fields.items():
        record[name] = value
        if value is None:
            del record[name]
    lines[line - 1] = json.dumps(record)
    file.write_text("\n".join(lines) + "\n")


def test_a_good_file_is_counted_and_its_type_told(file: Path) -> None:
    outcome = run("validate", file)
    assert (outcome.code, outcome.out) == (0, f"{file}: 3 trajectory records, ok\n")


def test_the_share_of_recorded_actions_that_were_listed(file: Path) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    steps = lines[1]["steps"]
    steps[1]["action"] = "fly"
    change(file, 2, steps=steps)
    change(file, 3, task={**lines[2]["task"], "id": "train/none"})
    count = len(lines[0]["steps"]) + len(steps)
    outcome = run("validate", file, "--env", "tests.toy:ToyEnv")
    assert f"{100 * (count - 1) / count:.1f} % of {count} recorded actions listed" in outcome.out
    assert f"{lines[1]['task']['id']}, step 2: fly; 1 trajectory of tasks" in outcome.out


def test_every_problem_of_every_line_is_named(file: Path) -> None:
    change(file, 1, score="high", origin="alien")
    change(file, 3, opening=None)
    outcome = run("validate", file).refused()
    places = [line.split(": ")[0] for line in outcome.out.splitlines()]
    assert places == [f"{file}:1:score", f"{file}:1:origin", f"{file}:3:opening"]


def test_one_bad_file_does_not_hide_another(file: Path, tmp_path: Path) -> None:
    outcome = run("validate", tmp_path / "absent.jsonl", file).refused()
    assert "absent.jsonl cannot be read" in outcome.out
    assert f"{file}: 3 trajectory records, ok" in outcome.out


@pytest.mark.parametrize("content", ["", "[1, 2]\n", '{"conversations": []}\n', "hello\n"])
def test_something_else_is_not_guessed(tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(content)
    outcome = run("validate", path).refused()
    assert "does not look like" in outcome.out
    assert "--schema" in outcome.out


def test_the_report_can_be_read_by_a_program(file: Path) -> None:
    change(file, 1, score="high")
    outcome = run("validate", "--json", file).refused()
    report = json.loads(outcome.out)
    assert report["ok"] is False
    (entry,) = report["files"]
    assert (entry["file"], entry["type"], entry["records"]) == (str(file), "trajectory", 2)
    (problem,) = entry["problems"]
    assert (problem["line"], problem["field"]) == (1, "score")


@pytest.mark.parametrize("name", records.SCHEMAS)
def test_the_schemas_in_the_documentation_are_current(name: str) -> None:
    printed = run("validate", "--schema", name).out
    assert (DOCS / f"{name}.json").read_text() == printed, "run `ldm validate --schema` again"


def test_no_schema_is_left_over() -> None:
    assert {path.stem for path in DOCS.glob("*.json")} == set(records.SCHEMAS)


def test_an_incomplete_tuple_is_still_told_from_a_task(tmp_path: Path) -> None:
    path = tmp_path / "tuples.jsonl"
    path.write_text(
        '{"goal": "g", "history": {}, "observation": "o", "action": "a", "kind": "k", "env": "e",'
        ' "split": "train", "task_id": "t", "source": "s", "trajectory_id": "x", "step": 0}\n'
    )
    assert records.check(path).type == "tuple"
