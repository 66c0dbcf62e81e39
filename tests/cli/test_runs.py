"""`ldm runs list`, and what the shell completes, as users meet them."""

import json
from pathlib import Path

import pytest

from ldm.runs import open_run
from tests.cli.conftest import run

TOY = ("eval", "--env", "tests.toy:ToyEnv", "--workers", "1")
RANDOM = (*TOY, "--agent", "random", "--agent.budget", "4")


pytestmark = pytest.mark.usefixtures("place")


def played(*args: object) -> Path:
    """The directory of an evaluation that is run now."""
    outcome = run(*args, "--json").done()
    return Path(json.loads(outcome.out)["run"])


class TestListing:
    def test_of_stopped_and_running_ones_says_how_far_they_are(self, place: Path) -> None:
        directory = played(*RANDOM, "--limit", "3")
        (directory / "episodes.jsonl").unlink()
        (directory / "parts").mkdir()
        (directory / "parts" / "a.jsonl").write_text('{"index":0,"x":1}\n{"index":2}\n{"ind')
        (entry,) = json.loads(run("runs", "list", "--json").out)["runs"]
        assert (entry["status"], entry["recorded"], entry["tasks"]) == ("stopped", 2, 3)
        with open_run(str(directory), place).lock():
            (entry,) = json.loads(run("runs", "list", "--json").out)["runs"]
            assert entry["status"] == "running"
