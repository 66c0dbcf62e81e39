"""The scripts and notebooks in examples/ run as they stand, on a few episodes and games."""

import importlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ldm
from ldm import records

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted(file.name for file in (ROOT / "examples").glob("*.*"))
#: Of each of the six kinds of task, so many of the shipped episodes.
EPISODES = 2
#: Games to play, and goals to explore: a short memory makes for long games.
GAMES = 2


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few of the shipped episodes, of all kinds."""
    folder = tmp_path_factory.mktemp("data")
    by_kind: dict[str, list[ldm.Trajectory]] = {}
    for trajectory in ldm.read_trajectories(ROOT / "data" / "trajectories" / "alfworld"):
        by_kind.setdefault(trajectory.task.kind, []).append(trajectory)
    some = [trajectory for kind in by_kind.values() for trajectory in kind[:EPISODES]]
    records.write(folder / "episodes.jsonl", some)
    return folder


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker takes longer to start than these few tasks do."""
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import an example as the script that it is: its folder is on the path."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    return importlib.import_module(name)


@pytest.mark.slow
def test_evaluate_your_agent(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = example("evaluate_your_agent", monkeypatch).main(data, tmp_path, GAMES)
    recalling, control = comparison.reports
    assert recalling.summary.overall.episodes == control.summary.overall.episodes == GAMES
    assert not any(one.summary.overall.figures["errors"] for one in comparison.reports)
    assert control.label == "evaluate_your_agent:Imitator control=random"
    assert f"on the same {GAMES} tasks" in str(comparison)


def notebook(name: str, **parameters: object) -> dict[str, Any]:
    """Run the cells of a notebook in their order; return the names that they leave.

    parameters: replace those of its cell that is tagged so.
    """
    text = (ROOT / "examples" / f"{name}.ipynb").read_text("utf-8")
    space: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), name, "exec"), space)
        if "parameters" in cell["metadata"].get("tags", ()):
            space |= parameters
    return space


@pytest.mark.slow
def test_memory_for_a_support_agent(capsys: pytest.CaptureFixture[str]) -> None:
    notebook("memory_for_a_support_agent", ROUNDS=1)
    printed = capsys.readouterr().out
    assert "price <= 49.5 → refund (22 of 22)" in printed
    assert "rule as recorded: 20 of 20" in printed


@pytest.mark.slow
def test_watch_a_refinement(capsys: pytest.CaptureFixture[str]) -> None:
    space = notebook("watch_a_refinement", PRACTICE=5, GAMES=2)
    assert space["refined"].generation.number == 1
    assert "on the same 2 tasks" in capsys.readouterr().out


@pytest.mark.slow
def test_alfworld_curve() -> None:
    space = notebook("alfworld_curve", SIZES=(6, 12), GAMES=GAMES)
    assert space["curve"]["episodes"].to_list() == [6, 6, 12, 12]
    assert "polyline" in space["Curve"]()._repr_svg_()


def test_every_example_is_tested_and_uses_the_public_api_only() -> None:
    for name in EXAMPLES:
        assert f"test_{name.partition('.')[0]}" in globals()
        source = (ROOT / "examples" / name).read_text("utf-8").replace("\\n", "\n")
        assert re.search(r"^\W*import ldm\W*$", source, re.MULTILINE)
        assert "from ldm" not in source
        assert "import ldm." not in source
