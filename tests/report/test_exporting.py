"""Runs as logs of other tools: what they read is what was recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldm import records
from ldm.errors import LdmError
from ldm.interchange import atif, chat, parquet
from ldm.report.exporting import Format, export
from ldm.run.reading import read_run
from ldm.types import EpisodeResult, Trajectory
from tests.cli.conftest import Run, run
from tests.report.conftest import Recorded
from tests.report.hostile import hostile_run

__all__ = ["run"]


def trials(run: Path) -> list[Trajectory]:
    return records.read(run / "trajectories.jsonl", Trajectory)


def results(run: Path) -> list[EpisodeResult]:
    return records.read(run / "episodes.jsonl", EpisodeResult)


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

    def test_inspect_gets_each_episode_as_a_sample(
        self, recorded: Recorded, tmp_path: Path
    ) -> None:
        file = tmp_path / "log.json"
        export(read_run(recorded.divided, tmp_path), file, "inspect")
        log = json.loads(file.read_text())
        assert (log["version"], log["status"]) == (2, "success")
        ended = {one.task.id: one for one in results(recorded.divided)}
        for sample, trial in zip(log["samples"], trials(recorded.divided), strict=True):
            one = ended[sample["id"]]
            assert sample["scores"]["success"]["value"] == ("C" if one.success else "I")
            replies = [m["content"] for m in sample["messages"] if m["role"] == "assistant"]
            assert replies[-1].splitlines()[-1] == trial.steps[-1].action
            assert sample["messages"][0]["content"].startswith(one.task.goal)
        (score,) = log["results"]["scores"]
        rate = sum(one.success for one in ended.values()) / len(ended)
        assert score["metrics"]["accuracy"]["value"] == rate

    def test_inspect_is_told_of_errors(self, tmp_path: Path) -> None:
        file = tmp_path / "log.json"
        export(read_run(hostile_run(tmp_path), tmp_path), file, "inspect")
        log = json.loads(file.read_text())
        assert log["results"]["completed_samples"] == 0
        assert all("message" in sample["error"] for sample in log["samples"])

    @pytest.mark.slow
    def test_a_refinement_has_no_episodes(self, recorded: Recorded, tmp_path: Path) -> None:
        with pytest.raises(LdmError, match="has no episodes"):
            export(read_run(recorded.refinement, tmp_path), tmp_path / "log.json", "inspect")

    def test_the_command_says_how_many_and_where(
        self, run: Run, recorded: Recorded, tmp_path: Path
    ) -> None:
        file = tmp_path / "log.parquet"
        command = ("runs", "export", recorded.earlier, "-o", file, "--format")
        assert run(*command, "parquet").out == f"6 episodes → {file}\n"
