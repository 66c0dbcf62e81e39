"""`ldm data`: the data of an environment are counted, and damage is named."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import run
from tests.envs.alfworld.test_data import PICK
from tests.envs.alfworld.test_environment import make_game


def test_a_check_prints_counts_and_problems_and_fails_with_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_game(tmp_path, "valid_seen", f"{PICK}-1/trial_1")
    run("data", "alfworld", tmp_path).done("valid seen: tasks=1, pick=1,", "0 problems")
    for number in range(25):
        make_game(tmp_path, "train", f"{PICK}-{number}/trial_1").write_text("oops")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    done = run("data", "alfworld").refused()
    assert f"{PICK}-0/trial_1/game.tw-pddl:1: not JSON" in done.out
    assert "and 5 more" in done.out
    assert len(json.loads(run("data", "alfworld", "--json").out)["problems"]) == 25
