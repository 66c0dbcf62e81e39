from __future__ import annotations

import http.server
import json
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ldm.envs.alfworld import data
from ldm.errors import LdmError
from tests.envs.alfworld.test_environment import make_game

UNKNOWN = "unknown task kind in the folder name"
PICK = "pick_and_place_simple-Pen-None-Desk"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data folder with two good games, two that are left out, and four damaged ones."""
    make_game(tmp_path, "valid_seen", f"{PICK}-1/trial_1")
    make_game(tmp_path, "valid_seen", "look_at_obj_in_light-Pen-None-DeskLamp-1/trial_1")
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
    return tmp_path


def test_a_check_counts_games_by_split_and_kind(root: Path) -> None:
    report = data.check(root)
    assert list(report.counts) == ["train", "valid_seen"]
    assert report.total("train") == 0
    assert report.counts["valid_seen"] == {
        "pick": 1, "look": 1, "clean": 0, "heat": 0, "cool": 0, "pick2": 0,
    }  # fmt: skip
    assert report.skipped["train"] == {"movable receptacle": 1, "unsolvable": 1}
    assert report.total("valid_unseen") == 0


def test_a_check_names_every_damaged_file(root: Path) -> None:
    problems = [
        (Path(p.file).parts[-3], p.line, p.field, p.message.split(",")[0].split(":")[0])
        for p in data.check(root).problems
    ]
    assert problems == [
        ("make_soup-Pen-None-Desk-5", 1, "", f"{UNKNOWN} 'make_soup-Pen-None-Desk-5'"),
        (f"{PICK}-2", 1, "solvable", "missing"),
        (f"{PICK}-3", 3, "", "not JSON"),
        (f"{PICK}-4", 1, "grammar", "has no line 'Your task is to"),
        (f"{PICK}-6", 1, "", "not a JSON object"),
        (f"{PICK}-7", 1, "pddl_domain", "missing"),
        (f"{PICK}-8", 1, "grammar", "the grammar places objects with the verb 'drop'"),
        (f"{PICK}-9", 1, "", "not JSON"),
    ]  # fmt: skip


def test_the_report_as_json_names_what_was_published(root: Path) -> None:
    report = json.loads(json.dumps(data.check(root / "json_2.1.1").as_json()))
    assert report["splits"]["valid_seen"]["games"] == 2
    assert report["splits"]["valid_seen"]["published"] == 140
    assert report["problems"][0].keys() == {"file", "line", "field", "message"}


def test_a_folder_without_games_is_said(tmp_path: Path) -> None:
    with pytest.raises(LdmError, match="valid_seen") as caught:
        data.check(tmp_path)
    assert "ldm data get alfworld" in caught.value.remedy


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of an archive with one game on a local server."""
    served = tmp_path / "served"
    game = make_game(tmp_path / "made", "valid_unseen", f"{PICK}-1/trial_1")
    served.mkdir()
    with zipfile.ZipFile(served / "games.zip", "w") as archive:
        archive.write(game, game.relative_to(tmp_path / "made"))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = partial(Quiet, directory=str(served))
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}/games.zip"
    running.shutdown()
    running.server_close()
    thread.join()


def test_getting_downloads_unpacks_and_clears_up(url: str, tmp_path: Path) -> None:
    destination = tmp_path / "data"
    (fetched,) = data.fetch(destination, url=url)
    assert len(fetched.sha256) == 64
    assert not fetched.compared
    assert [p.name for p in destination.iterdir()] == ["json_2.1.1"]
    report = data.check(destination)
    assert report.total("valid_unseen") == 1
    data.fetch(destination, url=url, sha256=fetched.sha256)
    with pytest.raises(LdmError, match="SHA-256"):
        data.fetch(destination, url=url, sha256="0" * 64)
    assert data.check(destination).total("valid_unseen") == 1
