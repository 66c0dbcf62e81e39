"""A package of another project adds an environment and an agent: each command knows them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import CHECKOUT

pytestmark = pytest.mark.slow

PACKAGE = CHECKOUT / "tests" / "thirdparty"
EPISODES = """
import sys
from pathlib import Path
from ldm import records
from post_office.environment import expert_episodes
records.write(Path(sys.argv[1]), expert_episodes())
"""
LETTERS = """\
{"person": "Ms Lark", "room": "attic"}
{"person": "Mr Wren", "room": "attic"}
{"person": "Ms Finch", "room": "cellar"}
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is installed into; nothing is downloaded."""
    source = tmp_path_factory.mktemp("source") / "ldm-post-office"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
    place = tmp_path_factory.mktemp("site")
    offline = ["--no-index", "--no-deps", "--no-build-isolation"]
    pip = [sys.executable, "-m", "pip", "-q", "install", *offline, "--target"]
    subprocess.run([*pip, str(place), str(source)], check=True, capture_output=True)
    return place


@pytest.fixture(scope="module")
def surroundings(target: Path) -> dict[str, str]:
    """The variables of a process that finds the package, and this checkout."""
    paths = [str(target), str(CHECKOUT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


@pytest.fixture(scope="module")
def episodes(surroundings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the expert's episodes, which the package makes."""
    file = tmp_path_factory.mktemp("episodes") / "expert.jsonl"
    command = [sys.executable, "-c", EPISODES, str(file)]
    subprocess.run(command, check=True, env=surroundings, cwd=file.parent)
    return file


@pytest.fixture(autouse=True)
def place(target: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory where the package is installed."""
    monkeypatch.syspath_prepend(target)
    (place / "letters.jsonl").write_text(LETTERS)
    return place


def test_its_data_are_checked(run: Run, place: Path) -> None:
    run("data", "post_office", place).done("  letters: attic 2, cellar 1\n0 problems\n")
    (place / "letters.jsonl").write_text(LETTERS + '{"person": "Mr Nobody"}\n')
    assert "letters.jsonl:4" in run("data", "post_office", place).refused().out
    assert "nothing to download" in run("data", "post_office", "--to", place).err


def test_its_own_tests_hold_with_the_contracts_of_ldm(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--pyargs", "post_office.contracts"],
        env=surroundings,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "22 passed" in done.stdout
