"""`--sweep` over options of environments and models, and models at servers of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.integration.test_several_agents_cli import TOY, knows_its_way, runs, server
from tests.llm.conftest import Serve, serve
from tests.llm.server import FakeServer

__all__ = ["serve", "server"]

SHED = ("--env", "tests.toy:ToyEnv", "--agent", "random", "--workers", "1")


def labels(out: str) -> list[str]:
    first = json.loads(out)
    return [first["agent"], *(one["agent"] for one in first["compared"])]


def test_an_option_of_the_environment_is_swept(run: Run, server: FakeServer) -> None:
    outcome = run("eval", *SHED, "--sweep", "env.shelves=2,6", "--json")
    assert labels(outcome.out) == ["random env.shelves=2", "random env.shelves=6"]
    protocols = [json.loads((one / "run.json").read_text())["protocol"] for one in runs()]
    assert sorted(protocol["shelves"] for protocol in protocols) == [2, 6]


def test_models_are_swept_and_each_run_knows_its_own(run: Run, server: FakeServer) -> None:
    outcome = run("eval", *TOY, "--agent", "react", "--sweep", "llm=small,large", "--json")
    assert labels(outcome.out) == ["react llm=small", "react llm=large"]
    assert {body["model"] for body in server.bodies} == {"small", "large"}
    report = json.loads(outcome.out)
    assert report["had"]["models"]["llm"] == "small"
    (Path(report["compared"][0]["run"]) / "episodes.jsonl").unlink()
    again = run("eval", "--resume", report["run"], "--llm", "other", "--trust", "--json")
    assert labels(again.out) == ["react llm=small", "react llm=large"]


def test_a_planner_may_be_at_a_server_of_its_own(
    run: Run, server: FakeServer, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = serve(answer=knows_its_way)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("LDM_PLANNER_API_KEY", "the-planner's")
    options = ("--planner-llm", "wise", "--planner-base-url", other.url)
    outcome = run("eval", *TOY, "--agent", "plan_hint", *options, "--json")
    assert json.loads(outcome.out)["success_rate"] == 1.0
    assert {body["model"] for body in server.bodies} == {"fake"}
    assert {body["model"] for body in other.bodies} == {"wise"}
    assert {one["authorization"] for one in other.headers} == {"Bearer the-planner's"}
    assert {one["authorization"] for one in server.headers} == {"Bearer not-a-real-key"}
    assert f"the planner is at {other.url}" in outcome.err
    replay = run("eval", "--resume", json.loads(outcome.out)["run"], "--trust", "--json")
    assert json.loads(replay.out)["success_rate"] == 1.0


def test_our_key_is_not_sent_elsewhere(
    run: Run, server: FakeServer, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = serve(answer=knows_its_way)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.delenv("LDM_PLANNER_API_KEY", raising=False)
    run("eval", *TOY, "--agent", "plan_hint", "--planner-base-url", other.url)
    assert other.headers
    assert not any("not-a-real-key" in str(one) for one in other.headers)


@pytest.mark.parametrize("url", ["ftp://x", "http://me:secret@127.0.0.1/v1", "http://x/v1?key=3"])
def test_an_address_with_more_than_a_place_is_refused(
    url: str, run: Run, server: FakeServer
) -> None:
    outcome = run("eval", *TOY, "--agent", "plan_hint", "--planner-base-url", url)
    assert outcome.code == 1
    assert "The address of the server of the planner is no plain URL." in outcome.err
    assert "LDM_PLANNER_API_KEY" in outcome.err
    assert not Path("runs").exists()


ROWS = """
title = "Two models"
paper = "Sheds, arXiv 0000.00000"
table = "Table 5"

[needs]
planner_llm = "a second model"

[evaluation]
env = "tests.toy:ToyEnv"
split = "test"
limit = 2
agent = { budget = 6 }

[[rows]]
name = "wise alone"
agent = "react"
models = { llm = "planner_llm" }

[[rows]]
name = "small, in a large shed"
agent = "react"
env = { name = "tests.toy:ToyEnv", shelves = 5 }
"""


def test_rows_of_a_table_have_models_and_environments_of_their_own(
    run: Run, server: FakeServer
) -> None:
    Path("two.toml").write_text(ROWS)
    preset = ("--preset", "two.toml", "--trust", "--llm", "small")
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
