"""`ldm horizon`: a model in a file, and what it says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldm.agents.deps.horizon import HorizonModel
from tests.cli.conftest import Run

SMALL = ("--env", "minecraft", "--worlds", "8", "--env.limit", "2500", "--env.slice", "150")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_model_is_trained_and_described(run: Run, place: Path) -> None:
    done = run("horizon", *SMALL, "--out", "model.npz")
    assert done.code == 0, done.err
    assert done.out.startswith("model.npz: ")
    assert "rows of 8 worlds" in done.out
    assert HorizonModel.load(place / "model.npz").env == "minecraft"


def test_as_json_and_the_same_again(run: Run, place: Path) -> None:
    for name in ("one.npz", "two.npz"):
        result = json.loads(run("horizon", *SMALL, "--seed", "3", "--out", name, "--json").out)
        assert result["worlds"] == 8
        assert result["bytes"] == (place / name).stat().st_size
    assert (place / "one.npz").read_bytes() == (place / "two.npz").read_bytes()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--env", "textcraft"), "no controller"),
        (("--env", "minecraft", "--split", "test"), "not a training split"),
        (("--env", "minecraft", "--agent.rounds", "3"), "not an option of an environment"),
        (("--env", "minecraft", "--env.worlds", "1", "--worlds", "500"), "has 69 worlds"),
    ],
)
def test_what_cannot_be_is_said(run: Run, options: tuple[str, ...], complaint: str) -> None:
    refused = run("horizon", *options, "--out", "model.npz")
    assert refused.code == 1
    assert complaint in refused.err
