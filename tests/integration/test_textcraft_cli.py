"""Refinement of TextCraft explores nothing that was evaluated from a published list."""

import shutil
from pathlib import Path

import pytest

from ldm import records
from ldm.types import Trajectory
from tests.agents.loop_contract import RECIPES
from tests.cli.conftest import run
from tests.conftest import CHECKOUT

QUITTER = ("--agent", "tests.integration.agents:Quitter", "--workers", "1")
EVAL = ("eval", "--env", "textcraft", *QUITTER, "--json")

SHIPPED = CHECKOUT / "data" / "trajectories" / "textcraft" / "train.jsonl.gz"


@RECIPES
@pytest.mark.slow
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("moved", [False, True])
def test_refinement_explores_no_item_that_was_evaluated_from_a_list(
    moved: bool, shared_data: Path
) -> None:
    shutil.copy(shared_data / "textcraft" / "adapt_test_200.jsonl", "adapt.jsonl")  # ADaPT's
    records.write(Path("some.jsonl"), records.read(SHIPPED, Trajectory)[::20])
    assert run("build-memory", "some.jsonl").code == 0
    assert run(*EVAL, "--env.tasks", "adapt.jsonl", "--split", "stored").code == 0
    options = ["--limit", "1", "--depth", "1", "--workers", "1"]
    if moved:
        Path("adapt.jsonl").rename("moved.jsonl")
        options += ["--env.tasks", "moved.jsonl"]
    assert (
        "Skipping 101 goals of train, evaluated before"
        in run("refine", "--env", "textcraft", *options).done().err
    )
