import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT


def fuzzed(folder: Path, seed: str, sessions: int) -> dict[str, tuple[str, dict[str, int]]]:
    """What random shopping sees in a process with this hash seed (`fuzz.py`)."""
    answer = subprocess.check_output(
        [sys.executable, "-m", "tests.worlds.webshop.fuzz", folder, str(sessions), "40"],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=CHECKOUT,
    )
    report: dict[str, tuple[str, dict[str, int]]] = json.loads(answer)
    return report


@pytest.mark.process
def test_random_actions_never_fail_and_do_not_depend_on_the_hash_seed(small: Path) -> None:
    """A sample; `python -m tests.worlds.webshop.fuzz` plays 100,000 actions in 1,000 sessions."""
    report = fuzzed(small, "0", 60)
    assert fuzzed(small, "4711", 60) == report
    counts = [count for _, count in report.values()]
    assert sum(count["actions"] for count in counts) == 60 * 40
    assert all(count["invalid"] > 100 for count in counts)
    assert all(count["purchases"] > 0 for count in counts)
