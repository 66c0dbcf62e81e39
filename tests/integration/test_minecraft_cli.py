"""Minecraft from the command line: the check, evaluation with a memory, the gate, refinement."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldm import records
from ldm.types import Trajectory
from ldm.worlds.minecraft import Minecraft
from tests.cli.conftest import Run
from tests.conftest import CHECKOUT
from tests.embedder import BagOfWords
from tools.minecraft.expert import solve

SHIPPED = CHECKOUT / "data" / "trajectories" / "minecraft" / "train.jsonl.gz"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ldm.embed.load_embedder", lambda name: BagOfWords(name or "bag-of-words"))
    return tmp_path


def remember(run: Run, episodes: list[Trajectory]) -> None:
    records.write(Path("some.jsonl"), episodes)
    assert run("build-memory", "some.jsonl").code == 0


def test_it_is_played_from_a_memory_with_and_without_the_control(run: Run) -> None:
    remember(run, list(records.read(SHIPPED, Trajectory))[:6])
    done = run("eval", "--env", "minecraft", "--agent", "ldm", "--control", "random",
               "--agent.budget", "10", "--tasks", "test/stick/0,test/planks/0", "--workers", "1",
               "--json")  # fmt: skip
    assert done.code == 0, done.err
    assert '"episodes": 2' in done.out


def test_the_gate_refuses_a_memory_of_the_same_items_on_test(run: Run) -> None:
    env = Minecraft()
    tasks = [task for task in env.tasks("train_worlds") if task.source in ("stick", "planks")]
    remember(run, [solve(env, task) for task in tasks])
    play = ("eval", "--env", "minecraft", "--agent", "ldm", "--workers", "1", "--json")
    run(*play, "--split", "test", "--tasks", "test/stick/0").refused("stick")
    assert run(*play, "--split", "test_worlds", "--tasks", "test_worlds/stick/0").code == 0
