"""Leaving tuples out, crediting what was followed, and pruning, as users meet it."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from ldm import records
from ldm.memory import inspect
from ldm.types import Trajectory
from tests.cli.conftest import Run
from tests.embedder import BagOfWords
from tests.toy import ToyOptions, expert_trajectories

TOY = ("--env", "tests.toy:ToyEnv", "--workers", "1", "--agent.budget", "12")
#: Ten tasks of the training split, of which the memory knows the first four.
TRAINING = (
    *(*TOY, "--env.tasks", "10", "--split", "train", "--tasks"),
    ",".join(f"train/{kind}-{n}" for n in range(4, 10) for kind in [("fetch", "wash")[n % 2]]),
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for each test; nothing loads a real model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ldm.embed.load_embedder", lambda name=None: BagOfWords("bag-of-words"))
    return tmp_path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test puts its memory for the others."""
    return tmp_path_factory.mktemp("kept") / "place"


@pytest.fixture(autouse=True)
def built(place: Path, run: Run, kept: Path) -> None:
    if kept.exists():
        shutil.copytree(kept, place, dirs_exist_ok=True)
        return
    episodes = expert_trajectories(options=ToyOptions(tasks=4))
    records.write(place / "data" / "train.jsonl", episodes)
    assert run("build-memory", "data").code == 0
    shutil.copytree(place, kept)


def sources() -> dict[str, str]:
    """Tuple id → trajectory id, of the whole memory."""
    rows = inspect(".ldm/memory", "toy").rows
    return {row.tuple.id: row.tuple.trajectory_id for row in rows}


def evaluated(run: Run, *options: str) -> str:
    """Evaluate; return the run's directory."""
    outcome = run("eval", *options, "--json").done()
    return str(json.loads(outcome.out)["run"])


def recalled(directory: str) -> set[str]:
    trajectories = records.read(Path(directory) / "trajectories.jsonl", Trajectory)
    return {i for t in trajectories for step in t.steps for i, _ in step.recalls}


class TestLeavingOut:
    def test_a_tuple_and_a_trajectory_are_never_recalled(self, run: Run) -> None:
        of = sources()
        everything = recalled(evaluated(run, *TOY))
        left_out = sorted(everything)[0]
        trajectory = next(t for i, t in sorted(of.items()) if t != of[left_out])
        options = ("--without-tuples", left_out, "--without-trajectories", trajectory)
        rest = recalled(evaluated(run, *TOY, *options))
        assert left_out in everything
        assert trajectory in {of[i] for i in everything}
        assert left_out not in rest
        assert trajectory not in {of[i] for i in rest}
        assert rest

    def test_the_run_records_it_and_resumes_with_it(self, run: Run) -> None:
        ids = sorted(sources())[:2]
        directory = evaluated(run, *TOY, "--without-tuples", ",".join(ids))
        spec = json.loads((Path(directory) / "run.json").read_text())["spec"]
        assert spec["without_tuples"] == ids
        assert run("eval", "--resume", directory).code == 0
        run("eval", "--resume", directory, "--without-tuples", ids[0]).refused(
            "--without-tuples cannot be given"
        )

    def test_comparisons_say_what_was_left_out(self, run: Run) -> None:
        left_out = min(sources())
        runs = evaluated(run, *TOY), evaluated(run, *TOY, "--without-tuples", left_out)
        outcome = run("compare", *runs, "--json")
        labels = [report["agent"] for report in json.loads(outcome.out)["runs"]]
        assert labels == ["ldm", f"ldm without tuple {left_out}"]

    def test_of_several_agents_only_those_that_recall_are_concerned(self, run: Run) -> None:
        left_out = min(sources())
        agents = ("--agent", "random,ldm", "--without-tuples", left_out)
        assert run("eval", *TOY, *agents).code == 0
        specs = [json.loads(path.read_text())["spec"] for path in Path().glob("runs/*/run.json")]
        assert {(one["agent"]["name"], *one["without_tuples"]) for one in specs} == {
            ("random",),
            ("ldm", left_out),
        }


class TestCredit:
    def test_counts_are_those_of_the_record(self, run: Run) -> None:
        directory = evaluated(run, *TRAINING)
        credit = json.loads(run("memory", "credit", directory, "--json").out)
        trajectories = records.read(Path(directory) / "trajectories.jsonl", Trajectory)
        steps = [step for t in trajectories for step in t.steps]
        used, followed = Counter[str](), Counter[str]()
        for step in steps:
            used.update({i for i, _ in step.recalls})
            followed.update({step.recalls[place][0] for place in step.followed or ()})
        assert credit["attempts"] == len(trajectories) == 6
        assert {c["tuple_id"]: c["recalled"] for c in credit["tuples"]} == dict(used)
        assert {c["tuple_id"]: c["followed"] for c in credit["tuples"] if c["followed"]} == followed
        assert [c["harm"] for c in credit["tuples"]] == sorted(
            (c["harm"] for c in credit["tuples"]), reverse=True
        )
        assert all(c["outcome"]["score"] == 1.0 for c in credit["tuples"])

    def test_runs_are_taken_together_and_the_table_is_cut(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs = [evaluated(run, *TRAINING, "--seed", seed) for seed in ("0", "1")]
        monkeypatch.setattr("ldm.cli.memory.SHOWN", 2)
        run("memory", "credit", *runs).done("12 attempts", "more (--json)")
        assert len(json.loads(run("memory", "credit", *runs, "--json").out)["tuples"]) > 2

    def test_runs_with_different_memories_are_refused(self, run: Run) -> None:
        first = evaluated(run, *TRAINING)
        run("build-memory", "data", "--memory", "other", "--batch-size", "1")
        second = evaluated(run, *TRAINING, "--memory", "other")
        run("memory", "credit", first, second).refused("had different memories")

    def test_runs_that_tell_nothing_are_refused(self, run: Run, place: Path) -> None:
        finished = evaluated(run, *TRAINING)
        none = evaluated(run, *TRAINING, "--agent.control", "none")
        random = evaluated(run, *TRAINING, "--agent", "random")
        for directory, message in [
            (random, "used no memory"),
            (none, "Nothing was recalled"),
            ("nowhere", "is not a run"),
        ]:
            run("memory", "credit", directory).refused(message)
        assert "named twice" in run("memory", "credit", finished, finished).err
        (place / finished / "episodes.jsonl").unlink()
        assert "is unfinished" in run("memory", "credit", finished).err

    def test_a_run_that_does_not_record_following_is_refused(self, run: Run, place: Path) -> None:
        directory = evaluated(run, *TRAINING)
        path = place / directory / "trajectories.jsonl"
        path.write_text(re.sub(r',"followed":\[[0-9,]*\]', "", path.read_text()))
        run("memory", "credit", directory).refused("does not record which", "evaluate another one")

    def test_a_memory_that_was_built_anew_is_refused(self, run: Run) -> None:
        directory = evaluated(run, *TRAINING)
        run("build-memory", "data", "--rebuild", "--batch-size", "1")
        run("memory", "credit", directory).refused("has changed since it was evaluated")
