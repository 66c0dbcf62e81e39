"""`--sweep` over options of environments and models, and rows of a table with their own."""

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Run
from tests.integration.test_several_agents_cli import TOY, server
from tests.llm.server import FakeServer

__all__ = ["server"]

SHED = ("--env", "tests.toy:ToyEnv", "--agent", "random", "--workers", "1")


def labels(out: str) -> list[str]:
    first = json.loads(out)
    return [first["agent"], *(one["agent"] for one in first["compared"])]


def test_models_are_swept_and_each_run_knows_its_own(run: Run, server: FakeServer) -> None:
    outcome = run("eval", *TOY, "--agent", "react", "--sweep", "models.llm=small,large", "--json")
    assert labels(outcome.out) == ["react llm=small", "react llm=large"]
    assert {body["model"] for body in server.bodies} == {"small", "large"}
    report = json.loads(outcome.out)
    assert report["had"]["models"]["llm"] == "small"
    (Path(report["compared"][0]["run"]) / "episodes.jsonl").unlink()
    again = run("eval", "--resume", report["run"], "--trust", "--json")
    assert labels(again.out) == ["react llm=small", "react llm=large"]


def test_rows_of_a_table_have_models_and_environments_of_their_own(
    run: Run, server: FakeServer
) -> None:
    preset = ("--preset", Path(__file__).with_name("two_models.toml"), "--trust", "--llm", "small")
    lacking = run("eval", *preset)
    assert (lacking.code, Path("runs").exists()) == (1, False)
    assert "--planner-llm names no model" in lacking.err
    outcome = run("eval", *preset, "--planner-llm", "wise", "--json")
    rows = [json.loads(outcome.out), *json.loads(outcome.out)["compared"]]
    assert [row["had"]["models"]["llm"] for row in rows] == ["wise", "small"]
    plans: list[dict[str, Any]] = [
        json.loads((Path(row["run"]) / "run.json").read_text()) for row in rows
    ]
    assert [plan["protocol"]["shelves"] for plan in plans] == [3, 5]
