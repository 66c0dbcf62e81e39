"""A package of another project adds an environment and an agent."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT


@pytest.mark.slow
def test_its_own_tests_hold_with_the_contracts_of_ldm(tmp_path: Path) -> None:
    """It is installed into a folder; nothing is downloaded."""
    source, site = tmp_path / "source", tmp_path / "site"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CHECKOUT / "tests" / "thirdparty", source, ignore=ignored)
    offline = ["--no-index", "--no-deps", "--no-build-isolation"]
    pip = [sys.executable, "-m", "pip", "-q", "install", *offline, "--target"]
    subprocess.run([*pip, site, source], check=True, capture_output=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    paths = map(str, (site, CHECKOUT, *filter(None, [os.environ.get("PYTHONPATH")])))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--pyargs", "post_office.contracts"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "22 passed" in done.stdout
