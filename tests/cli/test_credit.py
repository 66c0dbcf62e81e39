"""Leaving tuples out, crediting what was followed, and pruning, as users meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldm import records
from ldm.memory import inspect
from ldm.types import Trajectory
from tests.cli.conftest import Run
from tests.embedder import BagOfWords
from tests.toy import ToyOptions, expert_trajectories

TOY = ("--env", "tests.toy:ToyEnv", "--workers", "1", "--set", "budget=12")
#: Ten tasks of the training split, of which the memory knows the first four.
TRAINING = (
    *(*TOY, "--set", "env.tasks=10", "--split", "train", "--tasks"),
    ",".join(f"train/{kind}-{n}" for n in range(4, 10) for kind in [("fetch", "wash")[n % 2]]),
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for each test; nothing loads a real model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ldm.embed.load_embedder", lambda name=None: BagOfWords("bag-of-words"))
    return tmp_path


@pytest.fixture(autouse=True)
def built(place: Path, run: Run) -> None:
    episodes = expert_trajectories(options=ToyOptions(tasks=4))
    records.write(place / "data" / "train.jsonl", episodes)
    assert run("build-memory", "data").code == 0


def sources() -> dict[str, str]:
    """Tuple id → trajectory id, of the whole memory."""
    rows = inspect(".ldm/memory", "toy").rows
    return {row.tuple.id: row.tuple.trajectory_id for row in rows}


def evaluated(run: Run, *options: str) -> str:
    """Evaluate; return the run's directory."""
    outcome = run("eval", *options, "--json")
    assert outcome.code == 0, outcome.err
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
        options = ("--without-tuple", left_out, "--without-trajectory", trajectory)
        rest = recalled(evaluated(run, *TOY, *options))
        assert left_out in everything
        assert trajectory in {of[i] for i in everything}
        assert left_out not in rest
        assert trajectory not in {of[i] for i in rest}
        assert rest

    def test_the_run_tells_it_and_resumes_with_it(self, run: Run) -> None:
        ids = sorted(sources())[:2]
        options = [part for i in reversed(ids) for part in ("--without-tuple", i)]
        directory = evaluated(run, *TOY, *options)
        plan = json.loads((Path(directory) / "run.json").read_text())["arguments"]["plan"]
        assert plan["without_tuples"] == ids
        assert run("eval", "--resume", directory, *options).code == 0
        outcome = run("eval", "--resume", directory, "--without-tuple", ids[0])
        assert outcome.code == 1
        assert "was started with without tuples" in outcome.err

    def test_comparisons_say_what_was_left_out(self, run: Run) -> None:
        left_out = min(sources())
        runs = evaluated(run, *TOY), evaluated(run, *TOY, "--without-tuple", left_out)
        outcome = run("compare", *runs, "--json")
        labels = [report["agent"] for report in json.loads(outcome.out)["runs"]]
        assert labels == ["ldm", f"ldm without tuple {left_out}"]

    def test_an_older_run_is_read_as_one_without_anything_left_out(self, run: Run) -> None:
        directory = evaluated(run, *TOY)
        path = Path(directory) / "run.json"
        manifest = json.loads(path.read_text())
        for field in ("without_tuples", "without_trajectories"):
            del manifest["arguments"]["plan"][field]
        path.write_text(json.dumps(manifest))
        assert run("eval", "--resume", directory).code == 0

    def test_of_several_agents_only_those_that_recall_are_concerned(self, run: Run) -> None:
        left_out = min(sources())
        agents = ("--agent", "random,ldm", "--without-tuple", left_out)
        assert run("eval", *TOY, *agents).code == 0
        plans = [
            json.loads(path.read_text())["arguments"]["plan"]
            for path in Path().glob("runs/*/run.json")
        ]
        assert {(p["agent"], *p["without_tuples"]) for p in plans} == {
            ("random",),
            ("ldm", left_out),
        }

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--without-tuple", "nonsense"), "holds no tuple 'nonsense'"),
            (("--without-trajectory", "nonsense"), "holds no trajectory 'nonsense'"),
            (("--agent", "random", "--without-tuple", "x"), "random recalls no tuples"),
        ],
    )
    def test_what_does_not_fit_is_refused_and_leaves_nothing(
        self, options: tuple[str, ...], message: str, run: Run, place: Path
    ) -> None:
        outcome = run("eval", *TOY, *options)
        assert outcome.code == 1
        assert message in outcome.err
        assert not list(place.glob("runs/*"))
