"""`ldm demo` plays the README's demo anywhere, and shows each command."""

import shlex
from pathlib import Path

import pytest

from ldm import records
from ldm.envs.metadata import Metadata, ShippedSplits
from ldm.memory import generations
from ldm.run import building
from tests.cli.conftest import run
from tests.conftest import announce
from tests.toy import ToyEnv, expert_trajectories


@pytest.fixture
def shipped(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package ships the toy's games; this is no checkout."""
    metadata = Metadata(shipped=ShippedSplits(explore="train", test="test"))
    monkeypatch.setattr(ToyEnv, "metadata", metadata, raising=False)
    announce(monkeypatch, "ldm.envs", toy="tests.toy:ToyEnv")
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")  # a worker would know no toy
    records.write(place / "package" / "toy.jsonl", expert_trajectories())
    monkeypatch.setattr(building, "shipped_trajectories", lambda: place / "package")


@pytest.mark.usefixtures("shipped")
def test_it_builds_refines_and_evaluates_with_commands_that_it_shows() -> None:
    outcome = run("demo", "--env", "toy", "--limit", 2, "--folder", "my demo").done()
    assert generations("my demo/memory", "toy")[0].number == 0
    printed = [line for line in outcome.err.splitlines() if line.startswith("$ ldm ")]
    assert [line.split()[2] for line in printed] == ["build-memory", "refine", "eval"]
    assert "2 trajectories added as generation 0" in outcome.out  # one of each kind
    assert "on toy, test" in outcome.out
    again = run(*shlex.split(printed[-1])[2:])  # as it was printed
    assert (again.code, "on toy, test" in again.out) == (0, True)


def test_an_environment_that_ships_no_games_is_named(place: Path) -> None:
    run("demo", "--env", "tests.toy:ToyEnv").refused(
        "tests.toy:ToyEnv ships no games to explore and evaluate.", "Leave --env out"
    )


def test_data_that_are_not_there_lead_to_the_demo(place: Path) -> None:
    outcome = run("build-memory", "data/").refused("data does not exist.")
    assert "`ldm demo` shows the whole way" in " ".join(outcome.err.split())
