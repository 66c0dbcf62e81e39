"""A killed build loses nothing that it computed and doubles nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ldm import records
from tests.integration.crash import building, kill_and_resume
from tests.toy import ToyOptions, expert_trajectories


@pytest.mark.process
def test_resuming_a_killed_build_gives_what_an_undisturbed_one_gives(tmp_path: Path) -> None:
    data = tmp_path / "data" / "toy.jsonl"
    records.write(data, expert_trajectories(options=ToyOptions(tasks=40)))
    quick = (sys.executable, "-m", "tests.integration.quick")
    command = building(str(data), "--batch-size", "5", program=quick)
    attempts = kill_and_resume(command, tmp_path, kills=4, seed=1)
    assert all(attempt.same for attempt in attempts), attempts
    assert not all(attempt.finished for attempt in attempts)
