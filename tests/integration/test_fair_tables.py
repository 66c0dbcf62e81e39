"""Tables say what each agent had, and one command shows all agents the same."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.integration.test_several_agents_cli import TOY, runs, server, timeless
from tests.llm.server import FakeServer

__all__ = ["server"]

RANDOM = ("--env", "tests.toy:ToyEnv", "--agent", "random", "--workers", "1")
PAIR = ("--agent", "random,react", "--workers", "1")


def test_all_are_shown_the_possible_actions_if_one_is(run: Run, server: FakeServer) -> None:
    outcome = run("eval", *TOY, *PAIR).done()
    assert "All agents are shown the possible actions, because random is: this adds" in outcome.err
    assert "actions listed" in outcome.out.partition("The same for all of them:")[2]
    assert "take" in server.bodies[-1]["messages"][1]["content"].partition("possible")[2]
    had = [json.loads((one / "run.json").read_text())["spec"] for one in runs()]
    assert next(p["agent"] for p in had if p["agent"]["name"] == "react")["admissible"] is True


def test_what_each_had_is_said(run: Run, server: FakeServer) -> None:
    outcome = run("eval", *TOY, *PAIR, "--agent.shots", "0", "--json")
    random, react = (report := json.loads(outcome.out)), report["compared"][0]
    assert random["had"]["actions_listed"]
    assert not any(random["had"][name] for name in ("demonstrations", "memory", "models"))
    assert react["had"]["models"] == {"llm": "fake", "planner": "fake"}
    assert react["had"]["demonstrations"] == 0
    assert "up to 0 demonstrations, the model fake (" in outcome.err
    assert "tokens per task)." in outcome.err


class TestRepeats:
    def test_are_one_row_clustered_by_task(self, run: Run, server: FakeServer) -> None:
        report = json.loads(run("eval", *RANDOM, "--repeat", "3", "--json").out)
        assert report["episodes"] == 36
        repeats = report["repeats"]
        assert len(repeats["runs"]) == len(set(repeats["runs"])) == 3
        mean = repeats["success_rate"]["mean"]
        assert mean == pytest.approx(report["success_rate"])
        chances = [one["rate"] for one in repeats["pass_at"]]
        assert chances[0] == pytest.approx(mean)
        assert chances == sorted(chances)

    def test_have_the_seeds_that_follow_and_resume_together(
        self, run: Run, server: FakeServer
    ) -> None:
        first = json.loads(run("eval", *RANDOM, "--repeat", "2", "--seed", "5", "--json").out)
        plans = [json.loads((one / "run.json").read_text())["spec"] for one in runs()]
        assert sorted((plan["repeat"], plan["seed"]) for plan in plans) == [(1, 5), (2, 6)]
        (Path(first["repeats"]["runs"][1]) / "episodes.jsonl").unlink()
        again = json.loads(run("eval", "--resume", first["run"], "--trust", "--json").out)
        assert timeless(again) == timeless(first)

    def test_named_one_by_one_are_compared_as_one(self, run: Run, server: FakeServer) -> None:
        run("eval", *RANDOM, "--repeat", "2")
        outcome = run("compare", *runs(), "--trust", "--json")
        (report,) = json.loads(outcome.out)["runs"]
        assert len(report["repeats"]["runs"]) == 2


def test_results_are_written_as_a_table(run: Run, server: FakeServer) -> None:
    report = json.loads(run("eval", *TOY, *PAIR, "--output", "results.csv", "--json").out)
    with Path("results.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 8
    solved = [row["success"] == "true" for row in table if row["agent"] == "random"]
    assert sum(solved) / len(solved) == report["success_rate"]
    assert {row["models"] for row in table if row["agent"] == "react"} == {"fake"}
    again = run("compare", *runs(), "--trust", "--output", "again.csv").done()
    assert "8 episodes → again.csv" in again.err
    run("compare", *runs(), "--trust", "--output", "again.xls").refused("is not a .csv file")
