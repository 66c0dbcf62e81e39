"""What a check of official games reports, from Python and by `ldm data`."""

import json
from pathlib import Path

import pytest

from ldm.worlds.alfworld import data
from tests.cli.conftest import run
from tests.worlds.alfworld.test_environment import make_game

UNKNOWN = "unknown task kind in the folder name"
PICK = "pick_and_place_simple-Pen-None-Desk"


def test_a_check_names_every_damaged_file_and_counts_what_is_left_out(tmp_path: Path) -> None:
    make_game(tmp_path, "train", "pick_and_place_with_movable_recep-Pen-Mug-Desk-1/trial_1")
    unsolvable = make_game(tmp_path, "train", f"{PICK}-1/trial_1")
    unsolvable.write_text(unsolvable.read_text().replace('"solvable": true', '"solvable": false'))
    unmarked = make_game(tmp_path, "train", f"{PICK}-2/trial_1")
    unmarked.write_text(unmarked.read_text().replace('"solvable"', '"playable"'))
    make_game(tmp_path, "train", f"{PICK}-3/trial_1").write_text("{\n\n oops")
    unspoken = make_game(tmp_path, "train", f"{PICK}-4/trial_1")
    unspoken.write_text(unspoken.read_text().replace("Your task is to: ", "Do this: "))
    make_game(tmp_path, "train", "make_soup-Pen-None-Desk-5/trial_1")
    make_game(tmp_path, "train", f"{PICK}-6/trial_1").write_text("[]")
    make_game(tmp_path, "train", f"{PICK}-7/trial_1").write_text('{"grammar": 7}')
    verbless = make_game(tmp_path, "train", f"{PICK}-8/trial_1")
    verbless.write_text(verbless.read_text().replace("move {o} to {r}", "drop {o} at {r}"))
    make_game(tmp_path, "train", f"{PICK}-9/trial_1").write_bytes(b"\xff")
    report = data.check(tmp_path)
    assert report.facts["left_out_as_published"] == {
        "train": {"movable receptacle": 1, "unsolvable": 1}
    }
    assert [
        (Path(p.file).parts[-3], p.line, p.field, p.message.split(",")[0].split(":")[0])
        for p in report.problems
    ] == [
        ("make_soup-Pen-None-Desk-5", 1, "", f"{UNKNOWN} 'make_soup-Pen-None-Desk-5'"),
        (f"{PICK}-2", 1, "solvable", "missing"),
        (f"{PICK}-3", 3, "", "not JSON"),
        (f"{PICK}-4", 1, "grammar", "has no line 'Your task is to"),
        (f"{PICK}-6", 1, "", "not a JSON object"),
        (f"{PICK}-7", 1, "pddl_domain", "missing"),
        (f"{PICK}-8", 1, "grammar", "the grammar is neither of ALFWorld's two"),
        (f"{PICK}-9", 1, "", "not JSON"),
    ]  # fmt: skip


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
