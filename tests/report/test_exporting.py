"""Runs in formats of other tools: what they read is what was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldm import records
from ldm.errors import LdmError
from ldm.interchange import chat
from ldm.report.exporting import export
from ldm.run.reading import read_run
from ldm.types import Trajectory
from tests.cli.conftest import Run, run
from tests.report.conftest import Recorded

__all__ = ["run"]


def trials(run: Path) -> list[Trajectory]:
    return records.read(run / "trajectories.jsonl", Trajectory)


class TestFiles:
    def test_what_is_read_again_is_what_was_recorded(
        self, recorded: Recorded, tmp_path: Path
    ) -> None:
        file = tmp_path / "log.jsonl"
        count = export(read_run(recorded.earlier, tmp_path), file)
        again = list(chat.read(file))
        assert again == trials(recorded.earlier)
        assert count == len(again)

    @pytest.mark.slow
    def test_a_refinement_has_no_episodes(self, recorded: Recorded, tmp_path: Path) -> None:
        with pytest.raises(LdmError, match="has no episodes"):
            export(read_run(recorded.refinement, tmp_path), tmp_path / "log.jsonl")

    def test_the_command_says_how_many_and_where(
        self, run: Run, recorded: Recorded, tmp_path: Path
    ) -> None:
        file = tmp_path / "log.jsonl"
        out = run("runs", "export", recorded.earlier, "-o", file).out
        assert out == f"6 episodes → {file}\n"
