"""A recorded run is believed if its environment says again what its records say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ldm

SCRIPT = Path(ldm.__file__).parents[1] / "scripts" / "leaderboard.py"


def verified(run: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "verify", str(run)],
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.process
def test_a_run_is_verified_and_one_whose_result_was_changed_is_refused(tmp_path: Path) -> None:
    spec = ldm.Evaluate("webshop", agent="random", limit=2)
    run = ldm.evaluate(spec, runtime=ldm.Runtime(runs=tmp_path)).directory
    assert "2 episodes, all as recorded" in verified(run).stdout
    path = run / "episodes.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    lines[0].update(score=1.0, success=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    refused = verified(run)
    assert refused.returncode == 1
    assert "its result is not what its submitted trial says" in refused.stderr
