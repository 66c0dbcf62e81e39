"""Tables say what each agent had, one command shows all the same, and `--sweep` varies it."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.conftest import run
from tests.integration.test_several_agents_cli import TOY, reply, runs, timeless
from tests.llm.server import FakeServer

__all__ = ["reply"]  # what the server answers
pytestmark = pytest.mark.usefixtures("place", "server")

RANDOM = ("--env", "tests.toy:ToyEnv", "--agent", "random", "--workers", "1")
PAIR = ("--agent", "random,react", "--workers", "1")


def test_all_are_shown_the_possible_actions_if_one_is(server: FakeServer) -> None:
    outcome = run("eval", *TOY, *PAIR).done()
    assert "All agents are shown the possible actions, because random is: this adds" in outcome.err
    assert "actions listed" in outcome.out.partition("The same for all of them:")[2]
    assert "take" in server.bodies[-1]["messages"][1]["content"].partition("possible")[2]
    had = [json.loads((one / "run.json").read_text())["spec"] for one in runs()]
    assert next(p["agent"] for p in had if p["agent"]["name"] == "react")["admissible"] is True


def test_what_each_had_is_said() -> None:
    outcome = run("eval", *TOY, *PAIR, "--agent.shots", "2", "--json")  # none is known there
    random, react = (report := json.loads(outcome.out)), report["compared"][0]
    assert random["had"]["actions_listed"]
    assert not any(random["had"][name] for name in ("demonstrations", "memory", "models"))
    assert react["had"]["models"] == {"llm": "fake", "planner": "fake"}
    assert react["had"]["demonstrations"] == 0
    assert "up to 0 demonstrations, the model fake (" in outcome.err
    assert "tokens per task)." in outcome.err


class TestRepeats:
    def test_are_one_row_clustered_by_task(self) -> None:
        report = json.loads(run("eval", *RANDOM, "--repeat", "3", "--json").out)
        assert report["episodes"] == 36
        repeats = report["repeats"]
        assert len(repeats["runs"]) == len(set(repeats["runs"])) == 3
        mean = repeats["success_rate"]["mean"]
        assert mean == pytest.approx(report["success_rate"])
        chances = [one["rate"] for one in repeats["pass_at"]]
        assert chances[0] == pytest.approx(mean)
        assert chances == sorted(chances)

    def test_have_the_seeds_that_follow_and_resume_together(self) -> None:
        first = json.loads(run("eval", *RANDOM, "--repeat", "2", "--seed", "5", "--json").out)
        plans = [json.loads((one / "run.json").read_text())["spec"] for one in runs()]
        assert sorted((plan["repeat"], plan["seed"]) for plan in plans) == [(1, 5), (2, 6)]
        (Path(first["repeats"]["runs"][1]) / "episodes.jsonl").unlink()
        again = json.loads(run("eval", "--resume", first["run"], "--trust", "--json").out)
        assert timeless(again) == timeless(first)

    def test_named_one_by_one_are_compared_as_one(self) -> None:
        run("eval", *RANDOM, "--repeat", "2")
        outcome = run("compare", *runs(), "--trust", "--json")
        (report,) = json.loads(outcome.out)["runs"]
        assert len(report["repeats"]["runs"]) == 2


@pytest.mark.parametrize("name", ["results.parquet", "results.csv"])
def test_results_are_written_as_a_table(name: str) -> None:
    report = json.loads(run("eval", *TOY, *PAIR, "--output", name, "--json").out)
    table = pl.read_parquet(name) if name.endswith("parquet") else pl.read_csv(name)
    assert len(table) == 8
    rates = dict(table.group_by("agent").agg(pl.col("success").mean()).iter_rows())
    assert rates["random"] == report["success_rate"]
    assert table.filter(agent="react")["models"].unique().to_list() == ["fake"]
    assert (
        f"8 episodes → again-{name}"
        in run("compare", *runs(), "--trust", "--output", f"again-{name}").done().err
    )


def labels(out: str) -> list[str]:
    first = json.loads(out)
    return [first["agent"], *(one["agent"] for one in first["compared"])]


def test_models_are_swept_and_each_run_knows_its_own(server: FakeServer) -> None:
    outcome = run("eval", *TOY, "--agent", "react", "--sweep", "models.llm=small,large", "--json")
    assert labels(outcome.out) == ["react llm=small", "react llm=large"]
    assert {body["model"] for body in server.bodies} == {"small", "large"}
    report = json.loads(outcome.out)
    assert report["had"]["models"]["llm"] == "small"
    (Path(report["compared"][0]["run"]) / "episodes.jsonl").unlink()
    again = run("eval", "--resume", report["run"], "--trust", "--json")
    assert labels(again.out) == ["react llm=small", "react llm=large"]


def test_rows_of_a_table_have_models_and_environments_of_their_own() -> None:
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
