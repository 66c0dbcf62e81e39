"""What is built and installed is whole: the wheel runs, and the frame's files agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from functools import partial
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, assert_type

import pytest

import ldm
from ldm import __version__

ROOT = Path(__file__).resolve().parents[1]
if TYPE_CHECKING:  # what mypy knows of the public names, which `ldm` loads when first used
    from ldm.memory.formation import BuildResult
    from ldm.memory.growing import GrowingMemory
    from ldm.run.results import Report
    from ldm.types import Recall

    assert_type(ldm.build_memory(), list[BuildResult])
    assert_type(ldm.Memory.open(".ldm/memory", "webshop"), ldm.Memory)
    growing = ldm.Memory.open("mine", "desk", create=True)
    assert_type(growing, GrowingMemory)
    assert_type(growing.recall("a goal", "a state")[0], Recall)
    report = ldm.evaluate(ldm.Evaluate("webshop", limit=6))
    assert_type(report, Report)
    assert_type(report.summary.overall.success_rate, float | None)


@pytest.fixture(scope="module")
def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built with what is installed: nothing is downloaded."""
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT],
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("ldm_memory-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of a fresh environment with the wheel; dependencies come from outside."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    (site,) = home.glob("lib/python*/site-packages")
    # A path in a .pth file is only searched, so this checkout's own editable install stays out.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "-q", "install"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True, capture_output=True)
    return home / "bin"


def as_user(place: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a command as a user who has configured nothing, successfully."""
    settings = ("PYTHONPATH", "ALFWORLD_DATA", "WEBSHOP_DATA", "OPENAI_BASE_URL", "OPENAI_API_KEY")
    variables = {name: value for name, value in os.environ.items() if name not in settings}
    command = [str(word) for word in words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=variables, cwd=place
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.process
def test_the_wheel_runs_and_prints_the_published_schemas(installed: Path, tmp_path: Path) -> None:
    done = as_user(tmp_path, installed / "ldm", "--version")
    assert done.stdout == f"ldm {__version__}\n"
    done = as_user(tmp_path, installed / "ldm", "validate", "--schema", "trajectory")
    assert done.stdout == (ROOT / "docs" / "schemas" / "trajectory.json").read_text()


@pytest.mark.slow
def test_the_wheel_builds_refines_and_evaluates_on_what_it_ships(
    installed: Path, tmp_path: Path
) -> None:
    command = partial(as_user, tmp_path, installed / "ldm")
    built = command("build-memory", "--env", "webshop", "--per-kind", "2")
    assert f"using the bundled expert episodes in {installed.parent}" in built.stderr
    assert "trajectories added as generation 0" in built.stdout
    command("refine", "--env", "webshop", "--limit", "1", "--gate.gate", "off")
    report = json.loads(command("eval", "--limit", "3", "--json").stdout)
    assert (report["env"], report["split"]) == ("webshop", "demo_test")
    assert (report["episodes"], report["errors"]) == (3, 0)


@pytest.mark.process
def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    process = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "ldm"], capture_output=True, text=True, check=False
    )
    if process.returncode:
        pytest.skip("this is not a git checkout")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("ldm/")}
    assert set(process.stdout.split()) <= packed
    shipped = {name for name in packed if name.startswith("ldm/trajectories/")}
    episodes = (ROOT / "data" / "trajectories").glob("*/*.jsonl*")
    assert {path.name for path in episodes} == {Path(name).name for name in shipped}
    assert "ldm/py.typed" in packed
    assert any(n.endswith("licenses/LICENSE") for n in zipfile.ZipFile(wheel).namelist())
    assert not [name for name in packed if "__pycache__" in name or name.startswith("ldm/tests")]


def test_constraints_are_exact_and_cover_every_dependency(project: dict[str, object]) -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    pinned = {name.lower().replace("_", "-") for name in pins}
    assert pins["torch"] == "2.13.0"
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    assert isinstance(project["dependencies"], list)
    requirements = [project["dependencies"], *extras.values()]
    names = {requirement_name(text) for group in requirements for text in group}
    assert names - {"ldm-memory"} <= pinned
    assert {"hatchling", "editables"} <= pinned


def test_environments_declare_the_packages_of_their_extras(project: dict[str, object]) -> None:
    from ldm import registry
    from ldm.envs import GROUP
    from ldm.envs.metadata import metadata

    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    names = registry.names({}, GROUP)
    with_extra = {name: extra for name in names if (extra := metadata(name).extra) is not None}
    assert set(extras) - {"all", "dev", "ray", "serve"} == set(with_extra)
    for name, extra in with_extra.items():
        assert {requirement_name(text) for text in extras[name]} == set(extra.distributions)
        assert f"[{name}]" in extra.install


def test_the_installed_entry_points_are_those_of_the_project(project: dict[str, object]) -> None:
    """An editable install has those of the day when it was made: `pip install -e .` renews it."""
    declared = project["entry-points"]
    assert isinstance(declared, dict)
    installed = distribution("ldm-memory").entry_points
    for group, points in declared.items():
        assert {p.name: p.value for p in installed if p.group == group} == points


def test_the_citation_names_the_version_and_the_papers() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {__version__}\n" in text
    for paper in ("2312.08402", "2311.05772", "2305.15064", "2302.01560"):
        assert f"arXiv:{paper}" in text


def requirement_name(requirement: str) -> str:
    """The name in a requirement such as "chromadb>=1.5" or "ldm-memory[tabletop]"."""
    for mark in "[<>=!~; ":
        requirement = requirement.partition(mark)[0]
    return requirement.lower().replace("_", "-")
