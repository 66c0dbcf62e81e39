"""The same experiment from the command line and from Python leaves the same bytes.

Only ids of runs, times, the version of the code and the place's name may differ.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import ldm
from tests.cli.conftest import run
from tests.run.recorded import EVALUATION, REFINEMENT, TOY, files, memory

COMMON = ("--env", TOY, "--env.tasks", "10", "--workers", "1")
COMPARED = ("--generation", "0,newest", "--control", "random")


def both(
    place: Path, monkeypatch: pytest.MonkeyPatch, *ways: Callable[[], None]
) -> tuple[Path, Path]:
    """Go each way in a directory of its own with the same data; return the directories."""
    first, second = place / "commands", place / "python"
    for directory, way in zip((first, second), ways, strict=True):
        directory.mkdir()
        if (place / "data").exists():
            shutil.copytree(place / "data", directory / "data")
        monkeypatch.chdir(directory)
        way()
    return first, second


def assert_same(first: Path, second: Path, *expected: str) -> None:
    """Compare memories and runs. expected: files that there are, among others."""
    assert memory(first) == memory(second)
    runs = files(first / "runs", first)
    assert {name.rpartition("/")[2] for name, _ in runs} >= {"run.json", *expected}
    for one, other in zip(runs, files(second / "runs", second), strict=True):
        assert one == other


@pytest.mark.slow
def test_three_commands_in_the_toy_environment(
    place: Path, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(built / "data", place / "data")

    def commands() -> None:
        run("build-memory", "data").done()
        run("refine", *COMMON, "--env.shelves", "8", "--depth", "12").done()
        options = ("--env.shelves", "5", "--agent.budget", "12", "--limit", "4")
        run("eval", *COMMON, *options, *COMPARED).done()

    def functions() -> None:
        runtime = ldm.Runtime(workers=1)
        ldm.build_memory("data")
        assert ldm.refine(REFINEMENT, runtime=runtime).generation is not None
        grid = ldm.Grid(generations=(0,), control="random")
        assert len(ldm.evaluate_all(EVALUATION, grid, runtime=runtime)) == 3

    first, second = both(place, monkeypatch, commands, functions)
    contents = ("trees.jsonl", "episodes.jsonl", "trajectories.jsonl", "summary.json")
    assert_same(first, second, *contents)
