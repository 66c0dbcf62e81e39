"""A killed evaluation or refinement loses nothing that it recorded and doubles nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ldm.memory import build
from ldm.reason.offline import OfflineReasoner
from tests.embedder import BagOfWords
from tests.integration.crash import (
    LDM,
    Command,
    across_rounds,
    asking,
    check_resumed,
    evaluation,
    refinement,
)
from tests.integration.forks import QUICK
from tests.llm.server import Behaviour, FakeServer
from tests.toy import ToyOptions, expert_trajectories

TOY = (
    *("--env", "tests.toy:ToyEnv", "--agent", "random", "--agent.budget", "20"),
    *("--env.tasks", "24", "--env.delay", "0.004"),
)
ADEPT = "tests.integration.agents:Adept"


@pytest.mark.process
@pytest.mark.parametrize("workers", [1, 2])
def test_resuming_a_killed_evaluation_gives_what_an_undisturbed_one_gives(
    workers: int, tmp_path: Path
) -> None:
    program = QUICK if workers == 1 else LDM  # worker processes are started as users start them
    command = evaluation(*TOY, "--workers", str(workers), program=program)
    check_resumed(command, tmp_path, kills=2, seed=workers)


@pytest.mark.process
def test_a_killed_comparison_of_repeated_trials_ends_with_the_same_report(tmp_path: Path) -> None:
    several = ("--repeat", "2", "--workers", "2", "--env.delay", "0.002")
    command = evaluation(
        *("--env", "tests.toy:ToyEnv", "--agent", f"random,{ADEPT}", *several), count=4
    )
    check_resumed(command, tmp_path, kills=1, seed=3)


@pytest.mark.process
def test_resuming_a_killed_run_of_a_model_bills_no_call_twice_and_makes_no_recorded_one_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "")  # and put back in the end
    with FakeServer(Behaviour(latency=0.1, idempotent=True)) as server:
        command = asking(server, "--workers", "4", program=QUICK)
        attempts = check_resumed(command, tmp_path, kills=2, seed=4)
    assert not any(attempt.finished for attempt in attempts)
    assert server.outcomes["repeated"] > 0  # asked again after a kill, and not billed again


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
