"""An environment and an agent of another package are seen by every command, as our own are."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from ldm.envs import download, formats
from tests.cli.conftest import run

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
    shutil.copy(Path(__file__).with_name("depot_outside.py"), site)
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


def test_they_are_listed() -> None:
    environments = json.loads(run("envs", "--json").out)
    assert environments["depot"]["is"] == "Fetching crates."
    assert "cannot be imported" in environments["broken_depot"]["unusable"]
    clerk = json.loads(run("agents", "--json").out)["clerk"]
    assert clerk["patience by environment"] == {"depot": 7}


def test_its_commands_are_part_of_the_command_line() -> None:
    listed = run("--help").out
    assert "  stack " in listed
    assert "Stack crates." in listed
    assert run("stack", "--count", "2").out == "crate crate \n"
    assert "Evaluate" in run("eval", "--help").out  # no plug-in replaces a command
    broken = run("broken")
    assert (broken.code, "cannot be imported" in broken.err) == (1, True)
    assert run("nothing").code == 2


def test_doctor_looks_at_its_data_and_packages(
    crates: Path, monkeypatch: pytest.MonkeyPatch
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
    crates: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
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


def test_reports_say_what_the_agent_tells(tmp_path: Path) -> None:
    run("eval", "--env", "depot", "--split", "demo_try", "--agent", "clerk", "--workers", 1).done(
        "haste, how soon it fetched, on average: 1.00 (crate 1.00).", "Nobody was hurt."
    )
    (run_folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((run_folder / "summary.json").read_text())["overall"]["haste"] == 1.0
    episodes = (run_folder / "episodes.jsonl").read_text()
    assert '"steps":7' in episodes  # the budget on its card
    assert "Trees" in run("runs", "show", run_folder, "--tree").out
    tree = run("runs", "show", run_folder, "demo_try/1", "--tree").out
    assert "demo_try/1: solved\ngoal: crate 1\nundivided\ncrate 1\n" in tree
