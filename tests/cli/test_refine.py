"""`ldm refine`, `ldm runs` and the generations of `ldm memory` as users meet them."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ldm import records
from tests.cli.conftest import run
from tests.toy import ToyOptions, expert_trajectories

KNOWN = 2
SHED = ("--env.tasks", "18", "--env.shelves", "8")
REFINE = ("refine", "--env", "tests.toy:ToyEnv", *SHED, "--depth", "10", "--workers", "1")
EVAL = ("eval", "--env", "tests.toy:ToyEnv", *SHED, "--agent.budget", "10", "--workers", "1")

#: Adds improvements also where the paper's tree finds none.
ADDING = ("--gate", "off", "--explorer", "best-first")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test puts its memory for the others."""
    return tmp_path_factory.mktemp("built") / "kept"


@pytest.fixture(autouse=True)
def place(place: Path, built: Path) -> Path:
    """A directory with a memory of two episodes, built once."""
    if built.exists():
        shutil.copytree(built, place, dirs_exist_ok=True)
        return place
    episodes = expert_trajectories(options=ToyOptions(tasks=KNOWN, shelves=8))
    records.write(place / "data" / "train.jsonl", episodes)
    assert run("build-memory", "data").code == 0
    shutil.copytree(place, built)
    return place


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test puts a finished refinement for the others."""
    return tmp_path_factory.mktemp("shelf") / "kept"


def the_run() -> Path:
    (directory,) = Path("runs").glob("refine-*")
    return directory


def the_plans() -> list[dict[str, Any]]:
    """What the refinements in the working directory were asked to do."""
    manifests = sorted(Path("runs").glob("refine-*/run.json"))
    return [json.loads(path.read_text())["spec"] for path in manifests]


#: Goals of which practice makes the others solve more.
MANY = ("--env.tasks", "20", "--limit", "16")


def test_the_gate_shows_what_it_kept_and_what_that_is_worth() -> None:
    outcome = run(*REFINE, *MANY).done(
        "without and with what was learnt", "practice", "each without its own"
    )
    (entry,) = json.loads(run("memory", "show", "--json").out)["generations"][1:]
    assert entry["settings"]["gate"] == "on"
    assert int(entry["settings"]["kept"]) > 0
    assert entry["settings"]["gain"].startswith("+")
    assert set(entry["settings"]["kept_goals"].split()) <= set(entry["tasks"])
    assert "95 % interval" in outcome.out
    assert re.search(r"from \d+ goals \(train/.*\): kept", outcome.out)
    report = json.loads(run("refine", "--resume", the_run(), "--json").out)["gate"]
    assert [one["learnt"] for one in report["comparisons"]] == ["practice"] * 2
    assert any(one["goals"] and not one["refused"] for one in report["comparisons"])
    assert len(report["gain"]) == 3


#: Goals that nothing solves.
HOPELESS = ("--limit", "2", "--depth", "1")


def test_where_nothing_is_solved_no_generation_is_made() -> None:
    run(*REFINE, *HOPELESS).done("Nothing to add: the memory stays at generation 0")
    assert len(json.loads(run("memory", "show", "--json").out)["generations"]) == 1


def test_stopped_while_the_memory_is_written_it_says_what_is_there_and_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ldm.run.refine.extend", stopped)
        outcome = run(*REFINE, "--gate", "off")
    assert outcome.code == 130
    assert "Stopped while the memory was being written" in outcome.err
    assert "is at generation 0" in outcome.err
    assert f"Resume with `ldm refine --resume {the_run()} --trust`" in outcome.err
    run("refine", "--resume", the_run()).done("Generation 1")


class TestRounds:
    def test_each_explores_the_same_goals_with_the_memory_of_the_one_before(self) -> None:
        run(*REFINE, "--limit", "8", *ADDING, "--rounds", "2").done()
        plans = sorted(the_plans(), key=lambda plan: plan["round"])
        assert [plan["round"] for plan in plans] == [1, 2]
        assert plans[0]["tasks"] == plans[1]["tasks"]
        assert [plan["generation"] for plan in plans] == [0, 1]

    @pytest.mark.slow
    def test_begin_anew_with_a_memory_that_was_built_again(self) -> None:
        for _ in range(2):
            run("build-memory", "data", "--rebuild").done()
            run(*REFINE, "--limit", "8", *ADDING, "--rounds", "2").done()
        assert sorted(plan["round"] for plan in the_plans()) == [1, 1, 2, 2]

    @pytest.mark.slow
    def test_lie_beside_each_other_wherever_the_first_is_resumed_from(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run(*REFINE, "--limit", "4", *ADDING, "--rounds", "2", "--dry-run")
        first = the_run().resolve()
        Path("elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        assert run("refine", "--resume", first, "--workers", "1").code == 0
        assert len(list(first.parent.glob("refine-*"))) == 2
        assert not Path("runs").exists()

    @pytest.mark.slow
    def test_go_on_with_the_next_one_where_the_first_is_resumed(self) -> None:
        run(*REFINE, "--limit", "4", *ADDING, "--rounds", "2", "--dry-run")
        assert len(json.loads(run("memory", "show", "--json").out)["generations"]) == 1
        run("refine", "--resume", the_run(), "--workers", "1").done()
        assert [plan["round"] for plan in the_plans()] in ([1, 2], [2, 1])
        first = min(Path("runs").glob("refine-*"), key=lambda path: path.stat().st_mtime_ns)
        assert "A later round has begun" in run("refine", "--resume", first).done().err
        assert len(the_plans()) == 2


class TestGoals:
    def explored(self) -> list[set[str]]:
        generations = json.loads(run("memory", "show", "--json").out)["generations"]
        return [set(generation["tasks"]) for generation in generations[1:]]

    @pytest.mark.slow
    def test_are_drawn_evenly_by_the_seed(self) -> None:
        for seed in (0, 1):
            run(*REFINE, "--limit", "6", *ADDING, "--seed", seed)
            (tasks,) = self.explored()
            assert sorted(task.split("-")[0] for task in tasks) == [
                *["train/fetch"] * 3,
                *["train/wash"] * 3,
            ]
            if seed == 0:
                first = tasks
                run("memory", "rollback", "0", "--yes")
        assert tasks != first

    @pytest.mark.slow
    def test_of_the_next_round_are_new_ones(self) -> None:
        run(*REFINE, "--limit", "6", *ADDING)
        run(*REFINE, "--limit", "10", *ADDING)
        first, second = self.explored()
        assert (len(first), len(second)) == (6, 10)
        assert not first & second
        known_tasks = {f"train/{kind}-{n}" for n, kind in enumerate(["fetch", "wash"][:KNOWN])}
        assert not known_tasks & (first | second)
        run(*REFINE).refused("known to the memory already", "--reuse-goals")

    @pytest.mark.slow
    def test_may_be_used_again_where_that_is_wanted(self) -> None:
        run(*REFINE, "--limit", "4")
        chosen = ["train/fetch-0", "train/wash-1"]
        run(*REFINE, "--tasks", ",".join(chosen), "--reuse-goals").done()
        assert chosen in [sorted(plan["tasks"]) for plan in the_plans()]

    @pytest.mark.slow
    def test_that_were_evaluated_are_left_out_or_refused(self) -> None:
        assert (
            run(*EVAL, "--split", "train", "--tasks", "train/wash-5", "--agent", "random").code == 0
        )
        run(*REFINE, "--tasks", "train/wash-5").refused("train/wash-5")
        assert (
            "Skipping 1 goal of train, evaluated before"
            in run(*REFINE, "--limit", "20", *ADDING).err
        )
        assert "train/wash-5" not in self.explored()[0]


class TestRefusals:
    def test_what_no_longer_is_the_newest_generation_cannot_be_refined(self) -> None:
        run(*REFINE, "--limit", "1", "--dry-run").done()
        records.write(Path("data/more.jsonl"), expert_trajectories("test"))
        run("build-memory", "data").done()
        run("refine", "--resume", the_run()).refused("its newest generation is 1, not 0")
        run(*REFINE, "--generation", "0").refused("ldm memory rollback 0")
        run(*REFINE, "--limit", "1", "--generation", "0", "--dry-run").done()

    def test_every_goal_failing_is_a_failure(self) -> None:
        task = "train/fetch-8"
        run(*REFINE, "--tasks", task, "--env.broken", f"{task}").refused("the shed has collapsed")


class TestLookingAtIt:
    @pytest.fixture(autouse=True)
    def refined(self, shelf: Path) -> Path:
        """A finished refinement, as in the paper; made once, and copied for each test."""
        if shelf.exists():
            shutil.rmtree(".ldm")
            shutil.copytree(shelf, ".", dirs_exist_ok=True)
        else:
            assert run(*REFINE, "--gate", "off").code == 0
            shutil.copytree(".", shelf)
        return the_run()

    def test_the_tree_of_a_goal_is_drawn_in_full(self, refined: Path) -> None:
        listing = run("runs", "show", refined).out.splitlines()
        improved = next(line.split()[0] for line in listing if line.strip().endswith("improved"))
        run("runs", "show", refined, improved, "--full").done(
            "first try", "pruned", "<- key step", "added to", "You are at"
        )

    def test_before_and_after_are_evaluated_side_by_side(self) -> None:
        run(*EVAL, "--generation", "0,newest", "--limit", "12").done(
            "ldm generation=1 − ldm generation=0", "McNemar"
        )
        report = json.loads(run(*EVAL, "--generation", "0,1", "--limit", "4", "--json").out)
        (other,) = report["compared"]
        assert other["agent"] == "ldm generation=0"
        assert other["difference"]["tasks"] == 4
