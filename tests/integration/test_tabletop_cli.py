"""The tabletop from the command line: the memory, its control, leakage, refinement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldm import records
from ldm.types import Trajectory
from tests.cli.conftest import Run
from tests.conftest import CHECKOUT
from tests.worlds.tabletop.conftest import PHYSICS

SHIPPED = CHECKOUT / "data" / "trajectories" / "tabletop" / "train.jsonl.gz"

pytestmark = [PHYSICS, pytest.mark.usefixtures("place")]


def remember(run: Run, place: Path, episodes: int) -> None:
    """Build a memory from the first of the shipped episodes, which are of all kinds in turn."""
    records.write(place / "some.jsonl", records.read(SHIPPED, Trajectory)[:episodes])
    assert run("build-memory", "some.jsonl").code == 0


@pytest.mark.slow
def test_the_memory_solves_new_scenes_that_a_random_one_does_not(run: Run, place: Path) -> None:
    remember(run, place, 40)
    options = ("--agent", "ldm", "--control", "random", "--limit", "5", "--workers", "1", "--json")
    done = run("eval", "--env", "tabletop", "--kinds", "towers_of_hanoi", *options).done()
    report = json.loads(done.out)
    (control,) = report["compared"]
    assert report["success_rate"] > control["success_rate"]
