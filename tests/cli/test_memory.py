"""`ldm build-memory`, `ldm import` and `ldm memory` as users meet them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ldm import records, registry
from ldm.memory import extend, generations, inspect
from ldm.run import building
from ldm.types import Outcome, Trajectory
from tests.cli.conftest import run
from tests.conftest import CHECKOUT
from tests.embedder import BagOfWords
from tests.toy import ToyOptions, expert_trajectories, rescored


@pytest.fixture(autouse=True)
def place(place: Path) -> Path:
    """A directory with toy data below data/."""
    records.write(place / "data" / "toy" / "train.jsonl", expert_trajectories())
    return place


class TestBuilding:
    def test_each_environment_by_itself_and_other_files_are_left_out(self) -> None:
        other = [replace(t, task=replace(t.task, env="other")) for t in expert_trajectories()]
        records.write(Path("data/other.jsonl"), other)
        Path("data/words.jsonl").write_text('{"word": "apple"}\n')
        Path("data/.hidden").mkdir()
        Path("data/.hidden/x.jsonl").write_text("nonsense\n")
        Path("data/notes.txt").write_text("notes")
        outcome = run("build-memory", "data", "--json")
        assert [r["env"] for r in json.loads(outcome.out)["environments"]] == ["other", "toy"]
        assert "words.jsonl: no trajectories; skipped" in outcome.err
        assert "hidden" not in outcome.err
        outcome = run("build-memory", "data", "--env", "other", "--rebuild", "--json")
        assert [r["env"] for r in json.loads(outcome.out)["environments"]] == ["other"]

    def test_a_bad_record_is_named_and_loses_no_other(self) -> None:
        path = Path("data/toy/train.jsonl")
        lines = path.read_text().splitlines()
        lines[1] = lines[1].replace('"score":1.0', '"score":"high"')
        lines[3] = lines[3][:100]
        path.write_text("\n".join(lines) + "\n")
        outcome = run("build-memory", "data", "--json")
        assert "train.jsonl:2:score" in outcome.err
        assert "train.jsonl:4" in outcome.err
        assert "2 invalid records skipped; 10 read." in outcome.err
        assert json.loads(outcome.out)["environments"][0]["new_trajectories"] == 10

    def test_a_copy_without_shipped_episodes_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(building, "shipped_trajectories", lambda: None)
        outcome = run("build-memory")
        assert (outcome.code, outcome.out) == (1, "")
        assert "ships no expert episodes" in outcome.err


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test that looks at a memory puts it for the others."""
    return tmp_path_factory.mktemp("kept") / "memory"


class TestLooking:
    @pytest.fixture(autouse=True)
    def built(self, kept: Path) -> None:
        if kept.exists():
            shutil.copytree(kept, ".ldm/memory")
        else:
            assert run("build-memory", "data").code == 0
            shutil.copytree(".ldm/memory", kept)

    def test_a_generation_is_shown_with_its_tasks(self) -> None:
        assert "fetch-1" in run("memory", "show", "--generation", "0").out
        assert "fetch-1" not in run("memory", "show").out

    def test_search_shows_the_most_similar_first_and_explains_scopes(self) -> None:
        query = ("put the fig in the basket", "You hold the fig.")
        recalls = json.loads(run("memory", "search", *query, "--k", "30", "--json").out)["recalls"]
        assert len({recall["fallback"] for recall in recalls}) > 1
        similar = [recall["similarity"] for recall in recalls]
        assert similar == sorted(similar, reverse=True)
        outcome = run("memory", "search", *query, "--k", "30")
        assert "Kind: " in outcome.out
        assert "outcome" in outcome.out
        assert recalls[0]["tuple"]["action"] in outcome.out
        assert "Within: types, the same goal and observation types" in outcome.out

    def test_ids_are_those_that_recorded_recalls_name(self) -> None:
        query = ("put the fig in the basket", "You hold the fig.")
        (recall,) = json.loads(run("memory", "search", *query, "--k", "1", "--json").out)["recalls"]
        done = run(
            "eval", "--env", "tests.toy:ToyEnv", "--limit", "1", "--workers", "1", "--json"
        ).done()
        file = Path(json.loads(done.out)["run"]) / "trajectories.jsonl"
        (trajectory,) = records.read(file, Trajectory)
        named = {name for step in trajectory.steps for name, _ in step.recalls}
        run("memory", "export", "m.jsonl")
        exported = {json.loads(line).get("id") for line in Path("m.jsonl").read_text().splitlines()}
        assert named
        assert {recall["id"], *named} <= exported

    def test_a_rollback_asks_and_can_be_undone(self) -> None:
        more = expert_trajectories(options=ToyOptions(tasks=16))
        records.write(Path("data/more.jsonl"), more)
        run("build-memory", "data")
        run("memory", "rollback", "0").refused("Add --yes")
        assert len(generations(".ldm/memory", "toy")) == 2
        for number, done in (("0", "is back at generation 0"), ("1", "at generation 1 again")):
            run("memory", "rollback", number, "--yes").done(done)
            run("memory", "verify").done()


class TestEvaluatingWhatAMemoryHolds:
    @pytest.mark.slow
    def test_environments_that_are_not_known_are_named_and_skipped(self) -> None:
        run("build-memory", "data")
        shipped = CHECKOUT / "data" / "trajectories" / "textcraft"
        run("build-memory", str(shipped), "--per-kind", "1").done()
        outcome = run("eval", "--limit", "2", "--workers", "1", "--json").done()
        assert json.loads(outcome.out)["env"] == "textcraft"
        assert "Skipping toy. There is no environment 'toy'." in outcome.err
        assert "`--env module:Class`" in outcome.err

    def test_a_class_that_the_memory_remembers_is_played(self) -> None:
        """The class is that which --env named, or the run that recorded the trajectories."""
        assert run("build-memory", "data", "--env", "tests.toy:ToyEnv").code == 0
        (formed,) = json.loads(run("memory", "show", "--json").out)["generations"]
        assert formed["env_class"] == "tests.toy:ToyEnv"
        outcome = run("eval", "--limit", "2", "--workers", "1", "--json").done()
        assert json.loads(outcome.out)["env"] == "tests.toy:ToyEnv"
        recorded = json.loads(outcome.out)["run"]
        run("build-memory", recorded, "--memory", "from-run", "--failures", "keep").done()
        assert generations("from-run", "toy")[0].env_class == "tests.toy:ToyEnv"

    def test_a_remembered_class_runs_no_code_unless_it_is_trusted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run("build-memory", "data", "--env", "tests.toy:ToyEnv")
        shipped = CHECKOUT / "data" / "trajectories" / "textcraft"
        run("build-memory", str(shipped), "--per-kind", "1")
        monkeypatch.setattr(registry, "_named", set())  # as in another process
        cautious = run("eval", "--limit", "1", "--workers", "1", "--json")
        assert json.loads(cautious.out)["env"] == "textcraft"
        assert "Skipping toy." in cautious.err
        assert "`--env tests.toy:ToyEnv`, or add --trust" in cautious.err
        trusting = run(
            "eval", "--limit", "1", "--workers", "1", "--trust", "--agent", "random"
        ).done()
        assert "random on ToyEnv" in trusting.err or "ToyEnv" in trusting.out


class TestOutcomes:
    @pytest.fixture(autouse=True)
    def mixed(self) -> None:
        """Of the twelve episodes the third failed and the sixth earned half."""
        records.write(Path("data/toy/train.jsonl"), rescored({2: 0.0, 5: 0.5}))

    def test_failures_are_left_out_and_counted(self) -> None:
        outcome = run("build-memory", "data")
        assert "1 of 12 trajectories skipped" in outcome.out
        assert "--failures keep" in outcome.out

    @pytest.mark.parametrize(
        ("options", "new", "left_out", "warnings"),
        [((), 11, 1, 0), (("--min-reward", 0.6), 10, 2, 0), (("--failures", "contrast"), 12, 0, 1)],
    )
    def test_a_least_reward_and_warnings_are_options(
        self, options: tuple[object, ...], new: int, left_out: int, warnings: int
    ) -> None:
        (counts,) = json.loads(run("build-memory", "data", *options, "--json").out)["environments"]
        assert (counts["left_out"], counts["warnings"]) == (left_out, warnings)
        assert counts["new_trajectories"] == new

    def test_are_shown_where_any_is_not_full(self) -> None:
        run("build-memory", "data", "--failures", "contrast")
        assert "10 full, 1 partial, 1 warning" in " ".join(run("memory", "show").out.split())
        (listing,) = json.loads(run("memory", "show", "--json").out)["generations"]
        assert listing["outcomes"] == {"full": 10, "partial": 1, "warning": 1}
        query = ("search", "wash the apple", "You see nothing.", "--k", "60")
        assert "outcome" in (listing := run("memory", *query).out)
        assert "warning" in listing
        recalls = json.loads(run("memory", *query, "--json").out)["recalls"]
        assert {recall["tuple"]["outcome"]["score"] for recall in recalls} == {0.0, 1.0}

    def test_of_a_refinement_say_what_more_was_earned_and_what_confirms_it(self) -> None:
        records.write(Path("data/toy/train.jsonl"), expert_trajectories())
        run("build-memory", "data")
        (base,) = generations(".ldm/memory", "toy")
        row = inspect(".ldm/memory", "toy").rows[0]
        better = replace(
            row.tuple,
            action="go to sink",
            origin="explored",
            trajectory_id="better",
            generation=1,
            outcome=Outcome(1.0, 1.0, advantage=0.25),
        )
        added = [replace(row, tuple=better)]
        extend(".ldm/memory", base, added, BagOfWords("bag-of-words"), tasks=(), settings={})
        query = ("search", row.tuple.goal, row.tuple.observation, "--k", "60")
        assert "1, +0.25" in " ".join(run("memory", *query).out.split())
