"""Memories and runs that earlier versions made open, and give the figures that they gave then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.stored.make import EXPECTED, answers, prepare, unpack

STORED = sorted((Path(__file__).parent.parent / "stored").glob("v*"))


@pytest.mark.parametrize("stored", STORED, ids=lambda path: path.name)
def test_an_earlier_versions_memory_and_runs_give_the_same_figures(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack(stored, tmp_path)
    prepare(monkeypatch, tmp_path)
    expected = json.loads((stored / EXPECTED).read_text("utf-8"))
    figures = answers(tmp_path)
    for question, answer in expected.items():
        assert _covers(figures[question], answer), (question, figures[question], answer)


def _covers(now: Any, then: Any) -> bool:
    """Return whether `now` says all that `then` said; records may have more fields by now."""
    if isinstance(then, dict):
        return isinstance(now, dict) and all(
            name in now and _covers(now[name], value) for name, value in then.items()
        )
    if isinstance(then, list):
        return isinstance(now, list) and len(now) == len(then) and all(map(_covers, now, then))
    return bool(now == then)


def test_there_are_files_of_an_earlier_version() -> None:
    assert [path.name for path in STORED][:1] == ["v0_1"]
