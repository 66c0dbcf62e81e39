"""The scripts in examples/ run as they stand, on a few episodes and games."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

import ldm
from ldm import records

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted(file.stem for file in (ROOT / "examples").glob("*.py"))
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


def test_memory_in_your_agent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    actions = example("memory_in_your_agent", monkeypatch).main()
    assert actions[:2] == ["fill the kettle", "boil the water"]
    assert actions[2:] == ["put a tea bag into the cup", "pour the water into the cup"]
    assert "make a cup of coffee: boil the water" in capsys.readouterr().out


@pytest.mark.slow
def test_evaluate_your_agent(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = example("evaluate_your_agent", monkeypatch).main(data, tmp_path, GAMES)
    recalling, control = comparison.reports
    assert recalling.summary.overall.episodes == control.summary.overall.episodes == GAMES
    assert recalling.summary.overall.errors == control.summary.overall.errors == 0
    assert control.label == "evaluate_your_agent:Imitator control=random"
    assert f"on the same {GAMES} tasks" in str(comparison)


@pytest.mark.slow
def test_refine_and_compare(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = example("refine_and_compare", monkeypatch).main(data, tmp_path, GAMES, GAMES)
    labels = [report.label for report in comparison.reports]
    assert labels == ["ldm generation 1", "ldm generation 0"]
    assert f"{GAMES} goals explored" in capsys.readouterr().out


@pytest.mark.slow
def test_success_curve(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = example("success_curve", monkeypatch)
    curve = script.main((6, 12), data, tmp_path, GAMES)
    assert [point.episodes for point in curve] == [6, 12]
    assert all(point.low <= point.success <= point.high for point in curve)
    six, twelve = script.plot(curve).splitlines()
    assert six.startswith("   6 episodes |")
    assert twelve.endswith(f"{curve[1].success:.0%}")


def test_every_example_is_tested_and_uses_the_public_api_only() -> None:
    for name in EXAMPLES:
        assert f"test_{name}" in globals()
        source = (ROOT / "examples" / f"{name}.py").read_text()
        assert "\nimport ldm\n" in source
        assert "from ldm" not in source
        assert "import ldm." not in source
