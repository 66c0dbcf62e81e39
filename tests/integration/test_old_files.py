"""Memories and runs that earlier versions made open, and give the figures that they gave then."""

from __future__ import annotations

import json
from pathlib import Path

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
        assert figures[question] == answer, question


def test_there_are_files_of_an_earlier_version() -> None:
    assert [path.name for path in STORED][:1] == ["v0_1"]
