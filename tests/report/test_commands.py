"""`ldm report` as users meet it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run, run
from tests.report.conftest import Recorded

__all__ = ["run"]


@pytest.mark.slow
def test_runs_are_named_by_id_and_the_page_is_named(
    run: Run, recorded: Recorded, tmp_path: Path
) -> None:
    file = tmp_path / "r.html"
    names = [recorded.earlier.name, recorded.control.name]
    command = ("report", *names, "-o", file, "--runs", recorded.earlier.parent)
    outcome = run(*command).done()
    assert outcome.out.startswith(f"Report: {file} (")
    assert file.read_text("utf-8").startswith("<!doctype html>")


def test_without_a_run_there_is_no_report(run: Run, tmp_path: Path) -> None:
    outcome = run("report", "none", "-o", tmp_path / "r.html", "--runs", tmp_path)
    assert (outcome.code, "none is not a run" in outcome.err) == (1, True)
    assert not list(tmp_path.iterdir())
