"""A killed refinement loses nothing, and no reader ever sees half a generation."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ldm.memory import build
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.integration.crash import Command, across_rounds, check_resumed, refinement
from tests.integration.forks import QUICK
from tests.toy import ToyOptions, expert_trajectories

SHED = ("--env", "tests.toy:ToyEnv", "--env.tasks", "16", "--env.shelves", "8")


@pytest.mark.process
@pytest.mark.parametrize(("command_of", "seed"), [(refinement, 1), (across_rounds, 2)])
def test_resuming_a_killed_refinement_gives_what_an_undisturbed_one_gives(
    tmp_path: Path, command_of: Callable[..., Command], seed: int
) -> None:
    episodes = expert_trajectories(options=ToyOptions(tasks=4, shelves=8))
    build(str(tmp_path / "base"), episodes, BagOfWords(), OfflineReasoner)
    options = (*SHED, "--limit", "8", "--depth", "10", "--workers", "1")
    command = command_of(tmp_path / "base", *options, program=QUICK)
    check_resumed(command, tmp_path, kills=2, seed=seed)
