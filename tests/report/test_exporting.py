"""Runs in formats of other tools: what they read is what was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldm import records
from ldm.errors import LdmError
from ldm.interchange import atif, chat, parquet
from ldm.report.exporting import Format, export
from ldm.run.reading import read_run
from ldm.types import Trajectory
from tests.cli.conftest import Run, run
from tests.report.conftest import Recorded

__all__ = ["run"]


def trials(run: Path) -> list[Trajectory]:
    return records.read(run / "trajectories.jsonl", Trajectory)


class TestFiles:
    @pytest.mark.parametrize(
        ("form", "suffix", "reader"),
        [("atif", "jsonl", atif), ("openai", "jsonl", chat), ("parquet", "parquet", parquet)],
    )
    def test_what_is_read_again_is_what_was_recorded(
        self, recorded: Recorded, tmp_path: Path, form: Format, suffix: str, reader: object
    ) -> None:
        file = tmp_path / f"log.{suffix}"
        count = export(read_run(recorded.earlier, tmp_path), file, form)
        again = list(reader.read(file))  # type: ignore[attr-defined]
        assert again == trials(recorded.earlier)
        assert count == len(again)

    @pytest.mark.slow
    def test_a_refinement_has_no_episodes(self, recorded: Recorded, tmp_path: Path) -> None:
        with pytest.raises(LdmError, match="has no episodes"):
            export(read_run(recorded.refinement, tmp_path), tmp_path / "log.jsonl", "atif")

    def test_the_command_says_how_many_and_where(
        self, run: Run, recorded: Recorded, tmp_path: Path
    ) -> None:
        file = tmp_path / "log.parquet"
        command = ("runs", "export", recorded.earlier, "-o", file, "--format")
        assert run(*command, "parquet").out == f"6 episodes → {file}\n"
