"""`ldm curve`: the papers' figures, each drawn with one command from runs of scripted models."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ldm import records
from ldm.report.drawing import svg
from tests.agents.washer import reply
from tests.cli.conftest import Run, place, run, server
from tests.embedder import BagOfWords
from tests.llm.conftest import serve
from tests.llm.server import FakeServer
from tests.toy import ToyOptions, expert_trajectories

__all__ = ["place", "reply", "run", "serve", "server"]  # reply: what the server answers

TOY = ("--env", "tests.toy:ToyEnv")
SHED = (*TOY, "--env.shelves", "6", "--workers", "1")


@pytest.fixture(autouse=True)
def _place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ldm.embed.load_embedder", lambda name=None: BagOfWords(name or "bag-of-words")
    )


def played(run: Run, *command: str) -> str:
    """The first run of a command's evaluations."""
    outcome = run(*command, "--json")
    assert outcome.code == 0, outcome.err
    report: Mapping[str, Any] = json.loads(outcome.out)
    return str(report["run"])


def points(run: Run, *command: str) -> dict[str, list[tuple[float, float]]]:
    """Line → (value, rate) of each point that a command prints."""
    outcome = run("curve", *command, "--trust", "--json")
    assert outcome.code == 0, outcome.err
    lines: dict[str, list[tuple[float, float]]] = {}
    for point in json.loads(outcome.out)["points"]:
        assert point["interval"][0] <= point["rate"] <= point["interval"][1]
        lines.setdefault(point["series"], []).append((point["at"], point["rate"]))
    return lines


def built(run: Run, memory: str, count: int, *options: str) -> None:
    """Form a memory of so many episodes."""
    episodes = expert_trajectories(options=ToyOptions(tasks=12, shelves=6))[:count]
    records.write(Path(memory, "data", "train.jsonl"), episodes)
    command = ("build-memory", str(Path(memory, "data")), "--memory", f"{memory}/memory", *options)
    outcome = run(*command)
    assert outcome.code == 0, outcome.err


@pytest.mark.slow
def test_over_batch_memories_as_ldm2_figure_3(run: Run) -> None:
    built(run, "all", 12, "--batch-size", "2")
    first = played(run, "eval", *SHED, "--memory", "all/memory", "--sweep", "agent.batches=1,2,3")
    (line,) = points(run, first).values()
    assert [at for at, _ in line] == [1, 2, 3]


@pytest.mark.slow
def test_over_episodes_in_memories_that_were_built_apart(run: Run) -> None:
    first = []
    for count in (2, 6, 12):
        built(run, str(count), count)
        first.append(played(run, "eval", *SHED, "--memory", f"{count}/memory"))
    (line,) = points(run, *first, "--over", "episodes").values()
    assert [at for at, _ in line] == [2, 6, 12]
    assert points(run, *first) == {"ldm": line}  # the episodes are what differs


def test_over_generations_of_a_refined_memory(run: Run) -> None:
    built(run, "some", 2)
    memory = ("--memory", "some/memory")
    refined = run("refine", *SHED, *memory, "--depth", "12", "--gate", "off", "--limit", "4")
    assert refined.code == 0, refined.err
    first = played(run, "eval", *SHED, *memory, "--generation", "0,newest")
    (line,) = points(run, first, "--over", "generation").values()
    assert [at for at, _ in line] == [0, 1]


def test_over_depth_as_adapt_figure_4(run: Run, server: FakeServer) -> None:
    quick = ("--split", "demo_test", "--limit", "2", "--agent.executor_steps", "3")
    preset = ("--preset", "adapt-figure4-alfworld", *quick, "--llm", "washer")
    assert [at for at, _ in points(run, played(run, "eval", *preset))["adapt"]] == [1, 2, 3]


@pytest.mark.slow
def test_over_iterations_as_autoplan_figure_3(run: Run, server: FakeServer) -> None:
    brief = ("--iterations", "2", "--plan.pool", "4", "--plan.steps", "9", "--workers", "1")
    several = ("--repeat", "2", "--sweep", "plan.batch=1,2", "--eval", "test", "--curve")
    outcome = run(
        *("autoplan", *TOY, "--kind", "wash", *brief, *several, "--llm", "washer", "--json")
    )
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    lines = points(run, result["plans"][0]["run"])
    assert list(lines) == ["batch=1", "batch=2"]
    for variant, line in lines.items():
        assert [at for at, _ in line] == [0, 1, 2]
        means = [
            one["mean"] for one in result["evaluation"]["success"] if one["variant"] == variant
        ]
        assert [rate for _, rate in line] == pytest.approx(means)


def test_agents_and_settings_of_the_environment_are_lines_of_their_own(run: Run) -> None:
    runs = [
        played(
            *(run, "eval", *TOY, "--agent", "random", "--workers", "1"),
            *("--agent.budget", f"{budget}", "--sweep", "env.shelves=2,6"),
        )
        for budget in (10, 40)
    ]
    lines = points(run, *runs, "--over", "budget")
    assert list(lines) == ["env.shelves=2", "env.shelves=6"]
    by_shelves = points(run, *runs, "--over", "env.shelves")
    assert list(by_shelves) == ["budget=10", "budget=40"]
    assert sorted(rate for line in lines.values() for _, rate in line) == sorted(
        rate for line in by_shelves.values() for _, rate in line
    )


def test_repeats_are_one_point_with_their_deviation(run: Run) -> None:
    sweep = (
        "--agent",
        "random",
        "--sweep",
        "agent.budget=10,80",
        "--repeat",
        "3",
        "--workers",
        "1",
    )
    first = played(run, "eval", *TOY, *sweep)
    outcome = run("curve", first, "--trust", "--json")
    few, many = json.loads(outcome.out)["points"]
    assert (few["runs"], few["tasks"], few["at"], many["at"]) == (3, 12, 10, 80)
    assert many["deviation"] is not None
    assert few["rate"] < many["rate"]


class TestFiles:
    @pytest.fixture
    def first(self, run: Run) -> str:
        sweep = ("--agent", "random", "--sweep", "agent.budget=10,80", "--workers", "1")
        return played(run, "eval", *TOY, *sweep)

    def test_are_a_picture(self, first: str, run: Run) -> None:
        outcome = run("curve", first, "--trust", "-o", "curve.svg")
        assert outcome.code == 0, outcome.err
        texts = [e.text for e in ET.parse("curve.svg").iter() if e.text and e.text.strip()]
        for text in ("success, 95 % intervals", "budget", "10", "80", "random"):
            assert text in texts

    def test_are_tables(self, first: str, run: Run) -> None:
        for name in ("curve.csv", "curve.json"):
            assert run("curve", first, "--trust", "-o", name).code == 0
        table = pl.read_csv("curve.csv")
        assert table.columns[:3] == ["series", "budget", "rate"]
        assert table["rate"].to_list() == [
            point["rate"] for point in json.loads(Path("curve.json").read_text())["points"]
        ]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("-o", "curve.gif"), "curve.gif does not end in .svg, .csv or .json."),
            (("--over", "k"), "has no number 'k'"),
            (("--over", "agent"), "What differs between the runs: budget."),
        ],
    )
    def test_are_not_written_where_something_does_not_fit(
        self, options: Sequence[str], message: str, first: str, run: Run
    ) -> None:
        outcome = run("curve", first, "--trust", *options)
        assert outcome.code == 1
        assert message in outcome.err
        assert not Path("curve.gif").exists()


def test_runs_on_other_tasks_are_not_on_one_line(run: Run) -> None:
    runs = [
        played(
            *(run, "eval", *TOY, "--agent", "random", "--workers", "1"),
            *("--limit", limit, "--agent.budget", f"{limit}"),
        )
        for limit in ("2", "4")
    ]
    outcome = run("curve", *runs, "--trust")
    assert outcome.code == 1
    assert "cannot be on one line. Their protocols differ: tasks" in outcome.err


def test_what_a_picture_is_told_does_no_harm() -> None:
    drawn = svg({"<script>\x1b[2J": [(0.0, 0.5, 0.4, 0.6)]}, "</svg>", "m&m", {0.0: "0"})
    assert "<script>" not in drawn
    assert "\x1b" not in drawn
    ET.fromstring(drawn)
