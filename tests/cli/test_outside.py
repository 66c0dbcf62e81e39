"""An environment and an agent of another package are seen by every command, as our own are."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ldm.envs import download, formats
from tests.cli.conftest import Run

MODULE = '''
"""A depot, and a clerk who works in it."""

from dataclasses import dataclass
from pathlib import Path

from ldm.envs.download import RemoteFile
from ldm.envs.metadata import DataCheck, DataSource, Extra, Metadata, ShippedSplits
from ldm.episode import Agent, EnvironmentBase
from ldm.errors import LdmError
from ldm.reporting import Branch, Findings, Measure, Reporting, TaskTree
from ldm.types import Card, Step, Task, TimeStep, Trajectory


@dataclass(frozen=True, slots=True)
class DepotOptions:
    data: str | None = None


class Depot(EnvironmentBase):
    """Fetching crates."""

    card = Card("depot", "Fetch the crate.", ("fetch",), published={"clerk": {"patience": 7}})
    metadata = Metadata(
        data=DataSource(
            __name__, "DEPOT_DATA", "crates.txt", "Buy some crates.",
            {"few": "2 crates", "many": "4 crates"},
        ),
        shipped=ShippedSplits("demo_learn", "demo_try"),
        batch_size=2,
        extra=Extra(("crane-driver",), "high shelves", "pip install crane-driver"),
    )
    default_split = "try"
    train_splits = ("learn", "demo_learn")
    Options = DepotOptions

    def protocol(self):
        return {"environment": "depot"}

    def tasks(self, split):
        if not split.startswith("demo_") and not self.options.data:
            raise LdmError(f"depot needs data for {split}.", "Get some.")
        return [Task(f"{split}/{n}", "depot", split, f"crate {n}", "crate") for n in range(3)]

    def reset(self, task):
        return TimeStep("You are in the depot.", admissible=("fetch",))

    def step(self, action):
        done = action == "fetch"
        return TimeStep("There.", float(done), done, ("fetch",), valid=done)

    def fork(self):
        return Depot(self.options)


FILES = {"few": (RemoteFile("http://depot.example/few", "crates.txt"),)}


def check(path):
    crates = (path / "crates.txt").read_text().split()
    return DataCheck("depot", path, facts={"crates": len(crates)})


def stack(count: int = 1):
    """Stack crates."""
    print("crate " * count)


SUFFIXES, SIGN, HEAD, ENV = (".jsonl",), '"slip"', None, "depot"


def detect(line):
    return "slip" in line


def parse(line, file, number):
    task = Task(f"learn/{number}", "depot", "learn", line["slip"], "crate")
    return Trajectory(task, "Start.", (Step("fetch", "There.", 1.0),), 1.0, True, "human")


@dataclass(frozen=True, slots=True)
class ClerkOptions:
    patience: int | None = None


class Clerk(Agent):
    """Fetches at once."""

    name = "clerk"
    paper = "a shop floor"
    Options = ClerkOptions
    reporting = Reporting(
        (Measure("haste", "how soon it fetched", lambda result: 1 / result.env_steps),),
        lambda results: Findings(("Nobody was hurt.",), {"hurt": 0}),
        lambda result: TaskTree({"parts": "1"}, "undivided", (Branch(0, result.task.goal),)),
    )

    def __init__(self, options, resources):
        self.options = options

    def budget(self, card):
        return self.options.patience or card.published[self.name]["patience"]

    def solve(self, episode):
        episode.note("budget", steps=episode.budget)
        with episode.trial():
            episode.act("fetch")
'''
ENTRY_POINTS = """
[ldm.formats]
depot-slips = depot_outside
[ldm.envs]
depot = depot_outside:Depot
broken_depot = depot_outside:Nothing

[ldm.agents]
clerk = depot_outside:Clerk

[ldm.commands]
stack = depot_outside:stack
eval = depot_outside:stack
broken = depot_outside:nothing
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that announces an environment, an agent and commands."""
    site = tmp_path / "site"
    info = site / "depot_outside-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "depot_outside.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: depot-outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "depot_outside", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(formats, "_formats", formats._formats.__wrapped__)  # nothing is remembered


@pytest.fixture
def crates(tmp_path: Path) -> Path:
    (tmp_path / "crates").mkdir()
    (tmp_path / "crates" / "crates.txt").write_text("a b c")
    return tmp_path / "crates"


def test_they_are_listed(run: Run) -> None:
    environments = json.loads(run("envs", "--json").out)
    assert environments["depot"]["is"] == "Fetching crates."
    assert "cannot be imported" in environments["broken_depot"]["unusable"]
    clerk = json.loads(run("agents", "--json").out)["clerk"]
    assert clerk["patience by environment"] == {"depot": 7}


def test_its_commands_are_part_of_the_command_line(run: Run) -> None:
    listed = run("--help").out
    assert "  stack " in listed
    assert "Stack crates." in listed
    assert run("stack", "--count", "2").out == "crate crate \n"
    assert "Evaluate" in run("eval", "--help").out  # no plug-in replaces a command
    broken = run("broken")
    assert (broken.code, "cannot be imported" in broken.err) == (1, True)
    assert run("nothing").code == 2


def test_doctor_looks_at_its_data_and_packages(
    run: Run, crates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checks() -> dict[str, Any]:
        return {c["name"]: c for c in json.loads(run("doctor", "--json").out)["checks"]}

    results = checks()
    assert (results["DEPOT_DATA"]["status"], results["DEPOT_DATA"]["remedy"]) == (
        "missing",
        "Buy some crates.",
    )
    assert results["crane-driver"]["detail"] == "not installed; only for high shelves"
    assert results["crane-driver"]["remedy"] == "`pip install crane-driver`"
    assert "cannot be imported" in results["environment broken_depot"]["detail"]
    monkeypatch.setenv("DEPOT_DATA", str(crates))
    assert checks()["DEPOT_DATA"]["detail"] == str(crates)


@pytest.mark.parametrize("name", ["depot", "depot_outside:Depot"])
def test_its_data_are_checked_and_downloaded(
    run: Run, crates: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("data", name, crates).out == f"depot in {crates}\n  crates: 3\n0 problems\n"
    assert "DEPOT_DATA is not set" in run("data", name).err
    wrong = run("data", name, "--to", "x", "--size", "x").err
    assert "choose from few (2 crates), many (4 crates)" in " ".join(wrong.split())

    def fetch(url: str, file: Path, **_: object) -> str:
        file.parent.mkdir(parents=True)
        file.write_text("a b")
        return "0" * 64

    monkeypatch.setattr(download, "fetch", fetch)
    got = run("data", name, "--to", tmp_path / "few")
    assert (got.code, "crates: 2" in got.out) == (0, True)
    assert f"export DEPOT_DATA={tmp_path / 'few'}" in got.out


def test_reports_say_what_the_agent_tells(run: Run, tmp_path: Path) -> None:
    run("eval", "--env", "depot", "--split", "demo_try", "--agent", "clerk", "--workers", 1).done(
        "haste, how soon it fetched, on average: 1.00 (crate 1.00).", "Nobody was hurt."
    )
    (run_folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((run_folder / "summary.json").read_text())["overall"]["haste"] == 1.0
    episodes = (run_folder / "episodes.jsonl").read_text()
    assert '"steps":7' in episodes  # the budget on its card
    assert "Trees" in run("runs", "show", run_folder, "--tree").out
    tree = run("runs", "show", run_folder, "demo_try/1", "--tree").out
    assert "solved, undivided\ncrate 1\n" in tree
